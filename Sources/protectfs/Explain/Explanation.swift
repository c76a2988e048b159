import DataProtection

/// What would happen now to what lies under a path, and why. Put together from facts; asks the system nothing.
struct Explanation {
    /// Something that somebody may want to do.
    struct Action {
        let name: String
        let isPossible: Bool
        /// Why not, or what would come of it.
        let reason: String?
    }

    /// One line: what it is.
    var title: String
    /// For `--json`: the same in a word.
    let kind: String
    /// Names and what stands beside them.
    var facts: [(name: String, text: String)] = []
    var actions: [Action] = []
    /// Stronger classes, and what would still go with them.
    var stronger: [StrongerClass] = []
    /// What to type so that more goes.
    var help: String?
    /// For `--json`.
    var members: [(String, JSON)] = []
    /// What names the keybag behind a verb, where that is needed.
    var keybagOption = ""
    /// Why nothing goes that needs the device key.
    var deviceKeyProblem: DataProtectionError?

    init(_ kind: String, _ title: String) {
        self.kind = kind
        self.title = title
    }

    /// What would go with a stronger class.
    struct StrongerClass {
        let protectionClass: ProtectionClass
        let now: [FileOperation]
        let whileLocked: [FileOperation]

        /// The classes that are stronger than `protectionClass`, weakest first, by the table.
        static func all(above protectionClass: ProtectionClass, in state: ProtectionState) -> [StrongerClass] {
            ProtectionClass.allCases.filter { $0 > protectionClass }.sorted().map { stronger in
                func going(_ state: ProtectionState) -> [FileOperation] {
                    [.openToRead, .openToWrite, .create, .useHandle].filter {
                        AccessRule.answer($0, stronger, in: state) == .allowed
                    }
                }
                return StrongerClass(protectionClass: stronger, now: going(state), whileLocked: going(.locked))
            }
        }
    }

    /// Adds what an operation meets by the table.
    mutating func add(
        _ operation: FileOperation, named name: String, _ protectionClass: ProtectionClass, in state: ProtectionState
    ) {
        let isPossible = AccessRule.answer(operation, protectionClass, in: state) == .allowed
        if isPossible, let problem = deviceKeyProblem, Self.needsDeviceKey(protectionClass, in: state) {
            add(name, false, problem.message)
            help = help ?? problem.hint
            return
        }
        add(name, isPossible, isPossible ? nil : state.reason(against: protectionClass))
        if !isPossible { help = help ?? "protectfs unlock\(keybagOption)" }
    }

    mutating func add(_ name: String, _ isPossible: Bool, _ reason: String?) {
        actions.append(Action(name: name, isPossible: isPossible, reason: reason))
    }

    /// Adds to which classes the file could be changed.
    mutating func addClassChange(from protectionClass: ProtectionClass, in state: ProtectionState) {
        let others = ProtectionClass.allCases.filter { $0 != protectionClass }
        let reachable = others.filter { other in
            let isHindered = [protectionClass, other].contains { Self.needsDeviceKey($0, in: state) }
            return AccessRule.canChange(from: protectionClass, to: other, in: state)
                && !(isHindered && deviceKeyProblem != nil)
        }
        let names = reachable.map(\.shortName).joined(separator: ", ")
        add(
            "change class", !reachable.isEmpty,
            reachable.isEmpty ? (deviceKeyProblem?.message ?? "needs an unlock") : "to \(names)")
    }
}

extension Explanation {
    /// Class D is opened by the device key, which vouches for class B's public key while class key C is not there.
    private static func needsDeviceKey(_ protectionClass: ProtectionClass, in state: ProtectionState) -> Bool {
        protectionClass == .none || protectionClass == .completeUnlessOpen && state == .beforeFirstUnlock
    }
}

extension ProtectionState {
    /// Why a file of a class cannot be had now.
    fileprivate func reason(against protectionClass: ProtectionClass) -> String {
        switch (self, protectionClass) {
        case (.beforeFirstUnlock, .completeUntilFirstUserAuthentication):
            "the key of class first-unlock comes with the first unlock since the machine started"
        default: "the key of class \(protectionClass.shortName) is there only while unlocked"
        }
    }
}

extension ClassChoice {
    /// Why a file gets its class.
    ///
    /// - Parameter path: the directory that it is in.
    func words(in path: FilePath) -> String {
        let directory = directory ?? path
        let choice =
            switch rule {
            case .explicit: "it was asked for"
            case .replacedFile: "the file that would be replaced has it"
            case .directory: "it is the default of the directory \(quoted(directory))"
            case .directoryRaised(let value):
                "the default of the directory \(quoted(directory)) is \(quoted(value)), which is not followed"
            case .program: "it is the program's default"
            case .configuration: "the configuration \(quoted(Locations.configuration)) says so"
            case .configurationRaised:
                "the configuration \(quoted(Locations.configuration)) says none, which is not followed"
            case .fallback: "nothing says another one"
            }
        guard let ignoredDirectoryDefault else { return choice }
        return choice
            + "; the default \(quoted(ignoredDirectoryDefault)) of the directory \(quoted(directory)) is not used, "
            + "because another user owns that directory"
    }

    /// The rule in a word, for `--json`.
    var word: String {
        switch rule {
        case .explicit: "explicit"
        case .replacedFile: "replacedFile"
        case .directory: "directory"
        case .directoryRaised: "directoryRaised"
        case .program: "program"
        case .configuration: "configuration"
        case .configurationRaised: "configurationRaised"
        case .fallback: "fallback"
        }
    }
}
