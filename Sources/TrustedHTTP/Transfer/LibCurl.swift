import CCurl

/// The one door to libcurl. What its callbacks do is in `Exchange`, on which thread they come in `TransferEngine`.
enum LibCurl {
    /// Once a process, and before anything else. Memory that libcurl gives back is wiped from then on.
    ///
    /// If the process has called libcurl before, its memory stays as it was. The C call is `curl_global_init_mem`.
    static let isReady: Bool = protectfs_curl_initialise() == CURLE_OK

    /// What libcurl says of an error, without anything of this request.
    static func text(of code: CURLcode) -> String { String(cString: curl_easy_strerror(code)) }

    /// Returned by a callback for the body to get the same bytes again after ``EasyHandle/resume()``.
    static let pause = Int(CURL_WRITEFUNC_PAUSE)
    /// Returned by a callback that reads a body to be asked again after ``EasyHandle/resume()``.
    static let pauseRead = Int(CURL_READFUNC_PAUSE)
    /// Returned by a callback that reads a body to give up.
    static let abortRead = Int(CURL_READFUNC_ABORT)
    /// CURLAUTH_…, macros that Swift does not see.
    static func bit(of method: AuthenticationMethod) -> UInt {
        switch method {
        case .basic: 1 << 0
        case .digest: 1 << 1
        case .ntlm: 1 << 3
        case .bearer: 1 << 6
        case .clientCertificate: 0
        }
    }
    /// Of a body, that a callback gets at once: in bytes, at most.
    static let largestPiece = Int(CURL_MAX_WRITE_SIZE)
}

/// A time in a header field (RFC 9110 §5.6.7).
package enum HTTPDate {
    /// Seconds since 1970; nil for what is no date. The C call is `curl_getdate`; see curl_getdate(3).
    ///
    ///     Sun, 06 Nov 1994 08:49:37 GMT     Sunday, 06-Nov-94 08:49:37 GMT     Sun Nov  6 08:49:37 1994
    ///
    /// It reads more than these three forms: other zones, a missing zone as GMT, a missing time of day as 00:00:00, and a day that the month
    /// does not have as one of the next month. A year of two digits is one of 1971 to 2070.
    package static func seconds(_ text: String) -> Int64? {
        let seconds = curl_getdate(text, nil)
        return seconds == -1 ? nil : Int64(seconds)
    }
}

/// One request of libcurl's. Of one thread at a time.
final class EasyHandle: @unchecked Sendable {  // its maker hands it over to the engine's thread
    let pointer: UnsafeMutableRawPointer
    private var list: UnsafeMutablePointer<curl_slist>?
    /// The first option that libcurl did not take.
    private(set) var failure: CURLcode = CURLE_OK

    init?() {
        guard LibCurl.isReady, let pointer = curl_easy_init() else { return nil }
        self.pointer = pointer
    }

    deinit {
        curl_easy_cleanup(pointer)
        curl_slist_free_all(list)
    }

    func set(_ option: CURLoption, _ value: Int) { check(protectfs_curl_set_long(pointer, option, value)) }
    func set(_ option: CURLoption, _ value: Bool) { set(option, value ? 1 : 0) }
    func setOffset(_ option: CURLoption, _ value: Int64) {
        check(protectfs_curl_set_offset(pointer, option, curl_off_t(value)))
    }
    /// libcurl makes a copy.
    func set(_ option: CURLoption, _ value: String) {
        check(value.withCString { protectfs_curl_set_pointer(pointer, option, $0) })
    }
    /// libcurl makes a copy, in memory that is wiped when it is given back. The bytes end with a zero.
    func set(_ option: CURLoption, zeroTerminated value: UnsafeRawBufferPointer) {
        check(protectfs_curl_set_pointer(pointer, option, value.baseAddress))
    }
    func clear(_ option: CURLoption) { check(protectfs_curl_set_pointer(pointer, option, nil)) }
    /// libcurl keeps the address.
    func set(_ option: CURLoption, context: UnsafeMutableRawPointer) {
        check(protectfs_curl_set_pointer(pointer, option, context))
    }
    func set(_ option: CURLoption, callback: @escaping protectfs_curl_data_callback) {
        check(protectfs_curl_set_data_callback(pointer, option, callback))
    }
    func setSeek(_ callback: @escaping curl_seek_callback) {
        check(protectfs_curl_set_seek_callback(pointer, callback))
    }
    func setTLS(_ callback: @escaping curl_ssl_ctx_callback) {
        check(protectfs_curl_set_tls_callback(pointer, callback))
    }

    /// Lines as they are sent; once only.
    func setHeaders(_ lines: [String]) {
        for line in lines {
            guard let longer = curl_slist_append(list, line) else { return check(CURLE_OUT_OF_MEMORY) }
            list = longer
        }
        check(protectfs_curl_set_pointer(pointer, CURLOPT_HTTPHEADER, list))
    }

    func long(_ info: CURLINFO) -> Int {
        var value = 0
        return protectfs_curl_get_long(pointer, info, &value) == CURLE_OK ? value : 0
    }

    func offset(_ info: CURLINFO) -> Int64 {
        var value: curl_off_t = 0
        return protectfs_curl_get_offset(pointer, info, &value) == CURLE_OK ? Int64(value) : 0
    }

    /// The TLS connection in use, an `SSL` of libssl.
    var tls: OpaquePointer? { protectfs_curl_get_tls(pointer).map { OpaquePointer($0) } }

    /// Goes on after a callback has returned ``LibCurl/pause``; may call it at once.
    func resume() { curl_easy_pause(pointer, CURLPAUSE_CONT) }

    private func check(_ code: CURLcode) {
        if code != CURLE_OK, failure == CURLE_OK { failure = code }
    }
}

/// Requests that share connections. Of one thread, but for ``wakeUp()``.
final class MultiHandle: @unchecked Sendable {  // only the engine's thread calls it, but for curl_multi_wakeup
    private let pointer: UnsafeMutableRawPointer

    /// - Parameter connections: how many are kept open while nobody needs them.
    init?(connections: Int) {
        guard LibCurl.isReady, let pointer = curl_multi_init() else { return nil }
        self.pointer = pointer
        protectfs_curl_multi_set_long(pointer, CURLMOPT_MAXCONNECTS, connections)
    }

    /// No request may be in it any more.
    deinit { curl_multi_cleanup(pointer) }

    func add(_ easy: EasyHandle) -> Bool { curl_multi_add_handle(pointer, easy.pointer) == CURLM_OK }
    /// The request ends, whatever state it is in. Its connection is closed unless it was at an end anyway.
    func remove(_ easy: EasyHandle) { curl_multi_remove_handle(pointer, easy.pointer) }

    /// Does what can be done without waiting, callbacks included.
    func perform() {
        var running: Int32 = 0
        curl_multi_perform(pointer, &running)
    }

    /// Requests that have ended since the last call.
    func takeEnded() -> [(easy: UnsafeMutableRawPointer, result: CURLcode)] {
        var ended: [(UnsafeMutableRawPointer, CURLcode)] = []
        var left: Int32 = 0
        while let message = curl_multi_info_read(pointer, &left) {
            if message.pointee.msg == CURLMSG_DONE {
                ended.append((message.pointee.easy_handle, message.pointee.data.result))
            }
        }
        return ended
    }

    /// Waits for the network, ``wakeUp()``, or what libcurl has to do at some time, but not longer than that.
    func wait(milliseconds: Int) { curl_multi_poll(pointer, nil, 0, Int32(milliseconds), nil) }
    func wakeUp() { curl_multi_wakeup(pointer) }
}
