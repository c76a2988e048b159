import DataProtection

/// Gives a download that was checked its name. Killed at any line, it is done again from the beginning, and ends as if it had not been.
struct Publication {
    let request: DownloadRequest
    let file: PublishedFile
    let keybag: Keybag

    /// What has come of it.
    enum End {
        case done
        /// What came is kept.
        case failed(DownloadFailure)
        /// It had no name yet when its process ended, and was never there.
        case neverNamed
    }

    /// - Throws: `protection`, if the error is a passing one: it can be tried again.
    func perform() throws(DownloadError) -> End {
        do throws(DataProtectionError) {
            let temporary = try FilePath(bytes: file.temporary).stored()
            let target = try request.target.stored()
            if !file.temporary.isEmpty, try isMeant(temporary) {
                try ProtectedFile.publish(
                    temporary, as: target, replacing: request.replacesExisting,
                    raiseTo: request.protectionClass, keybag: keybag)
                return .done
            }
            // Renamed by a process that was killed before it could say so. Its note is in the queue since before that.
            guard try isMeant(target) else {
                if file.temporary.isEmpty { return .neverNamed }
                return .failed(DownloadFailure(.lost, "what was downloaded has been removed"))
            }
            try AtomicReplace.flushDirectory(target.directory)
            // Only this file's part of the queue, which may be long; and what of it is left is for the next unlock.
            _ = try? keybag.performQueuedWork(only: { $0.path == request.target }, keepingLost: false)
            return .done
        } catch let error where error.isPassing {
            throw .protection(error)
        } catch {
            return .failed(Self.failure(error))
        }
    }

    /// Gives a file its name that was written whole. Where something has that name by now, or somebody writes to what is replaced, it goes the
    /// way of larger ones, which keeps what came; and where nobody could read it any more.
    static func end(of file: WholeFile, _ request: DownloadRequest, _ keybag: Keybag) -> End {
        do throws(DataProtectionError) {
            try file.publish(replacing: request.replacesExisting)
        } catch .exists {
            return .neverNamed
        } catch .because(KeybagFailure.keyLost) {
            return .neverNamed
        } catch .busy {
            return .neverNamed
        } catch {
            return .failed(failure(error))
        }
        return .done
    }

    private static func failure(_ error: DataProtectionError) -> DownloadFailure {
        switch error {
        case .exists(let path): DownloadFailure(.targetExists, "\(StoredPlace.shown(path)) has appeared meanwhile")
        case .system(let path, let operation, let errno):
            DownloadFailure(.disk, "\(operation) \(StoredPlace.shown(path)): \(errno)")
        default: DownloadFailure(.disk, "\(error)")
        }
    }

    private func isMeant(_ path: FilePath) throws(DataProtectionError) -> Bool {
        do throws(DataProtectionError) { return try ProtectedFile.fileID(at: path) == file.fileID } catch {
            switch error {
            case .notProtected, .because(FileFailure.mangled), .damaged, .notRegularFile, .unsupported: return false
            case .system(_, _, .noSuchFileOrDirectory), .system(_, _, .tooManySymbolicLinkLevels): return false
            default: throw error
            }
        }
    }
}
