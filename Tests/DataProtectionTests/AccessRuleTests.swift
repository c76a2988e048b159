import Testing

@testable import DataProtection

/// The table of operations, cell by cell: what the derivation from "who has which key" must come to.
@Suite struct AccessRuleTests {
    /// For A, B, C, D: before first unlock, unlocked, locked. `y` allowed, `n` locked, `x` refused, `-` cannot arise.
    private static let table: [(FileOperation, [String])] = [
        (.create, ["nyn", "yyy", "nyy", "yyy"]),
        (.openToRead, ["nyn", "nyn", "nyy", "yyy"]),
        (.openToWrite, ["nyn", "nyn", "nyy", "yyy"]),
        (.truncateByPath, ["nyn", "nyn", "nyy", "yyy"]),
        (.useHandle, ["-yn", "-yy", "-yy", "-yy"]),
        (.useCreatedHandle, ["---", "yyy", "-yy", "yyy"]),
        (.syncAndClose, ["yyy", "yyy", "yyy", "yyy"]),
        (.inspect, ["yyy", "yyy", "yyy", "yyy"]),
        (.rename, ["yyy", "yyy", "yyy", "yyy"]),
        (.exchangeData, ["xxx", "xxx", "xxx", "xxx"]),
        (.replace, ["nyn", "yyy", "nyy", "yyy"]),
        (.setDirectoryDefault, ["yyy", "yyy", "yyy", "yyy"]),
        (.copyCiphertext, ["yyy", "yyy", "yyy", "yyy"]),
        (.protect, ["nyn", "yyy", "nyy", "yyy"]),
        (.unprotect, ["nyn", "nyn", "nyy", "yyy"]),
    ]
    private static let states: [ProtectionState] = [.beforeFirstUnlock, .unlocked, .locked]

    @Test func everyCell() {
        #expect(Set(Self.table.map(\.0)) == Set(FileOperation.allCases))
        let marks: [AccessRule.Answer: Character] = [.allowed: "y", .locked: "n", .refused: "x", .cannotArise: "-"]
        for (operation, rows) in Self.table {
            for (protectionClass, row) in zip(ProtectionClass.allCases, rows) {
                let answers = Self.states.map { marks[AccessRule.answer(operation, protectionClass, in: $0)]! }
                #expect(String(answers) == row, "\(operation), \(protectionClass)")
            }
        }
    }

    /// Rows from, columns to, A B C D.
    @Test(arguments: [
        (ProtectionState.locked, ["ynnn", "nynn", "nyyy", "nyyy"]), (.unlocked, ["yyyy", "yyyy", "yyyy", "yyyy"]),
        (.beforeFirstUnlock, ["ynnn", "nynn", "nnyn", "nyny"]),
    ])
    func changes(_ state: ProtectionState, _ rows: [String]) {
        for (old, row) in zip(ProtectionClass.allCases, rows) {
            let answers = ProtectionClass.allCases.map { AccessRule.canChange(from: old, to: $0, in: state) }
            #expect(String(answers.map { $0 ? "y" : "n" }) == row, "\(state), from \(old)")
        }
    }
}
