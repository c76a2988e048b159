import FoundationEssentials
import Glibc

extension TargetOptions {
    /// The file that is to be, as an absolute path.
    func path(for url: URL) throws -> FilePath {
        if let output { return try Self.absolute(output.path) }
        let directory = try Self.absolute(directory?.path ?? ".")
        return directory.appending(try Self.name(in: url))
    }

    /// How the URL ends. Not a name that hides itself or leads elsewhere: whoever writes URLs does not choose our files.
    private static func name(in url: URL) throws(Failure) -> String {
        let last = url.path(percentEncoded: true).split(separator: "/", omittingEmptySubsequences: false).last ?? ""
        let name = String(last).removingPercentEncoding ?? ""
        guard !name.isEmpty, !name.hasPrefix("."), !name.contains("/"), !name.utf8.contains(0) else {
            throw Failure(.usage, "\(quoted(url.absoluteString)) names no file", hint: "give one: --output FILE")
        }
        return name
    }

    static func absolute(_ path: FilePath) throws(Failure) -> FilePath {
        if path.isAbsolute { return path.lexicallyNormalized() }
        guard let current = getcwd(nil, 0) else {
            throw Failure(.notFound, "the current directory: \(Errno.current.spoken)")
        }
        defer { free(current) }
        return FilePath(platformString: current).pushing(path).lexicallyNormalized()
    }
}
