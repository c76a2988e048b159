// swift-tools-version: 6.1
// A package of its own, so that nobody who builds protectfs builds its benchmarks. Built and run by Benchmarks/run.
import PackageDescription

let package = Package(
    name: "protectfs-bench",
    dependencies: [
        // Named, because a clone may stand in a directory of any name.
        .package(name: "protectfs", path: "..")
    ],
    targets: [
        .executableTarget(
            name: "protectfs-bench", dependencies: [.product(name: "DataProtection", package: "protectfs")])
    ],
    swiftLanguageModes: [.v6]
)
