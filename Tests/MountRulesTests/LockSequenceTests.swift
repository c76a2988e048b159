import MountRules
import ProtectionKeys
import Testing

@Suite("The pages of a mount and the lock")
struct LockSequenceTests {
    private var sequence = LockSequence()

    @Test("Without a read nothing is dropped, and a lock is acknowledged")
    mutating func nothingRead() {
        let step1 = sequence.lock()
        #expect(step1 == .drop([]))
        let step2 = sequence.dropped()
        #expect(step2 == .acknowledge)
        #expect(!sequence.hasPages)
    }

    @Test("A lock drops the pages of every complete file that was read, closed or not")
    mutating func dropsComplete() {
        for node: UInt64 in [7, 5, 6] {
            let step3 = sequence.begins(node, of: .complete)
            #expect(step3)
            let step4 = sequence.ended(node, of: .complete)
            #expect(step4 == .nothing)
        }
        let step5 = sequence.lock()
        #expect(step5 == .drop([5, 6, 7]))
        let step6 = sequence.dropped()
        #expect(step6 == .acknowledge)
        let step7 = sequence.lock()
        #expect(step7 == .drop([]))
    }

    @Test("A read under way is waited for, and no other one begins")
    mutating func drains() {
        let step8 = sequence.begins(5, of: .complete)
        #expect(step8)
        let step9 = sequence.begins(6, of: .complete)
        #expect(step9)
        let step10 = sequence.lock()
        #expect(step10 == .nothing)
        let step11 = sequence.begins(7, of: .complete)
        #expect(!step11)
        let step12 = sequence.ended(5, of: .complete)
        #expect(step12 == .nothing)
        let step13 = sequence.ended(6, of: .complete)
        #expect(step13 == .drop([5, 6]))
        let step14 = sequence.begins(7, of: .complete)
        #expect(!step14)
        let step15 = sequence.dropped()
        #expect(step15 == .acknowledge)
        let step16 = sequence.begins(7, of: .complete)
        #expect(step16)
    }

    @Test("A second lock is answered by the sequence that is under way")
    mutating func secondLock() {
        let step17 = sequence.begins(5, of: .complete)
        #expect(step17)
        let step18 = sequence.lock()
        #expect(step18 == .nothing)
        let step19 = sequence.lock()
        #expect(step19 == .nothing)
        let step20 = sequence.ended(5, of: .complete)
        #expect(step20 == .drop([5]))
        let step21 = sequence.lock()
        #expect(step21 == .nothing)
        let step22 = sequence.dropped()
        #expect(step22 == .acknowledge)
    }

    @Test(
        "Reads of other classes go on through a lock",
        arguments: [ProtectionClass.completeUnlessOpen, .completeUntilFirstUserAuthentication, .none])
    mutating func otherClasses(protectionClass: ProtectionClass) {
        let step23 = sequence.begins(5, of: .complete)
        #expect(step23)
        let step24 = sequence.lock()
        #expect(step24 == .nothing)
        let step25 = sequence.begins(6, of: protectionClass)
        #expect(step25)
        let step26 = sequence.ended(6, of: protectionClass)
        #expect(step26 == .nothing)
        let step27 = sequence.ended(5, of: .complete)
        #expect(step27 == .drop([5]))
    }

    @Test("The pages of an unless-open file go with its last handle")
    mutating func lastHandle() {
        sequence.opens(5, of: .completeUnlessOpen)
        sequence.opens(5, of: .completeUnlessOpen)
        let step28 = sequence.closes(5, of: .completeUnlessOpen)
        #expect(!step28)
        let step29 = sequence.closes(5, of: .completeUnlessOpen)
        #expect(step29)
        sequence.opens(6, of: .complete)
        let step30 = sequence.closes(6, of: .complete)
        #expect(!step30)
    }

    @Test("A node that the kernel has given up is not dropped, unless a read may still bring it back")
    mutating func forgotten() {
        let step31 = sequence.begins(5, of: .complete)
        #expect(step31)
        sequence.forget(5)
        let step32 = sequence.ended(5, of: .complete)
        #expect(step32 == .nothing)
        let step33 = sequence.lock()
        #expect(step33 == .drop([5]))
        _ = sequence.dropped()
        let step34 = sequence.begins(6, of: .complete)
        #expect(step34)
        let step35 = sequence.ended(6, of: .complete)
        #expect(step35 == .nothing)
        sequence.forget(6)
        let step36 = sequence.lock()
        #expect(step36 == .drop([]))
    }
}
