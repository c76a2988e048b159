extension DownloadActivity {
    /// One word, for scripts.
    var word: String {
        switch self {
        case .waiting: "waiting"
        case .transferring: "transferring"
        case .waitingToRetry: "waitingToRetry"
        case .waitingForFirstUnlock: "waitingForFirstUnlock"
        case .waitingForUnlock: "waitingForUnlock"
        case .checking: "checking"
        }
    }
}

extension Download {
    /// What it does, or why it waits.
    func words(isRunning: Bool) -> String {
        switch state {
        case .queued: waitingWords(isRunning: isRunning)
        case .publishing: isRunning ? "getting its name" : "about to get its name; nothing runs the list"
        case .failed: "failed: \(failure?.words ?? "nobody knows why")"
        case .paused, .finished, .cancelled: state.word
        }
    }

    private func waitingWords(isRunning: Bool) -> String {
        // What a runner noted before it ended is no longer so.
        guard isRunning else {
            return request == nil ? "waiting for the first unlock" : "waiting: nothing runs the list"
        }
        return switch activity {
        case .waiting: "waiting for its turn"
        case .transferring: request?.upload == nil ? "downloading" : "uploading"
        case .waitingToRetry:
            "waiting" + (nextTry.map { " until \(spoken(time: UInt64(clamping: $0)))" } ?? "")
                + (failure.map { ": \($0.words)" } ?? "")
        case .waitingForFirstUnlock: "waiting for the first unlock"
        case .waitingForUnlock: "waiting for an unlock"
        case .checking: "being checked"
        }
    }

    /// How far it is: `45 %`, or the bytes where nobody knows how many there will be.
    var share: String {
        if state == .finished { return "100 %" }
        guard let length, length > 0 else { return received == 0 ? "-" : "\(received >> 10) KiB" }
        return "\(min(100, received * 100 / length)) %"
    }

    /// For `--json`.
    func members(isRunning: Bool) -> JSON {
        var members: [(String, JSON)] = [("id", .string("\(id)")), ("state", .string(state.word))]
        if state == .queued { members.append(("activity", .string(isRunning ? activity.word : "noRunner"))) }
        if let request {
            members.append(("url", .string(request.url.absoluteString)))
            members += JSON.members(of: request.target)
            if let upload = request.upload {
                members.append(("upload", .string(upload.rawValue)))
            } else {
                members.append(("class", .string(request.protectionClass.shortName)))
            }
        }
        members += [
            ("received", .optional(received)), ("length", .optional(length)), ("attempts", .optional(attempts)),
            ("added", .optional(added)), ("nextTry", .optional(nextTry)),
        ]
        if let failure {
            members.append(("failure", failure.json))
        }
        if let file { members.append(("isTamperProof", .bool(file.isTamperProof))) }
        return .object(members)
    }
}

extension DownloadFailure {
    /// For `--json`.
    var json: JSON { .object([("kind", .string(kind.rawValue)), ("message", .string(message))]) }
}
