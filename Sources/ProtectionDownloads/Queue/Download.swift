public import DataProtection
import FoundationEssentials

/// A download in the list, as it was when it was looked at, and a way to follow it.
///
///     for try await event in download.events { show(event) }
///     let file = try await download.value
public struct Download: Sendable, Identifiable {
    /// What the command and ``DownloadQueue`` call it.
    public let id: DownloadID
    /// Where it was in its life.
    public let state: DownloadState
    /// What it did, or waited for; a word that counts only while something runs the list.
    public let activity: DownloadActivity
    /// What was asked for; nil before the first unlock after a boot: it is sealed.
    public let request: DownloadRequest?
    /// Bytes that had come.
    public let received: UInt64
    /// In bytes, if a server has said it.
    public let length: UInt64?
    /// Tries in all.
    public let attempts: Int
    /// When it was added, and when it is tried again (if it waits for that): seconds since 1970.
    public let added: Int64
    /// When it is tried again, in seconds since 1970; nil: no time is set.
    public let nextTry: Int64?
    /// Why it has failed, or the last try has.
    public let failure: DownloadFailure?
    /// The finished file.
    public let file: DownloadedFile?

    let queue: DownloadQueue

    init(_ record: DownloadRecord, _ queue: DownloadQueue, live: (received: UInt64, length: UInt64?)?) {
        (id, state, activity, request) = (record.id, record.state, record.activity, record.request)
        received = live?.received ?? record.received
        length = live?.length ?? record.length
        (attempts, added, failure) = (record.attempts, record.added / 1000, record.failure)
        nextTry = record.activity == .waitingToRetry ? record.notBefore / 1000 : nil
        self.queue = queue
        if record.state == .finished, let request = record.request, let result = record.result {
            file = DownloadedFile(path: request.target, length: result.length, isTamperProof: result.isTamperProof)
        } else {
            file = nil
        }
    }

    /// What happens to it from now on, its state of now first. Ends when it is over. It does not matter which process runs it.
    public var events: AsyncThrowingStream<DownloadEvent, any Error> { queue.events(of: id) }

    /// The finished file, as soon as it has its name.
    ///
    /// - Throws: ``DownloadError/failed(_:)``, ``DownloadError/cancelled(_:)``; `CancellationError`.
    public var value: DownloadedFile {
        get async throws {
            for try await event in events {
                switch event {
                case .finished(let file): return file
                case .failed(let failure): throw DownloadError.failed(failure)
                case .cancelled: throw DownloadError.cancelled(id)
                case .progress, .state: break
                }
            }
            throw CancellationError()
        }
    }
}

/// A download that has its name.
public struct DownloadedFile: Hashable, Sendable {
    /// Where it is.
    public let path: FilePath
    /// In bytes.
    public let length: UInt64
    /// Whether one of its checks shows tampering, not only accidents.
    public let isTamperProof: Bool
}

/// What happens to a download.
public enum DownloadEvent: Hashable, Sendable {
    /// Bytes have come; how many there will be, if that is known.
    case progress(received: UInt64, of: UInt64?)
    /// It is somewhere else in its life, or does something else.
    case state(DownloadState, DownloadActivity)
    /// It has its name.
    case finished(DownloadedFile)
    /// It will not go on by itself.
    case failed(DownloadFailure)
    /// Somebody has cancelled it, or taken it out of the list.
    case cancelled
}
