// swift-tools-version: 6.1
import PackageDescription

// CI sets this; a package that depends on protectfs never sees an unsafe flag in a library target.
let strict: [SwiftSetting] =
    Context.environment["PROTECTFS_WARNINGS_AS_ERRORS"] == nil ? [] : [.unsafeFlags(["-warnings-as-errors"])]

// Lazy binding makes the dynamic linker save vector registers, key bytes included, to the stack.
let bindNow: [LinkerSetting] = [.unsafeFlags(["-Xlinker", "-z", "-Xlinker", "now"])]

// Products of other packages.
let system: Target.Dependency = .product(name: "SystemPackage", package: "swift-system")
let arguments: Target.Dependency = .product(name: "ArgumentParser", package: "swift-argument-parser")
let logging: Target.Dependency = .product(name: "Logging", package: "swift-log")
let grdb: Target.Dependency = .product(name: "GRDB", package: "GRDB.swift")

// What reads bytes that somebody else may have written, or have changed.
let fuzzed: [Target.Dependency] = [
    "ProtectionKeys", "ProtectionFormat", "DurableFiles", "Keybags", "ProtectedFiles", "ProtectedTrees",
    "DataProtection",
    "PasswordHash", "RNCryptorFormat", "TrustedHTTP", "ProtectionDownloads", "ProtectionSecrets", "protectfs-secrets",
]
let fuzzing: [Target.Dependency] = ["TestVectors", system]

let package = Package(
    name: "protectfs",
    products: [
        .library("DataProtection"),
        .library("DataProtectionNotifications"),
        .library("DataProtectionTesting"),
        .library("RNCryptorFormat"),
        .executable("protectfs"),
        .executable("protectfs-agent"),
        .library("TrustedHTTP"),
        .library("ProtectionSecrets"),
        .library("ProtectionDownloads"),
        .executable("protectfs-download"),
        .executable("protectfs-secrets"),
        .executable("protectfs-mount"),
        .executable("protectfs-conformance"),
        .library("PasswordHash"),
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
        .systemLibrary(name: "CFuse", pkgConfig: "fuse3", providers: [.apt(["libfuse3-dev"])]),
        .systemLibrary(name: "CExtendedAttributes"),
        .systemLibrary(name: "CEventFiles"),
        .target(name: "CDirectoryEntries"),
        .target(name: "CSecretMemory", linkerSettings: [.linkedLibrary("crypto")]),
        // libcrypto's memory, in programs of ours.
        .target(name: "CSecretHeap", dependencies: ["CSecretMemory"], linkerSettings: [.linkedLibrary("crypto")]),
        .target(name: "CMemoryFiles"),
        .target(name: "CSpawn"),
        // Declarations of the TPM Software Stack, which is loaded when a TPM is used: neither a build nor a machine needs it.
        .target(name: "CTSS"),
        .target(name: "POSIXThreads"),
        .target(name: "ProtectionKeys", dependencies: ["CLibCrypto", "CSecretMemory"]),
        .target(name: "ProtectionFormat", dependencies: ["ProtectionKeys"]),
        // The TPM, for secrets. Knows no keybags.
        .target(name: "TrustedModule", dependencies: ["CTSS", "ProtectionKeys"]),
        // Passwords of a service's users. Knows nothing of files.
        .target(name: "PasswordHash", dependencies: ["ProtectionKeys"]),
        // Messages of RNCryptor, which are no format of ours.
        .target(name: "RNCryptorFormat", dependencies: ["ProtectionKeys"]),
        .target(name: "KernelKeyring", dependencies: ["POSIXThreads", "CKeyutils", system]),
        .target(
            name: "DurableFiles",
            dependencies: [
                "POSIXThreads", "ProtectionKeys", "ProtectionFormat", "CExtendedAttributes", "CDirectoryEntries",
                "CEventFiles", system,
            ]),
        .target(
            name: "Keybags",
            dependencies: [
                "POSIXThreads", "ProtectionKeys", "ProtectionFormat", "TrustedModule", "DurableFiles", "KernelKeyring",
                system,
            ]),
        .target(
            name: "ProtectedFiles",
            dependencies: [
                "POSIXThreads", "ProtectionKeys", "ProtectionFormat", "DurableFiles", "KernelKeyring", "Keybags",
                system,
            ]),
        .target(
            name: "ProtectedTrees",
            dependencies: [
                "POSIXThreads", "ProtectionKeys", "ProtectionFormat", "DurableFiles", "Keybags", "ProtectedFiles",
                "CMemoryFiles", system,
            ]),
        .target(
            name: "DataProtection",
            dependencies: [
                "POSIXThreads", "ProtectionKeys", "ProtectionFormat", "DurableFiles", "Keybags", "ProtectedFiles",
                "ProtectedTrees", system,
            ]),
        .target(name: "DataProtectionNotifications", dependencies: ["DataProtection"]),
        // Keybags for the unit tests of applications.
        .target(name: "DataProtectionTesting", dependencies: ["DataProtection", "DurableFiles", "Keybags"]),
        .target(name: "SessionLock", dependencies: ["POSIXThreads", "CSystemd", system]),
        .target(name: "LockSchedule"),
        .target(name: "TrustedHTTP", dependencies: ["POSIXThreads", "ProtectionKeys", "CCurl", "CLibSSL", system]),
        // An SQLite database that several processes share, and how its rows are read without trusting them.
        .target(
            name: "SharedDatabase", dependencies: [grdb, .product(name: "GRDBSQLite", package: "GRDB.swift"), system]),
        .target(
            name: "ProtectionSecrets",
            dependencies: ["DataProtection", "ProtectionKeys", "SharedDatabase", grdb, system]),
        .target(
            name: "ProtectionDownloads",
            dependencies: [
                "POSIXThreads", "TrustedHTTP", "DataProtection", "ProtectionKeys", "ProtectionSecrets",
                "SharedDatabase", grdb,
                system,
            ]),
        .target(
            name: "Conformance", dependencies: ["DataProtection", "CMemoryFiles", "CSpawn", system],
            resources: [.embedInCode("semantics.txt")],
            swiftSettings: [.enableUpcomingFeature("InternalImportsByDefault")]),
        // How all commands of protectfs take arguments, say what is wrong, and end.
        .target(
            name: "CommandLanguage",
            dependencies: [
                "POSIXThreads", "DataProtection", "CSecretHeap", "CSecretMemory", "CSpawn", arguments, system,
            ]),
        // How programs that run for long tell what they do.
        .target(name: "LineLog", dependencies: ["DataProtection", logging]),
        .executableTarget(
            name: "protectfs",
            dependencies: [
                "CommandLanguage", "DataProtection", "PasswordHash", "RNCryptorFormat", "CSecretMemory", "CMemoryFiles",
                arguments, system,
            ], linkerSettings: bindNow),
        .executableTarget(
            name: "protectfs-conformance",
            dependencies: ["CommandLanguage", "DataProtection", "Conformance", arguments, system],
            linkerSettings: bindNow),
        .executableTarget(
            name: "protectfs-agent",
            dependencies: [
                "POSIXThreads", "DataProtection", "SessionLock", "LockSchedule", "CSecretHeap", "CSecretMemory",
                "LineLog",
                logging, system,
            ], linkerSettings: bindNow),
        .executableTarget(
            name: "protectfs-download",
            dependencies: [
                "POSIXThreads", "CommandLanguage", "ProtectionDownloads", "TrustedHTTP", "DataProtection", "LineLog",
                "CSecretMemory", arguments, logging, system,
            ], linkerSettings: bindNow),
        .executableTarget(
            name: "protectfs-secrets",
            dependencies: [
                "CommandLanguage", "ProtectionSecrets", "ProtectionKeys", "DataProtection", "CSecretMemory", arguments,
                system,
            ], linkerSettings: bindNow),
        // The kernel's FUSE driver. Knows nothing of protected files.
        .target(name: "FuseSession", dependencies: ["POSIXThreads", "CFuse", "CMemoryFiles", system]),
        .target(name: "MountRules", dependencies: ["ProtectionKeys", system]),
        .target(
            name: "ProtectionMount",
            dependencies: [
                "POSIXThreads", "ProtectionKeys", "DurableFiles", "Keybags", "ProtectedFiles", "ProtectedTrees",
                "DataProtection", "FuseSession", "MountRules", system,
            ]),
        .executableTarget(
            name: "protectfs-mount",
            dependencies: ["POSIXThreads", "CommandLanguage", "DataProtection", "ProtectionMount", "CSpawn"],
            linkerSettings: bindNow),
        .testTarget(name: "FuseSessionTests", dependencies: ["FuseSession", "POSIXThreads", system]),
        .testTarget(name: "MountRulesTests", dependencies: ["MountRules", "ProtectionKeys", "TestEffort", system]),
        .testTarget(
            name: "ProtectionMountTests",
            dependencies: [
                "ProtectionMount", "FuseSession", "POSIXThreads", "DataProtection", "DataProtectionTesting",
                "TestEffort", system,
            ]),
        .testTarget(name: "POSIXThreadsTests", dependencies: ["POSIXThreads"]),
        .testTarget(
            name: "ProtectionKeysTests", dependencies: ["ProtectionKeys", "TestEffort"],
            exclude: ["Vectors", "Wycheproof"]),
        .target(name: "TestVectors", path: "Tests/TestVectors"),
        // A TPM of a test's own, and whether CTSS declares the library as its headers do.
        .target(name: "TestTPM", path: "Tests/TestTPM"),
        .target(name: "CTSSLayout", dependencies: ["CTSS"], path: "Tests/CTSSLayout"),
        .testTarget(
            name: "TrustedModuleTests", dependencies: ["TrustedModule", "ProtectionKeys", "CTSSLayout", "TestTPM"]),
        // How much the repetitive tests do, and from which seed.
        .target(name: "TestEffort", path: "Tests/TestEffort"),
        .target(name: "KeyQuota", dependencies: ["CKeyutils"], path: "Tests/KeyQuota"),
        // Directories of a test's own.
        .target(name: "TestScratch", dependencies: [system], path: "Tests/TestScratch"),
        .testTarget(
            name: "ProtectionFormatTests",
            dependencies: ["ProtectionFormat", "ProtectionKeys", "TestEffort", "TestVectors"], exclude: ["Vectors"]),
        .testTarget(
            name: "PasswordHashTests", dependencies: ["PasswordHash", "ProtectionKeys", "TestEffort", "TestVectors"]),
        .testTarget(
            name: "RNCryptorFormatTests", dependencies: ["RNCryptorFormat", "ProtectionKeys", "TestEffort"],
            exclude: ["Vectors", "peer.py"]),
        .testTarget(
            name: "KernelKeyringTests",
            dependencies: ["KernelKeyring", "POSIXThreads", "CKeyutils", "KeyQuota", system]),
        // Buses of a test's own, with a logind that does what it is told.
        .target(name: "PrivateBus", path: "Tests/PrivateBus", resources: [.embedInCode("stage.py")]),
        .testTarget(name: "SessionLockTests", dependencies: ["SessionLock", "PrivateBus"]),
        // An HTTP server of a test's own, with the faults that it asks for.
        .target(
            name: "FaultServer", path: "Tests/FaultServer",
            resources: ["server", "answers", "authentication", "ntlm", "certificates", "issuing", "proxy"].map {
                .embedInCode("\($0).py")
            }),
        // Authorities and what they issue, good and bad, made when a test asks for the first of them.
        .target(name: "TestCertificates", path: "Tests/TestCertificates", resources: [.embedInCode("certificates.py")]),
        .testTarget(
            name: "TrustedHTTPTests",
            dependencies: [
                "TrustedHTTP", "ProtectionKeys", "FaultServer", "TestCertificates", "TestEffort", "CLibSSL", "CCurl",
                system,
            ]),
        .testTarget(
            name: "ProtectionDownloadsTests",
            dependencies: [
                "ProtectionDownloads", "TrustedHTTP", "DataProtection", "ProtectionFormat", "ProtectionKeys",
                "SharedDatabase", "FaultServer", "KeyQuota", "PowerCutDisk", "ProtectionSecrets", "POSIXThreads",
                "TestEffort", "TestScratch", "download-worker", grdb, system,
            ]),
        .testTarget(
            name: "ProtectionSecretsTests",
            dependencies: [
                "ProtectionSecrets", "DataProtection", "ProtectionFormat", "ProtectionKeys", "SharedDatabase",
                "KeyQuota", "PowerCutDisk", "TestEffort", "TestScratch", "TestVectors", "secrets-worker", grdb, system,
            ]),
        // A process that uses a store of secrets until it is killed, or searched.
        .executableTarget(
            name: "secrets-worker", dependencies: ["ProtectionSecrets"], path: "Tests/SecretsWorker",
            linkerSettings: bindNow),
        // A process that runs a list of downloads until it is killed.
        .executableTarget(
            name: "download-worker", dependencies: ["ProtectionDownloads"], path: "Tests/DownloadWorker",
            linkerSettings: bindNow),
        .testTarget(name: "LockScheduleTests", dependencies: ["LockSchedule", "TestEffort"]),
        // What another process does in the tests of DataProtection, and the words in which it is told to.
        .target(name: "StormScript", dependencies: ["TestEffort"], path: "Tests/StormScript"),
        .target(
            name: "PowerCutDisk", dependencies: ["TestEffort"], path: "Tests/PowerCutDisk",
            exclude: ["block-log", "power-cuts"]),
        .executableTarget(
            name: "storm-worker", dependencies: ["DataProtection", "StormScript", system], path: "Tests/StormWorker",
            linkerSettings: bindNow),
        .testTarget(
            name: "DataProtectionTests",
            dependencies: [
                "DataProtection", "DurableFiles", "Keybags", "ProtectedFiles", "ProtectedTrees",
                "DataProtectionNotifications", "Conformance", "ProtectionFormat", "ProtectionKeys", "KernelKeyring",
                "POSIXThreads", "CKeyutils", "CMemoryFiles", "CSpawn", "StormScript", "storm-worker", "TestVectors",
                "KeyQuota", "PowerCutDisk", "TestEffort", "TestTPM", "TrustedModule", system,
            ]),
        // Takes the kernel keyring away from a process, as a container's seccomp filter does.
        .target(name: "CRefusedKeyring", path: "Tests/CRefusedKeyring"),
        .testTarget(
            name: "DataProtectionTestingTests",
            dependencies: ["DataProtectionTesting", "KernelKeyring", "CRefusedKeyring", "TestScratch", system]),
        .testTarget(
            name: "protectfsTests",
            dependencies: [
                "protectfs", "protectfs-agent", "protectfs-conformance", "protectfs-download", "protectfs-mount",
                "protectfs-secrets",
                "ProtectionSecrets", "CommandLanguage", "DataProtection", "ProtectedFiles", "ProtectionFormat",
                "Conformance", "CSpawn", "KeyQuota", "PrivateBus", "FaultServer", "TestCertificates", "StormScript",
                "PowerCutDisk", "TestEffort", "TestTPM", "storm-worker",
                "PasswordHash", system,
            ]),
        // What reads bytes of others, fed with bytes of any kind: here those that are kept. Tests/Fuzz/run makes new ones.
        .testTarget(
            name: "FuzzTests", dependencies: fuzzed + fuzzing + ["TestEffort"], path: "Tests/Fuzz",
            exclude: ["run", "Engine", "CLibFuzzer", "Corpus"], sources: ["Targets", "Replay"]),
    ],
    swiftLanguageModes: [.v6]
)

// All targets in Swift. Those in C are named as in docs/design/DESIGN.md: C and another capital.
for target in package.targets where target.name.first != "C" || target.name.dropFirst().first?.isLowercase == true {
    target.swiftSettings = strict + (target.swiftSettings ?? [])
}

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
            name: git,
            dependencies: ["CommandLanguage", "ProtectionSecrets", "ProtectionKeys", "DataProtection", arguments],
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

extension Product {
    /// A library of one target, with its name.
    static func library(_ name: String) -> Product { .library(name: name, targets: [name]) }
    /// A program of one target, with its name.
    static func executable(_ name: String) -> Product { .executable(name: name, targets: [name]) }
}
