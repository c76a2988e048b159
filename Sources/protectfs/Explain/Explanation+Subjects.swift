import DataProtection
import Glibc

extension Explanation {
    /// A protected file.
    ///
    /// - Parameter own: the keybag of this command, which a file in its place belongs to.
    init(
        of info: ProtectedFileInfo, at path: FilePath, _ keybag: ExplainedKeybag, replacedUnder own: ExplainedKeybag,
        mayWrite: Bool, mayReplace: Bool
    ) throws(DataProtectionError) {
        let name = info.protectionClass.shortName
        self.init("protected", "protected, class \(name), \(spoken(info.size, "byte"))")
        add(keybag, uuid: info.keybag)
        members += [("class", .string(name)), ("size", .number(info.size))]
        guard let state = keybag.state else {
            for action in ["read", "write", "change class"] { add(action, false, "its keybag cannot be used") }
            help = keybag.help
            return
        }
        if let own = keybag.keybag, let problem = Wholeness.keyProblem(of: path, own) {
            for action in ["read", "write", "change class"] { add(action, false, problem.message) }
            help = problem.hint
        } else {
            add(.openToRead, named: "read", info.protectionClass, in: state)
            if keybag.isOther {
                for action in ["write", "change class"] {
                    add(action, false, "it belongs to another keybag: name that one")
                }
                help = help ?? "protectfs explain\(keybagOption) \(quoted(path))"
            } else if mayWrite {
                add(.openToWrite, named: "write", info.protectionClass, in: state)
                addClassChange(from: info.protectionClass, in: state)
            } else {
                for action in ["write", "change class"] {
                    add(action, false, "the permissions of the file do not let you")
                }
            }
        }
        if mayReplace {
            let next = try ClassChoice(
                forNewFileAt: path, keybag: own.keybag, fallback: KeybagOption.fallbackForCommands)
            if let state = own.state {
                keybagOption = own.directory.map { KeybagOption.words(for: $0) } ?? ""
                deviceKeyProblem = own.deviceKeyProblem
                add(.create, named: "replace", next.protectionClass, in: state)
            } else {
                add("replace", false, "the keybag of this command cannot be used")
            }
        } else {
            add("replace", false, "the permissions of its directory do not let you")
        }
        stronger = StrongerClass.all(above: info.protectionClass, in: state)
    }

    /// A name that is not there.
    init(ofNewFileAt path: FilePath, _ keybag: ExplainedKeybag) throws(DataProtectionError) {
        self.init("missing", "not there")
        let directory = path.removingLastComponent()
        let choice = try ClassChoice(forNewFileAt: path, fallback: KeybagOption.fallbackForCommands)
        try add(choice, keybag, in: directory.isEmpty ? "." : directory)
    }

    /// A directory.
    init(ofDirectory path: FilePath, _ keybag: ExplainedKeybag) throws(DataProtectionError) {
        let own = Keybag.defaultProtection(of: path)
        self.init(
            "directory",
            "directory" + (own.map { ", default class \($0.shortName)" } ?? " without a default class of its own"))
        members.append(("default", own.map { .string($0.shortName) } ?? .null))
        try add(try ClassChoice(forNewFilesIn: path, fallback: KeybagOption.fallbackForCommands), keybag, in: path)
        facts.append(
            ("applies to", "new files in it, and in directories below it that have no default class of their own"))
    }

    /// What was a protected file.
    init(of mangling: Mangling, help: String?) {
        self.init("mangled", "was a protected file until another program changed it: \(mangling.spoken)")
        for action in ["read", "write", "protect"] { add(action, false, "the file is damaged") }
        self.help = help
    }

    /// A plaintext file.
    init(ofPlaintext item: NamedItem, _ keybag: ExplainedKeybag, mayReplace: Bool) throws(DataProtectionError) {
        let path = item.path
        self.init("plaintext", "not protected: anybody who may open it, or has the disk, can read it")
        add(keybag, uuid: nil)
        guard let state = keybag.state, let directory = keybag.directory else {
            add("protect", false, "the keybag cannot be used")
            help = keybag.help
            return
        }
        if let reason = UnprotectableNames(keybag: directory).reason(against: path) {
            add("protect", false, reason)
            return
        }
        guard item.nameCount == 1 else {
            add("protect", false, "it has \(item.nameCount) names; the others would keep the plaintext")
            return
        }
        if let obstacle = ConversionSource.obstacle(path) {
            add("protect", false, obstacle.message)
            help = obstacle.hint
            return
        }
        guard mayReplace else {
            add("protect", false, "the permissions of its directory do not let you")
            return
        }
        for protectionClass in ProtectionClass.allCases {
            add(.protect, named: "protect as \(protectionClass.shortName)", protectionClass, in: state)
        }
        help = help ?? "protectfs protect\(keybagOption) \(quoted(path))"
    }

    /// The class of new files.
    private mutating func add(
        _ choice: ClassChoice, _ keybag: ExplainedKeybag, in directory: FilePath
    ) throws(DataProtectionError) {
        add(keybag, uuid: nil)
        facts += [("new files", "class \(choice.protectionClass.shortName)"), ("because", choice.words(in: directory))]
        members += [("class", .string(choice.protectionClass.shortName)), ("rule", .string(choice.word))]
        guard let state = keybag.state else {
            add("create", false, "the keybag cannot be used")
            help = keybag.help
            return
        }
        if directory.withPlatformString({ access($0, W_OK | X_OK) }) == 0 {
            add(.create, named: "create", choice.protectionClass, in: state)
            // What is created while locked can be written until it is closed, and not be read.
            let isReadable = AccessRule.opens(choice.protectionClass, in: state)
            if actions.last?.isPossible == true, !isReadable { add("read back", false, "only after an unlock") }
        } else {
            add("create", false, "\(quoted(directory)): \(Errno(rawValue: errno).spoken)")
        }
        stronger = StrongerClass.all(above: choice.protectionClass, in: state)
    }

    private mutating func add(_ keybag: ExplainedKeybag, uuid: KeybagUUID?) {
        let name = uuid.map { "\($0), " } ?? ""
        facts.append(("keybag", name + keybag.spoken))
        deviceKeyProblem = keybag.deviceKeyProblem
        keybagOption = keybag.directory.map { KeybagOption.words(for: $0) } ?? ""
        if let uuid { members.append(("keybag", .string("\(uuid)"))) }
        members.append(("state", keybag.state.map { .string($0.rawValue) } ?? .null))
    }
}
