import Glibc

/// Where a TPM is. Nothing but these two is ever given to the library: it would load any shared object that a free name says.
enum ModulePlace: Hashable, Sendable {
    /// The kernel's resource manager of the first TPM, `/dev/tpmrm0`.
    case device
    /// swtpm on this machine, for tests: its port and the one after it, on 127.0.0.1.
    case emulator(port: UInt16)

    static let devicePath = "/dev/tpmrm0"

    /// The TPM of this machine. Only a build for the project's own tests looks for an emulator: a program that sets a variable must not become the
    /// keeper of the secrets, and see the values that are derived from passcodes.
    static var ofMachine: ModulePlace {
        #if PROTECTFS_TESTING
            if let text = getenv("PROTECTFS_TEST_SWTPM_PORT"), let port = UInt16(String(cString: text)) {
                return .emulator(port: port)
            }
        #endif
        return .device
    }

    /// As Tss2_TctiLdr_Initialize(3) takes it.
    var name: String {
        switch self {
        case .device: "device:\(Self.devicePath)"
        case .emulator(let port): "swtpm:host=127.0.0.1,port=\(port)"
        }
    }

    /// The library says no more than that the device cannot be used.
    ///
    /// - Throws: `deviceMissing`, `permissionDenied`.
    func requireReachable() throws(TrustedModuleError) {
        guard self == .device else { return }
        // The kernel's resource manager takes any number of openings.
        let descriptor = open(Self.devicePath, O_RDWR | O_CLOEXEC | O_NONBLOCK)
        guard descriptor < 0 else {
            close(descriptor)
            return
        }
        switch errno {
        case EACCES, EPERM: throw .permissionDenied(path: Self.devicePath)
        case ENOENT, ENXIO, ENODEV, ENOTDIR: throw .deviceMissing(path: Self.devicePath)
        default: break  // the library tries, and says why
        }
    }
}
