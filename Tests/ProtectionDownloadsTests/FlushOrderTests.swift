import FaultServer
import Foundation
import Testing

@testable import DataProtection
@testable import ProtectionDownloads

/// After a power cut the list must not say that bytes are there which are not: they are flushed before it is written.
@Suite(.enabled(if: DownloadWorker.canTrace, "there is no strace(1) here that may trace"))
struct FlushOrderTests {
    /// One line of strace(1): a call that has begun, or that has come back.
    private struct Line {
        let thread, call: Substring
        /// What its first descriptor leads to; of a call that is resumed: nothing.
        let path: Substring
        let begins, ends: Bool
        /// Of a write: where.
        let offset: Int

        init?(_ line: Substring) {
            let words = line.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: true)
            guard words.count == 2 else { return nil }
            thread = words[0]
            let rest = words[1].drop { $0 == " " }
            if rest.hasPrefix("<... ") {
                call = rest.dropFirst(5).prefix { $0 != " " }
                (path, begins, ends, offset) = ("", false, true, 0)
            } else {
                call = rest.prefix { $0 != "(" }
                path = rest.drop { $0 != "<" }.dropFirst().prefix { $0 != ">" }
                (begins, ends) = (true, !rest.contains("<unfinished"))
                offset = rest.split(separator: ", ").last.flatMap { Int($0.prefix(while: \.isNumber)) } ?? 0
            }
        }
    }

    /// What strace wrote, and where a file of the download or of the list is.
    private struct Trace {
        let lines: [Line]
        let files, list: String

        /// Notes of the list that began while something of the download was not flushed; and how many there were after its
        /// first byte.
        func notes() -> (early: Int, all: Int) {
            var (written, flushed, early, all) = (0, 0, 0, 0)
            var flushing: [Substring: Int] = [:]
            for line in lines {
                let isOfDownload = line.path.hasPrefix(files + "/")
                switch line.call {
                // A head alone says again what is flushed: closing the file writes the other one of the two.
                case "pwrite64" where isOfDownload: if line.offset >= 8192 { written += 1 }
                case "pwrite64" where line.begins && line.path == list + "-wal":
                    if written > flushed { early += 1 }
                    if written > 0 { all += 1 }
                case "fsync", "fdatasync":
                    if isOfDownload { flushing[line.thread] = written }
                    if line.ends, let count = flushing.removeValue(forKey: line.thread) {
                        flushed = max(flushed, count)
                    }
                default: break
                }
            }
            return (early, all)
        }
    }

    private func trace() async throws -> Trace {
        let bed = try DownloadBed()
        let server = try FaultServer()
        try server.answer("/file", Answer(length: 40 << 20).with(\.bytesPerSecond, 12 << 20))
        var request = DownloadRequest(server.url("/file"), to: bed.path("file"))
        let authority = String(decoding: try server.authority, as: UTF8.self)
        request.trust = try ServerTrust(anchors: .only([try Certificate(pem: authority)]))
        _ = try await DownloadQueue(bed.keybag).add(request)
        let log = bed.keybag.directory.removingLastComponent().appending("trace").string
        let process = try DownloadWorker.start(
            bed, "idle", wrapper: DownloadWorker.tracing(["pwrite64", "fsync", "fdatasync", "linkat"]) + ["-o", log])
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
        #expect(try bed.names() == ["file"])
        let text = try String(contentsOfFile: log, encoding: .utf8)
        return Trace(
            lines: text.split(separator: "\n").compactMap { Line($0) }, files: bed.directory.string,
            list: bed.keybag.directory.appending("downloads").appending("queue.sqlite").string)
    }

    @Test func bytesAreFlushedBeforeTheyAreNoted() async throws {
        let trace = try await trace()
        let (early, all) = trace.notes()
        #expect(early == 0)
        // Several while it came, each of several pages: that there were none would prove nothing.
        #expect(all >= 8)
        // The test sees what it looks for: without its flushes every note would be too early.
        let unflushed = Trace(
            lines: trace.lines.filter { !($0.call == "fdatasync" && $0.path.hasPrefix(trace.files)) },
            files: trace.files, list: trace.list)
        #expect(unflushed.notes().early > 0)
    }

    /// What is noted lasts: SQLite flushes every transaction.
    @Test func notesAreFlushed() async throws {
        let trace = try await trace()
        var isFlushed = true
        var lasting = 0
        for line in trace.lines where line.begins && line.path == trace.list + "-wal" {
            if line.call == "fdatasync", !isFlushed { lasting += 1 }
            isFlushed = line.call == "fdatasync"
        }
        #expect(isFlushed && lasting >= 3)
    }
}
