import FoundationEssentials
import Glibc

extension TargetOptions {
    /// The file that is to be, as an absolute path.
    func path(for url: URL) throws -> FilePath {
        try Self.lasting(output?.path ?? (directory?.path ?? ".").appending(Self.name(in: url)))
    }

    /// The last part of the URL. Not a hidden name, and none that leads elsewhere: the author of a URL does not choose our files.
    private static func name(in url: URL) throws(Failure) -> String {
        let last = url.path(percentEncoded: true).split(separator: "/", omittingEmptySubsequences: false).last ?? ""
        let name = String(last).removingPercentEncoding ?? ""
        guard !name.isEmpty, !name.hasPrefix("."), !name.contains("/"), !name.utf8.contains(0) else {
            throw Failure(.usage, "\(quoted(url.absoluteString)) names no file", hint: "give one: --output FILE")
        }
        return name
    }

    /// The same file as an absolute path, which does not end with a mount: a mount beside its directory shows the file under another name.
    static func lasting(_ path: FilePath) throws -> FilePath {
        let path = try absolute(path)
        guard let name = path.lastComponent else { return path }
        let place = try StoredPlace.of(path.directory)
        guard place.isBelowDescriptor else { return path }
        return (try? place.resolvedName())?.appending(name) ?? path
    }

    private static func absolute(_ path: FilePath) throws(Failure) -> FilePath {
        if path.isAbsolute { return path.lexicallyNormalized() }
        guard let current = getcwd(nil, 0) else {
            throw Failure(.notFound, "the current directory: \(Errno.current.spoken)")
        }
        defer { free(current) }
        return FilePath(platformString: current).pushing(path).lexicallyNormalized()
    }
}
