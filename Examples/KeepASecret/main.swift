import ProtectionSecrets

let store = try SecretStore(appID: "org.example.mail")
let name = SecretName.genericPassword(service: "imap", account: "kim")

if try store.record(of: name) == nil {
    let password = try SecretBytes(randomByteCount: 24)
    try store.add(name, value: password, accessibility: .afterFirstUnlock)
}
let password = try store.value(of: name)
print("the password of kim has \(password.count) bytes")
