import Conformance
import Testing

@testable import DataProtection

/// What `AccessRule` derives from "who has which key" is what the table says, cell by cell.
@Suite struct AccessRuleTests {
    private static let table = Result { try SemanticsTable.compiledIn() }

    /// The rows that an operation of `AccessRule` stands for.
    private static func rows(_ operation: FileOperation) -> [Rehearsal] {
        switch operation {
        case .create: [.create]
        case .openToRead: [.openToRead, .copy]
        case .openToWrite: [.openToWrite, .openToAppend, .openToEmpty]
        case .truncateByPath: [.truncateByPath]
        case .replace: [.replace]
        case .useHandle: [.readOpened, .writeOpened, .appendOpened]
        case .useCreatedHandle: [.readCreated, .writeCreated, .appendCreated, .truncateCreated]
        case .syncAndClose: [.sync, .close]
        case .inspect: [.stat, .getClass, .list, .changeMode, .changeTimes]
        case .rename: [.rename, .link, .unlink]
        case .exchangeData: [.exchange]
        case .setDirectoryDefault: [.setDirectoryClass]
        case .copyCiphertext: [.copyCiphertext]
        case .protect: [.protect]
        case .unprotect: [.unprotect]
        case .rekey: [.rekey]
        }
    }

    @Test(arguments: FileOperation.allCases)
    func everyCell(_ operation: FileOperation) throws {
        let marks: [AccessRule.Answer: Mark] = [
            .allowed: .goes, .locked: .locked, .refused: .refused, .cannotArise: .cannotArise,
        ]
        for row in Self.rows(operation) {
            let found = try #require(try Self.table.get().operations.first { $0.rehearsal == row }, "\(row)")
            for cell in found.cells {
                guard case .operation(_, let protectionClass) = cell.attempt else { continue }
                let answer = AccessRule.answer(operation, protectionClass, in: cell.moment.state)
                #expect(marks[answer] == cell.expected, "\(cell)")
            }
        }
    }

    @Test func changes() throws {
        let changes = try Self.table.get().classChanges
        #expect(changes.count == 16)
        for cell in changes.flatMap(\.cells) where cell.expected != .cannotArise {
            guard case .classChange(let old, let new, _) = cell.attempt else { continue }
            let goes = AccessRule.canChange(from: old, to: new, in: cell.moment.state)
            #expect(goes == (cell.expected == .goes), "\(cell)")
        }
    }
}
