import CommandLanguage
import DataProtection
import Glibc
import ProtectionMount

extension MountError: SpokenError {
    package var message: String {
        switch self {
        case .unusable(let path, let errno): "\(quoted(path)) cannot be used: \(errno.spoken)"
        case .notEmpty(let path): "\(quoted(path)) is not empty, and a mount would hide its files"
        case .inUse(let path): "something is mounted at \(quoted(path)) already"
        case .nested(let source, let point): "\(quoted(source)) and \(quoted(point)) must not be inside each other"
        case .containsMount(let source, let point):
            "\(quoted(source)) cannot be mounted over itself: the mount at \(quoted(point)) is in it"
        case .containsKeybag(let source, let keybag):
            "\(quoted(source)) cannot be mounted over itself: the keybag \(quoted(keybag)) or its device key is in it"
        case .isMount(let path): "\(quoted(path)) is in a mount of protectfs"
        case .noThread(let errno): "there is no thread for the mount: \(errno.spoken)"
        case .failed(let errno): "the connection to the kernel failed: \(errno.spoken)"
        case .refused(let point):
            "cannot mount at \(quoted(point))"
                + (Self.deviceRefusal.map { ": /dev/fuse cannot be opened: \($0.spoken)" } ?? "")
        }
    }

    package var hint: String? {
        switch self {
        case .unusable, .nested, .failed: nil
        case .noThread: "end some processes of this user, or raise its limits: ulimit -u, ulimit -n"
        case .isMount: "name the directory that is mounted there, or one in it"
        case .notEmpty: "name an empty directory, or none: then the directory itself shows the plaintext"
        case .containsMount(_, let point): "unmount it first: protectfs unmount \(quoted(point))"
        case .containsKeybag: "mount the directories in it, one by one"
        case .inUse(let path): "unmount it first: protectfs unmount \(quoted(path))"
        case .refused:
            switch Self.deviceRefusal {
            case nil: "fusermount3 and /dev/fuse are needed: install the package fuse3"
            case .some(.permissionDenied): "every user may open it as a rule: sudo chmod 666 /dev/fuse"
            case .some(.notPermitted): "start the container with this device: --device /dev/fuse"
            default: "load the kernel's driver: sudo modprobe fuse"
            }
        }
    }

    /// Why this user cannot open /dev/fuse; nil if it can be opened, or is not there.
    private static var deviceRefusal: Errno? {
        let descriptor = open("/dev/fuse", O_RDWR | O_CLOEXEC)
        guard descriptor < 0 else {
            close(descriptor)
            return nil
        }
        let error = Errno(rawValue: errno)
        return error == .noSuchFileOrDirectory ? nil : error
    }

    package var exitStatus: ExitStatus {
        switch self {
        case .unusable(_, .noSuchFileOrDirectory): .notFound
        case .unusable(_, .permissionDenied), .unusable(_, .notPermitted): .refused
        case .unusable, .nested, .isMount, .containsMount, .containsKeybag: .usage
        case .failed, .noThread: .systemRefused
        case .notEmpty, .inUse: .exists
        case .refused: .unavailable
        }
    }
}
