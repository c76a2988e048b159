public import DataProtection
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
    /// In bytes, when it was opened. Bytes that are appended later are not sent.
    public let length: UInt64

    /// - Throws: `locked`, `notProtected`, `damaged`, `foreignKeybag`, `system`.
    public init(_ path: FilePath, keybag: Keybag) throws(DataProtectionError) {
        file = try ProtectedFile.open(path, keybag: keybag)
        length = UInt64(try file.size())
    }

    /// Refuses a request that somebody locked may have written: with the key of the list, which is there since the first unlock, anybody with this
    /// user's id can add one. A file that opens while locked hides nothing from them.
    ///
    /// - Throws: `failed`; `locked`.
    func requireAdder(of request: DownloadRequest, _ keybag: Keybag) throws {
        guard [.complete, .completeUnlessOpen].contains(try file.openedClass()) else { return }
        if let adder = request.adder,
            try keybag.isUpload(adder.text, markedBy: adder.mark, of: request.target)
        {
            return
        }
        throw DownloadError.failed(
            DownloadFailure(
                .damaged, "it was added while \(request.target) was locked, or by an earlier version: add it again"))
    }

    deinit { try? file.close() }  // nothing was written

    public func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws -> Int {
        let wanted = Int(min(UInt64(buffer.count), length - min(offset, length)))
        guard wanted > 0 else { return 0 }
        return try file.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<wanted]), at: Int64(offset))
    }
}
