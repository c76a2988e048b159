extension TrustOptions {
    /// Which servers are believed.
    func trust() throws -> ServerTrust {
        let anchors: ServerTrust.Anchors =
            if !onlyAnchor.isEmpty {
                .only(try Self.certificates(onlyAnchor))
            } else if !anchor.isEmpty {
                .additional(try Self.certificates(anchor))
            } else {
                .system
            }
        let pins = Set(try pin.map(Self.pin))
        let host: ServerTrust.HostCheck =
            if skipsHostCheck { .off } else { expectedHost.map { .expected($0) } ?? .requested }
        // Where nothing else says which server is meant, its own key or certificate must.
        let place: PinGroup.Place = skipsHostCheck ? .server : .anyInChain
        return try ServerTrust(anchors: anchors, pins: pins.isEmpty ? [] : [PinGroup(place, pins)], host: host)
    }

    /// As pins are printed: a key in curl's manner, a certificate in hexadecimal.
    private static func pin(_ text: String) throws(TrustError) -> CertificatePin {
        text.hasPrefix("sha256/") ? try .publicKey(text) : try .certificate(text)
    }

    private static func certificates(_ paths: [PathArgument]) throws -> [Certificate] {
        try paths.flatMap { argument in
            let bytes = try SmallFile.read(argument.path)
            do throws(TrustError) { return try Certificate.all(from: bytes) } catch {
                throw Failure(.damaged, "\(quoted(argument.path)): \(error)")
            }
        }
    }
}

extension ConnectionOptions {
    /// How the process that runs the list connects.
    func connections(proxy: String? = nil) throws -> DownloadConnections {
        var connections = DownloadConnections()
        connections.proxy = try proxy.map { try HTTPProxy($0) }
        if let time = connectTimeout { connections.connectTimeout = .seconds(time.seconds) }
        if let time = stallTimeout { connections.stallLimit.duration = .seconds(time.seconds) }
        return connections
    }
}
