import Testing
import TrustedHTTP

@Suite("Protection spaces, as people write them")
struct WrittenServerTests {
    @Test(
        "Servers",
        arguments: [
            ("h.test", ProtectionSpace(host: "h.test", port: 443)), ("H.test:8443", .init(host: "h.test", port: 8443)),
            ("https://h.test/", .init(host: "h.test", port: 443)), ("[::1]", .init(host: "::1", port: 443)),
            ("https://[::1]:1", .init(host: "::1", port: 1)), ("proxy://p:3128", .init(.proxy, host: "p", port: 3128)),
        ])
    func servers(text: String, space: ProtectionSpace) { #expect(ProtectionSpace(server: text) == space) }

    @Test(
        "None of these is one",
        arguments: [
            "", ":1", "h:", "h:0", "h:65536", "h:x", "http://h", "ftp://h", "proxy://p", "h/path", "https://h/path",
            "u@h", "a b", "::1", "[::1", "https://", "h?q", "h#f", "https://https://h",
        ])
    func others(text: String) { #expect(ProtectionSpace(server: text) == nil) }
}
