import Foundation
import Testing

@testable import DataProtection

@Suite(.serialized) struct SmokeTests {
    @Test func basics() throws {
        let dir = FilePath("/tmp/pfs-smoke-\(getpid())")
        try FileManager.default.createDirectory(atPath: dir.string, withIntermediateDirectories: true)
        _ = isolatedHome
        let pass = SecretBytes(byteCount: 8) { $0.copyBytes(from: Array("hunter22".utf8)) }
        let bag = try Keybag.create(at: dir.appending("bag"), passcode: pass, iterations: 1000)
        #expect(try bag.state() == .beforeFirstUnlock)
        try bag.unlock(passcode: pass)
        #expect(try bag.state() == .unlocked)
        let url = URL(fileURLWithPath: dir.appending("a").string)
        try Data("hello".utf8).write(to: url, options: [.atomic, .completeFileProtection], protectedBy: bag)
        #expect(try Data(contentsOf: url, protectedBy: bag) == Data("hello".utf8))
        for size in [0, 1, 3584, 3585, 4096, 4097, 70000, 300_000, 3_000_000] {
            let data = Data((0..<size).map { UInt8(truncatingIfNeeded: $0 &* 31) })
            try data.write(to: url, options: [.atomic], protectedBy: bag)
            #expect(try Data(contentsOf: url, protectedBy: bag) == data)
            let p = dir.appending("f\(size)")
            let f = try ProtectedFile.open(p, .readWrite, create: .complete, keybag: bag)
            try data.withUnsafeBytes { try f.write($0, at: 0) }
            #expect(try f.read(Int.max, at: 0) == data)
            try f.sync()
            #expect(try f.read(Int.max, at: 0) == data)
            try data.prefix(100).withUnsafeBytes { try f.write($0, at: 50) }
            try f.sync()
            try f.close()
            var want = data
            if size > 0 {
                if want.count < 50 { want += Data(count: 50 - want.count) }
                let pre = data.prefix(100)
                if want.count < 50 + pre.count { want += Data(count: 50 + pre.count - want.count) }
                want.replaceSubrange(50..<50 + pre.count, with: pre)
            }
            #expect(try Data(contentsOf: URL(fileURLWithPath: p.string), protectedBy: bag) == want)
        }
        let f = try ProtectedFile.open(dir.appending("a"), .readWrite, keybag: bag)
        try bag.lock()
        #expect(try bag.state() == .locked)
        #expect(throws: DataProtectionError.self) { try f.read(10, at: 0) }
        try bag.unlock(passcode: pass)
        #expect(try f.read(10, at: 0).count == 10)
        try bag.setProtection(.completeUntilFirstUserAuthentication, ofItemAt: dir.appending("a"))
        try bag.lock()
        #expect(try f.read(10, at: 0).count == 10)
        try bag.evictEverything()
        #expect(try bag.state() == .beforeFirstUnlock)
        let b = try ProtectedFile.open(dir.appending("b"), .readWrite, create: .completeUnlessOpen, keybag: bag)
        try Data("x".utf8).withUnsafeBytes { try b.write($0, at: 5000) }
        try b.sync()
        #expect(try b.read(1, at: 5000) == Data("x".utf8))
        try b.close()
        #expect(throws: DataProtectionError.self) { try ProtectedFile.open(dir.appending("b"), keybag: bag) }
        try bag.evictEverything()
        try FileManager.default.removeItem(atPath: dir.string)
    }
}
