public import DataProtection
import Synchronization
public import TrustedHTTP

/// The plaintext of a protected file, to be uploaded: read as it is sent, through a handle that is opened at once.
///
/// A `completeUnlessOpen` file goes on being sent through a lock, as an open one does. Of a `complete` one the upload ends with
/// *locked*.
///
///     var request = HTTPRequest(url)
///     request.method = "PUT"
///     request.body = try ProtectedFileBody("/home/ann/report", keybag: keybag)
public final class ProtectedFileBody: HTTPBody {
    private let file: ProtectedFile
    private let path: FilePath
    /// Of the file that was opened. Another one can be written in its place, under its name, and would be read through the same handle.
    let id: [UInt8]
    /// Judges a file by its class, each time that it has another one; nil: the caller has chosen it.
    private let judgement = Mutex<Judgement?>(nil)
    /// In bytes, when it was opened. Bytes that are appended later are not sent.
    public let length: UInt64

    /// - Throws: `locked`, `notProtected`, `damaged`, `foreignKeybag`, `system`.
    public init(_ path: FilePath, keybag: Keybag) throws(DataProtectionError) {
        file = try ProtectedFile.open(path, keybag: keybag)
        self.path = path
        id = try file.openedID()
        length = UInt64(try file.size())
    }

    private struct Judgement {
        var judged: ProtectionClass
        let judge: @Sendable (ProtectionClass) throws -> Void
    }

    /// Refuses a request that somebody locked may have written: with the key of the list, which is there since the first unlock, anybody with this
    /// user's id can add one. A file that opens while locked hides nothing from them.
    ///
    /// - Throws: `failed`; `locked`.
    func requireAdder(of request: DownloadRequest, _ keybag: Keybag) throws {
        let judge: @Sendable (ProtectionClass) throws -> Void = { [id] protectionClass in
            guard Self.isShutWhileLocked(protectionClass) else { return }
            if let adder = request.adder,
                try adder.mark.isGood(for: adder.text, of: request.target, keybag)
            {
                if request.fileID == id { return }
                let other = "\(request.target) is not the file that was added, or an earlier version added it"
                throw DownloadError.failed(DownloadFailure(.damaged, "\(other): add it again"))
            }
            throw DownloadError.failed(
                DownloadFailure(
                    .damaged, "it was added while \(request.target) was locked, or by an earlier version: add it again")
            )
        }
        let now = try file.openedClass()
        try judge(now)
        judgement.withLock { $0 = Judgement(judged: now, judge: judge) }
    }

    /// Whether the file hides something from programs that run while locked.
    var isShutWhileLocked: Bool {
        get throws(DataProtectionError) { Self.isShutWhileLocked(try file.openedClass()) }
    }

    private static func isShutWhileLocked(_ protectionClass: ProtectionClass) -> Bool {
        [.complete, .completeUnlessOpen].contains(protectionClass)
    }

    /// Called when bytes were read, and before they leave: they are those of the file that was opened, and of the class that was judged.
    ///
    /// - Throws: `failed`; `locked`.
    private func requireSame() throws {
        guard try file.openedID() == id else {
            throw DownloadError.failed(
                DownloadFailure(
                    .damaged, "\(StoredPlace.shown(path)) is another file than when the upload began: add it again"))
        }
        try judgement.withLock { judgement in
            guard let known = judgement else { return }
            let now = try file.openedClass()
            if now == known.judged { return }
            try known.judge(now)
            judgement?.judged = now
        }
    }

    deinit { try? file.close() }  // nothing was written

    /// Plaintext.
    ///
    /// - Throws: what ``ProtectedFile/read(into:at:)`` throws, also if the file has changed since it was added.
    public func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws -> Int {
        let wanted = Int(min(UInt64(buffer.count), length - min(offset, length)))
        guard wanted > 0 else { return 0 }
        let count = try file.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<wanted]), at: Int64(offset))
        try requireSame()
        return count
    }
}
