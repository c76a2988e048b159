import DataProtection

/// The paths of a `protect` or `unprotect` that can be worked on; the others are reported at once.
struct ConversionItems {
    private(set) var items: [NamedItem] = []
    let outcome = Outcome()

    /// - Throws: status 64 for a directory without `--recursive`: then nothing is touched.
    init(_ paths: [FilePath], isRecursive: Bool) throws(Failure) {
        for path in paths {
            let item: NamedItem
            do throws(DataProtectionError) { item = try NamedItem(path) } catch {
                outcome.record(error)
                continue
            }
            switch item.kind {
            case .directory where !isRecursive:
                throw Failure(.usage, "\(quoted(path)) is a directory", hint: "with everything below it: --recursive")
            case .directory, .file: items.append(item)
            case .link: outcome.record(Failure(.refused, "\(quoted(path)) is a symbolic link; name what it leads to"))
            case .other: outcome.record(DataProtectionError.notRegularFile(path))
            }
        }
    }
}
