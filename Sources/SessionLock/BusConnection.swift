import CSystemd
import Glibc
import SystemPackage

/// A connection to a message bus. This file and `BusMessage` are the only door to sd-bus(3).
///
/// Belongs to one thread at a time, as sd-bus does.
final class BusConnection {
    fileprivate let handle: OpaquePointer

    /// Connects: to `address`, else to where `DBUS_SYSTEM_BUS_ADDRESS` and `DBUS_SESSION_BUS_ADDRESS` lead, else to where
    /// the bus usually is.
    ///
    /// The corresponding C calls are `sd_bus_open_system`, `sd_bus_open_user`, and `sd_bus_start` for an address.
    init(to bus: Bus, at address: String? = nil) throws(Errno) {
        var handle: OpaquePointer?
        if let address {
            try check(sd_bus_new(&handle))
            self.handle = handle!  // set where there is no error
            try check(sd_bus_set_address(handle, address))
            try check(sd_bus_set_bus_client(handle, 1))
            try check(sd_bus_start(handle))
        } else {
            try check(bus == .system ? sd_bus_open_system(&handle) : sd_bus_open_user(&handle))
            self.handle = handle!
        }
        try waitUntilReady()
        try check(sd_bus_set_method_call_timeout(handle, Self.patience))
    }

    /// In microseconds. A bus that accepts a connection and does not answer must not keep the other one from being heard: sd-bus itself waits for 90
    /// seconds, and logind for five before the machine sleeps.
    private static let patience: UInt64 = 2_000_000

    private func waitUntilReady() throws(Errno) {
        let end = microseconds() + Self.patience
        while true {
            while try check(sd_bus_process(handle, nil)) > 0 {}
            if try check(sd_bus_is_ready(handle)) > 0 { return }
            let now = microseconds()
            guard now < end else { throw .timedOut }
            try check(sd_bus_wait(handle, end - now))
        }
    }

    deinit { sd_bus_close_unref(handle) }

    /// Has the bus send us the signals of a match rule (D-Bus Specification, "Match Rules"). They come by ``next()``.
    ///
    /// The corresponding C call is `sd_bus_add_match`.
    func listen(to rule: String) throws(Errno) {
        try check(sd_bus_add_match(handle, nil, rule, nil, nil))
    }

    /// The next message that has come, if any. Never waits.
    ///
    /// The corresponding C call is `sd_bus_process`.
    /// - Throws: `ECONNRESET` and the like when the bus is gone.
    func next() throws(Errno) -> BusMessage? {
        while true {
            var message: OpaquePointer?
            let result = try check(sd_bus_process(handle, &message))
            if let message { return BusMessage(owning: message) }
            if result == 0 { return nil }
        }
    }

    /// Calls a method and waits for its answer, five seconds at most.
    ///
    /// The corresponding C call is `sd_bus_call`.
    func call(_ request: BusMessage) throws(Errno) -> BusMessage {
        var reply: OpaquePointer?
        try check(sd_bus_call(handle, request.handle, 5_000_000, nil, &reply))
        guard let reply else { throw .ioError }
        return BusMessage(owning: reply)
    }

    /// Calls a method and goes on; the answer comes by ``next()``.
    ///
    /// The corresponding C call is `sd_bus_send`.
    /// - Returns: what the answer's ``BusMessage/answersTo`` will be.
    func send(_ request: BusMessage) throws(Errno) -> UInt64 {
        var cookie: UInt64 = 0
        try check(sd_bus_send(handle, request.handle, &cookie))
        return cookie
    }

    /// A method call with arguments that are all strings. No service is started for it.
    ///
    /// The corresponding C call is `sd_bus_message_new_method_call`.
    func request(
        _ member: String, of interface: String, at path: String, from destination: String, _ arguments: String...
    ) throws(Errno) -> BusMessage {
        var message: OpaquePointer?
        try check(sd_bus_message_new_method_call(handle, &message, destination, path, interface, member))
        guard let message else { throw .noMemory }
        let request = BusMessage(owning: message)
        try check(sd_bus_message_set_auto_start(message, 0))
        for argument in arguments {
            try check(sd_bus_message_append_basic(message, CChar(UInt8(ascii: "s")), argument))
        }
        return request
    }

    /// The unique name of the current owner of a name; nil: nobody owns it.
    func owner(of name: String) throws(Errno) -> String? {
        let bus = "org.freedesktop.DBus"
        let request = try request("GetNameOwner", of: bus, at: "/org/freedesktop/DBus", from: bus, name)
        do throws(Errno) {
            return try call(request).string()
        } catch .noSuchAddressOrDevice {  // NameHasNoOwner
            return nil
        }
    }

    /// What to wait for with poll(2), and until when: microseconds of CLOCK_MONOTONIC.
    ///
    /// The corresponding C calls are `sd_bus_get_fd`, `sd_bus_get_events` and `sd_bus_get_timeout`.
    func readiness() throws(Errno) -> (descriptor: pollfd, deadline: UInt64) {
        var deadline = UInt64.max
        try check(sd_bus_get_timeout(handle, &deadline))
        let descriptor = try check(sd_bus_get_fd(handle))
        return (pollfd(fd: descriptor, events: Int16(try check(sd_bus_get_events(handle))), revents: 0), deadline)
    }
}

/// sd-bus returns errors as negative numbers.
@discardableResult
func check(_ result: Int32) throws(Errno) -> Int32 {
    guard result >= 0 else { throw Errno(rawValue: -result) }
    return result
}

/// CLOCK_MONOTONIC.
func microseconds() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) * 1_000_000 + UInt64(time.tv_nsec) / 1000
}
