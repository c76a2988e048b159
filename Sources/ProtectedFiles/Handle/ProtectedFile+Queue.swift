import DurableFiles
import Keybags
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// What the queue asks of an open file.
extension ProtectedFile {
    /// Whether `seal` proves that the file was made to be appended to `log`, and the file that somebody with a key made it: class B's public
    /// key makes files, too.
    package func isSegment(of log: FilePath, by seal: [UInt8]) throws(DataProtectionError) -> Bool {
        try inTurn(.read) { () throws(DataProtectionError) in
            let (state, origin) = try open.judgedState(.read)
            if state.heads.head.wrap.classKey.protectionClass == .completeUnlessOpen, origin == .unverified {
                return false
            }
            return try open.operate(.read, needsHead: true) { view, keys throws(Trouble) in
                try certainly { () throws(DataProtectionError) in
                    try withKeys { () throws(KeyError) in
                        try JoinSeal.isGood(
                            seal, log: log.bytes, in: view.state.heads.head.prefix, under: keys.head().bytes)
                    }
                }
            }
        }
    }

    /// Proves a claim about this file, for a note.
    package func seal(_ claim: FileClaim) throws(DataProtectionError) -> [UInt8] {
        try withHeadKey { prefix, headKey throws(KeyError) in try claim.seal(in: prefix, under: headKey.bytes) }
    }

    /// Whether that seal was made with the key of this file.
    package func proves(_ claim: FileClaim, by seal: [UInt8]) throws(DataProtectionError) -> Bool {
        try withHeadKey { prefix, headKey throws(KeyError) in
            try claim.isProved(by: seal, in: prefix, under: headKey.bytes)
        }
    }

    private func withHeadKey<R>(
        _ body: (Prefix, borrowing FileKeys.Kept) throws(KeyError) -> R
    ) throws(DataProtectionError) -> R {
        try inTurn(.read) { () throws(DataProtectionError) in
            try open.operate(.read, needsHead: true) { view, keys throws(Trouble) in
                let prefix = view.state.heads.head.prefix
                return try certainly { () throws(DataProtectionError) in
                    try withKeys { () throws(KeyError) in try body(prefix, keys.head()) }
                }
            }
        }
    }

    /// The key that encrypts data of mappings which comes after a lock.
    ///
    /// - Parameter salt: 16 bytes, of a key that there was; nil: a new one.
    /// - Throws: as ``read(into:at:)``.
    package func latePagesKey(salt: [UInt8]? = nil) throws(DataProtectionError) -> LatePagesKey {
        let salt =
            if let salt {
                salt
            } else {
                try withKeys { () throws(KeyError) in try Randomness.bytes(LatePages.saltLength) }
            }
        return try inTurn(.read) { () throws(DataProtectionError) in
            try open.operate(.read, needsHead: true) { view, keys throws(Trouble) in
                let prefix = view.state.heads.head.prefix
                return try certainly { () throws(DataProtectionError) in
                    try withKeys { () throws(KeyError) in
                        LatePagesKey(
                            prefix: prefix, salt: salt,
                            secret: FileKeys.Kept(
                                try FileKey.latePagesKey(of: prefix.fileID, headKey: keys.head().bytes, salt: salt)))
                    }
                }
            }
        }
    }

    /// The number of the contents: each commit gives them a higher one. Needs no key while they are what this handle found last.
    ///
    /// - Throws: as ``read(into:at:)``.
    package func contentCounter() throws(DataProtectionError) -> UInt64 {
        try inTurn(.read) { () throws(DataProtectionError) in try open.knownState(.read).record.counter }
    }
}

/// The key by which pages of a file are kept that come when its class key has gone.
package struct LatePagesKey: Sendable {
    package let prefix: Prefix
    package let salt: [UInt8]
    package let secret: FileKeys.Kept
}
