import TrustedHTTP

/// A ``ProtectionSpace`` as it is sealed with a request.
struct StoredSpace: Codable {
    let kind, host: String
    let port: Int
    let realm, method: String?

    init(_ space: ProtectionSpace) {
        (kind, host, port) = (space.kind.rawValue, space.host, space.port)
        (realm, method) = (space.realm, space.method?.rawValue)
    }

    func space() throws -> ProtectionSpace {
        guard let kind = ProtectionSpace.Kind(rawValue: kind) else { throw MalformedRequest() }
        let way = try method.map { name in
            guard let method = AuthenticationMethod(rawValue: name) else { throw MalformedRequest() }
            return method
        }
        return ProtectionSpace(kind, host: host, port: port, realm: realm, method: way)
    }
}
