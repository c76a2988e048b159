import StormScript
import SystemPackage

@testable import DataProtection

/// Who uses a file in a test: this process or another one.
protocol FileUser {
    func open(_ path: FilePath, writing: Bool) throws
    func perform(_ step: FileStep) throws
    func sample(at offset: UInt64, count: Int) throws -> Sample
    func size() throws -> UInt64
    func close() throws
}

/// What was read, small enough to be sent and compared.
struct Sample: Hashable {
    let count: Int
    let sum: UInt64

    init(_ bytes: [UInt8]) { (count, sum) = (bytes.count, checksum(bytes)) }

    /// `COUNT SUM`, as the worker says it.
    init?(_ text: String) {
        let numbers = text.split(separator: " ").compactMap { UInt64($0) }
        guard numbers.count == 2 else { return nil }
        (count, sum) = (Int(numbers[0]), numbers[1])
    }
}

/// A handle in this process.
final class LocalUser: FileUser {
    private let keybag: Keybag
    private var file: ProtectedFile!

    init(_ keybag: Keybag) { self.keybag = keybag }

    func open(_ path: FilePath, writing: Bool) throws {
        file = try ProtectedFile.open(path, writing ? .readWrite : .readOnly, keybag: keybag)
    }

    func perform(_ step: FileStep) throws { try file.perform(step) }
    func sample(at offset: UInt64, count: Int) throws -> Sample { Sample(try file.bytes(at: offset, count: count)) }
    func size() throws -> UInt64 { UInt64(try file.size()) }
    func close() throws { try file.close() }
}

/// A handle in a worker process.
final class RemoteUser: FileUser {
    private let worker: StormProcess

    struct Refused: Error { let question, answer: String }

    init(_ keybag: Keybag) throws { worker = try StormProcess(keybag.directory, ["serve"]) }

    private func ask(_ question: String) throws -> String {
        let answer = try worker.ask(question)
        guard answer.hasPrefix("ok ") else { throw Refused(question: question, answer: answer) }
        return String(answer.dropFirst(3))
    }

    func open(_ path: FilePath, writing: Bool) throws { _ = try ask("open \(writing ? "w" : "r") \(path)") }
    func perform(_ step: FileStep) throws { _ = try ask("\(step)") }
    func sample(at offset: UInt64, count: Int) throws -> Sample {
        let answer = try ask("read \(offset) \(count)")
        guard let sample = Sample(answer) else { throw Refused(question: "read", answer: answer) }
        return sample
    }
    func size() throws -> UInt64 {
        let answer = try ask("size")
        guard let size = UInt64(answer) else { throw Refused(question: "size", answer: answer) }
        return size
    }
    func close() throws { _ = try ask("close") }
}
