import Glibc
import ProtectionFormat
import ProtectionKeys
import StormScript
import SystemPackage
import Testing

@testable import DataProtection

/// New class keys, files under them, and the old keys gone. FORMAT.md §2.11.
@Suite("A rotation of the class keys")
struct RotationTests {
    private static let text = pattern(3, count: 9000)
    private static let all = ProtectionClass.allCases

    /// A file of each class, chunked and inline.
    private func files(_ bed: FileTestBed) throws -> [FilePath] {
        try Self.all.flatMap { protectionClass in
            [
                try bed.make("\(protectionClass)-chunked", protectionClass, Self.text),
                try bed.makeWhole("\(protectionClass)-inline", protectionClass, Array(Self.text.prefix(9))),
            ]
        }
    }

    private func expectReadable(_ bed: FileTestBed, _ paths: [FilePath], _ comment: Comment? = nil) throws {
        for path in paths {
            let size = path.string.hasSuffix("inline") ? 9 : Self.text.count
            #expect(try bed.read(path) == Array(Self.text.prefix(size)), comment)
        }
    }

    @Test("Old files open by the retired keys, new ones are wrapped under the new")
    func bothGenerations() throws {
        let bed = try FileTestBed()
        let old = try files(bed)
        #expect(bed.keybag.retiredGenerations == [])
        #expect(try bed.bag.rotate() == 2)
        #expect(bed.keybag.retiredGenerations == [1])
        #expect(try bed.keybag.state() == .unlocked, "it stays so, for everybody")
        #expect(try bed.bag.reopened().state() == .unlocked)
        try expectReadable(bed, old)
        for protectionClass in Self.all {
            let new = try bed.make("new \(protectionClass)", protectionClass, [1])
            #expect(try StoredWraps(new).generations == [2])
            #expect(try StoredWraps(new).originGenerations == [2])
        }
        #expect(try bed.bag.file("keybag.0").contents() == bed.bag.file("keybag.1").contents())
        for state in [ProtectionState.beforeFirstUnlock, .unlocked] { try bed.enter(state) }
        try expectReadable(bed, old, "after the next unlock too")
        #expect(bed.bag.warnings.unusual == [])
    }

    @Test("A process that has the keybag open wraps under the new keys at once")
    func otherProcesses() throws {
        let bed = try FileTestBed()
        let other = try bed.bag.reopened()
        try bed.bag.rotate()
        for protectionClass in Self.all {
            let path = bed.path("\(protectionClass)")
            try ProtectedFile.create(path, as: protectionClass, keybag: other).close()
            #expect(try StoredWraps(path).generations == [2])
        }
        let path = try bed.make("to be forgotten", .complete, [1])
        let old = try bed.make("old", .complete)
        try bed.bag.rotate()
        try bed.keybag.rewrap(fileAt: path)
        try bed.bag.forgetRetired()
        #expect(try other.state() == .unlocked)
        #expect(other.retiredGenerations == [])
        #expect(try ProtectedFile.open(path, keybag: other).bytes(at: 0, count: 1) == [1])
        expectError("keyLost") { _ = try ProtectedFile.open(old, keybag: other) }
        try bed.keybag.lock()
        #expect(try other.state() == .locked)
        expectError("locked") { _ = try ProtectedFile.open(path, keybag: other) }
    }

    @Test("A head that only claims the active class key is not called current, and does not go over the other one")
    func claimed() throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .complete, Self.text)
        let genuine = Array(try path.contents()[4096..<8192])
        try bed.bag.rotate()
        try bed.forgeGeneration(of: path, 2)
        expectError("otherKey") { _ = try bed.keybag.needsRewrap(fileAt: path) }
        expectError("otherKey") { try bed.keybag.rewrap(fileAt: path) }
        // A key that nobody has, too, and a keybag: the search before the old key is forgotten must find the file.
        try bed.forgeGeneration(of: path, 9)
        expectError("otherKey") { _ = try bed.keybag.needsRewrap(fileAt: path) }
        try bed.forgeKeybag(of: path)
        expectError("otherKey") { _ = try bed.keybag.needsRewrap(fileAt: path) }
        try bed.forgeCommitment(of: path)
        expectError("otherKey") { _ = try bed.keybag.needsRewrap(fileAt: path) }
        try bed.forgeCommitment(of: path)
        try bed.forgeKeybag(of: path)
        try bed.forgeGeneration(of: path, 2)
        // The second head is genuine again, and not in force: of two heads of one generation the first is.
        var bytes = try path.contents()
        bytes.replaceSubrange(4096..<8192, with: genuine)
        try path.overwrite(bytes)
        expectError("otherKey") { try bed.keybag.rewrap(fileAt: path) }
        #expect(try path.contents() == bytes)
        try bed.enter(.locked)
        try bed.forgeGeneration(of: path, 2)
        #expect(try !bed.keybag.needsRewrap(fileAt: path), "while the class key is away, nobody can tell")
        expectError("locked") { _ = try bed.keybag.needsRewrap(LowerFile.toLookAt(path), isStrict: true) }
        try bed.forgeKeybag(of: path)
        expectError("locked") { _ = try bed.keybag.needsRewrap(LowerFile.toLookAt(path), isStrict: true) }
        expectError("foreignKeybag") { _ = try bed.keybag.needsRewrap(fileAt: path) }
    }

    @Test("Rewrapping a file leaves the old wrap in no slot, and its data where they are")
    func rewrap() throws {
        let bed = try FileTestBed()
        for path in try files(bed) {
            let before = try path.contents()
            let old = try StoredWraps(path).records
            let attributes = try path.mode()
            try bed.bag.rotate()
            #expect(try bed.keybag.needsRewrap(fileAt: path))
            #expect(try bed.keybag.rewrap(fileAt: path) == .rewrapped)
            #expect(try !bed.keybag.needsRewrap(fileAt: path))
            let after = try path.contents()
            #expect(after.dropFirst(2 * Head.length) == before.dropFirst(2 * Head.length), "no chunk was touched")
            for record in old { #expect(!after.holds(record.wrapped.bytes), "no old wrap is left") }
            let generation = bed.keybag.activeName(.complete).generation
            #expect(try StoredWraps(path).generations == [generation])
            #expect(try StoredWraps(path).originGenerations == [generation])
            #expect(try path.mode() == attributes)
            try StoredFile(path).expectClosed()
            try expectReadable(bed, [path])
            #expect(try ProtectedFile.open(path, keybag: bed.keybag).origin() == .verified)
            #expect(try bed.keybag.verify(path)?.verdict == .whole)
        }
    }

    @Test(
        "While the keybag cannot be read nothing is wrapped: its class keys may have been retired",
        arguments: ProtectionClass.allCases)
    func unreadable(protectionClass: ProtectionClass) throws {
        let bed = try FileTestBed()
        let (kept, new) = (bed.path("kept"), bed.path("new"))
        try bed.make("kept", protectionClass, [1, 2, 3])
        let copies = ["keybag.0", "keybag.1"].map { bed.keybag.directory.appending($0) }
        let stored = try copies.map { try $0.contents() }
        for copy in copies { try copy.overwrite(Array("garbage".utf8)) }
        expectError("keybagDamaged") {
            _ = try ProtectedFile.open(new, .readWrite, create: protectionClass, keybag: bed.keybag)
        }
        expectError("keybagDamaged") { _ = try bed.keybag.rewrap(fileAt: kept) }
        #expect(access(new.string, F_OK) == -1)
        #expect(try bed.read(kept) == [1, 2, 3])
        // What is read is locked all the same: nothing is wrapped for that.
        try bed.keybag.lock()
        if protectionClass == .complete || protectionClass == .completeUnlessOpen {
            expectError("locked") { _ = try bed.read(kept) }
        }
        for (copy, bytes) in zip(copies, stored) { try copy.overwrite(bytes) }
        try bed.enter(.unlocked)
        try ProtectedFile.open(new, .readWrite, create: protectionClass, keybag: bed.keybag).close()
        #expect(try bed.keybag.rewrap(fileAt: kept) == .current)
    }

    @Test("A file that is current is left alone, in every lock state", arguments: ProtectionState.allOfThem)
    func current(state: ProtectionState) throws {
        let bed = try FileTestBed()
        try bed.bag.rotate()
        let paths = try files(bed)
        let before = try paths.map { try $0.contents() }
        try bed.enter(state)
        for path in paths { #expect(try bed.keybag.rewrap(fileAt: path) == .current) }
        #expect(try paths.map { try $0.contents() } == before)
    }

    @Test("Locked, only files of first-unlock and none are rewrapped")
    func whileLocked() throws {
        let bed = try FileTestBed()
        let paths = try Self.all.map { try bed.make("\($0)", $0, Self.text) }
        try bed.bag.rotate()
        try bed.keybag.lock()
        let before = try paths.map { try $0.contents() }
        for path in paths.prefix(2) { expectError("locked") { try bed.keybag.rewrap(fileAt: path) } }
        #expect(try paths.prefix(2).map { try $0.contents() } == Array(before.prefix(2)), "as they were")
        for path in paths.suffix(2) { #expect(try bed.keybag.rewrap(fileAt: path) == .rewrapped) }
        try bed.enter(.unlocked)
        for path in paths { try bed.keybag.rewrap(fileAt: path) }
        try bed.bag.forgetRetired()
        for path in paths { #expect(try bed.read(path) == Self.text) }
    }

    @Test("The second half of one that was killed needs no key")
    func staleSlot() throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .complete, Self.text)
        let old = Array(try path.contents().prefix(Head.length))
        try bed.bag.rotate()
        try bed.keybag.rewrap(fileAt: path)
        let file = try LowerFile(path, flags: O_RDWR)
        try file.write(old, at: UInt64(try HeadPair(of: file).target * Head.length))
        #expect(try StoredWraps(path).generations == [1, 2])
        #expect(try bed.keybag.needsRewrap(fileAt: path))
        try bed.enter(.beforeFirstUnlock)
        #expect(try bed.keybag.rewrap(fileAt: path) == .rewrapped)
        #expect(try StoredWraps(path).generations == [2])
        #expect(try bed.keybag.rewrap(fileAt: path) == .current)
    }

    @Test("The verdict of origin is carried over, never improved")
    func origins() throws {
        let bed = try FileTestBed(state: .beforeFirstUnlock)
        let device = try bed.make("device", .completeUnlessOpen)
        try bed.enter(.unlocked)
        let verified = try bed.make("verified", .completeUnlessOpen)
        try bed.bag.rotate()
        for path in [device, verified] { try bed.keybag.rewrap(fileAt: path) }
        try bed.bag.forgetRetired()
        #expect(try ProtectedFile.open(device, keybag: bed.keybag).origin() == .thisDevice)
        #expect(try ProtectedFile.open(verified, keybag: bed.keybag).origin() == .verified)
    }

    @Test("Handles of every class go on through rotation, rewrapping and forgetting", arguments: all)
    func openHandles(_ protectionClass: ProtectionClass) throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", protectionClass, Self.text)
        let writer = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        let reader = try ProtectedFile.open(path, keybag: try bed.bag.reopened())
        try writer.write([1], at: 0)
        try bed.bag.rotate()
        #expect(try reader.bytes(at: 5000, count: 1) == [Self.text[5000]])
        try writer.write([2], at: 1)
        try bed.keybag.rewrap(fileAt: path)
        try writer.sync()
        #expect(try reader.bytes(at: 0, count: 2) == [1, 2])
        try bed.bag.forgetRetired()
        try writer.write([3], at: 2)
        try writer.close()
        #expect(try reader.bytes(at: 0, count: 3) == [1, 2, 3])
        #expect(try StoredWraps(path).generations == [2], "a writer does not bring the old wrap back")
        #expect(try bed.read(path).prefix(3) == [1, 2, 3])
    }

    @Test("A file that is being written whole gets the new keys, or says that its own were forgotten", arguments: all)
    func wholeFiles(_ protectionClass: ProtectionClass) throws {
        let bed = try FileTestBed()
        for isForgotten in [false, true] {
            let path = bed.path("whole-\(isForgotten)")
            let writer = try ProtectedFileWriter(path, as: protectionClass, keybag: bed.keybag)
            try Self.text.withUnsafeBytes { try writer.append($0) }
            let generation = try bed.bag.rotate()
            if isForgotten {
                try bed.bag.forgetRetired()
                if protectionClass == .complete {
                    expectError("keyLost", "no unlock helps") { try [1].withUnsafeBytes { try writer.append($0) } }
                }
                expectError("keyLost") { try writer.finish() }
            } else {
                try writer.finish()
                #expect(try StoredWraps(path).generations == [generation])
                #expect(try bed.read(path) == Self.text)
                try StoredFile(path).expectClosed()
            }
        }
        #expect(try bed.names() == ["whole-false"])
    }

    @Test("A rewrap that is impossible fails with its reason")
    func refused() throws {
        let bed = try FileTestBed()
        let other = try FileTestBed()
        let foreign = try other.make("f", .none)
        expectError("notProtected") { try bed.keybag.rewrap(fileAt: bed.makePlain("plain", Self.text)) }
        expectError("foreignKeybag") { try bed.keybag.rewrap(fileAt: foreign) }
        try bed.path("fifo").makeFIFO()
        expectError("notRegularFile") { try bed.keybag.rewrap(fileAt: bed.path("fifo")) }
        try bed.path("link").makeSymbolicLink(to: try bed.make("f", .none))
        expectError("notRegularFile") { try bed.keybag.rewrap(fileAt: bed.path("link")) }
        let busy = try bed.make("busy", .none)
        try bed.bag.rotate()
        let holder = try LowerFile(busy, flags: O_RDWR)
        #expect(try holder.tryByteLock(OpenFile.slotLock, .exclusive))
        expectError("busy") { try bed.keybag.rewrap(fileAt: busy) }
    }
}

extension ProtectionState {
    /// Every state.
    static let allOfThem: [ProtectionState] = [.beforeFirstUnlock, .unlocked, .locked]
}
