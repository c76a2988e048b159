import Conformance
import Testing

@testable import DataProtection

extension FileTestBed {
    /// Brings the keybag to one of the moments of the table.
    func begin(_ moment: Moment) throws {
        try enter(moment.state)
        if moment == .grace { _ = try #require(try keybag.armLock(seconds: 60)) }
    }
}
