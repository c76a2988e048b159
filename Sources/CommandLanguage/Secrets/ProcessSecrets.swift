import CSecretHeap
import DataProtection

/// Where a program of ours keeps its secrets.
package enum ProcessSecrets {
    /// The weakest of what holds `SecretBytes` and what libcrypto works in.
    package static var backing: SecretMemoryBacking {
        switch protectfs_secret_heap_backing() {
        case PROTECTFS_BACKING_SECRET: SecretBytes.backing
        case PROTECTFS_BACKING_LOCKED: SecretBytes.backing == .secretMemory ? .locked : SecretBytes.backing
        default: .unlocked
        }
    }
}
