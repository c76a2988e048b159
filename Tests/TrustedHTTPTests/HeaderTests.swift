import FoundationEssentials
import Testing
import TrustedHTTP

@Suite("The head of a response")
struct HeaderTests {
    @Test("Names of fields are compared without case, and the first one counts")
    func names() throws {
        let response = HTTPResponse(
            status: 200, headers: [HTTPHeader("ETag", "\"a\""), HTTPHeader("etag", "\"b\"")],
            url: try #require(URL(string: "https://example.org/")), version: "2")
        #expect(response["etag"] == "\"a\"" && response["ETAG"] == "\"a\"" && response["Etags"] == nil)
    }
}
