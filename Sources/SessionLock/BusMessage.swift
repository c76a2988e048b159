import CSystemd
import Glibc
import SystemPackage

/// A message of a bus, read from front to back.
///
/// The corresponding C calls are those of sd_bus_message_read(3) without variable arguments.
final class BusMessage {
    let handle: OpaquePointer

    /// Takes over a reference.
    init(owning handle: OpaquePointer) { self.handle = handle }

    deinit { sd_bus_message_unref(handle) }

    /// The unique name of the sender. The bus writes it there, so that nobody can forge it.
    var sender: String? { sd_bus_message_get_sender(handle).map { String(cString: $0) } }
    /// Of a signal: which object it is about.
    var path: String? { sd_bus_message_get_path(handle).map { String(cString: $0) } }

    /// Whether it is this signal.
    func isSignal(_ member: String, of interface: String) -> Bool {
        sd_bus_message_is_signal(handle, interface, member) > 0
    }

    /// Which call it answers; nil: none, or with an error.
    var answersTo: UInt64? {
        var cookie: UInt64 = 0
        guard sd_bus_message_is_method_call(handle, nil, nil) == 0, sd_bus_message_is_method_error(handle, nil) == 0,
            sd_bus_message_get_reply_cookie(handle, &cookie) >= 0
        else { return nil }
        return cookie
    }

    // MARK: contents

    /// A string, or another one whose type is given: `o` for an object.
    func string(type: Unicode.Scalar = "s") throws(Errno) -> String {
        var text: UnsafePointer<CChar>?
        try readBasic(type, &text)
        guard let text else { throw .badMessage }
        return String(cString: text)
    }

    func bool() throws(Errno) -> Bool {
        var value: Int32 = 0  // that wide for sd-bus
        try readBasic("b", &value)
        return value != 0
    }

    func uint32() throws(Errno) -> UInt32 {
        var value: UInt32 = 0
        try readBasic("u", &value)
        return value
    }

    /// A file descriptor, duplicated: the message closes its own.
    func descriptor() throws(Errno) -> Int32 {
        var descriptor: Int32 = -1
        try readBasic("h", &descriptor)
        let own = fcntl(descriptor, F_DUPFD_CLOEXEC, 3)
        guard own >= 0 else { throw Errno(rawValue: errno) }
        return own
    }

    /// Reads each structure of an array of them.
    ///
    /// - Parameter contents: the types of its members.
    func forEachStructure(_ contents: String, _ body: () throws(Errno) -> Void) throws(Errno) {
        guard try enter("a", "(\(contents))") else { return }
        while try enter("r", contents) {
            try body()
            try leave()
        }
        try leave()
    }

    /// A dictionary of properties (`a{sv}`): those that are true or false, or text. The others are passed over.
    func properties() throws(Errno) -> [String: Property] {
        var found: [String: Property] = [:]
        guard try enter("a", "{sv}") else { return found }
        while try enter("e", "sv") {
            let name = try string()
            found[name] = try property()
            try leave()
        }
        try leave()
        return found
    }

    /// What a property can be that matters here.
    enum Property: Equatable {
        case bool(Bool)
        case string(String)
    }

    private func property() throws(Errno) -> Property? {
        var contents: UnsafePointer<CChar>?
        try check(sd_bus_message_peek_type(handle, nil, &contents))
        let type = contents.map { String(cString: $0) } ?? ""
        guard type == "b" || type == "s" else {
            try skip("v")
            return nil
        }
        guard try enter("v", type) else { throw .badMessage }
        let value: Property = type == "b" ? .bool(try bool()) : .string(try string())
        try leave()
        return value
    }

    /// Passes over what is of these types.
    func skip(_ types: String) throws(Errno) { try check(sd_bus_message_skip(handle, types)) }

    /// - Returns: false at the end of what it is in.
    private func enter(_ type: Unicode.Scalar, _ contents: String) throws(Errno) -> Bool {
        try check(sd_bus_message_enter_container(handle, CChar(UInt8(ascii: type)), contents)) > 0
    }

    private func leave() throws(Errno) { try check(sd_bus_message_exit_container(handle)) }

    private func readBasic(_ type: Unicode.Scalar, _ value: UnsafeMutableRawPointer) throws(Errno) {
        guard try check(sd_bus_message_read_basic(handle, CChar(UInt8(ascii: type)), value)) > 0 else {
            throw .badMessage
        }
    }
}
