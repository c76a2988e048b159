import DataProtection
import Synchronization

/// Puts what a server sends where it belongs.
final class PartialReceiver: AnswerReceiver, @unchecked Sendable {  // one thread at a time
    private let request: DownloadRequest
    private let plan: ResumePlan
    private let partial: PartialFile
    private let progress: LiveProgress
    /// The offset behind the last byte that this answer has; nil: it does not say.
    private(set) var expectedEnd: UInt64?
    private(set) var resource: ResourceIdentity?
    var end: EndOfTry?

    init(_ request: DownloadRequest, _ plan: ResumePlan, _ partial: PartialFile, _ progress: LiveProgress) {
        (self.request, self.plan, self.partial, self.progress) = (request, plan, partial, progress)
    }

    func begin(_ response: HTTPResponse) throws {
        switch plan.read(response) {
        case .goOn(let last, let resource):
            try check(resource.length, toCome: last - plan.offset + 1)
            if resource != plan.resource { try partial.note(resource) }
            try partial.goOn()
            (self.resource, expectedEnd) = (resource, last + 1)
        case .wholeAnew(let resource):
            try check(resource.length, toCome: resource.length ?? 0)
            try partial.restart(as: resource)
            (self.resource, expectedEnd) = (resource, resource.length)
        case .askForAll: throw enough(.askForAll)
        case .complete:
            resource = plan.resource
            throw enough(.whole)
        case .refused: throw enough(.refused(response))
        case .unusable(let why): throw enough(.failedForGood(DownloadFailure(.unusable, why.words)))
        }
        progress.set(partial.position, of: resource?.length, for: partial.name.id)
    }

    func receive(_ bytes: UnsafeRawBufferPointer) throws {
        let end = partial.position + UInt64(bytes.count)
        if let expectedEnd, end > expectedEnd {
            // Whichever of them is meant to be the file, this is not it.
            let failure = DownloadFailure(.unusable, "more bytes came than the server had announced")
            throw enough(.failed(.resourceChanged, failure))
        }
        if let most = request.maximumLength, end > most { throw enough(.failedForGood(Self.tooLarge(most))) }
        try partial.append(bytes)
        progress.set(partial.position, of: resource?.length, for: partial.name.id)
    }

    /// Whether there is room, and it is not larger than allowed or other than expected.
    private func check(_ length: UInt64?, toCome: UInt64) throws {
        if let length, let most = request.maximumLength, length > most {
            throw enough(.failedForGood(Self.tooLarge(most)))
        }
        for case .length(let expected) in request.checks {
            guard let length, length != expected else { continue }
            let words = "the server has \(length) bytes, and \(expected) were expected"
            throw enough(.failedForGood(DownloadFailure(.checksum, words)))
        }
        if let failure = DiskSpace.failure(for: toCome, in: try request.target.stored().directory) {
            throw enough(.failedForGood(failure))
        }
    }

    private static func tooLarge(_ most: UInt64) -> DownloadFailure {
        DownloadFailure(.unusable, "it is larger than the \(most) bytes that are allowed")
    }
}

extension ResumePlan.Unusable {
    fileprivate var words: String {
        switch self {
        case .encoded(let coding): "the server has sent it encoded (\(coding)), which was not asked for"
        case .part: "the server has sent a part, and everything was asked for"
        case .length(let text): "the server gives its length as \(text)"
        }
    }
}
