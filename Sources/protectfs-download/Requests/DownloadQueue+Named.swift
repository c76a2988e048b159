extension DownloadQueue {
    /// The download of that id, or of the only id that begins so.
    func named(_ text: String) async throws -> Download {
        let digits = text.lowercased()
        if let id = DownloadID(digits) { return try await download(id) }
        guard digits.count >= 4 else { throw Failure(.usage, "\(quoted(text)) is no id: it has four digits at least") }
        let found = try await downloads().filter { "\($0.id)".hasPrefix(digits) }
        guard found.count <= 1 else { throw Failure(.usage, "several downloads begin with \(quoted(text))") }
        guard let download = found.first else {
            throw Failure(
                .notFound, "there is no download \(quoted(text))", hint: "see them with: protectfs download list")
        }
        return download
    }
}
