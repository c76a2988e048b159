import Foundation
import TrustedHTTP

// A request to a server that is known by its key alone, by a client that is known by a certificate: mutual TLS and a pin, and
// no file is written. Further pins are backups, for the key that the server will have one day. The identity (PKCS #12) comes on
// standard input.
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
