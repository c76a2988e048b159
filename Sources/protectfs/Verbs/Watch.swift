import ArgumentParser
import DataProtection
import Glibc

/// Says what happens to the keys, as it happens.
struct Watch: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watch", abstract: "Print a line at every lock and unlock.",
        discussion: """
            The first line is the current state. Ends when it is interrupted, or when its output is closed. Uses no \
            processor time in between.
            """)

    @Flag(help: "Print JSON, one object per line.")
    var json = false
    @OptionGroup var keybag: KeybagOption

    func run() throws {
        let keybag = try keybag.open()
        let feed = try EventFeed(of: keybag)
        try print(nil, try keybag.knownState() == .unlocked ? "unlocked" : "locked")
        while true {
            for event in try feed.next(output: 1) {
                // A key that cannot be read is no locked keybag.
                if event == .didBecomeUnavailable { _ = try keybag.knownState() }
                try print(event)
            }
            StandardOutput.endIfUnread()
        }
    }

    private func print(_ event: ProtectedDataEvent) throws {
        switch event {
        case .willBecomeUnavailable(let deadline):
            let left = max(0, Int64(clamping: ((deadline - .now) / .seconds(1)).rounded(.up)))
            try print("willBecomeUnavailable", "unlocked", secondsUntilLock: left)
        case .didBecomeUnavailable: try print("didBecomeUnavailable", "locked")
        case .didBecomeAvailable: try print("didBecomeAvailable", "unlocked")
        }
    }

    private func print(_ event: String?, _ state: String, secondsUntilLock left: Int64? = nil) throws {
        guard json else {
            return try StandardOutput.write(left.map { "locks in \(spoken(seconds: Int($0)))\n" } ?? "\(state)\n")
        }
        let line = JSON.object([
            ("event", event.map { .string($0) } ?? .null), ("state", .string(state)),
            ("secondsUntilLock", .optional(left)), ("time", .number(Int64(time(nil)))),
        ])
        try StandardOutput.write(line.onOneLine + "\n")
    }
}
