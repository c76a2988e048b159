import DataProtection

/// Whether this session reaches the kernel keyring, and has room there.
extension DoctorFacts {
    var keyringFindings: [DoctorFinding] { [reachFinding, sessionFinding, quotaFinding, gcFinding] }

    var reachFinding: DoctorFinding {
        guard let failure = keyringFailure else {
            return .ok("kernel keyring", "this session can add, find, read and evict keys")
        }
        let text = failure.message
        let fix =
            switch failure.errno {
            case .noFunction, .notPermitted:
                "allow keyctl, add_key and request_key in the seccomp profile of the container; a service: no "
                    + "SystemCallFilter=~@keyring"
            case Errno(rawValue: 122): "sudo sysctl kernel.keys.maxkeys=2000 kernel.keys.maxbytes=200000"  // EDQUOT
            default: "see what the session reaches: keyctl show @u"
            }
        return .problem("kernel keyring", text, fix: fix)
    }

    var sessionFinding: DoctorFinding {
        switch (isInUserNamespace, controlGroup) {
        case (.known(true), _):
            return .warning(
                "session", "in a user namespace, whose keyrings are its own: an unlock outside is not seen in here",
                fix: "unlock in here too: protectfs unlock; a service: PrivateUsers=no")
        case (_, .unknown(let reason)): return .unknown("session", reason)
        case (_, .known(let group)):
            let last = group.split(separator: "/").last.map(String.init) ?? ""
            if last.hasSuffix(".service") {
                let isOfManager = group.contains("/user@")
                return .ok(
                    "session",
                    "\(isOfManager ? "a service of the user" : "a system service"), \(last); any KeyringMode= will do")
            }
            return .ok("session", last.isEmpty || last == "init.scope" ? "no session of systemd" : last)
        }
    }

    var quotaFinding: DoctorFinding {
        switch quota {
        case .unknown(let reason): return .unknown("key quota", reason)
        case .known(let quota):
            let text =
                "\(quota.keys) of \(quota.maximumKeys) keys and \(quota.bytes) of \(quota.maximumBytes) bytes are used"
            // A keybag takes two keys and a few hundred bytes.
            guard quota.maximumKeys - quota.keys < 10 || quota.maximumBytes - quota.bytes < 2000 else {
                return .ok("key quota", text)
            }
            return .warning(
                "key quota", text + "; an unlock may find no room",
                fix: "sudo sysctl kernel.keys.maxkeys=2000 kernel.keys.maxbytes=200000")
        }
    }

    var gcFinding: DoctorFinding {
        switch gcDelay {
        case .unknown(let reason): return .unknown("expired keys", reason)
        case .known(let seconds):
            let text =
                "a key that expires by itself is wiped after \(seconds) s, or by the next protectfs command"
            return seconds <= 300
                ? .ok("expired keys", text)
                : .warning("expired keys", text, fix: "sudo sysctl kernel.keys.gc_delay=300")
        }
    }
}
