import DurableFiles
import Glibc
import Keybags
import ProtectionFormat
import SystemPackage

/// What can be said of a file's bytes in this lock state.
package enum Wholeness {
    /// Every byte was opened, and who had no key could not have made it.
    case whole
    case damaged(DataProtectionError)
    /// Its length and its heads fit together, which anybody can bring about who may write to the file. The error says why it cannot be opened
    /// now: its class key is not there, or it cannot be read. Nil: it opens, and is of class B and of unverified origin.
    case unknown(DataProtectionError?)

    /// The damage; nil if none is known.
    package var damage: DataProtectionError? { if case .damaged(let error) = self { error } else { nil } }
}

extension Wholeness {
    /// Opens every chunk of a file.
    ///
    /// - Parameters:
    ///   - path: for messages; the file may have no name yet.
    ///   - needsBothHeads: whether one damaged head counts. All contents are there without it.
    /// - Returns: what was found; nothing that counts as damage.
    /// - Throws: `damaged` if bytes were altered or are missing; what ``Keybag/verify(_:goOn:)`` throws.
    @discardableResult
    package static func require(
        _ file: LowerFile, named path: FilePath, needsBothHeads: Bool = true, _ keybag: Keybag
    ) throws(DataProtectionError) -> FileVerification? {
        let result: FileVerification?
        do throws(DataProtectionError) { result = try keybag.verify(file) } catch { throw error.about(path) }
        for finding in result?.findings ?? [] {
            switch finding {
            case .chunksDamaged(let range), .chunksOverwritten(let range):
                throw .damaged(path, .chunk, reason: "authentication failed", offset: range.lowerBound)
            case .refused(let layer, let reason): throw .damaged(path, layer, reason: reason, offset: nil)
            case .missing: throw .damaged(path, .chunk, reason: "the file ends early", offset: nil)
            case .headDamaged where needsBothHeads:
                throw .damaged(path, .head, reason: "one head is damaged", offset: nil)
            case .commitsUnreachable:
                throw .damaged(path, .head, reason: "later commits cannot be reached", offset: nil)
            case .headDamaged, .headsUnequal, .oldClassLeft, .redoArea, .recordsTorn, .excess, .appended: break
            }
        }
        return result
    }

    /// Why no unlock of this keybag opens a file: `keyLost` or `otherKey`. Nil if there is no such reason, as far as that can be told in this
    /// lock state.
    package static func keyProblem(of path: FilePath, _ keybag: Keybag) -> DataProtectionError? {
        do throws(DataProtectionError) {
            let file = try LowerFile(regular: path, flags: O_RDONLY)
            _ = try OpenFile(file, keybag: keybag, isWritable: false).size(.read)
        } catch {
            switch error {
            case .because(KeybagFailure.keyLost), .because(FileFailure.otherKey): return error
            default: break
            }
        }
        return nil
    }

    /// Whether a file is whole, as far as that can be told in this lock state.
    package init(of file: LowerFile, named path: FilePath, needsBothHeads: Bool, _ keybag: Keybag) {
        do throws(DataProtectionError) {
            // The length needs no key.
            let state = try ProtectedFileInfo.state(of: file)
            let extent = state.layout.extent(of: state.record, generation: state.heads.head.generation)
            guard try file.length() >= extent else {
                throw .damaged(path, .chunk, reason: "the file ends early", offset: nil)
            }
            let found = try Self.require(file, named: path, needsBothHeads: needsBothHeads, keybag)
            self =
                found?.protectionClass == .completeUnlessOpen && found?.origin == .unverified ? .unknown(nil) : .whole
        } catch {
            switch error {
            case .damaged, .because(FileFailure.otherKey): self = .damaged(error.about(path))
            default: self = .unknown(error)
            }
        }
    }
}

extension DataProtectionError {
    /// The same about the file of that name.
    package func about(_ path: FilePath) -> DataProtectionError {
        switch self {
        case .damaged(_, let layer, let reason, let offset): .damaged(path, layer, reason: reason, offset: offset)
        case .because(FileFailure.otherKey(_, let protectionClass, let generation)):
            .because(FileFailure.otherKey(path, protectionClass, generation: generation))
        default: self
        }
    }
}
