import Glibc

/// As on a full disk, no file can grow beyond this many bytes, not even for root. Such a write fails with EFBIG.
func withFiles<Result>(ofAtMost bytes: UInt, _ body: () throws -> Result) rethrows -> Result {
    signal(SIGXFSZ, SIG_IGN)
    let resource = __rlimit_resource_t(RLIMIT_FSIZE.rawValue)
    var limit = rlimit()
    getrlimit(resource, &limit)
    defer { setrlimit(resource, &limit) }
    var less = rlimit(rlim_cur: bytes, rlim_max: limit.rlim_max)
    setrlimit(resource, &less)
    return try body()
}
