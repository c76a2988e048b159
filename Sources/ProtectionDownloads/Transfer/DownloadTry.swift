import DataProtection
import FoundationEssentials

/// One try to get what is missing of a download.
struct DownloadTry: Sendable {
    let record: DownloadRecord
    let request: DownloadRequest
    let partial: PartialBox
    let store: DownloadStore
    let transport: any DownloadTransport
    let terms: TryTerms
    let progress: LiveProgress

    /// Ends in every case; what is there is flushed and noted then.
    func run() async -> EndOfTry {
        store.beginTry(record.id)
        do {
            let end = try await ask(again: false)
            guard case .askForAll = end else { return end }
            // Once: a server that never gives what it announces is one that has failed.
            let second = try await ask(again: true)
            guard case .askForAll = second else { return second }
            return .failed(
                .resourceChanged, DownloadFailure(.refused, "the server does not give the whole file"))
        } catch {
            return EndOfTry(error)
        }
    }

    /// - Parameter again: for everything, as if nothing were there.
    private func ask(again: Bool) async throws -> EndOfTry {
        let tokens = terms.tokens(of: record.id, request)
        var (plan, http) = try await BlockingWork.run {
            try partial.file.prepare()
            let plan = ResumePlan(offset: partial.file.position, resource: again ? nil : partial.file.resource)
            return (plan, try terms.http(for: request, record.id, tokens))
        }
        http.headers += plan.headers
        let receiver = PartialReceiver(request, plan, partial.file, progress)
        var failure: HTTPError?
        do throws(HTTPError) { _ = try await transport.transfer(http, to: receiver) } catch { failure = error }
        if let failure { try await terms.note(failure, tokens) }
        // The bytes that have come are kept, in whichever way the transfer ended.
        let isAll = partial.file.position == receiver.expectedEnd && partial.file.isInOnePiece
        var lost: (any Error)?
        do {
            // What is all in memory goes to its final place at once, if this is the end.
            if failure != nil || !isAll || !partial.file.isInMemory {
                try await BlockingWork.run { try partial.file.sync(isLasting: !isAll) }
            }
        } catch {
            lost = error
        }
        var end = failure.map(receiver.end(after:)) ?? ended(receiver)
        if let lost {
            switch end {
            case .stopped, .failedForGood: break
            // What was only in memory counted as having come.
            default: end = EndOfTry(lost)
            }
        }
        if case .whole = end, !partial.file.isInMemory {
            // One that is in parts may have to wait long for its end; of another one the next change lasts, and this one with it.
            try await BlockingWork.run { try partial.file.noteWhole(isLasting: !partial.file.isInOnePiece) }
        }
        return end
    }

    /// How a try has ended whose transfer has not failed.
    private func ended(_ receiver: PartialReceiver) -> EndOfTry {
        let position = partial.file.position
        guard let expected = receiver.expectedEnd else {
            // Nothing announced an end: that the transfer is over is all there is.
            return .whole
        }
        guard position == expected else { return Self.tooShort(position, of: expected) }
        // A part of something whose length nobody says: the next question finds out whether it was the last one.
        guard let length = receiver.resource?.length else { return Self.tooShort(position, of: nil) }
        return position == length ? .whole : Self.tooShort(position, of: length)
    }

    private static func tooShort(_ position: UInt64, of length: UInt64?) -> EndOfTry {
        let words = length.map { "\(position) bytes of \($0) came" } ?? "only a part came"
        return .failed(.connection(isTransient: true), DownloadFailure(.connection, words))
    }
}

/// A partial that is handed from one thread to the next.
final class PartialBox: @unchecked Sendable {  // used by one try at a time, which waits for each call
    let file: PartialFile
    init(_ file: PartialFile) { self.file = file }
}
