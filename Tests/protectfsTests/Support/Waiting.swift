import Glibc

/// Waits for what another process does in its own time; a minute and a half at most.
func waits(for condition: () throws -> Bool) rethrows -> Bool {
    for _ in 0..<1800 {
        if try condition() { return true }
        usleep(50_000)
    }
    return false
}
