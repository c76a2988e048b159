import Glibc
import ProtectionFormat
import ProtectionKeys
import SystemPackage
import TestEffort
import Testing

@testable import DataProtection

/// A stored file that is altered and put right again, over and over, and what reading it says each time.
final class TamperBench {
    /// What reading an altered file came to.
    enum Answer: Hashable {
        case plaintext([UInt8])
        /// The name of the error's case, with the layer that refused.
        case refused(String)
    }

    let bed: FileTestBed
    let path: FilePath
    let stored: [UInt8]
    private let raw: FileDescriptor
    /// What verifying it came to the last time; nil where that was refused without a look at all of it.
    private(set) var verdict: FileVerification.Verdict?
    /// Which answers there were, with their number.
    private(set) var answers: [String: Int] = [:]

    /// `stored` under a name of its own.
    init(_ bed: FileTestBed, _ name: String, _ stored: [UInt8]) throws {
        self.bed = bed
        self.stored = stored
        path = try bed.makePlain(name, stored)
        raw = try FileDescriptor.open(path, .readWrite, options: .closeOnExec)
    }

    deinit { try? raw.close() }

    /// Puts `bytes` at `offset`, asks, and puts everything right.
    func answer(_ bytes: [UInt8], at offset: Int) throws -> Answer {
        _ = try raw.writeAll(toAbsoluteOffset: Int64(offset), bytes)
        defer { restore(offset, bytes.count) }
        return ask()
    }

    /// The same for a whole file, of any length.
    func answer(_ whole: [UInt8]) throws -> Answer {
        _ = try raw.writeAll(toAbsoluteOffset: 0, whole)
        try raw.resize(to: Int64(whole.count))
        defer { restore(0, max(whole.count, stored.count)) }
        return ask()
    }

    /// Cut to `length` bytes.
    func answer(cutTo length: Int) throws -> Answer {
        try raw.resize(to: Int64(length))
        defer { restore(length, stored.count - length) }
        return ask()
    }

    private func restore(_ offset: Int, _ count: Int) {
        let end = min(offset + count, stored.count)
        if offset < end { _ = try! raw.writeAll(toAbsoluteOffset: Int64(offset), stored[offset..<end]) }
        try! raw.resize(to: Int64(stored.count))
    }

    /// Reads and verifies all of the file; and does, for the sake of a crash, what else can be done to it without changing it.
    private func ask() -> Answer {
        let answer: Answer
        do {
            _ = try? ProtectedFileInfo(of: path)
            answer = .plaintext(try bed.read(path))
            answers["plaintext", default: 0] += 1
        } catch let error as DataProtectionError {
            let name: String
            if case .damaged(_, let layer, _, _) = error {
                name = "damaged: \(layer.rawValue)"
            } else {
                name = error.caseName
            }
            answer = .refused(name)
            answers[name, default: 0] += 1
        } catch {
            answer = .refused("\(error)")
        }
        verdict = try? bed.keybag.verify(path)?.verdict
        // Verifying and reading say the same: plaintext unless it is damaged.
        if case .refused = answer {
            #expect(verdict == nil || verdict == .damaged, "reading said \(answer)")
        } else {
            #expect(verdict != nil, "reading said plaintext")
        }
        return answer
    }

    /// The answers in one line.
    var summary: String { answers.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }.joined(separator: ", ") }

    /// Which bytes to alter: all of the records at the beginning of a head, and a sample of the rest; all at the highest effort.
    func positions(_ range: Range<Int>? = nil, step: Int, heads: Int = 900) -> [Int] {
        (range ?? 0..<stored.count).filter { place in
            let isInRecords = place < 8192 && place % Head.length < heads
            // In a head each field is a case of its own, and which fields a sample meets is to stay the same.
            let begin = place < 8192 ? 0 : Int(Effort.seed)
            return Effort.level == 100 || isInRecords || (place + begin) % step == 0
        }
    }

    /// The byte at `place` altered in one bit that depends on the place.
    func flipped(_ place: Int) -> [UInt8] { [stored[place] ^ 1 << UInt8(place % 8)] }

    /// The head that `place` is in, altered there, with its keyless check made right, as anybody can.
    func headFlipped(_ place: Int) throws -> (bytes: [UInt8], offset: Int) {
        let start = place / Head.length * Head.length
        var head = Array(stored[start..<start + Head.length - 32])
        head[place - start] ^= 1 << UInt8(place % 8)
        return (head + (try Digest.sha256(head)), start)
    }
}

extension FileDescriptor {
    /// ftruncate(2).
    func resize(to length: Int64) throws {
        guard ftruncate(rawValue, off_t(length)) == 0 else { throw Errno(rawValue: errno) }
    }
}
