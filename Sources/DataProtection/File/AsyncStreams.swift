import DurableFiles
public import FoundationEssentials
import Glibc
import Keybags
import POSIXThreads
import ProtectedFiles
import ProtectedTrees
public import ProtectionKeys
public import SystemPackage

/// The plaintext of a protected file, piece by piece, for files larger than memory.
///
/// All pieces are of one version of the file: of that which the first piece was read from.
public struct ProtectedFileChunks: AsyncSequence, Sendable {
    /// A piece of plaintext.
    public typealias Element = Data

    private let file: ProtectedFile
    private let length: Int

    init(_ file: ProtectedFile, length: Int) {
        self.file = file
        self.length = length
    }

    /// Begins at the first byte.
    public func makeAsyncIterator() -> Iterator { Iterator(file: file, length: length) }

    /// Reads the next piece when it is asked for.
    public struct Iterator: AsyncIteratorProtocol {
        private let file: ProtectedFile
        private let length: Int
        private var offset: Int64 = 0
        /// Of the first piece.
        private var version: ProtectedFile.Version?

        init(file: ProtectedFile, length: Int) {
            self.file = file
            self.length = length
        }

        /// The next piece; nil at the end of the file.
        ///
        /// - Throws: ``DataProtectionError``; *locked* ends nothing: the next call tries the same place again. `busy` if the file has been
        ///   changed since the first piece, by anybody: begin again with a new iterator.
        public mutating func next() async throws -> Data? {
            let (file, length, start, known) = (file, length, offset, version)
            let (piece, version) = try await BlockingWork.run {
                let version = try file.version()
                let piece = try file.read(length, at: start)
                guard try file.version() == version, version == known ?? version else {
                    throw DataProtectionError.busy(file.path)
                }
                return (piece, version)
            }
            self.version = version
            offset += Int64(piece.count)
            return piece.isEmpty ? nil : piece
        }
    }
}

extension ProtectedFile {
    /// The plaintext in pieces of `length` bytes.
    public func chunks(ofBytes length: Int = 1 << 20) -> ProtectedFileChunks {
        ProtectedFileChunks(self, length: max(length, 1))
    }

    /// Reads up to `length` bytes at `offset`; empty at the end of the file.
    ///
    /// - Throws: also `system` with ENOMEM: the size of a file that is not known to be ours may be anything.
    public func read(_ length: Int, at offset: Int64) throws(DataProtectionError) -> Data {
        guard offset >= 0, length >= 0 else { throw .because(FileFailure.outOfRange(path)) }
        if length == 0 {
            _ = try size()
            return Data()
        }
        // One byte more than is known to be there: if that cannot be read, this was the end.
        let known = min(Int64(length) - 1, max(0, lastSize - offset))
        if let data = try read(Int(known) + 1, of: length, at: offset) { return data }
        // It has grown. It may go on growing, so this reads what is there now.
        return try read(Int(min(Int64(length), max(0, try size() - offset))), of: nil, at: offset) ?? Data()
    }

    /// - Parameter whole: how many bytes are wanted in all; nil: `count`.
    /// - Returns: nil if there may be more.
    private func read(_ count: Int, of whole: Int?, at offset: Int64) throws(DataProtectionError) -> Data? {
        if count == 0 { return Data() }
        guard let start = calloc(count, 1) else { throw .system(path, operation: "calloc", .noMemory) }
        do throws(DataProtectionError) {
            let read = try read(into: UnsafeMutableRawBufferPointer(start: start, count: count), at: offset)
            if read < count || count == whole ?? count {
                return Data(bytesNoCopy: start, count: read, deallocator: .free)
            }
        } catch {
            free(start)
            throw error
        }
        explicit_bzero(start, count)
        free(start)
        return nil
    }

    /// Writes a protected file from a sequence of pieces; it appears whole when the sequence ends, or not at all.
    public static func write<S: AsyncSequence & Sendable>(
        contentsOf pieces: S, to path: FilePath, as protectionClass: ProtectionClass, keybag: Keybag,
        replacing: Bool = true
    ) async throws where S.Element == Data {
        try await write(
            pieces, with: try ProtectedFileWriter(path, as: protectionClass, keybag: keybag, replacing: replacing))
    }

    /// Writes as ``write(contentsOf:to:as:keybag:replacing:)-(_,FilePath,_,_,_)``, in the class that ``ProtectedFileWriter`` chooses.
    public static func write<S: AsyncSequence & Sendable>(
        contentsOf pieces: S, to path: FilePath, keybag: Keybag, replacing: Bool = true
    ) async throws where S.Element == Data {
        try await write(pieces, with: try ProtectedFileWriter(path, keybag: keybag, replacing: replacing))
    }

    private static func write<S: AsyncSequence & Sendable>(
        _ pieces: S, with writer: ProtectedFileWriter
    ) async throws where S.Element == Data {
        for try await piece in pieces {
            try await BlockingWork.run { try piece.withUnsafeBytes { try writer.append($0) } }
        }
        try await BlockingWork.run { try writer.finish() }
    }
}

/// System calls that may block do not belong on the threads of Swift's tasks, unless there are no others.
package enum BlockingWork {
    package static func run<R: Sendable>(_ body: @escaping @Sendable () throws -> R) async throws -> R {
        try await withCheckedThrowingContinuation { continuation in
            // Not a pool with as many threads as there are processors: while all of these wait for the disk nothing else would begin, not
            // even what would share its flush with them.
            BackgroundWork.perform { continuation.resume(with: Result(catching: body)) }
        }
    }

    /// The same of work whose errors are ours.
    package static func run(
        _ body: @escaping @Sendable () throws(DataProtectionError) -> Void
    ) async throws(DataProtectionError) {
        let result = await withCheckedContinuation {
            (continuation: CheckedContinuation<Result<Void, DataProtectionError>, Never>) in
            BackgroundWork.perform {
                do throws(DataProtectionError) { continuation.resume(returning: .success(try body())) } catch {
                    continuation.resume(returning: .failure(error))
                }
            }
        }
        try result.get()
    }
}
