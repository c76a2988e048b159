import Glibc
import KernelKeyring
import ProtectionFormat
import ProtectionKeys
import SystemPackage

@testable import DataProtection

/// What tests do to the kernel keyring behind the library's back, and what they ask of it.
extension TestKeybag {
    /// The two keys of a keybag in the ring.
    enum Place: CaseIterable { case unlocked, firstUnlock }

    private func ringKey(_ place: Place) -> RingKey {
        (place == .unlocked ? keybag.ring.unlocked : keybag.ring.firstUnlock).key
    }

    /// Puts `payload` into the ring under one of the keybag's names.
    ///
    /// - Parameter permissions: nil leaves what `add_key` gives: the moment before the library sets them.
    @discardableResult
    func plant(
        _ place: Place, _ payload: [UInt8], permissions: UInt32? = RingKey.permissions
    ) throws -> KeySerial {
        let description = ringKey(place).description
        return try RingWriter.run { () throws(Errno) in
            let result: Result<KeySerial, Errno> = payload.withUnsafeBytes { bytes in
                do throws(Errno) {
                    return .success(try KeySerial.userKeyring.add(description, payload: bytes))
                } catch {
                    return .failure(error)
                }
            }
            let serial = try result.get()
            if let permissions { try serial.setPermissions(permissions) }
            return serial
        }
    }

    /// The payload of one of the keybag's keys: to forge one that looks like it.
    func payload(_ place: Place) throws -> [UInt8] {
        let serial = try ringKey(place).find()
        var buffer = [UInt8](repeating: 0, count: 4096)
        let count = try buffer.withUnsafeMutableBytes { try serial.read(into: $0) }
        return Array(buffer[..<count])
    }

    /// Lets the kernel's own timeout of one of the keys run.
    func setTimeout(_ place: Place, seconds: UInt32) throws {
        try RingWriter.run { () throws(Errno) in try ringKey(place).setTimeout(seconds: seconds) }
    }

    /// Waits until the kernel says that a key has expired; twenty seconds at most.
    ///
    /// Blocks its thread: after an `await` among hundreds of tests the kernel's collector (`gc_delay`, 300 s) may have come.
    func waitUntilExpired(_ place: Place) throws {
        for _ in 0..<800 where absence(place) != .keyExpired { usleep(25_000) }
        guard absence(place) == .keyExpired else { throw Errno.timedOut }
    }

    /// What a search for one of the keys answers instead of it; nil if it finds it.
    func absence(_ place: Place) -> Errno? {
        do throws(Errno) {
            _ = try ringKey(place).find()
            return nil
        } catch {
            return error
        }
    }

    /// The timeout column of `/proc/keys`: `perm` without one, `expd` after it; nil if the key is not listed.
    func timeoutColumn(_ place: Place) -> String? {
        guard let serial = try? ringKey(place).find(), let file = fopen("/proc/keys", "r") else { return nil }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 8192)
        while fgets(&line, Int32(line.count), file) != nil {
            let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            let fields = text.split(separator: " ", omittingEmptySubsequences: true)
            if fields.count > 3, Int32(fields[0], radix: 16) == serial.rawValue { return String(fields[3]) }
        }
        return nil
    }

    /// The id of the active class key that the keybag lends; nil if it lends none.
    func keyID(_ protectionClass: ProtectionClass) throws -> [UInt8]? {
        try keyID(keybag.activeName(protectionClass))
    }

    /// The id of the class key of that name that the keybag lends; nil if it lends none.
    func keyID(_ name: ClassKeyName) throws -> [UInt8]? {
        if name.protectionClass == .completeUnlessOpen {
            return try keybag.withClassB(name) { key throws(DataProtectionError) in try id(of: key) }
        }
        return try keybag.withClassKey(name) { key throws(DataProtectionError) in try id(of: key) }
    }
}

private func id(of key: borrowing ClassKey) throws(DataProtectionError) -> [UInt8] {
    do throws(KeyError) { return try key.id() } catch { throw .cryptography(error) }
}

private func id(of key: borrowing ClassBPrivateKey) throws(DataProtectionError) -> [UInt8] {
    do throws(KeyError) { return try key.id() } catch { throw .cryptography(error) }
}
