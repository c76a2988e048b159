// swift-tools-version: 6.1
// A separate package, like an application: it uses only the products of protectfs, and building protectfs does not build it.
import PackageDescription

// Lazy binding makes the dynamic linker save vector registers, key bytes included, to the stack.
let bindNow: [LinkerSetting] = [.unsafeFlags(["-Xlinker", "-z", "-Xlinker", "now"])]

/// A product of protectfs.
func product(_ name: String) -> Target.Dependency { .product(name: name, package: "protectfs") }

/// The program in the directory of its name.
func example(_ name: String, path: String? = nil, _ dependencies: Target.Dependency...) -> Target {
    .executableTarget(name: name, dependencies: dependencies, path: path ?? name, linkerSettings: bindNow)
}

let package = Package(
    name: "protectfs-examples",
    dependencies: [
        // Named, because a clone may stand in a directory of any name.
        .package(name: "protectfs", path: ".."),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
    ],
    targets: [
        example("ProtectAFile", product("DataProtection")),
        example("UpgradeAtLaunch", product("DataProtection")),
        example("SaveBeforeLock", product("DataProtection")),
        // The same program twice: as it is on iOS, and ported. docs/guide/PORTING-FROM-IOS.md
        example("PortFromIOSBefore", path: "PortFromIOS/iOS"),
        example("PortFromIOS", path: "PortFromIOS/Linux", product("DataProtection")),
        example("KeepASecret", product("ProtectionSecrets")),
        example("LockedDownload", product("ProtectionDownloads")),
        example("PinnedRequest", product("TrustedHTTP")),
        example("UserPasswords", product("PasswordHash")),
        example("OpenRNCryptor", product("RNCryptorFormat")),
        example("ProtectedLog", product("DataProtection"), .product(name: "Logging", package: "swift-log")),
    ],
    swiftLanguageModes: [.v6]
)
