import ProtectedFiles

/// What an attempt to join was about to write.
struct Begun {
    let log: FileReference
    let offset, from, count: UInt64
    let seal: [UInt8]

    init?(_ record: QueueRecord) {
        guard case .begun(let log, let offset, let from, let count, let seal) = record else { return nil }
        (self.log, self.offset, self.from, self.count, self.seal) = (log, offset, from, count, seal)
    }
}

extension QueueNote {
    /// The last one, if there was one.
    var begun: Begun? { records.lazy.reversed().compactMap(Begun.init).first }
}
