import DataProtection
import FoundationEssentials
import GRDB
import SharedDatabase

/// A row of the list.
struct DownloadRecord: Sendable {
    let id: DownloadID
    var state: DownloadState
    var activity: DownloadActivity
    var priority: Int
    let position: Int64
    /// Milliseconds since 1970: when it was added; when it was added or last resumed by hand; when it may be tried again.
    let added, began, notBefore: Int64
    /// Failures in a row without a new byte, and tries in all.
    let failures, attempts: Int
    /// Bytes that are flushed, never more. The most that ever were.
    let received, furthest: UInt64
    /// In bytes, where a server has said it.
    let length: UInt64?
    /// Whether there may be files with parts of it.
    let hasParts: Bool
    /// Nil before the first unlock: sealed.
    let request: DownloadRequest?
    /// What has come; nil: nothing.
    let partial: PartialRecord?
    let failure: DownloadFailure?
    /// While it is published, and afterwards.
    let result: PublishedFile?
    /// Whether somebody has altered the row: then it counts as failed, and nothing is done with it any more.
    let isDamaged: Bool

    /// What is selected, in this order: a long list is read often, and to look for each column by its name takes most of the time.
    static let columns = """
        id, state, activity, priority, position, added, began, notBefore, failures, attempts, received, furthest, length, \
        request, resource, failure, result
        """

    /// - Parameter row: of ``columns``.
    /// - Throws: what is wrong with the key. What is wrong with the row is in ``failure``, so that the others go on.
    init(_ row: Row, _ store: DownloadStore, isOpen: Bool) throws(DownloadError) {
        let values = StoredRow(row)
        id = DownloadID(stored: values.bytes(0))
        let (state, activity) = (
            DownloadState(rawValue: Int(values.number(1))), DownloadActivity(rawValue: Int(values.number(2)))
        )
        (priority, position) = (Int(values.number(3, in: .min ... .max)), values.number(4))
        (added, began, notBefore) = (values.number(5), values.number(6), values.number(7))
        (failures, attempts) = (Int(values.number(8)), Int(values.number(9)))
        (received, furthest) = (UInt64(values.number(10)), UInt64(values.number(11)))
        length = values.isNull(12) ? nil : UInt64(values.number(12, in: 0 ... .max))
        hasParts = !values.isNull(14)
        var (damage, sealed) = (values.isDamaged || state == nil || activity == nil, Sealed())
        if isOpen {
            do throws(DownloadError) { try sealed.open(values, id, store) } catch .storeDamaged { damage = true }
            // `state` is not sealed. A row that is publishing or finished must have a sealed result.
            if state == .publishing || state == .finished, sealed.result == nil { damage = true }
        }
        self.state = damage ? .failed : state ?? .failed
        self.activity = activity ?? .waiting
        isDamaged = damage
        (request, partial, result) = (sealed.request, sealed.partial, damage ? nil : sealed.result)
        failure =
            damage ? DownloadFailure(.damaged, "what the list says of it was altered or damaged") : sealed.failure
    }

    /// What is sealed of a row, as far as it can be opened.
    private struct Sealed {
        var request: DownloadRequest?
        var partial: PartialRecord?
        var failure: DownloadFailure?
        var result: PublishedFile?

        mutating func open(
            _ values: StoredRow, _ id: DownloadID, _ store: DownloadStore
        ) throws(DownloadError) {
            request = try store.request(values.data(13) ?? Data(), of: id)
            partial = try store.decode(values.data(14), .resource, id)
            failure = try store.decode(values.data(15), .failure, id)
            result = try store.decode(values.data(16), .result, id)
            if values.isDamaged { throw .storeDamaged(store.path, reason: "a value has another type") }
        }
    }
}

extension DownloadRecord {
    /// Whether every byte is there.
    var isWhole: Bool { partial?.isWhole ?? false }

    /// Whether the clock was set back since something was noted: it was added in the future, or waits longer than anything does.
    func isOfLaterClock(than now: Int64) -> Bool {
        began > now || request.map { Double(notBefore) - Double(now) > $0.retry.longestWait } ?? false
    }
}

/// A download that has got its name, or is about to.
struct PublishedFile: Hashable, Sendable, Codable {
    /// Of the protected file, 16 bytes: known under whatever name.
    let fileID: [UInt8]
    /// The name that it has before.
    let temporary: [UInt8]
    /// In bytes.
    let length: UInt64
    /// Whether any of its checks shows more than accidents.
    let isTamperProof: Bool
}

extension DownloadStore {
    /// Opens and reads a request. The result is kept with the sealed bytes, so that the same bytes are not opened twice.
    func request(_ sealed: Data, of id: DownloadID) throws(DownloadError) -> DownloadRequest {
        if let known = requests.withLock({ $0[id] }), known.sealed == sealed { return known.request }
        let stored: StoredRequest? = try decode(sealed, .request, id)
        guard let request = stored.flatMap({ acted(on: $0, of: id) }) else {
            throw .storeDamaged(path, reason: "a request makes no sense")
        }
        requests.withLock { requests in
            if requests.count >= Self.requestsKept { requests.removeAll() }
            requests[id] = (sealed, request)
        }
        return request
    }

    /// What is to be done: of an upload that is marked, what the mark is about.
    private func acted(on stored: StoredRequest, of id: DownloadID) -> DownloadRequest? {
        guard let marked = stored.marked else { return stored.request }
        let inner = try? JSONDecoder().decode(StoredRequest.self, from: Data(marked.request.utf8))
        guard var request = inner?.request, let tag = Hexadecimal.bytes(marked.tag) else { return nil }
        let mark = UnlockedMark(generation: marked.generation, tag: tag)
        request.adder = DownloadRequest.Adder(text: id.bytes + Array(marked.request.utf8), mark: mark)
        return request
    }

    /// Writes a request. An unlocked process marks an upload, so that a program that cannot open the file cannot choose where it goes.
    ///
    /// - Throws: what is wrong with the keybag.
    func encode(_ request: DownloadRequest, _ id: DownloadID) throws(DownloadError) -> Data {
        let stored = StoredRequest(request)
        guard request.upload != nil else { return try encode(stored, .request, id) }
        let text = String(decoding: try json(stored), as: UTF8.self)
        let mark = try protected { () throws(DataProtectionError) in
            try UnlockedMark(of: id.bytes + Array(text.utf8), keybag)
        }
        let marked = mark.map { StoredMark(request: text, generation: $0.generation, tag: Hexadecimal.text($0.tag)) }
        return try encode(StoredRequest(request, marked), .request, id)
    }

    /// Opens and reads a value; nil if there is none.
    func decode<Value: Decodable>(
        _ sealed: Data?, _ column: SealedColumn, _ id: DownloadID
    ) throws(DownloadError) -> Value? {
        guard let sealed else { return nil }
        let json = try open(Array(sealed), column, row: id.bytes)
        guard let value = try? JSONDecoder().decode(Value.self, from: Data(json)) else {
            throw .storeDamaged(path, reason: "a value of \(column) makes no sense")
        }
        return value
    }

    /// Writes and seals a value.
    func encode(_ value: some Encodable, _ column: SealedColumn, _ id: DownloadID) throws(DownloadError) -> Data {
        Data(try seal(Array(try json(value)), column, row: id.bytes))
    }

    private func json(_ value: some Encodable) throws(DownloadError) -> Data {
        do { return try JSONEncoder().encode(value) } catch {
            throw .invalidRequest(reason: "it cannot be written down: \(error)")
        }
    }
}
