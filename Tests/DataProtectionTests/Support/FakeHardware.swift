import Keybags
import ProtectionKeys
import Synchronization
import TrustedModule

/// Hardware in the memory of a test: it can end at any of its steps, before or after the step has had its effect.
final class FakeHardware: HardwareSecretSource {
    /// What stays when a process has ended.
    final class Memory: Sendable {
        struct Place {
            let label, authorization, secret: [UInt8]
        }
        fileprivate let places = Mutex<[UInt32: Place]>([:])
        fileprivate let wrongCount = Mutex(0)

        /// Where secrets are.
        var handles: Set<UInt32> { places.withLock { Set($0.keys) } }
        /// Wrong values so far.
        var wrongTries: Int { wrongCount.withLock { $0 } }
        /// The secret, if there is one alone.
        var onlySecret: [UInt8]? { places.withLock { $0.count == 1 ? $0.first?.value.secret : nil } }
        /// Forgets everything.
        func clear() { places.withLock { $0 = [:] } }
    }

    /// At which step it ends.
    struct End {
        /// From 0.
        let step: Int
        let hasEffect: Bool
    }

    let memory: Memory
    private let end: End?
    private let steps = Mutex(0)
    /// What every step says.
    private let problem: HardwareProblem?

    init(_ memory: Memory = Memory(), end: End? = nil, problem: HardwareProblem? = nil) {
        self.memory = memory
        self.end = end
        self.problem = problem
    }

    /// How many steps were asked for.
    var stepCount: Int { steps.withLock { $0 } }

    private static let ended = HardwareRefusal.problem(.failed(command: "test", code: 1))

    /// The first step that it ends at, and all after it, fail.
    private func step<R: ~Copyable>(_ body: () throws(HardwareRefusal) -> R) throws(HardwareRefusal)
        -> R
    {
        if let problem { throw .problem(problem) }
        let number = steps.withLock { steps in
            defer { steps += 1 }
            return steps
        }
        guard let end, number >= end.step else { return try body() }
        if number == end.step, end.hasEffect { _ = try body() }
        throw Self.ended
    }

    private static let root = [UInt8](repeating: 1, count: 32)

    func freeHandle() throws(HardwareRefusal) -> UInt32 {
        try step { () throws(HardwareRefusal) in
            (0x018D_0000...UInt32.max).first { !memory.handles.contains($0) }!
        }
    }

    func put(
        _ secret: borrowing HardwareSecret, at handle: UInt32, label: [UInt8],
        authorization: borrowing SecretBytes, root: [UInt8]?
    ) throws(HardwareRefusal) -> TrustedModule.Index {
        let place = Memory.Place(
            label: label, authorization: authorization.withUnsafeBytes { Array($0) },
            secret: secret.withSecret { secret in secret.withUnsafeBytes { Array($0) } })
        return try step { () throws(HardwareRefusal) in
            memory.places.withLock { $0[handle] = place }
            return TrustedModule.Index(handle: handle, root: Self.root, name: label)
        }
    }

    func secret(
        of index: TrustedModule.Index, labelsWithPrefix prefix: [UInt8],
        authorization: borrowing SecretBytes
    ) throws(HardwareRefusal) -> HardwareSecret {
        let value = authorization.withUnsafeBytes { Array($0) }
        return try step { () throws(HardwareRefusal) in
            let places = memory.places.withLock { $0 }
            guard let place = places[index.handle], place.label == index.name else {
                throw .problem(
                    places.values.contains { $0.label.starts(with: prefix) } ? .olderKeybag : .secretMissing)
            }
            guard place.authorization == value else {
                memory.wrongCount.withLock { $0 += 1 }
                throw .wrongPasscode
            }
            do throws(KeyError) {
                return try HardwareSecret(secret: SecretBytes(copyOf: place.secret))
            } catch {
                throw Self.ended
            }
        }
    }

    func requirePresent(
        _ index: TrustedModule.Index, labelsWithPrefix prefix: [UInt8]
    ) throws(HardwareRefusal) {
        try step { () throws(HardwareRefusal) in
            let places = memory.places.withLock { $0 }
            if places[index.handle]?.label == index.name { return }
            throw .problem(places.values.contains { $0.label.starts(with: prefix) } ? .olderKeybag : .secretMissing)
        }
    }

    func destroy(_ handle: UInt32, label: [UInt8], root: [UInt8]?) throws(HardwareRefusal) {
        try step { () throws(HardwareRefusal) in
            memory.places.withLock { if $0[handle]?.label == label { $0[handle] = nil } }
        }
    }

    func asksOwner(root: [UInt8]?) throws(HardwareRefusal) -> Bool { false }
    func accepts(ownersPassword: consuming SecretBytes, root: [UInt8]?) throws(HardwareRefusal) -> Bool { false }
    var knowsOwner: Bool { false }

    func facts() throws(HardwareRefusal) -> HardwareFacts {
        try step { () throws(HardwareRefusal) in
            HardwareFacts(
                maker: "FAKE", isVirtual: true, triesLeft: 31, maximumTries: 31, oneTryAfter: .seconds(600),
                isLockedOut: false, ownerHasPassword: false, lockoutHasPassword: true)
        }
    }
}
