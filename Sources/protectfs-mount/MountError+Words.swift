import CommandLanguage
import DataProtection
import ProtectionMount

extension MountError: SpokenError {
    package var message: String {
        switch self {
        case .unusable(let path, let errno): "\(quoted(path)) cannot be used: \(errno.spoken)"
        case .notEmpty(let path): "\(quoted(path)) is not empty, and a mount would hide its files"
        case .inUse(let path): "something is mounted at \(quoted(path)) already"
        case .nested(let source, let point): "\(quoted(source)) and \(quoted(point)) must not be inside each other"
        case .refused(let point): "cannot mount at \(quoted(point))"
        }
    }

    package var hint: String? {
        switch self {
        case .unusable, .nested: nil
        case .notEmpty: "name an empty directory"
        case .inUse(let path): "unmount it first: protectfs unmount \(quoted(path))"
        case .refused: "fusermount3 and /dev/fuse are needed: install the package fuse3"
        }
    }

    package var exitStatus: ExitStatus {
        switch self {
        case .unusable(_, .noSuchFileOrDirectory): .notFound
        case .unusable(_, .permissionDenied), .unusable(_, .notPermitted): .refused
        case .unusable, .nested: .usage
        case .notEmpty, .inUse: .exists
        case .refused: .unavailable
        }
    }
}
