import DataProtection
import Foundation

let keybag = try Keybag.user

/// A journal whose entries can be read only while the device is unlocked.
struct Journal {
    let directory: URL

    func url(_ name: String) -> URL { directory.appendingPathComponent(name) }

    /// Shape 1: write with an option.
    func write(_ text: String, to name: String) throws {
        try Data(text.utf8).write(to: url(name), options: [.atomic, .completeFileProtection], protectedBy: keybag)
    }

    /// Shape 2: a file that is there already.
    func protect(_ name: String) throws {
        let kept = [FileAttributeKey.protectionKey: FileProtectionType.complete]
        try FileManager.default.setAttributes(kept, ofItemAtPath: url(name).path, protectedBy: keybag)
    }

    /// Shape 3: create with attributes.
    func create(_ name: String, containing data: Data) throws {
        let file = url(name).path
        let kept = [FileAttributeKey.protectionKey: FileProtectionType.complete]
        let ok = try FileManager.default.createFile(atPath: file, contents: data, attributes: kept, protectedBy: keybag)
        if !ok { throw CocoaError(.fileWriteUnknown) }
    }

    /// Shape 4: enumerate, compare, set.
    func upgradeFilesInDirectory(to protection: FileProtectionType) -> (failures: Int, lastError: (any Error)?) {
        let wanted = [FileAttributeKey.protectionKey: protection]
        var failures = 0
        var lastError: (any Error)?
        let enumerator = FileManager.default.enumerator(at: directory, includingPropertiesForKeys: nil)
        while let url = enumerator?.nextObject() as? URL {
            do {
                let attributes = try FileManager.default.attributesOfItem(atPath: url.path, protectedBy: keybag)
                let current = attributes[.protectionKey] as? FileProtectionType
                if let current, current == protection { continue }
                try FileManager.default.setAttributes(wanted, ofItemAtPath: url.path, protectedBy: keybag)
            } catch {
                failures += 1
                lastError = error
            }
        }
        return (failures, lastError)
    }

    func read(_ name: String) throws -> String {
        String(decoding: try Data(contentsOf: url(name), protectedBy: keybag), as: UTF8.self)
    }

    func duplicate(_ name: String, as copy: String) throws {
        try FileManager.default.copyItem(at: url(name), to: url(copy), protectedBy: keybag)
    }
}

// PortFromIOS DIRECTORY: makes entries there, protects `old` if there is one, and upgrades everything else.
let journal = Journal(directory: URL(fileURLWithPath: CommandLine.arguments.dropFirst().first ?? "journal"))
do {
    try journal.write("dear diary, this is one\n", to: "one")
    try journal.create("two", containing: Data("dear diary, this is two\n".utf8))
    if FileManager.default.fileExists(atPath: journal.url("old").path) {
        try journal.protect("old")
    }
    if !FileManager.default.fileExists(atPath: journal.url("copy").path) {
        try journal.duplicate("one", as: "copy")
    }
    print(try journal.read("copy"), terminator: "")
} catch let error as CocoaError {
    print("CocoaError \(error.code.rawValue)")
}
let upgrade = journal.upgradeFilesInDirectory(to: .complete)
print("\(upgrade.failures) failed")
if let error = upgrade.lastError as? CocoaError { print("last: CocoaError \(error.code.rawValue)") }
