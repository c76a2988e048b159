import CKeyutils
import Glibc
import KernelKeyring
import KeyQuota
import SystemPackage

/// A name in the user keyring that no other test and no other run uses. What is left under it goes with this object.
final class ScratchKey: Sendable {
    let key: RingKey

    init(_ test: String = #function) {
        let nonce = String(UInt64.random(in: .min ... .max), radix: 36)
        let name = test.filter { $0.isLetter || $0.isNumber }
        key = RingKey(description: "protectfs-test:\(nonce):\(name)")
        KeyQuota.waitForRoom()
    }

    deinit { try? RingWriter.run { () throws(Errno) in try key.evict() } }

    /// `RingKey.load` where it belongs.
    @discardableResult
    func load(_ payload: [UInt8], seconds: UInt32 = 0) throws -> KeySerial {
        try RingWriter.run { () throws(Errno) in try key.load(lending: payload, seconds: seconds) }
    }

    /// A key as `add_key` leaves it: the moment before its permissions are set.
    func addHalfMade(_ payload: [UInt8]) throws -> KeySerial {
        try RingWriter.run { () throws(Errno) in try KeySerial.userKeyring.add(key.description, lending: payload) }
    }

    /// `RingKey.evict` where it belongs.
    func evict() throws { try RingWriter.run { () throws(Errno) in try key.evict() } }

    /// Waits until the kernel has noticed that the key's timeout is over; ten seconds at most.
    ///
    /// Blocks its thread: after an `await` among hundreds of tests the kernel's collector (`gc_delay`, 300 s) may have come.
    func waitUntilExpired() throws {
        for _ in 0..<400 where absence != .keyExpired { usleep(25_000) }
        guard absence == .keyExpired else { throw Errno.timedOut }
    }

    /// What a search answers instead of the key; nil if it finds it.
    var absence: Errno? { key.absence }
}

extension KeySerial {
    /// The payload, or the error.
    func payload() -> Result<[UInt8], Errno> {
        var buffer = [UInt8](repeating: 0, count: 1024)
        return buffer.withUnsafeMutableBytes { bytes in
            do throws(Errno) {
                let count = try read(into: bytes)
                return .success(Array(bytes[..<min(count, bytes.count)]))
            } catch {
                return .failure(error)
            }
        }
    }

    /// `add` with an array, and the error's type kept.
    func add(_ description: String, lending payload: [UInt8]) throws(Errno) -> KeySerial {
        try lend(payload) { bytes throws(Errno) in try add(description, payload: bytes) }
    }

    /// The permission mask, from keyctl_describe(3): `type;uid;gid;permissions;description`.
    var permissions: UInt32? {
        var buffer = [CChar](repeating: 0, count: 4096)
        let count = keyctl_describe(rawValue, &buffer, buffer.count)
        guard count > 0 else { return nil }
        let text = String(decoding: buffer.prefix(count - 1).map { UInt8(bitPattern: $0) }, as: UTF8.self)
        let fields = text.split(separator: ";", omittingEmptySubsequences: false)
        return fields.count > 3 ? UInt32(fields[3], radix: 16) : nil
    }

    /// The timeout column of `/proc/keys`: `perm` without one, `expd` after it; nil if the key is not listed.
    var timeoutColumn: String? {
        guard let file = fopen("/proc/keys", "r") else { return nil }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 8192)
        while fgets(&line, Int32(line.count), file) != nil {
            let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            let fields = text.split(separator: " ", omittingEmptySubsequences: true)
            if fields.count > 3, Int32(fields[0], radix: 16) == rawValue { return String(fields[3]) }
        }
        return nil
    }

    /// Makes the key dead but leaves it in its keyring. The C call is `keyctl_revoke`.
    func revoke() throws {
        try RingWriter.run { () throws(Errno) in
            guard keyctl_revoke(rawValue) == 0 else { throw Errno(rawValue: errno) }
        }
    }
}

extension RingKey {
    /// What ``find()`` answers instead of a key; nil if there is one.
    var absence: Errno? {
        do throws(Errno) {
            _ = try find()
            return nil
        } catch {
            return error
        }
    }

    /// `load` with an array, and the error's type kept.
    func load(lending payload: [UInt8], seconds: UInt32 = 0) throws(Errno) -> KeySerial {
        try lend(payload) { bytes throws(Errno) in try load(bytes, seconds: seconds) }
    }
}

extension RingExchange {
    /// `prepare` with an array, and the error's type kept.
    func prepare(_ key: RingKey, lending payload: [UInt8], seconds: UInt32 = 0) throws(Errno) {
        try lend(payload) { bytes throws(Errno) in try prepare(key, bytes, seconds: seconds) }
    }
}

/// `withUnsafeBytes` with a typed error.
private func lend<R>(_ bytes: [UInt8], _ body: (UnsafeRawBufferPointer) throws(Errno) -> R) throws(Errno) -> R {
    let result: Result<R, Errno> = bytes.withUnsafeBytes { bytes in
        do throws(Errno) { return .success(try body(bytes)) } catch { return .failure(error) }
    }
    return try result.get()
}
