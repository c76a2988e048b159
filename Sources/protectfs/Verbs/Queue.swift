import ArgumentParser
import DataProtection
import Glibc

/// Work that waits for an unlock.
struct Queue: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "queue", abstract: "Show or run the work that waits for an unlock.",
        discussion: """
            The queue holds files that get a stronger class (write --raise-to), segments that are appended to their \
            logs (write --segments), what programs stored in mappings of locked files in a mount, and directories that \
            upgrade could not finish. An unlock starts the work in the background. Work that fails stays in the queue.
            """,
        subcommands: [QueueList.self, QueueRun.self], defaultSubcommand: QueueList.self)
}

/// Lists the queue.
struct QueueList: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the queued work, in the order in which it will run.",
        discussion: "Columns: the task, the file, and why the last try failed.")

    @Flag(help: "Print the result as JSON.")
    var json = false
    @OptionGroup var keybag: KeybagOption

    func run() throws {
        let works = try keybag.open().queuedWork()
        if json { return try JSON.array(works.map(members)).print() }
        var lines = OutputLines()
        for work in works {
            let failure = work.lastError.map { "  (\($0.spoken))" } ?? ""
            try lines.add(
                Array("\(work.kind.spoken)  ".utf8) + listed(work.path) + Array(failure.utf8))
        }
        try lines.finish()
    }

    private func members(_ work: QueuedWork) -> JSON {
        let what: [(String, JSON)] =
            switch work.kind {
            case .raise(let protectionClass):
                [("kind", .string("raise")), ("class", .string(protectionClass.shortName))]
            case .join(let log): [("kind", .string("join"))] + JSON.members(of: log, named: "log")
            case .merge: [("kind", .string("merge"))]
            case .upgrade(let named):
                [("kind", .string("upgrade")), ("class", named.map { .string($0.shortName) } ?? .null)]
            }
        return .object(
            what + JSON.members(of: work.path) + [("error", work.lastError.map { .string($0.spoken) } ?? .null)])
    }
}

/// Does the work.
struct QueueRun: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Run the queued work now and wait for it to finish.",
        discussion: "Continues after a failure. A lock stops it between two files. Unfinished work stays in the queue.")

    @Flag(help: .hidden)
    var background = false
    @OptionGroup var keybag: KeybagOption

    func run() throws {
        if background { BackgroundQueue.giveWay() }
        try Self.perform(keybag.open(), keepingLost: background)
    }

    /// Does a part of the queue, or all of it, and says what fails.
    ///
    /// - Parameter keepingLost: as the background does it, where nobody waits for another process.
    static func perform(
        _ keybag: Keybag, only isMeant: (QueuedWork) -> Bool = { _ in true }, keepingLost: Bool
    ) throws {
        let outcome = Outcome()
        let progress = Progress("upgrading", total: 0)
        let show = { (files: Int, bytes: Int64) in
            progress.show(text: "upgrading: \(spoken(files, "file")), \(bytes >> 20) MiB")
        }
        func perform(_ isMeant: (QueuedWork) -> Bool) throws(DataProtectionError) -> [QueuedWorkResult] {
            try keybag.performQueuedWork(
                only: isMeant, keepingLost: keepingLost, showing: show,
                reporting: { if keepingLost || !$0.isDoneElsewhere { report($0, outcome) } })
        }
        var results = try perform(isMeant)
        // What another process does comes to an end. A program that has a file open may never close it.
        while !keepingLost, results.contains(where: \.isDoneElsewhere) {
            progress.show(text: "another process is at it")
            usleep(200_000)
            let elsewhere = results.filter(\.isDoneElsewhere).map(\.work)
            results.removeAll(where: \.isDoneElsewhere)
            results += try perform { work in
                elsewhere.contains { $0.kind == work.kind && $0.path == work.path }
            }
        }
        progress.finish()
        let waiting = results.filter { $0.outcome == .waiting }.count
        if waiting > 0, outcome.status == .done {
            throw Failure(
                .notNow, "\(waiting) of \(results.count) wait for an unlock",
                hint: "unlock first: protectfs unlock\(KeybagOption.words(for: keybag.directory))")
        }
        try outcome.leave()
    }

    private static func report(_ result: QueuedWorkResult, _ outcome: Outcome) {
        switch result.outcome {
        case .failed(let error): outcome.record(error)
        case .inUse: StandardError.line(.note, "\(quoted(result.work.path)) is still open; its work stays queued")
        case .done, .unneeded, .gone, .waiting: break
        }
    }
}

extension QueuedWork.Kind {
    /// What is to be done, as one word or two.
    fileprivate var spoken: String {
        switch self {
        case .raise(let protectionClass): "raise to \(protectionClass.shortName)"
        case .join: "join"
        case .merge: "merge"
        case .upgrade(let named?): "upgrade to \(named.shortName)"
        case .upgrade(nil): "upgrade by rules"
        }
    }
}
