import CCurl
import Glibc
import ProtectionKeys

/// The options for libcurl. An option that is not set here keeps libcurl's default; the environment is never believed.
extension Exchange {
    /// - Throws: ``HTTPError/malformedCredential(_:)``, or ``HTTPError/transport(_:)`` if libcurl does not know an option.
    func prepare() throws(HTTPError) {
        setPlace()
        setLimits()
        setMethod()
        try setCredentials()
        setCallbacks()
        guard easy.failure == CURLE_OK else { throw .transport(LibCurl.text(of: easy.failure)) }
        try startFeed()
    }

    private func setPlace() {
        easy.set(CURLOPT_URL, request.url.absoluteString)
        easy.set(CURLOPT_PROTOCOLS_STR, origin.scheme)
        easy.set(CURLOPT_PATH_AS_IS, true)
        easy.set(CURLOPT_CONNECT_ONLY, plan.connectsOnly)
        easy.set(CURLOPT_FOLLOWLOCATION, false)
        easy.set(CURLOPT_NOSIGNAL, true)
        easy.set(CURLOPT_TCP_KEEPALIVE, true)
        easy.set(CURLOPT_PIPEWAIT, true)
        // An empty string: no proxy, even if the environment has one.
        easy.set(CURLOPT_PROXY, request.proxy?.description ?? "")
        easy.set(CURLOPT_NOPROXY, "")
        easy.set(CURLOPT_SOCKS5_AUTH, Int(bitPattern: LibCurl.bit(of: .basic)))  // and no user: Kerberos is not offered
        // Trust is judged by `TLSHandshake`: the roots that libcurl would load have no say, nor have its own name checks.
        easy.set(CURLOPT_SSL_VERIFYPEER, true)
        easy.set(CURLOPT_SSL_VERIFYHOST, 0)
        easy.clear(CURLOPT_CAINFO)
        easy.clear(CURLOPT_CAPATH)
        easy.set(CURLOPT_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_2))
        easy.set(CURLOPT_SSL_SESSIONID_CACHE, false)
        easy.set(CURLOPT_HTTP_VERSION, plan.speaksHTTP1 ? Int(CURL_HTTP_VERSION_1_1) : Int(CURL_HTTP_VERSION_2TLS))
        // What NTLM has said of a connection must not serve another request.
        easy.set(CURLOPT_FRESH_CONNECT, usesNTLM || plan.connectsOnly)
        easy.set(CURLOPT_FORBID_REUSE, usesNTLM)
    }

    private func setLimits() {
        easy.set(CURLOPT_CONNECTTIMEOUT_MS, Int(min(max(1, request.connectTimeout / .milliseconds(1)), 1e9)))
        easy.set(CURLOPT_LOW_SPEED_LIMIT, request.stallLimit.bytesPerSecond)
        let stall = (request.stallLimit.duration / .seconds(1)).rounded(.up)
        easy.set(CURLOPT_LOW_SPEED_TIME, Int(min(max(0, stall), 1e9)))
        easy.set(CURLOPT_BUFFERSIZE, 64 << 10)  // four records of TLS; more is only more to wipe
        easy.set(CURLOPT_UPLOAD_BUFFERSIZE, 512 << 10)
    }

    private func setMethod() {
        if let body = request.body {
            easy.set(CURLOPT_UPLOAD, true)
            easy.setOffset(CURLOPT_INFILESIZE_LARGE, Int64(clamping: body.length))
        }
        if request.method == "HEAD" {
            easy.set(CURLOPT_NOBODY, true)
        } else {
            easy.set(CURLOPT_CUSTOMREQUEST, request.method)
        }
        // libcurl's way to write a field without a value.
        var lines = request.headers.map { $0.value.isEmpty ? "\($0.name);" : "\($0.name): \($0.value)" }
        if !request.headers.contains(where: { $0.isNamed("Accept-Encoding") }) {
            lines.append("Accept-Encoding: identity")
        }
        easy.setHeaders(lines)
    }

    private func setCallbacks() {
        let context = Unmanaged.passUnretained(self).toOpaque()  // the engine keeps it as long as libcurl has it
        easy.set(CURLOPT_PRIVATE, context: context)
        easy.set(CURLOPT_HEADERDATA, context: context)
        easy.set(CURLOPT_HEADERFUNCTION) { bytes, size, count, context in
            let line = UnsafeRawBufferPointer(start: bytes, count: size * count)
            return Exchange.of(context).take(line: line) ? line.count : -1
        }
        easy.set(CURLOPT_WRITEDATA, context: context)
        easy.set(CURLOPT_WRITEFUNCTION) { bytes, size, count, context in
            Exchange.of(context).take(body: UnsafeRawBufferPointer(start: bytes, count: size * count))
        }
        easy.set(CURLOPT_READDATA, context: context)
        easy.set(CURLOPT_READFUNCTION) { bytes, size, count, context in
            Exchange.of(context).give(into: UnsafeMutableRawBufferPointer(start: bytes, count: size * count))
        }
        easy.set(CURLOPT_SEEKDATA, context: context)
        easy.setSeek { context, offset, origin in
            guard origin == SEEK_SET, offset >= 0 else { return CURL_SEEKFUNC_FAIL }
            Exchange.of(context).rewind(to: UInt64(offset))
            return CURL_SEEKFUNC_OK
        }
        easy.set(CURLOPT_SSL_CTX_DATA, context: context)
        easy.setTLS { _, tls, context in
            guard let tls else { return CURLE_SSL_CONNECT_ERROR }
            let exchange = Exchange.of(context)
            do {
                try LibSSL.prepare(OpaquePointer(tls), for: exchange.handshake)
                LibSSL.watch(OpaquePointer(tls))
                return CURLE_OK
            } catch {
                return CURLE_SSL_CONNECT_ERROR
            }
        }
    }

    private static func of(_ context: UnsafeMutableRawPointer?) -> Exchange {
        Unmanaged<Exchange>.fromOpaque(context!).takeUnretainedValue()
    }

    // MARK: credentials

    private var usesNTLM: Bool { plan.answers.server?.method == .ntlm || plan.answers.proxy?.method == .ntlm }

    private func setCredentials() throws(HTTPError) {
        easy.set(CURLOPT_UNRESTRICTED_AUTH, false)
        easy.set(CURLOPT_NETRC, Int(CURL_NETRC_IGNORED.rawValue))
        if let answer = plan.answers.server {
            try set(answer, CURLOPT_HTTPAUTH, user: CURLOPT_USERNAME, password: CURLOPT_PASSWORD)
        }
        if let answer = plan.answers.proxy {
            try set(answer, CURLOPT_PROXYAUTH, user: CURLOPT_PROXYUSERNAME, password: CURLOPT_PROXYPASSWORD)
        }
    }

    /// Exactly one method: libcurl does nothing else, whatever it is asked for.
    private func set(
        _ answer: ChallengeAnswer, _ methods: CURLoption, user: CURLoption, password: CURLoption
    ) throws(HTTPError) {
        switch (answer.method, answer.credential.content) {
        case (.bearer, .token(let token)):
            easy.set(methods, Int(bitPattern: LibCurl.bit(of: .bearer)))
            try set(CURLOPT_XOAUTH2_BEARER, token, answer)
        case (let method?, .password(let name, let secret)):
            guard !name.utf8.contains(where: { $0 < 0x20 || method == .basic && $0 == UInt8(ascii: ":") }) else {
                throw .malformedCredential(answer.space)
            }
            easy.set(methods, Int(bitPattern: LibCurl.bit(of: method)))
            easy.set(user, name)
            try set(password, secret, answer)
        default: throw .malformedCredential(answer.space)
        }
    }

    private func set(_ option: CURLoption, _ secret: CredentialSecret, _ answer: ChallengeAnswer) throws(HTTPError) {
        let isGood = secret.bytes.withUnsafeBytes { bytes in !bytes.contains { $0 < 0x20 } }
        guard isGood else { throw .malformedCredential(answer.space) }
        let text = secret.bytes.withUnsafeBytes { bytes in
            SecretBytes(byteCount: bytes.count + 1) { slot in slot.copyMemory(from: bytes) }
        }
        text.withUnsafeBytes { easy.set(option, zeroTerminated: $0) }
    }
}
