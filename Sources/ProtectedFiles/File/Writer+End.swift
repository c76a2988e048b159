import DurableFiles
import Keybags
import ProtectionFormat
import ProtectionKeys

/// Where the file ends as far as its writer answers for it. Behind that another program may append at any moment.
struct OwnEnd: Hashable {
    /// In bytes.
    private(set) var length: UInt64
    /// Up to where records can be written without making the file longer: the place of the mark behind them, or the end.
    private(set) var free: UInt64

    /// - Parameter mark: where the mark begins that the file ends in; nil: there is none.
    init(length: UInt64, mark: UInt64? = nil) {
        self.length = length
        free = mark ?? length
    }
}

/// Bytes that another program appends while the file is written to: FORMAT.md §4 rule 16.
///
/// A writer that makes the file longer writes first what will be its end and can be proved to be ours: the last chunk, or a mark behind the
/// records. Then a kill at any later moment leaves nothing at the end that could be taken for foreign bytes, and what another program
/// appends then lies behind it.
extension Writer {
    /// Before chunks are written up to `place`, in bytes of the stored file. The last one is to be written first.
    mutating func reach(_ place: UInt64) throws(DataProtectionError) {
        guard place > end.length else { return }
        if try file.length() > end.length {
            // It may be another process that has written the second head: that is seen under the slot lock.
            try locked { writer throws(DataProtectionError) in try writer.keepAppended() }
        }
        end = OwnEnd(length: place)
    }

    /// The same for the second head, which is written in one piece. Under the slot lock, with the heads as they are now.
    mutating func reachSecondHead() throws(DataProtectionError) {
        let place = UInt64(2 * Head.length)
        guard place > end.length else { return }
        try keepAppended()
        end = OwnEnd(length: place)
    }

    /// The same for records up to `place`. The mark behind them is a record of no area, without chunks. Readers ignore it, older writers
    /// take it for a record of an earlier area, and it is cut off with the area.
    mutating func mark(behind place: UInt64) throws(DataProtectionError) {
        try keepAppended()
        let bytes: [UInt8]
        do throws(KeyError) {
            let id = state.heads.head.prefix.fileID
            bytes = try RedoRecord.encode(file: id, epoch: RedoRecord.noArea, content: state.content, chunks: []).bytes
        } catch {
            throw .cryptography(error)
        }
        try file.write(bytes, at: place)
        end = OwnEnd(length: place + UInt64(bytes.count), mark: place)
    }

    /// Cuts the file where nothing of another program is.
    mutating func cut(to length: UInt64) throws(DataProtectionError) {
        try keepAppended()
        try file.truncate(to: length)
        end = OwnEnd(length: length)
    }

    /// Saves what another program has appended by now, and cuts it off.
    ///
    /// Under the slot lock with the heads as they are now, or when the file is longer than two heads.
    func keepAppended() throws(DataProtectionError) {
        try KeptBeside.moveAppended(file, from: end.length, warn: warn)
    }

    /// Takes note of a second head that another process has written.
    mutating func followHeads() {
        if state.heads.head.generation > 1, end.length < UInt64(2 * Head.length) {
            end = OwnEnd(length: UInt64(2 * Head.length))
        }
    }
}
