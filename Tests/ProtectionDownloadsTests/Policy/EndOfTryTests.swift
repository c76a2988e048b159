import SystemPackage
import Testing

@testable import DataProtection
@testable import ProtectionDownloads

@Suite struct EndOfTryTests {
    private func end(of errno: Errno) -> EndOfTry {
        EndOfTry(DownloadError.protection(.system("/a", operation: "open", errno)))
    }

    /// What there is too little of now there may be enough of later; a full disk is for somebody to see to.
    @Test(arguments: [Errno.tooManyOpenFiles, .tooManyOpenFilesInSystem, .noMemory])
    func shortages(_ errno: Errno) {
        guard case .failed(.connection(isTransient: true), let failure) = end(of: errno) else {
            Issue.record("\(end(of: errno))")
            return
        }
        #expect(failure.kind == .disk)
    }

    @Test(arguments: [Errno.noSpace, .diskQuotaExceeded, .readOnlyFileSystem, .permissionDenied, .ioError])
    func disks(_ errno: Errno) {
        guard case .failedForGood(let failure) = end(of: errno) else {
            Issue.record("\(end(of: errno))")
            return
        }
        #expect(failure.kind == .disk)
    }

    /// A server may have words in it, and they are kept in the list.
    @Test func wordsAreBounded() {
        let words = ResumePlan.Unusable.encoded(String(repeating: "a", count: 100_000))
        #expect(DownloadFailure(.unusable, "\(words)").message.count == 4000)
    }
}
