import Foundation

/// TCP ports of 127.0.0.1, for servers that tests start.
public enum Loopback {
    /// What the system refused.
    public struct Failure: Error, CustomStringConvertible {
        public let description: String
    }

    /// A port on which nobody listens.
    public static func freePort() throws -> Int {
        let descriptor = try socket()
        defer { close(descriptor) }
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        guard call(bind, descriptor, 0) else { throw Failure(description: "bind: \(errno)") }
        let bound = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) }
        }
        guard bound == 0 else { throw Failure(description: "getsockname: \(errno)") }
        return Int(UInt16(bigEndian: address.sin_port))
    }

    /// Waits until somebody listens on a port: ten seconds at most, and no longer than the server runs.
    public static func isServed(_ port: Int, while isRunning: @autoclosure () -> Bool) throws -> Bool {
        for _ in 0..<1000 {
            let descriptor = try socket()
            defer { close(descriptor) }
            if call(connect, descriptor, port) { return true }
            guard isRunning() else { break }
            usleep(10_000)
        }
        return false
    }

    private static func socket() throws -> Int32 {
        let descriptor = Foundation.socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw Failure(description: "socket: \(errno)") }
        return descriptor
    }

    private static func call(
        _ function: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Int32, _ descriptor: Int32, _ port: Int
    ) -> Bool {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                function(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }
}
