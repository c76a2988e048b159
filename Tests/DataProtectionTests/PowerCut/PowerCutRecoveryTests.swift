import PowerCutDisk
import StormScript
import SystemPackage
import Testing

@testable import DataProtection

/// The power fails, and again while what it has left is recovered: what was read once is read again, or what was committed since.
@Suite(.enabled(if: PowerCutDisk.whyNot == nil, "\(PowerCutDisk.whyNot ?? "")"), .serialized)
struct PowerCutRecoveryTests {
    @Test(arguments: StormProfile.allCases)
    func commits(_ profile: StormProfile) throws {
        let cuts = try PowerCuts("recovery, \(profile)", mebibytes: 64)
        let path = try cuts.bed.make("f", .complete)
        var isRepaired = false
        try cuts.workTwice(profile.rawValue, [path.string, "5"], steps: 40) { after, acknowledge in
            isRepaired.toggle()
            if isRepaired { try ProtectedFile.repair(fileAt: path) }
            // What is read now is all that any second cut may leave, however much of the recovery has reached the disk.
            var states = [try ProtectedFile.contents(of: path, keybag: after.keybag)]
            let file = try ProtectedFile.open(path, .readWrite, keybag: after.keybag)
            for number in 0..<6 {
                let bytes = pattern(UInt64(number), count: 5000 * (number + 1))
                try file.write(bytes, at: UInt64(3000 * number))
                try file.sync()
                try acknowledge(number)
                var model = ModelFile(states[number])
                model.write(bytes, at: UInt64(3000 * number))
                states.append(model.bytes)
            }
            try file.close()
            return { again in
                let found = try ProtectedFile.contents(of: path, keybag: again.keybag)
                let isWhole = again.allowed.contains { $0 + 1 < states.count && states[$0 + 1] == found }
                #expect(isWhole, "\(again.comment): \(found.brief)")
                let file = try ProtectedFile.open(path, .readWrite, keybag: again.keybag)
                try file.write([1, 2, 3], at: 0)
                try file.close()
                let last = try ProtectedFile.contents(of: path, keybag: again.keybag)
                #expect(last == [1, 2, 3] + found.dropFirst(3), again.comment)
                try StoredFile(path).expectClosed(again.comment)
            }
        }
    }
}
