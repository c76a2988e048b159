import FoundationEssentials
import Glibc

@testable import ProtectionDownloads
@testable import TrustedHTTP

/// What a server answers, as libcurl hands it on: lines. Then what is read out of its fields: challenges, ranges, dates, places.
///
///     1  bit 0: the request was POST; bits 1…2: how much of the resource is there already
///     …  lines of heads
extension FuzzTarget {
    static let responseHeaders = FuzzTarget("response-headers", longest: 4096, run: HeaderTarget.run)
}

private enum HeaderTarget {
    static let url = URL(string: "https://example.org/a?b=c")!

    static func run(_ bytes: [UInt8]) throws {
        var input = Input(bytes)
        let how = input.byte()
        var head = ResponseHead()
        for line in input.remainder().split(separator: 0x0A, omittingEmptySubsequences: false) {
            let line = Array(line) + [0x0A]
            let step: ResponseHead.Step
            do throws(HTTPError) {
                let result: Result<ResponseHead.Step, HTTPError> = line.withUnsafeBytes { line in
                    do throws(HTTPError) { return .success(try head.take(line)) } catch { return .failure(error) }
                }
                step = try result.get()
            } catch {
                guard case .malformedResponse = error else { throw Broken(description: "\(error)") }
                return
            }
            guard step == .complete else { continue }
            try hold((100...999).contains(head.status), "status \(head.status)")
            try read(head.response(to: HTTPRequest(url)), how)
        }
    }

    private static func read(_ response: HTTPResponse, _ how: UInt8) throws {
        _ = (response.isOfType(["text/*", "application/zip"]), response.mayHaveBody(to: "GET"))
        try range(response)
        try resume(response, offset: [0, 1, 100, UInt64.max >> 1][Int(how >> 1 & 3)])
        try dates(response)
        try challenges(response)
        try redirect(response, method: how.has(0) ? "POST" : "GET")
    }

    private static func range(_ response: HTTPResponse) throws {
        guard let range = response["Content-Range"].flatMap(ContentRange.init) else { return }
        let text =
            switch range {
            case .bytes(let range, let length):
                "bytes \(range.lowerBound)-\(range.upperBound)/\(length.map { "\($0)" } ?? "*")"
            case .unsatisfied(let length): "bytes */\(length)"
            }
        try hold(ContentRange(text) == range, "a range reads as another one: \(text)")
    }

    private static func resume(_ response: HTTPResponse, offset: UInt64) throws {
        let own = ResourceIdentity(response, length: 200)
        for resource in [own, ResourceIdentity(entityTag: "\"a\"", length: nil)] {
            let plan = ResumePlan(offset: offset, resource: resource)
            try hold(plan.headers.isEmpty == (plan.offset == 0), "what is asked for")
            switch plan.read(response) {
            case .goOn(let last, let known):
                try hold(response.status == 206 && plan.offset > 0 && last >= plan.offset, "it goes on to \(last)")
                try hold(known.validator == resource.validator, "two versions in one file")
            case .complete: try hold(response.status == 416 && plan.offset > 0, "complete")
            case .wholeAnew: try hold([200, 203].contains(response.status), "the whole")
            case .refused(let status): try hold(status == response.status, "another status")
            case .unusable(let reason): _ = "\(reason)"
            case .askForAll: try hold(plan.offset > 0, "all of what was asked for is asked for again")
            }
        }
    }

    private static func dates(_ response: HTTPResponse) throws {
        let now: Int64 = 1_800_000_000
        for text in response.headers.map(\.value) {
            // Of years that are written with four digits.
            guard let seconds = HTTPDate.seconds(text), (0..<253_402_300_800).contains(seconds) else { continue }
            try hold(HTTPDate.seconds(written(seconds)) == seconds, "a date reads as another one: \(text)")
        }
        let failure = RetryPolicy.Failure.status(response.status, retryAfter: response["Retry-After"])
        for began in [now * 1000, .min, .max] {
            let decision = RetryPolicy().decide(failure, failures: 9, began: began, now: now * 1000, jitter: 0.5)
            if case .retry(let at) = decision {
                try hold(at >= now * 1000 && at <= (now + 366 * 86_400) * 1000, "again at \(at)")
            }
        }
    }

    /// RFC 9110 §5.6.7, IMF-fixdate.
    private static func written(_ seconds: Int64) -> String {
        var (time, parts) = (time_t(seconds), tm())
        gmtime_r(&time, &parts)
        func digits(_ number: CInt, _ count: Int) -> String {
            String("0000\(number)".suffix(count))
        }
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        let date = "\(digits(parts.tm_mday, 2)) \(months[Int(parts.tm_mon)]) \(digits(parts.tm_year + 1900, 4))"
        let day = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"][Int(parts.tm_wday)]
        return "\(day), \(date) \(digits(parts.tm_hour, 2)):\(digits(parts.tm_min, 2)):\(digits(parts.tm_sec, 2)) GMT"
    }

    private static func challenges(_ response: HTTPResponse) throws {
        for name in ["WWW-Authenticate", "Proxy-Authenticate"] {
            let challenges = Challenge.all(in: response, named: name)
            for challenge in challenges {
                try hold(RequestCheck.isToken(challenge.scheme), "the scheme \(challenge.scheme)")
                for (name, value) in challenge.parameters {
                    try hold(RequestCheck.isToken(name) && name == name.lowercased(), "the parameter \(name)")
                    try hold(value.utf8.count <= 3 * 4096, "a value of \(value.utf8.count) bytes")
                }
                try hold(challenge.method != .digest || challenge.isUnmistakable, "Digest that libcurl reads otherwise")
            }
            let place = ProtectionSpace(host: "example.org", port: 443)
            for listed in [[], [place], [ProtectionSpace(host: "example.org", port: 443, realm: "a")]] {
                switch ChallengeDecision.of(challenges, at: place, listed: listed, hasTokens: true) {
                case .candidates(let candidates):
                    try hold((1...8).contains(candidates.count), "\(candidates.count) candidates")
                    for candidate in candidates {
                        try hold(listed.contains { $0.matches(candidate.space) }, "a space that is not listed")
                    }
                case .unsupported(let names): try hold((1...8).contains(names.count), "\(names.count) names")
                case .notListed(let met, _): try hold(!listed.contains { $0.matches(met) }, "it is listed")
                case .unchallenged: try hold(challenges.isEmpty, "a challenge was lost")
                }
            }
        }
    }

    private static func redirect(_ response: HTTPResponse, method: String) throws {
        guard Redirect.isOne(response) else { return }
        var request = HTTPRequest(url)
        request.method = method
        request.headers = [
            HTTPHeader("Authorization", "a"), HTTPHeader("Content-Type", "b"), HTTPHeader("Accept", "c"),
        ]
        let next: HTTPRequest
        do throws(HTTPError) { next = try Redirect.next(request, after: response, count: 1) } catch { return }
        guard let (from, to) = Origin(url).flatMap({ from in Origin(next.url).map { (from, $0) } }) else {
            throw Broken(description: "no origin: \(next.url)")
        }
        try hold(to.isSecure, "in clear to \(to)")
        let isSent = next.headers.contains { $0.isNamed("Authorization") }
        try hold(isSent == (from == to), "credentials of \(from) at \(to)")
        try hold(next.headers.contains { $0.isNamed("Accept") }, "a field was lost")
        _ = HostName(to.host)
    }
}
