import Glibc

/// How much the repetitive tests do: a sample, unless `.ci/long` asks for all.
enum Counts {
    /// Whether every tampered byte is carried through to the end. `PROTECTFS_TAMPER=full`
    static let tampersFully = variable("PROTECTFS_TAMPER") == "full"

    /// How many times a process is killed at a random moment. `PROTECTFS_KILLS`
    static let kills = variable("PROTECTFS_KILLS").flatMap { Int($0) } ?? 10

    private static func variable(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }
}
