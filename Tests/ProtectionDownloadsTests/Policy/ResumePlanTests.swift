import Foundation
import Testing
import TrustedHTTP

@testable import ProtectionDownloads

@Suite struct ResumePlanTests {
    private let tagged = ResourceIdentity(entityTag: "\"a\"", length: 100)

    private func response(_ status: Int, _ headers: [String: String]) -> HTTPResponse {
        HTTPResponse(
            status: status, headers: headers.map { HTTPHeader($0, $1) }, url: URL(string: "https://a.test/")!,
            version: "1.1")
    }

    // MARK: what is asked for

    @Test func asksForTheRestOfWhatItKnows() {
        func headers(_ offset: UInt64, _ resource: ResourceIdentity?) -> [String] {
            ResumePlan(offset: offset, resource: resource).headers.map { "\($0.name): \($0.value)" }
        }
        #expect(headers(5, tagged) == ["Range: bytes=5-", "If-Range: \"a\""])
        let dated = ResourceIdentity(lastModified: "Sun, 06 Nov 1994 08:49:37 GMT")
        #expect(headers(5, dated) == ["Range: bytes=5-", "If-Range: Sun, 06 Nov 1994 08:49:37 GMT"])
        #expect(headers(0, tagged) == [])
        #expect(headers(5, nil) == [])
        // Without anything that tells versions apart what is there is of no use.
        #expect(ResumePlan(offset: 5, resource: ResourceIdentity(length: 100)).offset == 0)
    }

    @Test func believesOnlyWhatIsStrong() {
        func identity(_ headers: [String: String]) -> ResourceIdentity {
            ResourceIdentity(response(200, headers), length: 1)
        }
        #expect(identity(["ETag": "\"x\""]).validator == "\"x\"")
        for weak in ["W/\"x\"", "x", "\"", "\"a b\"", "\"a\"\"", ""] {
            #expect(identity(["ETag": weak]).validator == nil)
        }
        let modified = "Sun, 06 Nov 1994 08:49:37 GMT"
        #expect(identity(["Last-Modified": modified, "Date": "Sun, 06 Nov 1994 08:49:38 GMT"]).validator == modified)
        // Changed in the very second in which it was answered, it could have changed once more.
        for date in [modified, "Sun, 06 Nov 1994 08:49:36 GMT", "yesterday"] {
            #expect(identity(["Last-Modified": modified, "Date": date]).validator == nil)
        }
        #expect(identity(["Last-Modified": modified]).validator == nil)
    }

    /// The server gets its own text back, in whichever form. A text that stands for more than one second could be that of two versions.
    @Test func believesOnlyDatesOfOneSecond() {
        func validator(_ modified: String, _ date: String) -> String? {
            ResourceIdentity(response(200, ["Last-Modified": modified, "Date": date]), length: 1).validator
        }
        let (early, late) = ("Sunday, 06-Nov-94 08:49:37 GMT", "Mon, 07 Nov 1994 08:49:37 GMT")
        #expect(validator(early, late) == early)
        for coarse in [
            "Sun, 06 Nov 1994", "06 Nov 1994 GMT", "Sun, 06 Nov 1994 08:49 GMT", "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 +0100", "Sun, 06 Nov 1994 08:49:37 CET", "19941106", "a:b:c GMT",
        ] {
            #expect(validator(coarse, late) == nil, "\(coarse)")
        }
        // Two hours ahead of GMT, and of the very second.
        #expect(validator("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 10:49:37") == nil)
    }

    // MARK: what is answered

    @Test func theRestComes() {
        let plan = ResumePlan(offset: 5, resource: tagged)
        let good = ["Content-Range": "bytes 5-99/100", "Content-Length": "95", "ETag": "\"a\""]
        #expect(plan.read(response(206, good)) == .goOn(last: 99, tagged))
        for (range, last) in [("5-49/100", 49), ("5-99/*", 99)] as [(String, UInt64)] {
            let headers = ["Content-Range": "bytes \(range)", "ETag": "\"a\""]
            #expect(plan.read(response(206, headers)) == .goOn(last: last, tagged))
        }
        let unknown = ResumePlan(offset: 5, resource: ResourceIdentity(entityTag: "\"a\""))
        #expect(unknown.read(response(206, good)) == .goOn(last: 99, tagged))
    }

    /// What was asked for by its date comes with that date or none.
    @Test func theRestOfWhatHasADate() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT"
        let dated = ResourceIdentity(lastModified: date, length: 100)
        let plan = ResumePlan(offset: 5, resource: dated)
        let range = ["Content-Range": "bytes 5-99/100"]
        #expect(plan.read(response(206, range)) == .goOn(last: 99, dated))
        #expect(plan.read(response(206, range.merging(["Last-Modified": date]) { $1 })) == .goOn(last: 99, dated))
        // Of the second in which it is answered: no validator, but another date.
        let now = ["Last-Modified": "Sun, 06 Nov 1994 09:00:00 GMT", "Date": "Sun, 06 Nov 1994 09:00:00 GMT"]
        #expect(plan.read(response(206, range.merging(now) { $1 })) == .askForAll)
    }

    @Test(arguments: [
        [:], ["Content-Range": "bytes 4-99/100"], ["Content-Range": "bytes 6-99/100"],
        ["Content-Range": "bytes 0-99/100"], ["Content-Range": "bytes 5-99/101"], ["Content-Range": "bytes 5-99/99"],
        ["Content-Range": "bytes 5-4/100"], ["Content-Range": "bytes */100"], ["Content-Range": "pages 5-99/100"],
        ["Content-Range": "bytes 5-99/100", "ETag": "\"b\""], ["Content-Range": "bytes 5-99/100", "ETag": "W/\"a\""],
        // A server that does not know If-Range could send this of any version.
        ["Content-Range": "bytes 5-99/100"],
        ["Content-Range": "bytes 5-99/100", "Content-Length": "96"],
        ["Content-Range": "bytes 5-99999999999999999999/100"], ["Content-Range": "bytes 5-99"],
        ["Content-Type": "multipart/byteranges; boundary=x"],
    ]) func anotherPartIsNeverJoined(_ headers: [String: String]) {
        #expect(ResumePlan(offset: 5, resource: tagged).read(response(206, headers)) == .askForAll)
    }

    @Test func everythingComesAgain() {
        let identity = ResourceIdentity(entityTag: "\"b\"", length: 7)
        let headers = ["Content-Length": "7", "ETag": "\"b\""]
        for offset in [0, 5] as [UInt64] {
            #expect(ResumePlan(offset: offset, resource: tagged).read(response(200, headers)) == .wholeAnew(identity))
        }
        #expect(ResumePlan(offset: 0, resource: nil).read(response(203, [:])) == .wholeAnew(ResourceIdentity()))
    }

    @Test func nothingIsLeft() {
        let plan = ResumePlan(offset: 100, resource: tagged)
        #expect(plan.read(response(416, ["Content-Range": "bytes */100"])) == .complete)
        for range in ["bytes */99", "bytes */101", "bytes 0-1/100", "*"] {
            #expect(plan.read(response(416, ["Content-Range": range])) == .askForAll)
        }
        #expect(plan.read(response(416, [:])) == .askForAll)
        #expect(plan.read(response(412, [:])) == .askForAll)
        #expect(ResumePlan(offset: 0, resource: nil).read(response(416, [:])) == .refused(status: 416))
        #expect(ResumePlan(offset: 0, resource: nil).read(response(412, [:])) == .refused(status: 412))
    }

    @Test func whatCannotBeUsed() {
        let plan = ResumePlan(offset: 0, resource: nil)
        #expect(plan.read(response(200, ["Content-Encoding": "gzip"])) == .unusable(.encoded("gzip")))
        #expect(plan.read(response(200, ["Content-Length": "1, 1"])) == .unusable(.length("1, 1")))
        #expect(plan.read(response(200, ["Content-Length": "-1"])) == .unusable(.length("-1")))
        #expect(plan.read(response(206, ["Content-Range": "bytes 0-9/10"])) == .unusable(.part))
        #expect(plan.read(response(200, ["Content-Encoding": "identity"])) == .wholeAnew(ResourceIdentity()))
        for status in [201, 204, 301, 304, 400, 401, 403, 404, 500, 503, 0, 999] {
            #expect(plan.read(response(status, [:])) == .refused(status: status))
        }
    }
}
