import DataProtection

/// What the machine does with memory that has held plaintext or keys.
extension DoctorFacts {
    /// The checks that have nothing to do with a keybag.
    var systemFindings: [DoctorFinding] {
        [swapFinding, hibernationFinding, initOnFreeFinding, coreDumpFinding, memoryFinding, libcryptoFinding]
    }

    var swapFinding: DoctorFinding {
        switch swaps {
        case .unknown(let reason): return .unknown("swap", reason)
        case .known(let swaps):
            let plain = swaps.filter { !$0.isSafe }.map(\.name)
            guard !plain.isEmpty else {
                return .ok("swap", swaps.isEmpty ? "there is none" : "it is compressed memory, or encrypted")
            }
            return .warning(
                "swap", "\(plain.joined(separator: ", ")) is not encrypted; memory of applications can reach it",
                fix: "sudo swapoff \(plain[0]); or encrypt it: option swap in /etc/crypttab, crypttab(5)")
        }
    }

    var hibernationFinding: DoctorFinding {
        switch (canHibernate, swaps) {
        case (.unknown(let reason), _): return .unknown("hibernation", reason)
        case (.known(false), _): return .ok("hibernation", "this machine does not hibernate")
        case (.known(true), .known(let swaps)) where swaps.allSatisfy(\.isSafe):
            return .ok("hibernation", "possible; there is no swap that is not encrypted for it to write to")
        case (.known(true), _):
            return .warning(
                "hibernation", "it writes all memory, class keys included, to swap that is not encrypted",
                fix: "sudo systemctl mask hibernate.target hybrid-sleep.target suspend-then-hibernate.target")
        }
    }

    var initOnFreeFinding: DoctorFinding {
        switch initOnFree {
        case .unknown(let reason): .unknown("init_on_free", reason)
        case .known(true): .ok("init_on_free", "the kernel wipes memory when it is freed")
        case .known(false):
            .warning(
                "init_on_free", "freed memory keeps what was in it until somebody else needs it",
                fix: "add init_on_free=1 to GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub, then: sudo update-grub")
        }
    }

    var coreDumpFinding: DoctorFinding {
        switch coreDumps {
        case .unknown(let reason): return .unknown("core dumps", reason)
        case .known(let dumps):
            let program = dumps.pattern.dropFirst().split(separator: " ").first.map(String.init) ?? ""
            if dumps.pattern.hasPrefix("|") {
                if ["/bin/false", "/bin/true", "/usr/bin/false", "/usr/bin/true"].contains(program) {
                    return .ok("core dumps", "they go nowhere")
                }
                return .warning(
                    "core dumps", "those of applications go to \(program); protectfs itself makes none",
                    fix: program.hasSuffix("systemd-coredump")
                        ? "Storage=none and ProcessSizeMax=0 under [Coredump] in /etc/systemd/coredump.conf"
                        : program.hasSuffix("apport")
                            ? "sudo systemctl disable --now apport.service"
                            : "sudo sysctl kernel.core_pattern='|/bin/false'")
            }
            if dumps.limit == 0 { return .ok("core dumps", "off in this session (ulimit -c is 0)") }
            return .warning(
                "core dumps", "applications of this session write them beside their files; protectfs itself makes none",
                fix: "ulimit -c 0; for every login: the line `* hard core 0` in /etc/security/limits.conf")
        }
    }

    var memoryFinding: DoctorFinding {
        let limit = memlockLimit.map { " (RLIMIT_MEMLOCK: \($0 / 1024) KiB)" } ?? ""
        switch secretMemory {
        case .secretMemory: return .ok("memory for keys", "secret memory (memfd_secret)\(limit)")
        case .locked: return .ok("memory for keys", "locked memory, never swapped (mlock)\(limit)")
        case .unlocked:
            return .warning(
                "memory for keys", "ordinary memory, which can be swapped: the kernel allows no more\(limit)",
                fix: "the line `* - memlock 8192` in /etc/security/limits.conf; services: LimitMEMLOCK=8M")
        }
    }

    var libcryptoFinding: DoctorFinding {
        libcrypto.major >= 3
            ? .ok("libcrypto", libcrypto.text)
            : .problem(
                "libcrypto", "\(libcrypto.text) is loaded, and 3.0 is needed",
                fix: "sudo apt install libssl3; on Ubuntu 24.04 libssl3t64")
    }
}
