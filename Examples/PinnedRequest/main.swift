import Foundation
import TrustedHTTP

// Sends a request with mutual TLS to a server that is trusted only by the pin of its key. Further pins are backups, for the next
// key of the server. The client's identity (PKCS #12) is read from standard input, and no file is written.
//
//     PinnedRequest URL sha256//BASE64 … <identity.p12
let words = CommandLine.arguments
guard words.count > 2, let url = URL(string: words[1]) else { exit(64) }

var request = HTTPRequest(url)
request.trust = try ServerTrust(
    anchors: .pinned, pins: [PinGroup(.server, Set(words[2...].map { try CertificatePin.publicKey($0) }))])
request.identity = try ClientIdentity(
    pkcs12: Array(FileHandle.standardInput.readDataToEndOfFile()), passphrase: nil)

let (response, body) = try await HTTPClient().send(request)
print(response.status, String(decoding: body, as: UTF8.self))
