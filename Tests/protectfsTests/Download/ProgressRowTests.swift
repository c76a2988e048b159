import Testing

@testable import protectfs_download

@Suite("download: progress rows")
struct ProgressRowTests {
    private func row(_ name: String, _ events: DownloadEvent...) -> ProgressRow {
        var row = ProgressRow(name: name, nil)
        for event in events { row.take(event) }
        return row
    }

    @Test("A bar where the length is known, MiB where not, a word where nothing moves")
    func line() {
        let moving = DownloadEvent.state(.queued, .transferring)
        #expect(row("a.map", moving, .progress(received: 50, of: 100)).line(30) == "a.map       [#####     ]  50 %")
        #expect(row("a.map", moving, .progress(received: 3 << 20, of: nil)).line(30) == "a.map       3 MiB")
        #expect(row("a.map").line(30) == "a.map       waiting")
        #expect(row("a.map", .state(.queued, .waitingForUnlock)).line(40).hasSuffix("waiting for an unlock"))
    }

    @Test("Bytes, rate and time left, where there is room")
    func rate() {
        var row = ProgressRow(name: "a.map", nil)
        let began = ContinuousClock.now
        row.take(.state(.queued, .transferring), at: began)
        #expect(row.line(80).hasSuffix("  waiting for the server"))
        row.take(.progress(received: 0, of: 10 << 20), at: began)
        row.take(.progress(received: 4 << 20, of: 10 << 20), at: began + .seconds(2))
        let line = row.line(120, at: began + .seconds(2))
        #expect(line.hasSuffix("]  40 %  4.0 MiB of 10.0 MiB  2.0 MiB/s  3 s left"), "\(line)")
        #expect(row.line(30, at: began + .seconds(2)).hasSuffix("]  40 %"))
        #expect(row.line(120, at: began + .seconds(4)).hasSuffix("  1.0 MiB/s  6 s left"), "it has stalled")
        let trouble = DownloadTrouble(failure: DownloadFailure(.connection, "reset"), nextTry: nil, isHopeless: false)
        row.take(.state(.queued, .waitingToRetry), trouble, at: began + .seconds(5))
        #expect(row.line(120).hasSuffix("  reset"))
        row.take(.state(.queued, .transferring), at: began + .seconds(6))
        #expect(row.line(120, at: began + .seconds(8)).hasSuffix("]  40 %  4.0 MiB of 10.0 MiB"), "no rate yet")
    }

    @Test("No line is longer than the terminal is wide, whatever the name is", arguments: [0, 1, 7, 20, 40, 79, 200])
    func width(columns: Int) {
        let long = String(repeating: "long name ", count: 20)
        let wide = row("地図データ👩‍👩‍👧", .state(.queued, .transferring), .progress(received: 1, of: 3))
        #expect(wide.line(columns).columns <= columns)
        for row in [
            row(long), row(long, .state(.queued, .transferring), .progress(received: 1, of: 3)),
            row("a", .failed(DownloadFailure(.lost, "gone"))),
        ] {
            #expect(row.line(columns).count <= columns)
        }
    }

    @Test(
        "Wide characters take two columns, marks none",
        arguments: [("ab", 2), ("地図", 4), ("e\u{301}é", 2), ("👩‍👩‍👧x", 3)])
    func wide(text: String, columns: Int) {
        #expect(text.columns == columns)
        #expect(row("地図データ", .state(.queued, .waitingForUnlock)).line(24) == "地図デ…   waiting for an")
    }

    @Test("More than there is room for: those that move, and a line for all")
    func summary() {
        let moving = row("moving", .state(.queued, .transferring), .progress(received: 1, of: 2))
        let rows = [row("done", .state(.finished, .waiting)), row("waits"), moving, row("failed", .cancelled)]
        #expect(ProgressRow.lines(rows, columns: 60, atMost: 4).count == 4)
        let lines = ProgressRow.lines(rows, columns: 60, atMost: 3)
        #expect(lines == [moving.line(60), "1 of 4 finished, 1 failed"])
        #expect(ProgressRow.lines(rows, columns: 60, atMost: 1) == ["1 of 4 finished, 1 failed"])
    }
}
