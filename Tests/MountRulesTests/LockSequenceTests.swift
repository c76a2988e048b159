import MountRules
import ProtectionKeys
import TestEffort
import Testing

@Suite("The pages of a mount and the lock")
struct LockSequenceTests {
    private typealias Leaving = LockSequence.Leaving
    private static let classes: [ProtectionClass] = [
        .complete, .completeUnlessOpen, .completeUntilFirstUserAuthentication, .none,
    ]

    /// A sequence in which these nodes were opened and read, and closed again unless they are kept.
    private static func after(
        reading nodes: [(node: UInt64, protectionClass: ProtectionClass)], keeping kept: Set<UInt64> = []
    ) throws -> LockSequence {
        var sequence = LockSequence()
        for (node, protectionClass) in nodes {
            sequence.opens(node)
            let read = try Self.admitted(&sequence, node, of: protectionClass)
            let action = sequence.ended(read, hasPages: true)
            #expect(action == .nothing)
            if !kept.contains(node) {
                let goes = sequence.closes(node)
                #expect(goes)
                sequence.droppedClosed(node)
            }
        }
        return sequence
    }

    /// Outside of macros, which call nothing that is mutating.
    private static func admitted(
        _ sequence: inout LockSequence, _ node: UInt64, of protectionClass: ProtectionClass
    ) throws -> LockSequence.Read {
        let read = sequence.begins(node, of: protectionClass)
        return try #require(read)
    }

    @Test("A read that finds no key leaves nothing to be dropped, unless another one has got pages, or may get some")
    func refusedReads() throws {
        var sequence = LockSequence()
        sequence.opens(1)
        func end(_ read: LockSequence.Read, hasPages: Bool) {
            let action = sequence.ended(read, hasPages: hasPages)
            #expect(action == .nothing)
        }
        let first = try Self.admitted(&sequence, 1, of: .complete)
        let second = try Self.admitted(&sequence, 1, of: .complete)
        end(first, hasPages: false)
        #expect(sequence.hasCompletePages, "the other one may get some")
        end(second, hasPages: false)
        #expect(!sequence.hasCompletePages)
        let third = try Self.admitted(&sequence, 1, of: .complete)
        let fourth = try Self.admitted(&sequence, 1, of: .complete)
        end(third, hasPages: true)
        end(fourth, hasPages: false)
        #expect(sequence.hasCompletePages)
        let fifth = try Self.admitted(&sequence, 1, of: .complete)
        end(fifth, hasPages: false)
        #expect(sequence.hasCompletePages)
        let action = sequence.lock()
        #expect(action == .drop(Leaving([1])))
    }

    @Test("At a lock the pages of open complete files go, and those of other open files unless they stay readable")
    func open() throws {
        let nodes = zip([7, 5, 6, 4], Self.classes).map { (node: UInt64($0), protectionClass: $1) }
        var sequence = try Self.after(reading: nodes, keeping: [4, 5, 6, 7])
        #expect(sequence.hasCompletePages)
        var action = sequence.lock()
        #expect(action == .drop(Leaving([7], unlessReadable: [4, 5, 6])))
        // 5 has become complete, or is damaged.
        sequence.dropped(staying: [4: .none, 6: .completeUntilFirstUserAuthentication])
        #expect(!sequence.hasCompletePages)
        action = sequence.lock()
        #expect(action == .drop(Leaving([], unlessReadable: [4, 6])))
    }

    @Test(
        "Pages of closed files of every class go with the last handle, and at a lock if they have not gone yet",
        arguments: LockSequenceTests.classes)
    func closed(protectionClass: ProtectionClass) throws {
        var sequence = try Self.after(reading: [(5, protectionClass), (5, protectionClass)], keeping: [5])
        var goes = sequence.closes(5)
        #expect(!goes)
        goes = sequence.closes(5)
        #expect(goes)
        var action = sequence.lock()
        #expect(action == .drop(Leaving([5])))
        sequence.dropped()
        sequence.droppedClosed(5)
        action = sequence.lock()
        #expect(action == .drop(Leaving([])))
    }

    @Test("A file that was opened and not read has no pages to drop")
    func unread() {
        var sequence = LockSequence()
        sequence.opens(5)
        let goes = sequence.closes(5)
        #expect(!goes)
        let action = sequence.lock()
        #expect(action == .drop(Leaving([])))
    }

    @Test("A read under way is waited for, and no read of a complete file begins", arguments: LockSequenceTests.classes)
    func drains(protectionClass: ProtectionClass) throws {
        var sequence = LockSequence()
        sequence.opens(5)
        sequence.opens(6)
        let first = try Self.admitted(&sequence, 5, of: protectionClass)
        let second = try Self.admitted(&sequence, 6, of: .complete)
        var action = sequence.lock()
        #expect(action == .nothing)
        let refused = sequence.begins(7, of: .complete)
        #expect(refused == nil)
        action = sequence.ended(second, hasPages: true)
        #expect(action == .nothing)
        action = sequence.ended(first, hasPages: true)
        #expect(
            action
                == (protectionClass == .complete ? .drop(Leaving([5, 6])) : .drop(Leaving([6], unlessReadable: [5]))))
        let refusedToo = sequence.begins(7, of: .complete)
        #expect(refusedToo == nil)
        sequence.dropped()
        let admitted = sequence.begins(7, of: .complete)
        #expect(admitted != nil)
    }

    @Test(
        "Reads of other classes go on through a lock, and the next lock knows of their pages",
        arguments: LockSequenceTests.classes.dropFirst())
    func otherClasses(protectionClass: ProtectionClass) throws {
        var sequence = LockSequence()
        for node: UInt64 in [5, 6, 7] { sequence.opens(node) }
        let held = try Self.admitted(&sequence, 5, of: .complete)
        var action = sequence.lock()
        #expect(action == .nothing)
        let whole = try Self.admitted(&sequence, 6, of: protectionClass)
        action = sequence.ended(whole, hasPages: true)
        #expect(action == .nothing)
        let across = try Self.admitted(&sequence, 7, of: protectionClass)
        action = sequence.ended(held, hasPages: true)
        #expect(action == .drop(Leaving([5], unlessReadable: [6, 7])))
        // Its bytes come after the sequence has looked at all that there was.
        action = sequence.ended(across, hasPages: true)
        #expect(action == .nothing)
        sequence.dropped(staying: [6: protectionClass])
        action = sequence.lock()
        #expect(action == .drop(Leaving([], unlessReadable: [6, 7])))
    }

    @Test("A file whose class was raised before its last read is treated as complete")
    func raised() throws {
        var sequence = try Self.after(
            reading: [(5, .completeUntilFirstUserAuthentication), (5, .complete)], keeping: [5])
        let action = sequence.lock()
        #expect(action == .drop(Leaving([5])))
    }

    @Test("The kernel may close a file before it is known that the read has ended: its pages go all the same")
    func closedEarly() throws {
        var sequence = LockSequence()
        sequence.opens(5)
        let read = try Self.admitted(&sequence, 5, of: .completeUnlessOpen)
        let goes = sequence.closes(5)
        #expect(goes)
        _ = sequence.ended(read, hasPages: true)
        let action = sequence.lock()
        #expect(action == .drop(Leaving([5])))
    }

    @Test("A node that the kernel has given up is not dropped")
    func forgotten() throws {
        var sequence = try Self.after(reading: [(5, .complete)], keeping: [5])
        sequence.forget(5)
        let action = sequence.lock()
        #expect(action == .drop(Leaving([])))
    }

    /// The kernel as the sequence sees it: which pages it has, by what happened in which order.
    @Test(
        "In any order of reads, handles, raised classes and locks, no page of a complete file is left when a lock ends")
    func anyOrder() throws {
        var random = Effort.generator("mount locks", 7)
        for _ in 0..<Effort.count(300, 20_000) {
            var world = World()
            for _ in 0..<40 { world.step(using: &random) }
            world.finish()
            #expect(world.failure == nil)
        }
    }
}

/// Four files behind a ``LockSequence``, and a kernel that caches.
private struct World {
    private var sequence = LockSequence()
    private var classes: [UInt64: ProtectionClass] = [
        1: .complete, 2: .completeUnlessOpen, 3: .completeUntilFirstUserAuthentication, 4: .none,
    ]
    private var handles: [UInt64: Int] = [:]
    private var pages: Set<UInt64> = []
    private var reads: [LockSequence.Read] = []
    /// Nodes of ``reads``.
    private var reading: [UInt64] = []
    private var isLocked = false
    private var isWaiting = false
    private(set) var failure: String?

    mutating func step(using random: inout SeededGenerator) {
        let node = UInt64.random(in: 1...4, using: &random)
        switch Int.random(in: 0..<8, using: &random) {
        case 0:
            sequence.opens(node)
            handles[node, default: 0] += 1
        case 1, 2: begin(node)
        case 3 where !reads.isEmpty: end(Int.random(in: 0..<reads.count, using: &random))
        case 4 where handles[node, default: 0] > 0 && !reading.contains(node):
            handles[node]! -= 1
            if sequence.closes(node) {
                pages.remove(node)
                sequence.droppedClosed(node)
            }
        case 5 where !isLocked: classes[node] = .complete
        case 6 where !isLocked && !isWaiting:
            isLocked = true
            perform(sequence.lock(), orWait: true)
        case 7 where !isWaiting: isLocked = false
        default: break
        }
    }

    private mutating func begin(_ node: UInt64) {
        guard handles[node, default: 0] > 0, let own = classes[node], !isLocked || own != .complete,
            let read = sequence.begins(node, of: own)
        else { return }
        reads.append(read)
        reading.append(node)
    }

    private mutating func end(_ index: Int) {
        pages.insert(reading.remove(at: index))
        perform(sequence.ended(reads.remove(at: index), hasPages: true), orWait: false)
    }

    private mutating func perform(_ action: LockSequence.Action, orWait: Bool) {
        guard case .drop(let leaving) = action else {
            if orWait { isWaiting = true }
            return
        }
        pages.subtract(leaving.nodes)
        var staying: [UInt64: ProtectionClass] = [:]
        for node in leaving.unlessReadable {
            if let own = classes[node], own != .complete { staying[node] = own } else { pages.remove(node) }
        }
        sequence.dropped(staying: staying)
        isWaiting = false
        let left = pages.filter { classes[$0] == .complete }
        if isLocked, !left.isEmpty { failure = "pages of \(left.sorted()) are left" }
    }

    /// Ends all reads, and locks a last time.
    mutating func finish() {
        while !reads.isEmpty { end(0) }
        if isWaiting { failure = "a lock waits for no read" }
        isLocked = true
        perform(sequence.lock(), orWait: true)
        if isWaiting { failure = "a lock waits for no read" }
    }
}
