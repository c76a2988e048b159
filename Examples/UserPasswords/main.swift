import Foundation
import PasswordHash

// The two ways to store users' passwords; see docs/guide/PASSWORDS.md. The password is read from standard input.
//
//     UserPasswords FILE add NAME          the server sees the password and stores a hash of it
//     UserPasswords FILE check NAME        prints "yes" (status 0) or "no" (status 77)
//     UserPasswords FILE register NAME     the client sends a key instead, and the server stores a verifier of the key
//     UserPasswords FILE login NAME        prints "yes" or "no", as check does
let words = CommandLine.arguments
guard words.count == 4 else { exit(64) }
let name = words[3]
var service = try Service(URL(fileURLWithPath: words[1]))

// Read straight into secret memory, because readLine() would leave copies. One byte more than a password can have.
var line = SecretBytes(zeroed: 1025)
let count = line.withUnsafeMutableBytes { bytes in
    let count = max(0, read(0, bytes.baseAddress!, bytes.count))
    return bytes.prefix(count).firstIndex(of: UInt8(ascii: "\n")) ?? count
}
let password = line.slice(0..<count)

let right: Bool
switch words[2] {
case "add":
    try service.add(name, password)
    exit(0)
case "check": right = try service.check(name, password)
case "register":
    let key = try PasswordHash.clientKey(
        password: password, site: "example.org", userID: name,
        parameters: ClientKeyParameters(iterations: service.iterations))
    try service.register(name, key)
    exit(0)
case "login":
    let parameters = try ClientKeyParameters(encoded: service.parameters(of: name))
    let key = try PasswordHash.clientKey(password: password, site: "example.org", userID: name, parameters: parameters)
    right = try service.login(name, key.secret)
default: exit(64)
}
print(right ? "yes" : "no")
exit(right ? 0 : 77)
