import FoundationEssentials
import Testing

@testable import TrustedHTTP

@Suite("The head of a response")
struct HeaderTests {
    @Test("Names of fields are compared without case, and the first one counts")
    func names() throws {
        let response = HTTPResponse(
            status: 200, headers: [HTTPHeader("ETag", "\"a\""), HTTPHeader("etag", "\"b\"")],
            url: try #require(URL(string: "https://example.org/")), version: "2")
        #expect(response["etag"] == "\"a\"" && response["ETAG"] == "\"a\"" && response["Etags"] == nil)
    }

    @Test("It ends after so many lines, those that continue a field included")
    func folded() throws {
        var head = ResponseHead()
        let (first, field, more) = (Array("HTTP/1.1 200 OK\r\n".utf8), Array("A: b\r\n".utf8), Array(" c\r\n".utf8))
        _ = try first.withUnsafeBytes { try head.take($0) }
        _ = try field.withUnsafeBytes { try head.take($0) }
        for _ in 1..<ResponseHead.maximumCount { _ = try more.withUnsafeBytes { try head.take($0) } }
        #expect(head.headers.count == 1)
        #expect(throws: HTTPError.self) { try more.withUnsafeBytes { _ = try head.take($0) } }
    }
}
