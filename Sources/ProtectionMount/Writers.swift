import DataProtection
import FuseSession
import POSIXThreads
import ProtectedFiles
import ProtectedTrees
import Synchronization
import SystemPackage

/// The files that are open for writing, one ``WrittenFile`` each.
final class Writers: Sendable {
    private struct Counted {
        let file: WrittenFile
        var handles: Int
    }
    private let files = Mutex<[FuseNode: Counted]>([:])
    /// Opening and closing the writer of one file take turns: an open during the close would find the file busy.
    private let turns = (0..<64).map { _ in Turn() }
    private final class Turn: Sendable { let mutex = Mutex(()) }
    private let rounds: StandingThread
    private let keybag: Keybag
    private let writes: RecordedWrites?

    /// - Parameter writes: where those are logged that wait for a commit.
    /// - Throws: why there is no thread for it.
    init(_ keybag: Keybag, _ writes: RecordedWrites?) throws(Errno) {
        (self.keybag, self.writes) = (keybag, writes)
        do throws(POSIXThread.Refusal) { rounds = try StandingThread() } catch { throw Errno(rawValue: error.code) }
    }

    private func turn(_ node: FuseNode) -> Turn { turns[Int(node % UInt64(turns.count))] }

    /// The writer of a file; nil if nobody has it open for writing.
    subscript(_ node: FuseNode) -> WrittenFile? { files.withLock { $0[node]?.file } }

    /// Adds a handle to the writer of a file.
    ///
    /// - Parameter make: is told whether there is a writer, and makes one if there is none. It may refuse in both cases.
    func enter(
        _ node: FuseNode, _ make: (_ isKnown: Bool) throws(DataProtectionError) -> ProtectedFile?
    ) throws(Errno) -> WrittenFile {
        try turn(node).mutex.withLock { _ throws(Errno) in
            let known = self[node]
            let made = try refusing { () throws(DataProtectionError) in
                try make(known != nil).map { file throws(DataProtectionError) in
                    try WrittenFile(file, node, rounds: rounds, writers: self, writes)
                }
            }
            guard let file = known ?? made else { throw .staleNFSFileHandle }
            files.withLock { files in
                if known == nil { files[node] = Counted(file: file, handles: 0) }
                files[node]?.handles += 1
            }
            return file
        }
    }

    /// Takes a handle away; with the last one the writer commits and closes.
    ///
    /// - Throws: what that says. Nobody hears of it after the last close(2), which has committed before.
    func leave(_ file: WrittenFile) throws(Errno) {
        try turn(file.node).mutex.withLock { _ throws(Errno) in
            let isLast = files.withLock { files in
                files[file.node]?.handles -= 1
                return files[file.node]?.handles == 0
            }
            guard isLast else { return }
            // Until then it says size and times.
            defer { files.withLock { _ = $0.removeValue(forKey: file.node) } }
            try file.close()
        }
    }

    // MARK: pages that come late

    /// Begins to keep pages of a file. The file stays open until they are written into it, even if its handles are closed.
    func keepPages(of written: WrittenFile, under key: LatePagesKey) throws(Errno) -> LatePagesFile {
        let kept = try refusing { () throws(DataProtectionError) in
            try LatePagesFile(of: written.file, under: key, keybag: keybag)
        }
        files.withLock { $0[written.node]?.handles += 1 }
        return kept
    }

    /// Writes kept pages into their files, where that is possible now.
    func mergePages() {
        let all = files.withLock { Array($0.values) }
        for counted in all where counted.file.hasLatePages { try? counted.file.mergeLatePages() }
    }

    /// The kernel has no pages of `complete` files any more.
    func forgetKeysOfPages() {
        for counted in files.withLock({ Array($0.values) }) { counted.file.forgetKeyOfPages() }
    }

    /// Commits all of them. The server ends.
    func commit() {
        for counted in files.withLock({ Array($0.values) }) {
            try? counted.file.commit()
            counted.file.storeLatePages()
        }
    }
}
