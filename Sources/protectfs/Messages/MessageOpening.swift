import DataProtection
import RNCryptorFormat

/// Both ways through a message: nothing of it is given out before all of it was verified.
struct MessageOpening {
    private let source: MessageSource
    private let buffer: UnsafeMutableRawBufferPointer
    let header: RNCryptorHeader

    /// Reads the header.
    ///
    /// - Parameter buffer: ``RNCryptorOpener/longestPiece`` bytes, for ciphertext and plaintext.
    init(_ source: MessageSource, through buffer: UnsafeMutableRawBufferPointer) throws {
        (self.source, self.buffer) = (source, buffer)
        let start = UnsafeMutableRawBufferPointer(rebasing: buffer[..<RNCryptorHeader.maximumLength])
        let count = try source.read(into: start, at: 0)
        header = try Self.header(in: UnsafeRawBufferPointer(rebasing: start[..<count]), of: source.name)
    }

    static func header(in start: UnsafeRawBufferPointer, of name: String) throws(Failure) -> RNCryptorHeader {
        try saying(of: name) { () throws(RNCryptorError) in try RNCryptorHeader(readFrom: start) }
    }

    /// Verifies the message, then gives its plaintext to `body`, piece by piece.
    func open(
        with secret: borrowing RNCryptorSecret, _ body: (UnsafeRawBufferPointer) throws -> Void
    ) throws {
        var opener = try verify(with: secret)
        let progress = Progress("opening", total: source.size)
        while let range = opener.next {
            let piece = UnsafeMutableRawBufferPointer(rebasing: buffer[..<range.count])
            guard try source.read(into: piece, at: range.lowerBound) == piece.count else {
                throw RNCryptorError.changedSinceVerified.failure(source.name)
            }
            let count: Int
            do throws(RNCryptorError) {
                count = try opener.open(UnsafeRawBufferPointer(piece), into: piece)
            } catch {
                throw error.failure(source.name)
            }
            try body(UnsafeRawBufferPointer(rebasing: piece[..<count]))
            progress.show(range.upperBound)
        }
    }

    private func verify(with secret: borrowing RNCryptorSecret) throws -> RNCryptorOpener {
        var verifier: RNCryptorVerifier
        do throws(RNCryptorError) { verifier = try RNCryptorVerifier(header, with: secret) } catch {
            throw error.failure(source.name)
        }
        let progress = Progress("verifying", total: source.size)
        var offset = Int64(header.length)
        while case let count = try source.read(into: buffer, at: offset), count > 0 {
            do throws(RNCryptorError) {
                try verifier.update(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            } catch {
                throw error.failure(source.name)
            }
            offset += Int64(count)
            progress.show(offset)
        }
        do throws(RNCryptorError) { return try verifier.finish() } catch { throw error.failure(source.name) }
    }
}
