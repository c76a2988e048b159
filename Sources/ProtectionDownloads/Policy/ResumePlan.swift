/// What a server is asked for when a part is there already, and what its answer means. Never a splice of two versions.
struct ResumePlan: Hashable, Sendable {
    /// How many bytes are there, from the first on. 0: everything is asked for.
    let offset: UInt64
    /// What those bytes are of.
    let resource: ResourceIdentity?

    /// - Parameter offset: how many bytes are there. Where nothing says for certain what they are of, they are of no use.
    init(offset: UInt64, resource: ResourceIdentity?) {
        let canResume = resource?.validator != nil
        self.offset = canResume ? offset : 0
        self.resource = canResume ? resource : nil
    }

    /// What the request says: RFC 9110 §14.2, §13.1.5.
    var headers: [HTTPHeader] {
        guard offset > 0, let validator = resource?.validator else { return [] }
        return [HTTPHeader("Range", "bytes=\(offset)-"), HTTPHeader("If-Range", validator)]
    }

    /// What an answer means.
    enum Answer: Hashable {
        /// The body goes where the part ends. `last`: the offset of its last byte.
        case goOn(last: UInt64, ResourceIdentity)
        /// The body is the whole resource: what was there is of no use.
        case wholeAnew(ResourceIdentity)
        /// Nothing of the body can be used; ask again, for everything.
        case askForAll
        /// Everything is there already.
        case complete
        /// There is no such resource for us, or not now.
        case refused(status: Int)
        /// The body is not what was asked for, and will not be.
        case unusable(Unusable)
    }

    /// Why a body is of no use.
    enum Unusable: Hashable {
        /// Content-Encoding, though none was asked for: a check sum would be of other bytes, and offsets too.
        case encoded(String)
        /// A part, though everything was asked for.
        case part
        /// Content-Length is no number, or two of them.
        case length(String)
    }

    /// Reads the head of an answer.
    func read(_ response: HTTPResponse) -> Answer {
        switch response.status {
        case 200, 203, 206: break
        case 416: return unsatisfied(response)
        case 412: return offset > 0 ? .askForAll : .refused(status: 412)
        default: return .refused(status: response.status)
        }
        if let coding = response["Content-Encoding"], coding.lowercased() != "identity", !coding.isEmpty {
            return .unusable(.encoded(coding))
        }
        let length: UInt64?
        if let text = response["Content-Length"] {
            guard let number = ContentRange.number(text) else { return .unusable(.length(text)) }
            length = number
        } else {
            length = nil
        }
        guard response.status == 206 else { return .wholeAnew(ResourceIdentity(response, length: length)) }
        return part(response, length: length)
    }

    private func part(_ response: HTTPResponse, length: UInt64?) -> Answer {
        guard offset > 0, let resource else { return .unusable(.part) }
        guard case .bytes(let range, let total)? = response["Content-Range"].flatMap(ContentRange.init),
            range.lowerBound == offset, length == nil || length == UInt64(range.count)
        else { return .askForAll }
        if resource.differs(fromPart: response, of: total) { return .askForAll }
        var known = resource
        known.length = resource.length ?? total
        return .goOn(last: range.upperBound, known)
    }

    private func unsatisfied(_ response: HTTPResponse) -> Answer {
        guard offset > 0, let resource else { return .refused(status: 416) }
        guard case .unsatisfied(let total)? = response["Content-Range"].flatMap(ContentRange.init), total == offset,
            resource.length ?? total == total
        else { return .askForAll }
        return .complete
    }
}
