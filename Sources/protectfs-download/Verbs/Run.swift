import LineLog
import Logging

extension DownloadRun {
    func perform() async throws {
        Interruption.watch()
        let queue = try keybag.downloads(connection.connections(proxy: proxy))
        let log = RunLog(
            Logger(label: "protectfs-download") { _ in
                var log = LineLog("protectfs-download")
                if verbose { log.logLevel = .debug }
                return log
            })
        let telling = Task { for try await list in queue.lists { await log.tell(list) } }
        let work = Task { try await queue.run(untilIdle: untilIdle) }
        Interruption.onRequest { work.cancel() }
        let result = await work.result
        telling.cancel()
        _ = await telling.result
        try result.get()
        let downloads = try await queue.downloads()
        await log.tell(downloads)
        guard untilIdle, !Interruption.isRequested else { return }
        let waiting = downloads.filter { !$0.state.isOver && $0.state != .paused }.count
        if waiting > 0 {
            throw Failure(
                .notNow, "\(spoken(waiting, "download")) wait\(waiting == 1 ? "s" : "")",
                hint: "see what for: protectfs download list\(KeybagOption.words(for: keybag.location))")
        }
    }
}

extension DownloadInstall {
    func perform() async throws {
        let program = try SiblingProgram.command().removingLastComponent().appending("protectfs")
        try UserUnit.downloads(program).install(isPrinted: print)
    }
}

extension UserUnit {
    /// The one that runs the list of downloads. A list that another process runs, for a `get`, is tried again later.
    static func downloads(_ program: FilePath) -> UserUnit {
        UserUnit(
            "protectfs-download.service", "Download protected files, locked or not", running: program, "download run",
            restartDelay: "30s", finalStatuses: "64 65 66 77 78", addressFamilies: "AF_UNIX AF_INET AF_INET6")
    }
}
