extension SecretError: SpokenError {
    package var exitStatus: ExitStatus {
        switch self {
        case .invalid, .valueTooLong: .usage
        case .exists: .exists
        case .notFound, .otherDevice, .keyLost: .notFound
        case .locked, .needsUnlock: .notNow
        case .damaged, .otherKey, .storeDamaged, .storeNewer: .damaged
        // SQLITE_BUSY: another process has been changing secrets for ten seconds.
        case .store(_, code: 5, _): .notNow
        case .store: .inputOutput
        case .protection(let error): error.exitStatus
        case .cryptography: .bug
        }
    }

    package var hint: String? {
        switch self {
        case .exists: "to change it: protectfs secret update, or set"
        case .notFound: "see what there is: protectfs secret find --all-groups"
        case .locked, .needsUnlock: "unlock first: protectfs unlock\(KeybagOption.words(for: KeybagOption.opened))"
        case .otherKey, .keyLost:
            "if another device has a copy of this keybag and rotated it, read the secret there; to replace it: protectfs secret set "
                + "--accessibility WHEN"
        case .otherDevice:
            "store it again: protectfs secret set --accessibility WHEN; or delete it: protectfs secret delete"
        case .damaged:
            "restore it from a backup, store it again with protectfs secret set --accessibility WHEN, or delete it with protectfs "
                + "secret delete"
        case .storeDamaged(let path, _):
            "restore it from a backup; or run: protectfs secret delete --damaged; if that does not help, move "
                + "\(quoted(path.removingLastComponent())) away to start a new store"
        case .store(_, code: 5, _): "another process is changing secrets: try again when it has finished"
        case .protection(let error): error.hint
        default: nil
        }
    }
}
