import Foundation

/// The files of this repository, for tests that hold documents against the program.
enum Checkout {
    /// Where `Package.swift` is.
    static let root: URL = {
        var directory = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        while !FileManager.default.fileExists(atPath: directory.appendingPathComponent("Package.swift").path) {
            directory.deleteLastPathComponent()
        }
        return directory
    }()

    /// A file as text.
    static func text(_ name: String) throws -> String {
        try String(contentsOf: root.appendingPathComponent(name), encoding: .utf8)
    }

    /// Whether there is a file or directory of that name.
    static func has(_ name: String) -> Bool {
        FileManager.default.fileExists(atPath: root.appendingPathComponent(name).path)
    }

    /// The paths of the files below `directory` whose names end in `suffix`, sorted.
    static func files(below directory: String, suffix: String) -> [String] {
        let found = FileManager.default.enumerator(atPath: root.appendingPathComponent(directory).path)
        return (found?.compactMap { $0 as? String } ?? []).filter { $0.hasSuffix(suffix) }.sorted()
            .map { directory + "/" + $0 }
    }

    /// What a visitor reads: Markdown at the top and in `docs`.
    static let documents: [String] =
        ["README.md", "SECURITY.md", "CHANGELOG.md"] + files(below: "docs", suffix: ".md")

    /// `docs/man/protectfs.1` and the pages of the other programs.
    static let manualPages: [String] = files(below: "docs", suffix: ".1")
}
