import Conformance
import Foundation
import ProtectionFormat
import Synchronization
import SystemPackage
import TestEffort
import Testing

@testable import DataProtection

/// `copyItem`: open and read the source, create the target.
@Suite struct FoundationCopyTests {
    private let files = FileManager.default

    private func fileID(_ path: FilePath) throws -> [UInt8] {
        try HeadPair(of: LowerFile(path, flags: O_RDONLY)).head.prefix.fileID.bytes
    }

    @Test(arguments: ProtectionClass.allCases, [0, 5000, 1_500_000])
    func aCopyHasTheClassAndAnotherKey(_ its: ProtectionClass, _ size: Int) throws {
        let bed = try FileTestBed()
        let text = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        let source = try bed.make("f", its, text)
        try source.setMode(0o640)
        try files.setAttributes([.modificationDate: Date(timeIntervalSince1970: 1e9)], ofItemAtPath: source.string)
        try files.copyItem(at: source.url, to: bed.path("g").url, protectedBy: bed.keybag)
        let copy = bed.path("g")
        #expect(try bed.read(copy) == text)
        #expect(try ProtectedFileInfo(of: copy).protectionClass == its)
        #expect(try fileID(copy) != fileID(source))
        #expect(try copy.mode() == 0o640)
        #expect(
            try files.attributesOfItem(atPath: copy.string)[.modificationDate] as? Date
                == Date(timeIntervalSince1970: 1e9))
        expectCocoa(.fileWriteFileExists, "exists") {
            try files.copyItem(atPath: source.string, toPath: copy.string, protectedBy: bed.keybag)
        }
        #expect(try bed.names() == ["f", "g"])
    }

    /// SEMANTICS, "copy": what cannot be opened is not copied, and nothing is left.
    @Test(arguments: ProtectionClass.allCases, Moment.allCases)
    func inEachState(_ its: ProtectionClass, _ moment: Moment) throws {
        let bed = try FileTestBed()
        try FileManager.default.createDirectory(atPath: bed.path("d/e").string, withIntermediateDirectories: true)
        let source = try bed.make("d/e/f", its, [1, 2, 3])
        try bed.makePlain("d/a", [4])
        try bed.begin(moment)
        // The plaintext file becomes one of class C.
        let goes = AccessRule.opens(its, in: moment.state) && moment != .beforeFirstUnlock
        if goes {
            try files.copyItem(at: bed.path("d").url, to: bed.path("g").url, protectedBy: bed.keybag)
            #expect(try bed.read(bed.path("g/e/f")) == [1, 2, 3])
        } else {
            let code: CocoaError.Code = moment == .beforeFirstUnlock ? .fileWriteNoPermission : .fileReadNoPermission
            expectCocoa(code, "locked") {
                try files.copyItem(at: bed.path("d").url, to: bed.path("g").url, protectedBy: bed.keybag)
            }
        }
        if !AccessRule.opens(its, in: moment.state) {
            expectCocoa(.fileReadNoPermission, "locked") {
                try files.copyItem(at: source.url, to: bed.path("h").url, protectedBy: bed.keybag)
            }
        }
        #expect(try bed.names() == (goes ? ["d", "g"] : ["d"]))
    }

    @Test func aTree() throws {
        let bed = try FileTestBed()
        for name in ["d", "d/inner"] {
            try files.createDirectory(atPath: bed.path(name).string, withIntermediateDirectories: false)
        }
        try bed.keybag.setProtection(.complete, ofItemAt: bed.path("d/inner"))
        try bed.make("d/b", .completeUnlessOpen, [1])
        try bed.makePlain("d/plain", [2])
        try bed.makePlain("d/inner/plain", [3])
        try bed.path("d/link").makeSymbolicLink(to: "../elsewhere")
        try bed.path("d/inner").setMode(0o500)
        defer { try? bed.path("d/inner").setMode(0o700) }
        try files.copyItem(atPath: bed.path("d").string, toPath: bed.path("g").string, protectedBy: bed.keybag)
        defer { try? bed.path("g/inner").setMode(0o700) }
        #expect(try bed.path("g").names() == ["b", "inner", "link", "plain"])
        #expect(try bed.read(bed.path("g/b")) == [1])
        #expect(try bed.read(bed.path("g/plain")) == [2])
        #expect(try bed.read(bed.path("g/inner/plain")) == [3])
        // A copy is a new file, and what is made with a keybag is protected.
        #expect(try ProtectedFileInfo(of: bed.path("g/plain")).protectionClass == .completeUntilFirstUserAuthentication)
        #expect(try ProtectedFileInfo(of: bed.path("g/inner/plain")).protectionClass == .complete)
        #expect(Keybag.defaultProtection(of: bed.path("g/inner")) == .complete)
        #expect(Keybag.defaultProtection(of: bed.path("g")) == nil)
        #expect(try bed.path("g/inner").mode() == 0o500)
        #expect(try files.destinationOfSymbolicLink(atPath: bed.path("g/link").string) == "../elsewhere")
    }

    /// As Foundation does: an empty path is no file, and not the working directory; `~` is a letter.
    @Test func pathsAreTakenAsTheyAre() throws {
        let bed = try FileTestBed()
        for path in ["", "~"] {
            expectCocoa(.fileReadNoSuchFile, "system") {
                try files.copyItem(atPath: path, toPath: bed.path("g").string, protectedBy: bed.keybag)
            }
        }
        let source = try bed.make("f", .complete, [1])
        expectCocoa(.fileNoSuchFile, "system") {
            try files.copyItem(atPath: source.string, toPath: bed.path("no/g").string, protectedBy: bed.keybag)
        }
        expectCocoa(.fileNoSuchFile, "system") {
            try files.copyItem(atPath: source.string, toPath: "", protectedBy: bed.keybag)
        }
        #expect(try bed.names() == ["f"])
    }

    @Test func aLinkIsCopiedAsOne() throws {
        let bed = try FileTestBed()
        try bed.path("l").makeSymbolicLink(to: "nowhere")
        try files.copyItem(at: bed.path("l").url, to: bed.path("m").url, protectedBy: bed.keybag)
        #expect(try files.destinationOfSymbolicLink(atPath: bed.path("m").string) == "nowhere")
        expectCocoa(.fileWriteFileExists, "exists") {
            try files.copyItem(at: bed.path("l").url, to: bed.path("m").url, protectedBy: bed.keybag)
        }
    }

    @Test func whatCannotBeCopiedLeavesNothing() throws {
        let bed = try FileTestBed()
        try files.createDirectory(atPath: bed.path("d").string, withIntermediateDirectories: false)
        try bed.make("d/a", .complete, [1])
        try bed.path("d/fifo").makeFIFO()
        expectCocoa(.fileReadUnknown, "notRegularFile") {
            try files.copyItem(at: bed.path("d").url, to: bed.path("g").url, protectedBy: bed.keybag)
        }
        try bed.path("d/fifo").remove()
        expectCocoa(.fileWriteUnknown, "system") {
            try files.copyItem(at: bed.path("d").url, to: bed.path("d/copy").url, protectedBy: bed.keybag)
        }
        #expect(try bed.path("d").names() == ["a"])
        expectCocoa(.fileReadNoSuchFile, "system") {
            try files.copyItem(at: bed.path("missing").url, to: bed.path("g").url, protectedBy: bed.keybag)
        }
        let writer = try ProtectedFile.open(bed.path("d/a"), .readWrite, keybag: bed.keybag)
        try writer.write([2], at: 0)
        expectCocoa(.fileReadUnknown, "busy") {
            try files.copyItem(at: bed.path("d").url, to: bed.path("g").url, protectedBy: bed.keybag)
        }
        try writer.close()
        #expect(try bed.names() == ["d"])
    }

    /// Somebody who may rename things where the copy is made puts links into it, while it is filled and while it is removed.
    @Test(.timeLimit(.minutes(5))) func linksThatAppearMeanwhileLeadNowhere() throws {
        let bed = try FileTestBed()
        let names = (100..<300).map { "f\($0)" }
        for directory in ["d/inner", "victim"] {
            try files.createDirectory(atPath: bed.path(directory).string, withIntermediateDirectories: true)
            for name in names { try bed.makePlain("\(directory)/\(name)", [1]) }
        }
        try bed.path("d/z").makeFIFO()  // so that each copy fails, and is removed
        let victim = try victimsFiles(bed)
        let (inner, aside) = (bed.path(".g.protectfs-unfinished-0/inner").string, bed.path("aside").string)
        let isOver = Atomic(false)
        let hasEnded = DispatchSemaphore(value: 0)
        let link = bed.path("victim").string
        Thread.detachNewThread {
            while !isOver.load(ordering: .relaxed) {
                // The last file is there: what follows is the removal.
                guard access(inner + "/f299", F_OK) == 0 else { continue }
                for _ in 0..<200 {
                    guard rename(inner, aside) == 0 else { break }
                    symlink(link, inner)
                    usleep(20)
                    unlink(inner)
                    rename(aside, inner)
                    usleep(20)
                }
            }
            hasEnded.signal()
        }
        for _ in 0..<Effort.count(4, 40) {
            #expect(throws: (any Error).self) {
                try files.copyItem(atPath: bed.path("d").string, toPath: bed.path("g").string, protectedBy: bed.keybag)
            }
        }
        isOver.store(true, ordering: .relaxed)
        hasEnded.wait()
        #expect(try victimsFiles(bed) == victim)
    }

    private func victimsFiles(_ bed: FileTestBed) throws -> [String] {
        try bed.path("victim").names().map { name in
            "\(name) \(try bed.path("victim").appending(name).status()?.st_ino ?? 0)"
        }
    }

    /// A process that is killed in the middle of a tree leaves a hidden directory, and the next copy takes it away.
    @Test func whatADeadProcessLeft() throws {
        let bed = try FileTestBed()
        try files.createDirectory(atPath: bed.path("d").string, withIntermediateDirectories: false)
        try bed.make("d/a", .complete, [1])
        let left = bed.path(".g.protectfs-unfinished-0/x")
        try OwnDirectory.make(left)
        try files.copyItem(at: bed.path("d").url, to: bed.path("g").url, protectedBy: bed.keybag)
        #expect(try bed.names() == ["d", "g"])
        // Nor is it in the way of a file of that name.
        try files.createDirectory(
            atPath: bed.path(".f.protectfs-unfinished-0").string, withIntermediateDirectories: false)
        try bed.makeWhole("f", .complete, [1])
        try bed.makeWhole("f", .complete, [2])
        #expect(try bed.read(bed.path("f")) == [2])
    }

    @Test func theCopyKnowsNoMoreOfItsMakerThanTheSource() throws {
        let bed = try FileTestBed(state: .beforeFirstUnlock)
        let source = try bed.make("f", .completeUnlessOpen, [1])
        try bed.enter(.unlocked)
        try files.copyItem(at: source.url, to: bed.path("g").url, protectedBy: bed.keybag)
        #expect(try ProtectedFile.open(bed.path("g"), keybag: bed.keybag).origin() == .thisDevice)
    }
}
