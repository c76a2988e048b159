// swift-tools-version: 6.1
import PackageDescription

// CI sets this; a package that depends on protectfs never sees an unsafe flag in a library target.
let strict: [SwiftSetting] =
    Context.environment["PROTECTFS_WARNINGS_AS_ERRORS"] == nil ? [] : [.unsafeFlags(["-warnings-as-errors"])]

// Lazy binding makes the dynamic linker save vector registers, key bytes included, to the stack.
let bindNow: [LinkerSetting] = [.unsafeFlags(["-Xlinker", "-z", "-Xlinker", "now"])]

// What reads bytes that somebody else may have written, or have changed.
let fuzzed: [Target.Dependency] = [
    "ProtectionKeys", "ProtectionFormat", "DurableFiles", "Keybags", "ProtectedFiles", "ProtectedTrees",
    "DataProtection",
    "PasswordHash", "RNCryptorFormat", "TrustedHTTP", "ProtectionDownloads", "ProtectionSecrets", "protectfs-secrets",
]
let fuzzing: [Target.Dependency] = ["TestVectors", .product(name: "SystemPackage", package: "swift-system")]

let package = Package(
    name: "protectfs",
    products: [
        .library(name: "DataProtection", targets: ["DataProtection"]),
        .library(name: "DataProtectionNotifications", targets: ["DataProtectionNotifications"]),
        .library(name: "DataProtectionTesting", targets: ["DataProtectionTesting"]),
        .library(name: "RNCryptorFormat", targets: ["RNCryptorFormat"]),
        .executable(name: "protectfs", targets: ["protectfs"]),
        .executable(name: "protectfs-agent", targets: ["protectfs-agent"]),
        .library(name: "TrustedHTTP", targets: ["TrustedHTTP"]),
        .library(name: "ProtectionSecrets", targets: ["ProtectionSecrets"]),
        .library(name: "ProtectionDownloads", targets: ["ProtectionDownloads"]),
        .executable(name: "protectfs-download", targets: ["protectfs-download"]),
        .executable(name: "protectfs-secrets", targets: ["protectfs-secrets"]),
        .library(name: "PasswordHash", targets: ["PasswordHash"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),  // the agent, and download run
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),  // the queue of downloads
    ],
    targets: [
        .systemLibrary(name: "CLibCrypto", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CKeyutils", pkgConfig: "libkeyutils", providers: [.apt(["libkeyutils-dev"])]),
        .systemLibrary(name: "CSystemd", pkgConfig: "libsystemd", providers: [.apt(["libsystemd-dev"])]),
        .systemLibrary(name: "CLibSSL", pkgConfig: "libssl", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CCurl", pkgConfig: "libcurl", providers: [.apt(["libcurl4-openssl-dev"])]),
        .systemLibrary(name: "CExtendedAttributes"),
        .systemLibrary(name: "CEventFiles"),
        .target(name: "CDirectoryEntries"),
        .target(name: "CSecretMemory", linkerSettings: [.linkedLibrary("crypto")]),
        // libcrypto's memory, in programs of ours.
        .target(name: "CSecretHeap", dependencies: ["CSecretMemory"], linkerSettings: [.linkedLibrary("crypto")]),
        .target(name: "CMemoryFiles"),
        .target(name: "CSpawn"),
        .target(name: "POSIXThreads", swiftSettings: strict),
        .target(name: "ProtectionKeys", dependencies: ["CLibCrypto", "CSecretMemory"], swiftSettings: strict),
        .target(name: "ProtectionFormat", dependencies: ["ProtectionKeys"], swiftSettings: strict),
        // Passwords of a service's users. Knows nothing of files.
        .target(name: "PasswordHash", dependencies: ["ProtectionKeys"], swiftSettings: strict),
        // Messages of RNCryptor, which are no format of ours.
        .target(name: "RNCryptorFormat", dependencies: ["ProtectionKeys"], swiftSettings: strict),
        .target(
            name: "KernelKeyring",
            dependencies: [
                "POSIXThreads", "CKeyutils", .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: strict),
        .target(
            name: "DurableFiles",
            dependencies: [
                "POSIXThreads", "ProtectionKeys", "ProtectionFormat", "CExtendedAttributes", "CDirectoryEntries",
                "CEventFiles",
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: strict),
        .target(
            name: "Keybags",
            dependencies: [
                "POSIXThreads", "ProtectionKeys", "ProtectionFormat", "DurableFiles", "KernelKeyring",
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: strict),
        .target(
            name: "ProtectedFiles",
            dependencies: [
                "ProtectionKeys", "ProtectionFormat", "DurableFiles", "KernelKeyring", "Keybags",
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: strict),
        .target(
            name: "ProtectedTrees",
            dependencies: [
                "ProtectionKeys", "ProtectionFormat", "DurableFiles", "Keybags", "ProtectedFiles",
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: strict),
        .target(
            name: "DataProtection",
            dependencies: [
                "ProtectionKeys", "ProtectionFormat", "DurableFiles", "Keybags", "ProtectedFiles", "ProtectedTrees",
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: strict),
        .target(name: "DataProtectionNotifications", dependencies: ["DataProtection"], swiftSettings: strict),
        // Keybags for the unit tests of applications.
        .target(
            name: "DataProtectionTesting", dependencies: ["DataProtection", "DurableFiles", "Keybags"],
            swiftSettings: strict),
        .target(
            name: "SessionLock",
            dependencies: ["POSIXThreads", "CSystemd", .product(name: "SystemPackage", package: "swift-system")],
            swiftSettings: strict),
        .target(name: "LockSchedule", swiftSettings: strict),
        .target(
            name: "TrustedHTTP",
            dependencies: [
                "POSIXThreads", "ProtectionKeys", "CCurl", "CLibSSL",
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: strict),
        // An SQLite database that several processes share, and how its rows are read without trusting them.
        .target(
            name: "SharedDatabase",
            dependencies: [
                .product(name: "GRDB", package: "GRDB.swift"), .product(name: "GRDBSQLite", package: "GRDB.swift"),
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: strict),
        .target(
            name: "ProtectionSecrets",
            dependencies: [
                "DataProtection", "ProtectionKeys", "SharedDatabase", .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: strict),
        .target(
            name: "ProtectionDownloads",
            dependencies: [
                "TrustedHTTP", "DataProtection", "ProtectionKeys", "ProtectionSecrets", "SharedDatabase",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: strict),
        .target(
            name: "Conformance",
            dependencies: [
                "DataProtection", "CMemoryFiles", "CSpawn",
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            resources: [.embedInCode("semantics.txt")],
            swiftSettings: strict + [.enableUpcomingFeature("InternalImportsByDefault")]),
        // How all commands of protectfs take arguments, say what is wrong, and end.
        .target(
            name: "CommandLanguage",
            dependencies: [
                "POSIXThreads", "DataProtection", "CSecretHeap", "CSecretMemory",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: strict),
        // How programs that run for long tell what they do.
        .target(
            name: "LineLog", dependencies: [.product(name: "Logging", package: "swift-log")], swiftSettings: strict),
        // The words of `protectfs download`, without what does them.
        .target(
            name: "DownloadVerbs",
            dependencies: [
                "CommandLanguage", "DataProtection",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: strict),
        // The words of `protectfs secret`, without what does them.
        .target(
            name: "SecretVerbs",
            dependencies: [
                "CommandLanguage", "DataProtection",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: strict),
        .executableTarget(
            name: "protectfs",
            dependencies: [
                "CommandLanguage", "DownloadVerbs", "SecretVerbs", "DataProtection", "Conformance", "PasswordHash",
                "RNCryptorFormat",
                "CSecretMemory", "CMemoryFiles", "CSpawn",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: strict, linkerSettings: bindNow),
        .executableTarget(
            name: "protectfs-agent",
            dependencies: [
                "DataProtection", "SessionLock", "LockSchedule", "CSecretHeap", "CSecretMemory", "LineLog",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: strict, linkerSettings: bindNow),
        .executableTarget(
            name: "protectfs-download",
            dependencies: [
                "CommandLanguage", "DownloadVerbs", "ProtectionDownloads", "TrustedHTTP", "DataProtection", "LineLog",
                "CSecretMemory",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: strict, linkerSettings: bindNow),
        .executableTarget(
            name: "protectfs-secrets",
            dependencies: [
                "CommandLanguage", "SecretVerbs", "ProtectionSecrets", "ProtectionKeys", "DataProtection",
                "CSecretMemory",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: strict, linkerSettings: bindNow),
        .testTarget(name: "POSIXThreadsTests", dependencies: ["POSIXThreads"], swiftSettings: strict),
        .testTarget(
            name: "ProtectionKeysTests", dependencies: ["ProtectionKeys", "TestEffort"],
            exclude: ["Vectors", "Wycheproof"],
            swiftSettings: strict),
        .target(name: "TestVectors", path: "Tests/TestVectors", swiftSettings: strict),
        // How much the repetitive tests do, and from which seed.
        .target(name: "TestEffort", path: "Tests/TestEffort", swiftSettings: strict),
        .target(name: "KeyQuota", dependencies: ["CKeyutils"], path: "Tests/KeyQuota", swiftSettings: strict),
        // Directories of a test's own.
        .target(
            name: "TestScratch", dependencies: [.product(name: "SystemPackage", package: "swift-system")],
            path: "Tests/TestScratch", swiftSettings: strict),
        .testTarget(
            name: "ProtectionFormatTests",
            dependencies: ["ProtectionFormat", "ProtectionKeys", "TestEffort", "TestVectors"],
            exclude: ["Vectors"], swiftSettings: strict),
        .testTarget(
            name: "PasswordHashTests", dependencies: ["PasswordHash", "ProtectionKeys", "TestEffort", "TestVectors"],
            swiftSettings: strict),
        .testTarget(
            name: "RNCryptorFormatTests", dependencies: ["RNCryptorFormat", "ProtectionKeys", "TestEffort"],
            exclude: ["Vectors", "peer.py"],
            swiftSettings: strict),
        .testTarget(
            name: "KernelKeyringTests",
            dependencies: [
                "KernelKeyring", "POSIXThreads", "CKeyutils", "KeyQuota",
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: strict),
        // Buses of a test's own, with a logind that does what it is told.
        .target(
            name: "PrivateBus", path: "Tests/PrivateBus", resources: [.embedInCode("stage.py")], swiftSettings: strict),
        .testTarget(name: "SessionLockTests", dependencies: ["SessionLock", "PrivateBus"], swiftSettings: strict),
        // An HTTP server of a test's own, with the faults that it asks for.
        .target(
            name: "FaultServer", path: "Tests/FaultServer",
            resources: ["server", "answers", "authentication", "ntlm", "certificates", "proxy"].map {
                .embedInCode("\($0).py")
            },
            swiftSettings: strict),
        // Authorities and what they issue, good and bad, made when a test asks for the first of them.
        .target(
            name: "TestCertificates", path: "Tests/TestCertificates", resources: [.embedInCode("certificates.py")],
            swiftSettings: strict),
        .testTarget(
            name: "TrustedHTTPTests",
            dependencies: [
                "TrustedHTTP", "ProtectionKeys", "FaultServer", "TestCertificates", "TestEffort", "CLibSSL", "CCurl",
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: strict),
        .testTarget(
            name: "ProtectionDownloadsTests",
            dependencies: [
                "ProtectionDownloads", "TrustedHTTP", "DataProtection", "ProtectionKeys", "SharedDatabase",
                "FaultServer",
                "KeyQuota", "PowerCutDisk", "ProtectionSecrets", "TestEffort", "TestScratch", "download-worker",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: strict),
        .testTarget(
            name: "ProtectionSecretsTests",
            dependencies: [
                "ProtectionSecrets", "DataProtection", "ProtectionFormat", "ProtectionKeys", "SharedDatabase",
                "KeyQuota", "PowerCutDisk", "TestEffort", "TestScratch", "TestVectors", "secrets-worker",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: strict),
        // A process that uses a store of secrets until it is killed, or searched.
        .executableTarget(
            name: "secrets-worker", dependencies: ["ProtectionSecrets"], path: "Tests/SecretsWorker",
            swiftSettings: strict, linkerSettings: bindNow),
        // A process that runs a list of downloads until it is killed.
        .executableTarget(
            name: "download-worker", dependencies: ["ProtectionDownloads"], path: "Tests/DownloadWorker",
            swiftSettings: strict, linkerSettings: bindNow),
        .testTarget(name: "LockScheduleTests", dependencies: ["LockSchedule", "TestEffort"], swiftSettings: strict),
        // What another process does in the tests of DataProtection, and the words in which it is told to.
        .target(name: "StormScript", dependencies: ["TestEffort"], path: "Tests/StormScript", swiftSettings: strict),
        .target(
            name: "PowerCutDisk", dependencies: ["TestEffort"], path: "Tests/PowerCutDisk",
            exclude: ["block-log", "power-cuts"],
            swiftSettings: strict),
        .executableTarget(
            name: "storm-worker",
            dependencies: [
                "DataProtection", "StormScript", .product(name: "SystemPackage", package: "swift-system"),
            ],
            path: "Tests/StormWorker", swiftSettings: strict, linkerSettings: bindNow),
        .testTarget(
            name: "DataProtectionTests",
            dependencies: [
                "DataProtection", "DurableFiles", "Keybags", "ProtectedFiles", "ProtectedTrees",
                "DataProtectionNotifications", "Conformance", "ProtectionFormat", "ProtectionKeys", "KernelKeyring",
                "POSIXThreads",
                "CKeyutils", "CMemoryFiles", "CSpawn", "StormScript", "storm-worker", "TestVectors",
                "KeyQuota", "PowerCutDisk", "TestEffort", .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: strict),
        // Takes the kernel keyring away from a process, as a container's seccomp filter does.
        .target(name: "CRefusedKeyring", path: "Tests/CRefusedKeyring"),
        .testTarget(
            name: "DataProtectionTestingTests",
            dependencies: [
                "DataProtectionTesting", "KernelKeyring", "CRefusedKeyring", "TestScratch",
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: strict),
        .testTarget(
            name: "protectfsTests",
            dependencies: [
                "protectfs", "protectfs-agent", "protectfs-download", "protectfs-secrets", "ProtectionSecrets",
                "CommandLanguage", "DataProtection", "ProtectedFiles", "Conformance", "CSpawn", "KeyQuota",
                "PrivateBus",
                "FaultServer",
                "TestCertificates", "StormScript", "TestEffort", "storm-worker", "PasswordHash",
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: strict),
        // What reads bytes of others, fed with bytes of any kind: here those that are kept. Tests/Fuzz/run makes new ones.
        .testTarget(
            name: "FuzzTests", dependencies: fuzzed + fuzzing + ["TestEffort"], path: "Tests/Fuzz",
            exclude: ["run", "Engine", "CLibFuzzer", "Corpus"], sources: ["Targets", "Replay"], swiftSettings: strict),
    ],
    swiftLanguageModes: [.v6]
)

// ./test and .ci/run set this, and build once for everything that they do: the release build, with internals that tests can
// import, the standard library's debug checks, and programs that need no Swift at run time, as ./install makes them.
if Context.environment["PROTECTFS_TESTING"] != nil {
    // --static-swift-stdlib would do it for the programs, but tests cannot be compiled with it: Testing is a shared library only.
    let archives = [
        "FoundationEssentials", "FoundationInternationalization", "CoreFoundation", "_FoundationICU",
        "_FoundationCShims",
        "_FoundationCollections", "BlocksRuntime", "dispatch", "swiftDispatch", "swiftSynchronization",
    ]
    let containsRuntime = LinkerSetting.unsafeFlags(["-static-stdlib"] + archives.map { "-l\($0)" })
    // The bundle of tests is linked with the flags of all that it depends on. Those of this target come last, and it alone has
    // them: the runtime is shared again, and archives that exist only for the other kind are empty.
    let runtime = "\(Context.packageDirectory)/Tests/TestRuntime/Empty"
    let sharesRuntime = LinkerSetting.unsafeFlags(["-no-static-stdlib", "-L\(runtime)"])
    package.targets.append(
        .target(
            name: "TestRuntime", path: "Tests/TestRuntime", exclude: ["Empty"],
            linkerSettings: [sharesRuntime]))

    for target in package.targets {
        switch target.type {
        case .test:
            // To optimise them takes longer than they gain.
            target.swiftSettings?.append(.unsafeFlags(["-Onone", "-no-emit-module-separately-wmo"]))
            target.dependencies.insert("TestRuntime", at: 0)
        case .executable:
            // SwiftPM puts the flags of these two behind those of TestRuntime: then the bundle cannot be linked.
            // And what the thread sanitizer has to be told of, .ci/mutex-edges.c, it can only be told of a shared runtime.
            let isSanitized = Context.environment["PROTECTFS_SANITIZED"] != nil
            if !isSanitized, !["download-worker", "secrets-worker"].contains(target.name) {
                target.linkerSettings = (target.linkerSettings ?? []) + [containsRuntime]
            }
            fallthrough
        default:
            target.swiftSettings?.append(
                .unsafeFlags(["-enable-testing", "-assert-config", "Debug", "-D", "PROTECTFS_TESTING"]))
        }
    }
}

// Tests/Fuzz/run sets this, and has a build directory of its own: what reads bytes of others tells libFuzzer which way it
// took, and llvm-cov which lines; the sources of FuzzTests become the program that libFuzzer drives.
if Context.environment["PROTECTFS_FUZZ"] != nil {
    // What another executable target depends on is not linked into it: the parsers of this one become a library.
    let git = "protectfs-secrets"
    package.products.removeAll { $0.name == git }
    package.targets.removeAll { $0.type == .test || $0.name == git }
    package.targets += [
        .target(
            name: git, dependencies: ["CommandLanguage", "SecretVerbs", "ProtectionSecrets", "ProtectionKeys"],
            sources: ["Git", "Items/DescriptorPiece.swift", "Exports.swift"]),
        .systemLibrary(name: "CLibFuzzer", path: "Tests/Fuzz/CLibFuzzer"),
        .executableTarget(
            name: "fuzz", dependencies: fuzzed + fuzzing + ["CLibFuzzer"], path: "Tests/Fuzz",
            exclude: ["run", "Replay", "CLibFuzzer", "Corpus"], sources: ["Targets", "Engine"],
            linkerSettings: [.unsafeFlags(["-profile-generate"])]),
    ]
    // Fast, and yet with every check that a debug build makes.
    let optimized = ["-O", "-assert-config", "Debug"]
    let instrumented = ["-sanitize=fuzzer", "-profile-generate", "-profile-coverage-mapping"]
    for target in package.targets where target.name == "fuzz" { target.swiftSettings = [.unsafeFlags(optimized)] }
    for target in package.targets where fuzzed.contains(where: { $0.isTarget(target.name) }) {
        target.swiftSettings = [.unsafeFlags(optimized + instrumented)]
    }
}

extension Target.Dependency {
    func isTarget(_ name: String) -> Bool {
        if case .byNameItem(name, _) = self { true } else { false }
    }
}
