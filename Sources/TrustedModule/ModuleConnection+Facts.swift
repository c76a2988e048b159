import CTSS

/// What needs neither a key nor a session.
extension ModuleConnection {
    func facts() throws(TrustedModuleError) -> ModuleFacts {
        // The maker; then what may change.
        let fixed = try properties(from: 0x105, count: 1)
        return ModuleFacts(fixed.merging(try properties(from: 0x200, count: 32)) { first, _ in first })
    }

    /// TPM_CAP_TPM_PROPERTIES.
    func properties(from first: UInt32, count: UInt32) throws(TrustedModuleError) -> [UInt32: UInt32] {
        try withCapability(6, from: first, count: count) { answer in
            withUnsafeBytes(of: &answer.pointee.values) { bytes in
                let pairs = bytes.bindMemory(to: UInt32.self)
                let count = min(Int(answer.pointee.count), pairs.count / 2)
                return Dictionary((0..<count).map { (pairs[2 * $0], pairs[2 * $0 + 1]) }) { first, _ in first }
            }
        }
    }

    /// TPM_CAP_HANDLES. An answer has as many as the TPM likes.
    func usedHandles(in range: Range<UInt32>) throws(TrustedModuleError) -> [UInt32] {
        var found: [UInt32] = []
        var next = range.lowerBound
        while range.contains(next) {
            let answer = try withCapability(1, from: next, count: 254) { answer in
                withUnsafeBytes(of: &answer.pointee.values) { bytes in
                    Array(bytes.bindMemory(to: UInt32.self).prefix(Int(answer.pointee.count)))
                }
            }
            found += answer.filter { range.contains($0) }
            guard let last = answer.last, last >= next, last < .max else { break }
            next = last + 1
        }
        return found
    }

    private func withCapability<R>(
        _ capability: UInt32, from property: UInt32, count: UInt32,
        _ body: (UnsafeMutablePointer<tss_capability>) -> R
    ) throws(TrustedModuleError) -> R {
        var answer: UnsafeMutablePointer<tss_capability>?
        try check(
            "GetCapability",
            library.GetCapability(
                context, Self.none, Self.none, Self.none, capability, property, count, nil, &answer))
        defer { library.Free(answer) }
        return body(answer!)
    }
}
