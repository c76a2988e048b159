import Foundation

/// The programs of the package in Examples, which `Tests/build` puts beside ours.
enum Example {
    /// Whether they are there: `swift build` alone does not build them.
    static let areBuilt = FileManager.default.isExecutableFile(atPath: path("PortFromIOS"))

    /// Where a program is.
    static func path(_ name: String) -> String {
        URL(fileURLWithPath: CommandSandbox.executable).deletingLastPathComponent().appendingPathComponent(name).path
    }
}
