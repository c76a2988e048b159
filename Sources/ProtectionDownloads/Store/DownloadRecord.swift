import DataProtection
import FoundationEssentials
import GRDB

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
    /// Whether every byte is there.
    let isWhole: Bool
    /// Nil before the first unlock: sealed.
    let request: DownloadRequest?
    let resource: ResourceIdentity?
    let failure: DownloadFailure?
    /// While it is published, and afterwards.
    let result: PublishedFile?

    /// What is selected, in this order: a long list is read often, and to look for each column by its name takes most of the time.
    static let columns = """
        id, state, activity, priority, position, added, began, notBefore, failures, attempts, received, furthest, length, \
        isWhole, request, resource, failure, result
        """

    /// - Parameter row: of ``columns``.
    /// - Throws: `storeDamaged`.
    init(_ row: Row, _ store: DownloadStore, isOpen: Bool) throws(DownloadError) {
        guard let id = DownloadID(bytes: Array(row[0] as Data)), let state = DownloadState(rawValue: row[1])
        else { throw .storeDamaged(store.path, reason: "an id or a state is none") }
        self.id = id
        self.state = state
        activity = DownloadActivity(rawValue: row[2]) ?? .waiting
        (priority, position, added, began) = (row[3], row[4], row[5], row[6])
        (notBefore, failures, attempts) = (row[7], row[8], row[9])
        received = UInt64(clamping: row[10] as Int64)
        furthest = UInt64(clamping: row[11] as Int64)
        length = (row[12] as Int64?).map { UInt64(clamping: $0) }
        isWhole = row[13]
        guard isOpen else {
            (request, resource, failure, result) = (nil, nil, nil, nil)
            return
        }
        request = try store.request(row[14], of: id)
        resource = try store.decode(row[15], .resource, id)
        failure = try store.decode(row[16], .failure, id)
        result = try store.decode(row[17], .result, id)
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
    /// Opens and reads a request. It never changes: the same sealed bytes are not opened twice.
    func request(_ sealed: Data, of id: DownloadID) throws(DownloadError) -> DownloadRequest {
        if let known = requests.withLock({ $0[id] }), known.sealed == sealed { return known.request }
        let stored: StoredRequest? = try decode(sealed, .request, id)
        guard let request = stored?.request else { throw .storeDamaged(path, reason: "a request makes no sense") }
        requests.withLock { requests in
            if requests.count >= Self.requestsKept { requests.removeAll() }
            requests[id] = (sealed, request)
        }
        return request
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
        let json: Data
        do { json = try JSONEncoder().encode(value) } catch {
            throw .invalidRequest(reason: "it cannot be written down: \(error)")
        }
        return Data(try seal(Array(json), column, row: id.bytes))
    }
}
