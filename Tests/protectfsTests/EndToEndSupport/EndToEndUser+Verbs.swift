import Foundation
import SystemPackage
import Testing

/// What the tests ask of the command, as a person would.
extension EndToEndUser {
    /// The classes as the command spells them.
    static let classes = ["complete", "unless-open", "first-unlock", "none"]

    /// Unlocks with the right passcode; expects no failure.
    func unlock(in session: Session = .plain, at location: SourceLocation = #_sourceLocation) throws {
        let done = try run(
            ["protectfs", "unlock", "--passcode-fd", "0"], in: session, input: Array(Self.passcode.utf8))
        #expect(done.status == 0, "unlock in \(session): \(done)", sourceLocation: location)
    }

    /// Locks; expects no failure.
    func lock(in session: Session = .plain, at location: SourceLocation = #_sourceLocation) throws {
        let done = try run(["protectfs", "lock"], in: session)
        #expect(done.status == 0, "lock in \(session): \(done)", sourceLocation: location)
    }

    /// A new protected file; expects no failure.
    func write(
        _ path: FilePath, _ protectionClass: String, _ bytes: [UInt8], at location: SourceLocation = #_sourceLocation
    ) throws {
        let done = try run(["protectfs", "write", "--class", protectionClass, path.string], input: bytes)
        #expect(done.status == 0, "\(done)", sourceLocation: location)
    }

    /// Expects that `cat` gives these bytes and nothing else.
    func expectReads(
        _ path: FilePath, _ bytes: [UInt8], in session: Session = .plain,
        at location: SourceLocation = #_sourceLocation
    ) throws {
        let done = try run(["protectfs", "cat", path.string], in: session)
        #expect(done.status == 0, "\(session): \(done)", sourceLocation: location)
        #expect(done.output == bytes, "\(session): \(done)", sourceLocation: location)
    }

    /// Expects that `cat` says *locked* and gives nothing.
    func expectLocked(
        _ path: FilePath, in session: Session = .plain, at location: SourceLocation = #_sourceLocation
    ) throws {
        expectLocked(try run(["protectfs", "cat", path.string], in: session), at: location)
    }

    /// Expects status 75, a hint, and nothing on standard output.
    func expectLocked(_ done: EndToEndRun, at location: SourceLocation = #_sourceLocation) {
        #expect(done.status == 75, "\(done)", sourceLocation: location)
        #expect(done.output == [], "\(done)", sourceLocation: location)
        #expect(done.errors.contains("protectfs unlock"), "\(done)", sourceLocation: location)
    }

    /// What `status --json` says.
    struct Status: Decodable {
        let state: String
        let secondsUntilLock: Int?
    }

    func status(in session: Session = .plain) throws -> Status {
        struct Answer: Decodable { let keybags: [Status] }
        let done = try run(["protectfs", "status", "--json"], in: session)
        guard done.status == 0 else { throw Unexpected(done) }
        return try #require(try JSONDecoder().decode(Answer.self, from: Data(done.output)).keybags.first)
    }

    /// What `keyctl search @u` answers: the key's number, or why there is none.
    func search(_ description: String, in session: Session = .plain) throws -> EndToEndRun {
        try run(["keyctl", "search", "@u", "user", description], in: session)
    }
}

/// Bytes that no two files have in common.
func randomBytes(_ count: Int) -> [UInt8] {
    let words = (0..<(count + 7) / 8).map { _ in UInt64.random(in: 0...UInt64.max) }
    return words.withUnsafeBytes { Array($0.prefix(count)) }
}

/// Polls until `condition` holds; false after twenty seconds, which no expectation depends on.
func eventually(_ condition: () throws -> Bool) rethrows -> Bool {
    for _ in 0..<400 {
        if try condition() { return true }
        usleep(50_000)
    }
    return try condition()
}
