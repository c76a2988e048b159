import DataProtection

/// Whether the keybag will open when it is needed.
extension DoctorFacts {
    var keybagFindings: [DoctorFinding] {
        guard let health else { return [] }
        switch health.inspection {
        case .failure(.because(KeybagFailure.keybagNotFound(let directory))):
            let hint = DataProtectionError.because(KeybagFailure.keybagNotFound(directory)).hint
            if health.isGone {
                return [.problem("keybag", "the keybag that was in \(quoted(directory)) is gone", fix: hint)]
            }
            return [.warning("keybag", "there is none in \(quoted(directory))", fix: hint)]
        case .failure(let error):
            return [.problem("keybag", error.message, fix: error.hint)] + (exposures.isEmpty ? [] : permissionFindings)
        case .success(let keybag):
            return [ageFinding(health) ?? copiesFinding(keybag), deviceKeyFinding(health), recoveryFinding(keybag)]
                + (keybag.hasRecoveryCode ? [exportFinding(health)] : []) + [derivationFinding(keybag)]
                + [hardwareFinding].compactMap { $0 }
                + [attemptsFinding(health), classChangeFinding(health), ringFinding(health), agentFinding]
                + [unitFinding].compactMap { $0 } + [fileSystemFinding]
                + permissionFindings
        }
    }

    func copiesFinding(_ keybag: KeybagInspection) -> DoctorFinding {
        let bad = keybag.copies.filter { $0.condition != .inForce && $0.condition != .equal }
        guard let first = bad.first else {
            return .ok("keybag", "both copies in \(quoted(keybagDirectory)) are whole and the same")
        }
        let text =
            switch first.condition {
            case .damaged(let reason): "its copy \(quoted(first.path)) is damaged: \(reason)"
            case .missing: "its copy \(quoted(first.path)) is missing"
            default: "its copy \(quoted(first.path)) is not the same as the other one"
            }
        return .warning("keybag", text, fix: "the next unlock repairs it: protectfs unlock\(keybagOption)")
    }

    /// A keybag that is older than the class keys in the ring.
    func ageFinding(_ health: KeybagHealth) -> DoctorFinding? {
        guard let problem = health.problems.first(where: { $0.subject == .age }) else { return nil }
        return .problem("keybag", problem.message, fix: problem.hint)
    }

    func deviceKeyFinding(_ health: KeybagHealth) -> DoctorFinding {
        guard let error = health.deviceKeyProblem else { return .ok("device key", "there, and the right one") }
        guard let problem = health.problems.first(where: { $0.subject == .deviceKey }) else {
            return .problem("device key", error.message, fix: error.hint)
        }
        return .problem("device key", problem.message, fix: problem.hint)
    }

    func recoveryFinding(_ keybag: KeybagInspection) -> DoctorFinding {
        if keybag.hasRecoveryCode { return .ok("recovery code", "there is one") }
        return .warning(
            "recovery code", "none: with the passcode or the device key lost, every file is lost",
            fix:
                "protectfs recovery new\(keybagOption); then, for a keybag that is lost: protectfs recovery export\(keybagOption) FILE"
        )
    }

    func exportFinding(_ health: KeybagHealth) -> DoctorFinding {
        let command = "protectfs recovery export\(keybagOption) FILE"
        switch health.export {
        case .never:
            return .warning(
                "recovery export", "none was made here: with this disk lost, every file in a backup is lost",
                fix: "\(command), and keep it elsewhere")
        case .made(let time, isOutdated: true):
            return .warning(
                "recovery export", "the keybag was changed after the last one, of \(spoken(time: time))",
                fix: "\(command), and destroy the earlier one")
        case .made(let time, isOutdated: false): return .ok("recovery export", "made on \(spoken(time: time))")
        }
    }

    func derivationFinding(_ keybag: KeybagInspection) -> DoctorFinding {
        guard let weak = keybag.slots.first(where: \.isWeak) else {
            let least = keybag.slots.map(\.iterations).min() ?? 0
            return .ok("derivation", "PBKDF2 with \(least) iterations")
        }
        return .warning(
            "derivation", "the \(weak.kind.rawValue) is protected by \(weak.iterations) iterations only",
            fix: weak.kind == .passcode ? "protectfs passcode\(keybagOption)" : nil)
    }

    func attemptsFinding(_ health: KeybagHealth) -> DoctorFinding {
        switch health.validAttemptSectors {
        case nil, 0:
            .warning(
                "attempts", "the record of wrong passcodes is damaged or missing, which counts as 8 wrong passcodes",
                fix: "an hour after the next try the right passcode clears it: protectfs unlock\(keybagOption)")
        case 1:
            .ok("attempts", "the record of wrong passcodes is valid; its second sector is rewritten by the next try")
        default: .ok("attempts", "the record of wrong passcodes is valid")
        }
    }

    func classChangeFinding(_ health: KeybagHealth) -> DoctorFinding {
        guard let count = health.unfinishedClassChanges else {
            return .unknown("class changes", "the notes of interrupted changes cannot be listed")
        }
        guard count > 0 else { return .ok("class changes", "none is unfinished") }
        return .warning(
            "class changes",
            "\(spoken(count, "file")) may still open under an earlier class: a class change was interrupted",
            fix: "the next lock or unlock finishes it, or reports why it cannot: protectfs lock\(keybagOption)")
    }

    func ringFinding(_ health: KeybagHealth) -> DoctorFinding {
        if let problem = health.problems.first(where: { $0.subject == .predecessor }) {
            return .problem("class keys", problem.message, fix: "protectfs lock\(keybagOption)")
        }
        guard let errno = health.ringProblem else { return .ok("class keys", "what is loaded can be read") }
        return .problem(
            "class keys", "they are in the kernel keyring and this session cannot read them: \(errno.spoken)",
            fix: "protectfs lock\(keybagOption), then protectfs unlock\(keybagOption)")
    }

    /// Present only where something is wrong.
    var unitFinding: DoctorFinding? {
        hidingUnit.map { unit in
            .warning(
                "agent unit", "\(quoted(unit)) hides the unit of the package, which is kept up to date",
                fix: "unless you have changed it: rm \(quoted(unit)); then: protectfs agent install")
        }
    }

    var agentFinding: DoctorFinding {
        let name = "agent"
        switch agent {
        case .unknown(let reason): return .unknown(name, reason)
        case .known(let agent?): return .ok(name, "process \(agent.pid) locks when the session does")
        case .known(nil): break
        }
        return .warning(
            name,
            "none runs: the keys stay until protectfs lock\(keybagOption) or a restart of the machine, after a logout too",
            fix: AgentProgram.remedy(hasSystemd: hasSystemd, hasBus: hasBus, option: keybagOption))
    }

    var fileSystemFinding: DoctorFinding {
        let name = "file system"
        switch fileSystem {
        case .unknown(let reason): return .unknown(name, reason)
        case .known(let type):
            let kind = type.hasPrefix("fuse.") ? "fuse" : type
            switch kind {
            case "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs":
                return .ok(name, "\(type) has locks, modes and rename as they are needed")
            case "tmpfs", "ramfs", "overlay":
                return .warning(
                    name, "the keybag is on \(type) and goes with the next start of the machine or container",
                    fix: "keep it on a disk: --keybag DIR")
            case "vfat", "msdos", "exfat", "ntfs", "ntfs3", "fuseblk":
                return .problem(
                    name, "the keybag is on \(type), which has no owners and modes",
                    fix: "keep it on ext4, XFS or Btrfs: --keybag DIR")
            case "nfs", "nfs4", "cifs", "smb3", "9p", "fuse", "virtiofs", "ceph":
                return .warning(
                    name, "the keybag is on \(type), whose locks and flushes may not hold",
                    fix: "keep it on a local disk: --keybag DIR")
            default: return .unknown(name, "nothing is known of \(type)")
            }
        }
    }

    var permissionFindings: [DoctorFinding] {
        guard !exposures.isEmpty else { return [.ok("permissions", "keybag and device key are yours alone")] }
        return exposures.map { exposure in
            let path = quoted(exposure.path)
            let mode = exposure.isDirectory ? "700" : "600"
            switch exposure.kind {
            case .othersCanWrite(let bits):
                return .problem(
                    "permissions", "others can write to \(path) (mode \(String(bits, radix: 8)))",
                    fix: "chmod go-w \(path)")
            case .othersCanRead(let bits):
                return .warning(
                    "permissions", "others can read \(path) (mode \(String(bits, radix: 8)))",
                    fix: "chmod \(mode) \(path)")
            case .foreignOwner(let uid):
                return .problem(
                    "permissions", "\(path) belongs to uid \(uid)",
                    fix: "if it should be yours: sudo chown \"$(id -u)\" \(path)")
            case .unreadable(let reason): return .unknown("permissions", "\(path): \(reason)")
            }
        }
    }
}

extension KeybagInspection {
    /// Whether a recovery code opens the keybag.
    var hasRecoveryCode: Bool { slots.contains { $0.kind == .recoveryCode } }
}
