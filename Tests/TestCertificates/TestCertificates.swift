import Foundation

/// Authorities and what they have issued, good and bad: `certificates.py` says which there are. Made once a process.
///
/// Those that are good are so from 2020 to 2120.
public enum TestCertificates {
    private struct Entry: Decodable {
        let certificate: Data?
        let key: Data?
        let p12: Data?
    }

    private static let all: [String: Entry] = {
        let process = Process()
        // The system's own: the modules that it needs are not for another one.
        process.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
        process.arguments = ["-c", String(decoding: PackageResources.certificates_py, as: UTF8.self)]
        process.environment = ["PATH": "/usr/bin:/bin", "LC_ALL": "C"]
        let output = Pipe()
        process.standardOutput = output
        do {
            try process.run()
            let printed = try output.fileHandleForReading.readToEnd() ?? Data()
            process.waitUntilExit()
            return try JSONDecoder().decode([String: Entry].self, from: printed)
        } catch {
            fatalError("certificates.py: \(error)")
        }
    }()

    private static func entry(_ name: String) -> Entry {
        guard let entry = all[name] else { fatalError("certificates.py makes no \(name)") }
        return entry
    }

    /// DER.
    public static func certificate(_ name: String) -> [UInt8] { Array(entry(name).certificate ?? Data()) }
    /// PKCS #8, DER, not encrypted.
    public static func key(_ name: String) -> [UInt8] { Array(entry(name).key ?? Data()) }
    /// DER; the passphrase is `correct horse`, but for `without-passphrase`.
    public static func identity(_ name: String) -> [UInt8] { Array(entry(name + ".p12").p12 ?? Data()) }

    /// The certificate, and others after it, as servers want it in a file.
    public static func certificatePEM(_ names: String...) -> String {
        names.map { pem("CERTIFICATE", certificate($0)) }.joined()
    }
    /// The key, as servers want it in a file.
    public static func keyPEM(_ name: String) -> String { pem("PRIVATE KEY", key(name)) }

    /// RFC 7468 §3.
    public static func pem(_ label: String, _ bytes: [UInt8]) -> String {
        let body = Data(bytes).base64EncodedString(options: [.lineLength64Characters, .endLineWithLineFeed])
        return "-----BEGIN \(label)-----\n\(body)\n-----END \(label)-----\n"
    }
}
