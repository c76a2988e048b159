import DurableFiles
import Glibc
import ProtectionFormat
import SystemPackage

/// What came of the turn of a lock. The keys have been evicted in any case.
package struct LockTurn: Sendable {
    /// Why an unlock that is under way may load keys afterwards; nil: none can.
    package let doubt: LockDoubt?
    /// Why the record does not say all that the lock wrote; nil: it does.
    package let failure: Errno?

    /// - Throws: `lockUnproven`.
    package func requireProof(of keybag: FilePath) throws(DataProtectionError) {
        if let doubt { throw .because(KeybagFailure.lockUnproven(keybag: keybag, doubt)) }
    }
}

extension TransitionFile {
    /// The turn of a lock: raises the counter, so that an unlock that is under way loads nothing, and then runs `body`, which evicts.
    ///
    /// Nothing keeps `body` from running: the flock is waited for a second at most. But only if this lock had the flock and raised the counter it is
    /// certain that no unlock loads keys afterwards. The flock rules out an unlock between its first look at the counter, under the flock, and its
    /// last one; the counter rules out one that has not come so far. There are two exceptions, in which no unlock can take its turn:
    ///
    /// - No regular file has the name. An unlock would make one, with a counter that it does not know.
    /// - The file system is read-only for everybody, and this lock had the flock.
    ///
    /// - Parameters:
    ///   - makesFile: whether to make a missing file, and a new record in a damaged one. Not where others may write: a name could be a second name of
    ///     one of the user's files there.
    ///   - proven: called first if it is certain that no unlock which has read the counter loads keys afterwards.
    package func lockTurn(
        makesFile: Bool = true, proven: () -> Void = {},
        _ body: (inout TransitionRecord) throws(DataProtectionError) -> Void
    ) throws(DataProtectionError) -> LockTurn {
        let standing = self.standing(makesFile)
        defer { standing.leave() }
        var (record, doubt, failure) = (TransitionRecord(), LockDoubt?.none, Errno?.none)
        switch standing {
        case .own(let file):
            let raised = raise(in: file, makesRecord: makesFile)
            (record, failure) = (raised.record, raised.failure)
            if !raised.isCertain, let failure { doubt = .unwritable(failure) }
        case .behind(let file, let why):
            (doubt, failure) = (why, why.errno)
            record = raise(in: file, makesRecord: makesFile).record
        case .readOnly: failure = .readOnlyFileSystem
        case .missing(let why): failure = why
        case .unknown(let why): (doubt, failure) = (.unwritable(why), why)
        }
        if doubt == nil { proven() }
        try body(&record)
        // Without the flock nothing else is written: a lock that is armed stands, and is made up for at its deadline.
        if case .own(let file) = standing, failure == nil {
            do throws(DataProtectionError) { try writeKeepingCounter(record, to: file) } catch { failure = error.errno }
        }
        return LockTurn(doubt: doubt, failure: failure)
    }

    /// Where a lock stands in the order of locks and unlocks.
    private enum Standing {
        /// It has the flock of this file, and can write to it.
        case own(LowerFile)
        /// It does not have the flock of this file, but may be able to write to it. Why.
        case behind(LowerFile, LockDoubt)
        /// It has the flock of this file, which is read-only for everybody.
        case readOnly(LowerFile)
        /// No regular file has the name. Why none was made.
        case missing(Errno)
        /// Nothing is known. Why.
        case unknown(Errno)

        func leave() {
            switch self {
            case .own(let file), .readOnly(let file): file.giveBackFlock()
            default: break
            }
        }
    }

    private func standing(_ makesFile: Bool) -> Standing {
        let end = Self.endOfPatience()
        repeat {
            let file: LowerFile
            do throws(DataProtectionError) { file = try openForLock(makesFile) } catch {
                return standingWithoutWriting(error.errno, until: end)
            }
            do throws(DataProtectionError) {
                guard try file.status().st_mode & S_IFMT == S_IFREG else { return .missing(.invalidArgument) }
                guard let held = try file.flocked(until: end) else { return behind(file) }
                if try held.isNamed(path) { return .own(held) }
                held.giveBackFlock()  // it has been removed, or replaced: look again
            } catch {
                return .behind(file, .unwritable(error.errno))
            }
        } while Clock.monotonic() < end
        return .unknown(.resourceBusy)
    }

    private func behind(_ file: LowerFile) -> Standing { .behind(file, .held(processes: file.flockHolders())) }

    private func openForLock(_ makesFile: Bool) throws(DataProtectionError) -> LowerFile {
        do throws(DataProtectionError) {
            return try LowerFile(path, flags: O_RDWR | (makesFile ? O_CREAT : 0) | Self.flags)
        } catch {
            guard error.errno == .permissionDenied else { throw error }
            return try .asOwner(path, flags: Self.flags)
        }
    }

    /// - Parameter refusal: why the file cannot be opened for writing.
    private func standingWithoutWriting(_ refusal: Errno, until end: UInt64) -> Standing {
        var status = stat()
        do throws(DataProtectionError) {
            _ = try retrying(path, "lstat") { path.withPlatformString { lstat($0, &status) } }
        } catch {
            return error.isAbsence ? .missing(refusal) : .unknown(refusal)
        }
        guard status.st_mode & S_IFMT == S_IFREG else { return .missing(refusal) }
        guard refusal == .readOnlyFileSystem, let file = try? LowerFile(path, flags: O_RDONLY | Self.flags),
            file.isOnReadOnlyFileSystem
        else { return .unknown(refusal) }
        do throws(DataProtectionError) {
            guard let held = try file.flocked(until: end) else { return behind(file) }
            return .readOnly(held)
        } catch {
            return .unknown(error.errno)
        }
    }

    /// Raises the counter, with or without the flock.
    ///
    /// - Returns: the record as it is then; whether no unlock that has not taken its turn yet will find the counter that it knows; why something
    ///   could not be written.
    private func raise(in file: LowerFile, makesRecord: Bool) -> (
        record: TransitionRecord, isCertain: Bool, failure: Errno?
    ) {
        var isCertain = false
        var record = TransitionRecord()
        do throws(DataProtectionError) {
            if let stored = TransitionRecord(validating: try file.bytes(at: 0, count: TransitionRecord.length)) {
                record = stored
                record.counter &+= 1  // a file altered to hold the last number must not keep anybody from locking
                try file.write(Array(record.encoded[..<TransitionRecord.counterEnd]), at: 0)
                return (record, true, nil)
            }
            // Damaged. An unlock begins it anew too, and so it is refused, whether or not this can be written.
            isCertain = true
            guard makesRecord else { return (record, true, .badMessage) }
            record = Self.newRecord()
            try file.write(record.encoded, at: 0)
            return (record, true, nil)
        } catch {
            return (record, isCertain, error.errno)
        }
    }
}

extension DataProtectionError {
    /// Whether nothing has that name.
    var isAbsence: Bool { errno == .noSuchFileOrDirectory || errno == .notDirectory }
}
