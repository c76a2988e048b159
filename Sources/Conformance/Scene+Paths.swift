import DataProtection

/// Operations by path.
extension Scene {
    func create() throws -> Finding {
        let finding = try act { try subject.create(file, as: protectionClass, Self.text) }
        if finding == .goes { contents = Self.text }
        return try settled(finding)
    }

    /// A directory's *none* counts as class C: nobody authenticates it.
    func createInherited() throws -> Finding {
        try backstage.setClass(protectionClass, of: directory)
        (classes, finalClass) = ([protectionClass.inherited], protectionClass.inherited)
        let finding = try act { try subject.create(file, as: nil, Self.text) }
        if finding == .goes { contents = Self.text }
        return try settled(finding)
    }

    /// - Parameter isBeside: whether another handle on the same file is open: it must make no difference.
    func open(_ rehearsal: Rehearsal, isBeside: Bool) throws -> Finding {
        let other = isBeside ? try holdBeside() : nil
        if other == nil { try make() }
        let before = contents ?? []
        var after = before
        let finding = try act {
            switch rehearsal {
            case .openToWrite:
                after.replaceSubrange(4_095..<4_098, with: [1, 2, 3])
                try subject.write([1, 2, 3], to: file, at: 4_095)
            case .openToAppend:
                after += [1, 2, 3]
                try subject.append([1, 2, 3], to: file)
            case .openToEmpty:
                after = [1, 2, 3]
                try subject.empty(file, andWrite: after)
            case .truncateByPath:
                after = Array(before.prefix(4))
                try subject.truncate(file, to: 4)
            default:
                guard try subject.read(file) == before else { throw Contradiction("it reads something else") }
            }
        }
        contents = finding == .goes ? after : before
        try other?.close()
        return try settled(finding)
    }

    /// The class is inherited, but not *none*.
    func replace() throws -> Finding {
        try make()
        let before = try RawFile.bytes(of: file)
        classes = [protectionClass.inherited]
        let finding = try act { try subject.replace(file, by: [1, 2, 3]) }
        if finding == .goes {
            (contents, finalClass) = ([1, 2, 3], protectionClass.inherited)
        } else if try RawFile.bytes(of: file) != before {
            return .other("\(finding.words), but the old file is not as it was")
        }
        return try settled(finding)
    }

    func protect() throws -> Finding {
        try RawFile.make(file, Self.text)
        contents = Self.text
        let finding = try act { try subject.protect(file, as: protectionClass) }
        finalClass = finding == .goes ? protectionClass : nil
        return try settled(finding)
    }

    func unprotect() throws -> Finding {
        try make()
        let finding = try act { try subject.unprotect(file) }
        finalClass = finding == .goes ? nil : protectionClass
        return try settled(finding)
    }

    func rekey() throws -> Finding {
        try make()
        let before = try RawFile.bytes(of: file)
        let finding = try act { try subject.rekey(file) }
        if try (RawFile.bytes(of: file) == before) == (finding == .goes) {
            return .other("\(finding.words), but the stored bytes say otherwise")
        }
        return try settled(finding)
    }

    func copy(_ rehearsal: Rehearsal) throws -> Finding {
        try make()
        let target = directory.appending("copy")
        let finding = try act {
            if rehearsal == .copy {
                try subject.copy(file, to: target)
            } else {
                try subject.copyCiphertext(file, to: target)
            }
        }
        guard finding == .goes else { return try settled(finding) }
        try subject.enter(.unlocked)
        guard try backstage.read(target) == Self.text, try backstage.protectionClass(of: target) == protectionClass
        else {
            return .other("it goes, but the copy is another file")
        }
        return try settled(finding, beside: ["copy"])
    }

    func changeClass(to new: ProtectionClass, isOpen: Bool) throws -> Finding {
        let other = isOpen ? try holdBeside() : nil
        if other == nil { try make() }
        let before = try RawFile.bytes(of: file)
        let finding = try act { try subject.setClass(new, of: file) }
        if finding == .goes {
            finalClass = new
        } else if try RawFile.bytes(of: file) != before {
            return .other("\(finding.words), but the file is not as it was")
        }
        try other?.close()
        return try settled(finding)
    }
}
