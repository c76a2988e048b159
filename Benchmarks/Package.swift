// swift-tools-version: 6.1
// A package of its own, so that nobody who builds protectfs builds its benchmarks. Built and run by Benchmarks/run.
import PackageDescription

let package = Package(
    name: "protectfs-bench",
    dependencies: [
        // Named, because a clone may stand in a directory of any name.
        .package(name: "protectfs", path: ".."),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),  // its SQLite, for a peer
    ],
    targets: [
        .executableTarget(
            name: "protectfs-bench",
            dependencies: [
                .product(name: "DataProtection", package: "protectfs"),
                .product(name: "ProtectionSecrets", package: "protectfs"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
            ])
    ],
    swiftLanguageModes: [.v6]
)
