import DurableFiles
import Glibc
import Keybags
public import ProtectionFormat
public import ProtectionKeys
public import SystemPackage

/// What a look at every stored byte of a protected file came to. FORMAT.md §3.7, "what a verifier answers".
public struct FileVerification: Hashable, Sendable {
    /// Something that is not as in a whole file that was closed.
    public enum Finding: Hashable, Sendable {
        /// Head `index`, 0 or 1, is torn or altered, and held no later state than the other one.
        case headDamaged(index: Int)
        /// There may be, or are, later commits than the state in force, and nothing leads to them: head `head` is torn or altered, and
        /// `recordCount` whole records of them lie behind the file. A commit that a power cut tore looks the same.
        case commitsUnreachable(head: Int, recordCount: Int)
        /// Head `older` holds an earlier state than the other one: the last writer did not close the file.
        case headsUnequal(older: Int)
        /// Head `older` holds the key under an earlier class: a class change was interrupted, and that class may still open
        /// the file.
        case oldClassLeft(older: Int)
        /// Records of this many bytes wait to be put in place: the last writer did not close the file.
        case redoArea(byteCount: UInt64)
        /// Behind the records in force lie this many bytes, of a torn or altered one: a commit that was not completed, or one that is lost.
        case recordsTorn(byteCount: UInt64)
        /// Bytes beyond the end that mean nothing: a writer that died left them.
        case excess(byteCount: UInt64)
        /// Bytes beyond the end that another program appended. They are not protected.
        case appended(byteCount: UInt64)
        /// The file ends this many bytes too early.
        case missing(byteCount: UInt64)
        /// Chunks that do not open: the plaintext bytes that they hold.
        case chunksDamaged(Range<Int64>)
        /// Chunks that do not open and hold bytes that are not encrypted, so that another program must have overwritten them: the plaintext
        /// bytes that they held.
        case chunksOverwritten(Range<Int64>)
        /// A layer of which everything else depends was refused: nothing behind it was looked at.
        case refused(FormatError.Layer, reason: String)

        /// Whether bytes were altered or lost. Otherwise all plaintext is there.
        public var isDamage: Bool {
            switch self {
            case .headDamaged, .commitsUnreachable, .missing, .chunksDamaged, .chunksOverwritten, .refused: true
            case .headsUnequal, .oldClassLeft, .redoArea, .recordsTorn, .excess, .appended: false
            }
        }

        /// Whether nothing is known to be missing or altered, but something is there that no writer leaves that ends as it should.
        package var isDoubtful: Bool {
            switch self {
            case .recordsTorn, .appended: true
            default: false
            }
        }

        /// Whether a file that somebody is writing to may look so.
        package var isWorkInProgress: Bool {
            switch self {
            case .headsUnequal, .redoArea, .excess: true
            default: false
            }
        }
    }

    /// What it comes to.
    public enum Verdict: String, Sendable, Hashable {
        /// Every byte is as it was written.
        case whole
        /// Somebody has the file open for writing, and nothing is found that a close does not put right.
        case beingWritten
        /// All plaintext is there, but the last writer, or a class change, did not end.
        case unclosed
        /// All that finished commits have written is there, as far as that can be known, and bytes of another origin: another program's, or
        /// of a commit that was torn or altered.
        case doubtful
        /// Bytes were altered or lost.
        case damaged
    }

    /// Where the file is.
    public let path: FilePath
    /// The class; nil where no head says it.
    public internal(set) var protectionClass: ProtectionClass?
    /// Plaintext bytes.
    public internal(set) var size: Int64?
    /// How closely the maker of the file is known, as far as it can be checked now.
    public internal(set) var origin: OriginMark.Verdict?
    /// What is not as it should be, in the order of the file; chunks side by side are one finding.
    public internal(set) var findings: [Finding] = []
    /// Whether somebody has the file open for writing.
    public internal(set) var isBeingWritten = false

    /// What it comes to.
    public var verdict: Verdict {
        if findings.isEmpty { return .whole }
        if findings.contains(where: \.isDamage) { return .damaged }
        if findings.contains(where: \.isDoubtful) { return .doubtful }
        return isBeingWritten && findings.allSatisfy(\.isWorkInProgress) ? .beingWritten : .unclosed
    }

    /// Notes a damaged chunk.
    package mutating func add(damagedChunk chunk: Range<Int64>, isOverwritten: Bool) {
        switch (findings.last, isOverwritten) {
        case (.chunksDamaged(let before)?, false) where before.upperBound == chunk.lowerBound:
            findings[findings.count - 1] = .chunksDamaged(before.lowerBound..<chunk.upperBound)
        case (.chunksOverwritten(let before)?, true) where before.upperBound == chunk.lowerBound:
            findings[findings.count - 1] = .chunksOverwritten(before.lowerBound..<chunk.upperBound)
        default: findings.append(isOverwritten ? .chunksOverwritten(chunk) : .chunksDamaged(chunk))
        }
    }
}

extension Keybag {
    /// Opens every chunk of a file and judges both heads, the area and the length. Changes nothing, and disturbs no writer:
    /// what looks damaged is looked at again under the shared slot lock, as readers do.
    ///
    /// - Parameters:
    ///   - path: the file; a link is followed.
    ///   - goOn: called with the plaintext bytes that are done, about every MiB; false stops.
    /// - Returns: nil if `goOn` said so.
    /// - Throws: `locked`, `notProtected`, `unsupported`, `foreignKeybag`, `keyLost`, `otherKey`, `notRegularFile`, `system`. Damage is no error
    ///   but a finding.
    public func verify(
        _ path: FilePath, goOn: (Int64) -> Bool = { _ in true }
    ) throws(DataProtectionError) -> FileVerification? {
        try verify(LowerFile(regular: path, flags: O_RDONLY), goOn: goOn)
    }

    /// The same of an open file, which may have no name yet.
    package func verify(
        _ file: LowerFile, goOn: (Int64) -> Bool = { _ in true }
    ) throws(DataProtectionError) -> FileVerification? {
        let open = OpenFile(file, keybag: self, isWritable: false)
        var result = FileVerification(path: file.path)
        do throws(DataProtectionError) {
            let (state, origin) = try open.judgedState(.open)
            result.size = Int64(state.record.size)
            result.protectionClass = state.heads.head.wrap.classKey.protectionClass
            result.origin = origin
            guard try open.verifyChunks(noting: &result, goOn) else { return nil }
            let outline = try open.outline()
            result.findings += outline.findings
            result.isBeingWritten = outline.isBeingWritten
        } catch {
            guard case .damaged(_, let layer, let reason, _) = error else { throw error }
            result.findings.append(.refused(layer, reason: reason))
        }
        return result
    }
}
