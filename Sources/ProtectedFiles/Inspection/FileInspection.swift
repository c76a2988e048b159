import DurableFiles
import Glibc
import Keybags
import ProtectionFormat
import ProtectionKeys
public import SystemPackage

/// What the stored bytes of a protected file say of it, in every lock state and as far as damage lets them.
///
/// No keys and no wraps: they are not secret and say nothing to anybody.
public struct FileInspection: Hashable, Sendable {
    /// One of the two heads' places.
    public struct Slot: Hashable, Sendable {
        /// What lies there.
        public enum Condition: Hashable, Sendable {
            /// The newest whole head: it counts.
            case inForce
            /// The same bytes as the one in force.
            case equal
            /// An earlier state.
            case older
            /// Never written.
            case absent
            /// Whole in itself, but the file is refused for another reason.
            case whole
            /// The check is bad: torn, or altered.
            case torn
            /// The check is good, but the head breaks a rule, or this version does not know it.
            case refused(reason: String)
        }
        /// What lies there.
        public let condition: Condition
        /// Raised by every class change.
        public let wrapCounter: UInt64?
        /// Raised by every commit.
        public let contentCounter: UInt64?
    }

    /// Whether the fields are what the file's maker wrote.
    public enum Authenticity: Hashable, Sendable {
        /// The class key was here, and every seal of the head is good.
        case authentic
        /// The class key is not here; the error says why.
        case unverified(DataProtectionError)
        /// The class key, or a seal, says no.
        case refused(DataProtectionError)
    }

    /// Where the file is.
    public let path: FilePath
    /// Bytes on disk.
    public let storedLength: UInt64
    /// Head 0 and head 1.
    public let slots: [Slot]
    /// What the head in force says, or a damaged one where there is no other; nil if it cannot be made out.
    public let identity: FileIdentity?
    /// The same for the content, records included.
    public let outline: FileOutline?
    /// Where records begin; 0 without an area.
    public private(set) var redoOffset: UInt64 = 0
    /// Records that wait to be put in place.
    public private(set) var recordCount = 0
    /// The length of a file with these contents that was closed, in bytes; nil while records wait.
    public private(set) var extent: UInt64?
    /// Why the file as a whole is refused.
    public private(set) var problem: DataProtectionError?
    /// Whether the header can be believed.
    public private(set) var authenticity: Authenticity?
    /// What can be said now about who made the file, whatever the head claims: `unverified` if no key of the keybag proves the claim.
    public private(set) var origin = OriginMark.Verdict.unverified

    /// Reads both heads, and records if there are any.
    ///
    /// - Parameters:
    ///   - path: the file; a link is followed.
    ///   - keybag: to say whether the header is authentic; nil: it is not known which.
    /// - Throws: `notProtected`, `mangled`, `notRegularFile`, `system`; damage is no error.
    public init(of path: FilePath, keybag: Keybag?) throws(DataProtectionError) {
        let file = try LowerFile(regular: path, flags: O_RDONLY)
        try file.requireOneOfOurs()
        self.path = path
        var state: FileState?
        do throws(DataProtectionError) { state = try ProtectedFileInfo.state(of: file) } catch { problem = error }
        storedLength = try file.length()
        let bytes = try file.bytes(at: 0, count: 2 * Head.length)
        let found = [bytes.prefix(Head.length), bytes.dropFirst(Head.length)].map { StoredSlot(Array($0)) }
        slots = found.indices.map { found[$0].judged(beside: state?.heads, at: $0) }
        if let state {
            identity = FileIdentity(state.heads.head.prefix, state.heads.head.wrap)
            outline = FileOutline(state.record)
            redoOffset = state.redoOffset
            recordCount = state.recordCount
            extent = state.hasArea ? nil : state.extent
        } else {
            // Nothing is in force: of what can be made out, the newer.
            identity = found.compactMap(\.records.wrap).max { $0.counter < $1.counter }.flatMap { wrap in
                found.compactMap(\.records.prefix).first.map { FileIdentity($0, wrap) }
            }
            outline = found.compactMap(\.records.content).max { $0.counter < $1.counter }.map { FileOutline($0) }
        }
        if let keybag {
            authenticity = Self.authenticity(file, keybag)
            if let state { origin = (try? KeySession.verdict(of: state.heads.head, keybag)) ?? .unverified }
        }
    }

    private static func authenticity(_ file: LowerFile, _ keybag: Keybag) -> Authenticity {
        do throws(DataProtectionError) {
            _ = try OpenFile(file, keybag: keybag, isWritable: false).size(.read)
            return .authentic
        } catch {
            switch error {
            case .damaged, .because(FileFailure.otherKey): return .refused(error)
            default: return .unverified(error)
            }
        }
    }
}

/// A head's place with what can be made of its bytes.
private struct StoredSlot {
    let bytes: [UInt8]
    let hasGoodCheck: Bool
    /// Decoded whether the check is good or not.
    let records: Head.Records
    /// The rule that is broken; nil if none is.
    let reason: String?

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
        hasGoodCheck = (try? Head.isGood(bytes)) ?? false
        records = Head.Records(in: bytes)
        do throws(FormatError) {
            _ = try Head(decoding: bytes)
            reason = nil
        } catch {
            reason =
                switch error {
                case .notOurs: "it has another magic"
                case .unsupported(let what): "it was made by a newer version: \(what)"
                case .damaged(let layer, let what): "\(layer.rawValue): \(what)"
                }
        }
    }

    func judged(beside heads: HeadPair?, at index: Int) -> FileInspection.Slot {
        FileInspection.Slot(
            condition: condition(heads, index), wrapCounter: records.wrap?.counter,
            contentCounter: records.content?.counter)
    }

    private func condition(_ heads: HeadPair?, _ index: Int) -> FileInspection.Slot.Condition {
        if hasGoodCheck, let reason { return .refused(reason: reason) }
        guard let heads else { return hasGoodCheck ? .whole : bytes.contains { $0 != 0 } ? .torn : .absent }
        if index == heads.inForce { return .inForce }
        return switch try? heads.otherSlot() {
        case .absent: .absent
        case .equal: .equal
        case .older: .older
        case .torn, nil: .torn
        }
    }
}
