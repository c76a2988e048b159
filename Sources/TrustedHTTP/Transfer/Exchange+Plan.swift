extension Exchange {
    /// What is to be done.
    struct Plan: Sendable {
        let request: HTTPRequest
        let origin: Origin
        var answers = Answers()
        var identity: ClientIdentity?
        /// Whether a 401 or 407 is looked at before the receiver gets it.
        var keepsRefusals = false
        /// Only the handshake; nothing is asked.
        var connectsOnly = false

        /// HTTP/2 is for requests without a secret in their head: libnghttp2 keeps copies that it does not wipe. NTLM is for a
        /// connection of HTTP/1.1 only.
        var speaksHTTP1: Bool {
            [.basic, .bearer, .ntlm].contains(answers.server?.method) || answers.proxy?.method == .ntlm
        }

        /// Decides by its head what becomes of a response.
        func use(of response: HTTPResponse) -> Use {
            // Through a tunnel it is the server who speaks; whatever it says, it is not the proxy.
            let isProxys = response.status == 407 && request.proxy?.kind == .http && !origin.isSecure
            if keepsRefusals, response.status == 401 || isProxys { return .keep }
            return request.maximumRedirects > 0 && Redirect.isOne(response) ? .follow : .receive
        }
    }

    /// Credentials for the server and for the proxy.
    struct Answers: Sendable {
        var server: ChallengeAnswer?
        var proxy: ChallengeAnswer?
    }
}
