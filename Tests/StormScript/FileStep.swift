/// One step of work on an open file. Its text is one line: it is sent to another process, and printed when a test fails.
public enum FileStep: Hashable, Sendable, CustomStringConvertible {
    /// `count` bytes of ``pattern(_:count:)`` at `offset`.
    case write(offset: UInt64, count: Int, seed: UInt64)
    /// The same at the end of the file.
    case append(count: Int, seed: UInt64)
    case truncate(UInt64)
    case sync

    public var description: String {
        switch self {
        case .write(let offset, let count, let seed): "write \(offset) \(count) \(seed)"
        case .append(let count, let seed): "append \(count) \(seed)"
        case .truncate(let size): "truncate \(size)"
        case .sync: "sync"
        }
    }

    /// Reads ``description``.
    public init?(_ text: some StringProtocol) {
        let words = text.split(separator: " ")
        let numbers = words.dropFirst().compactMap { UInt64($0) }
        guard let verb = words.first, numbers.count == words.count - 1 else { return nil }
        switch (verb, numbers.count) {
        case ("write", 3): self = .write(offset: numbers[0], count: Int(numbers[1]), seed: numbers[2])
        case ("append", 2): self = .append(count: Int(numbers[0]), seed: numbers[1])
        case ("truncate", 1): self = .truncate(numbers[0])
        case ("sync", 0): self = .sync
        default: return nil
        }
    }
}
