import DurableFiles
import Glibc
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// The user namespaces whose keyrings hold class keys A and B: the file `rings` in the keybag directory. FORMAT.md §2.18.
///
/// The kernel keeps one user keyring for each user *and* user namespace (keyrings(7), user_namespaces(7)). A lock reaches only the
/// keyring of the namespace that it runs in. With this record it notices keys that it cannot reach.
///
/// Nothing authenticates the file. A forged entry makes every lock fail loudly; a removed entry hides keys only from users who
/// unlocked in a namespace on purpose.
package struct RingPlaces: Sendable {
    package static let name = "rings"
    /// Bytes of the file: lines of text, then line feeds.
    package static let length = 1024
    /// The inode number of the initial user namespace (`USER_NS_INIT_INO` in linux/nsfs.h).
    package static let initialNamespace: UInt64 = 0xEFFF_FFFD

    package let directory: FilePath

    package init(directory: FilePath) { self.directory = directory }

    /// The inode number of this process's user namespace, namespaces(7); nil where /proc is not mounted.
    ///
    /// - Throws: `system`.
    private static func namespace() throws(DataProtectionError) -> UInt64? {
        var status = stat()
        let path: FilePath = "/proc/self/ns/user"
        do throws(DataProtectionError) { _ = try retrying(path, "stat") { stat(path.string, &status) } } catch {
            if error.errno == .noSuchFileOrDirectory { return nil }
            throw error
        }
        return UInt64(status.st_ino)
    }

    /// One keyring that holds keys.
    package struct Place: Hashable {
        /// Its inode number; 0 where it was not known.
        package var namespace: UInt64
        /// The boot that the keys were loaded in, 16 bytes; zeros where it was not known.
        package var bootID: [UInt8]
        /// When the kernel removes the keys: CLOCK_BOOTTIME of the machine in nanoseconds; 0: never, or that is not known.
        package var expiry: UInt64

        /// Whether the keys can still be there. The kernel is given two seconds to remove them.
        ///
        /// If the boot is unknown, here or in the entry, nothing rules the keys out.
        package func isPossible(in boot: [UInt8]) -> Bool {
            guard bootID != Clock.unknownBoot, boot != Clock.unknownBoot else { return true }
            guard bootID == boot else { return false }
            guard expiry != 0, Clock.isOfMachine else { return true }
            let now = Clock.bootTime()
            return now < expiry || now - expiry < 2_000_000_000
        }
    }

    private struct Contents: Equatable {
        var wasMadeElsewhere = false
        var places: [Place] = []

        /// Removes the entry of `namespace`, and the entries whose keys cannot be there any more.
        mutating func keepOnly(outside namespace: UInt64, in boot: [UInt8]) {
            places.removeAll { $0.namespace == namespace || !$0.isPossible(in: boot) }
            // An entry of an unknown boot is not of a later boot than this one. So the next boot ends it.
            for index in places.indices where places[index].bootID == Clock.unknownBoot { places[index].bootID = boot }
        }
    }

    /// Notes in a new keybag that it was made outside the initial namespace, for example in a container.
    package func noteOrigin() throws(DataProtectionError) {
        // Without /proc nothing can be noted. Any other error would make a keybag that no unlock here accepts.
        guard let here = try Self.namespace(), here != Self.initialNamespace else { return }
        try write(Contents(wasMadeElsewhere: true))
    }

    /// Whether a lock can be expected to run in this process's namespace. True for the initial namespace, and for every namespace if
    /// the keybag was made outside the initial one.
    package var isAtHome: Bool {
        guard let here = try? Self.namespace(), here != Self.initialNamespace else { return true }
        return (try? read())?.wasMadeElsewhere ?? false
    }

    /// Adds this process's namespace. Call within the turn that loads the keys.
    ///
    /// - Parameter expiry: see ``Place/expiry``.
    /// - Throws: `tooManyNamespaces` if there is no room for one more entry: no other entry gives way, because a lock would no longer
    ///   know of those keys. `system`, `notRegularFile` if the file cannot be read: what it says would be lost.
    package func add(expiry: UInt64) throws(DataProtectionError) {
        let (before, boot) = (try read(), Clock.bootID())
        let here = Place(
            namespace: try Self.namespace() ?? 0, bootID: boot, expiry: Clock.isOfMachine ? expiry : 0)
        var contents = before
        contents.keepOnly(outside: here.namespace, in: boot)
        contents.places.append(here)
        if contents != before { try write(contents) }
    }

    /// When the kernel removes the keys from the keyring of this process's namespace, as noted by their unlock: CLOCK_BOOTTIME in nanoseconds; 0:
    /// never. Nil if no unlock has noted it, or the file cannot be read.
    ///
    /// Locks elsewhere rely on it: a process that gives the keys a timeout here must not exceed it.
    package var expiryHere: UInt64? {
        guard Clock.isOfMachine, let contents = try? read(), let here = try? Self.namespace() ?? 0 else { return nil }
        return contents.places.last { $0.namespace == here && Clock.mayBeThisBoot($0.bootID) }?.expiry
    }

    /// A record with the limit of the keys in this namespace's keyring, and not of the last unlock or lock anywhere.
    package func asItHoldsHere(_ record: TransitionRecord) -> TransitionRecord {
        var own = record
        if let expiry = expiryHere { own.limit = expiry }
        return own
    }

    /// Removes this process's namespace. Call after the keys have gone. A file that cannot be read stays as it is.
    package func remove() {
        guard let before = try? read(), let here = try? Self.namespace() ?? 0 else { return }
        var contents = before
        contents.keepOnly(outside: here, in: Clock.bootID())
        if contents != before { try? write(contents) }
    }

    /// The other namespaces whose keyrings may hold the keys.
    ///
    /// - Throws: `system`, `notRegularFile` if the file cannot be read.
    package func elsewhere() throws(DataProtectionError) -> [UInt64] {
        let (here, boot) = (try Self.namespace() ?? 0, Clock.bootID())
        return try read().places.filter { $0.namespace != here && $0.isPossible(in: boot) }.map(\.namespace)
    }

    /// - Throws: `keysElsewhere`; `system`, `notRegularFile` if the file cannot be read, so that keys elsewhere cannot be ruled out.
    package func refuseElsewhere() throws(DataProtectionError) {
        let namespaces = try elsewhere()
        if !namespaces.isEmpty {
            throw .because(KeybagFailure.keysElsewhere(keybag: directory, namespaces: namespaces))
        }
    }

    // MARK: the file

    private static let origin = "made outside the initial user namespace"

    /// - Throws: `system`, `notRegularFile`. A file that is not there says nothing.
    private func read() throws(DataProtectionError) -> Contents {
        var contents = Contents()
        let file: LowerFile
        do throws(DataProtectionError) {
            file = try LowerFile(regular: directory.appending(Self.name), flags: O_RDONLY | O_NOFOLLOW)
        } catch {
            guard error.errno == .noSuchFileOrDirectory || error.errno == .notDirectory else { throw error }
            return contents
        }
        let bytes = try file.bytes(at: 0, count: Self.length)
        for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n") {
            if line == Self.origin { contents.wasMadeElsewhere = true }
            let fields = line.split(separator: " ")
            guard fields.count == 3, let namespace = UInt64(fields[0]), let expiry = UInt64(fields[2]),
                let bootID = Hexadecimal.bytes(String(fields[1]))
            else { continue }
            contents.places.append(Place(namespace: namespace, bootID: bootID, expiry: expiry))
        }
        return contents
    }

    /// One write(2), so that a reader never sees half of it. It is not flushed: after a power cut no keyring holds anything.
    private func write(_ contents: Contents) throws(DataProtectionError) {
        var lines = contents.places.map { "\($0.namespace) \(Hexadecimal.text($0.bootID)) \($0.expiry)\n" }
        if contents.wasMadeElsewhere { lines.insert(Self.origin + "\n", at: 0) }
        var bytes = Array(lines.joined().utf8)
        guard bytes.count <= Self.length else {
            throw .because(KeybagFailure.tooManyNamespaces(keybag: directory, namespaces: try elsewhere()))
        }
        bytes += [UInt8](repeating: UInt8(ascii: "\n"), count: Self.length - bytes.count)
        // A limit that cuts the write off would leave half a line: setrlimit(2).
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit) == 0, limit.rlim_cur >= Self.length else {
            throw .system(directory.appending(Self.name), operation: "write", .fileTooLarge)
        }
        let file = try LowerFile(directory.appending(Self.name), flags: O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK)
        try file.write(bytes, at: 0)
    }
}
