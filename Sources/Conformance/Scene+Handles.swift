import DataProtection

/// Operations through a handle.
extension Scene {
    /// Another handle on the file, which is made for it: opened while unlocked or, before first unlock, in that state. Then
    /// only what can be created or opened without an unlock can be open.
    func holdBeside() throws -> any HeldFile {
        if moment == .beforeFirstUnlock, protectionClass == .completeUnlessOpen { return try holdNew() }
        try make()
        return try hold(for: .writing)
    }

    /// A handle on a file that is there.
    func hold(for purpose: Purpose) throws -> any HeldFile {
        try subject.enter(moment == .beforeFirstUnlock ? .beforeFirstUnlock : .unlocked)
        let held = try subject.hold(file, for: purpose)
        contents? += held.preamble
        return held
    }

    /// A handle that created the file before first unlock, for that column, or while locked.
    func holdNew() throws -> any HeldFile {
        try subject.enter(moment == .beforeFirstUnlock ? .beforeFirstUnlock : .locked)
        let held = try subject.holdNew(file, as: protectionClass, Self.text)
        contents = Self.text
        return held
    }

    func useOpened(_ rehearsal: Rehearsal) throws -> Finding {
        let isReading = rehearsal == .readOpened
        try make(isReading ? Self.longText : Self.text)
        return try use(try hold(for: isReading ? .reading : .writing), rehearsal)
    }

    func useCreated(_ rehearsal: Rehearsal) throws -> Finding { try use(try holdNew(), rehearsal) }

    private func use(_ held: any HeldFile, _ rehearsal: Rehearsal) throws -> Finding {
        let finding = try act { try ask(held, rehearsal) }
        if finding == .locked, held.worksAgain {
            try subject.enter(.unlocked)
            do { try ask(held, rehearsal) } catch {
                return .other("ENOKEY, but not an unlock later either: \(self.finding(of: error).words)")
            }
        }
        try held.close()
        return try settled(finding)
    }

    /// - Throws: what the handle says; ``contents`` are only changed if it goes.
    private func ask(_ held: any HeldFile, _ rehearsal: Rehearsal) throws {
        var after = contents ?? []
        switch rehearsal {
        case .readOpened, .readCreated:
            let offset = after.count - 1_000
            guard try held.read(at: offset, count: 1_000) == Array(after[offset...]) else {
                throw Contradiction("it reads something else")
            }
        case .writeOpened, .writeCreated:
            after.replaceSubrange(4_095..<4_098, with: [1, 2, 3])
            try held.write([1, 2, 3], at: 4_095)
        case .appendOpened, .appendCreated:
            after += [1, 2, 3]
            try held.append([1, 2, 3])
        default:
            after = Array(after.prefix(4))
            try held.truncate(to: 4)
        }
        contents = after
    }

    /// Pages of an open file, through a mapping that is made at the moment or was made and read before.
    func map(_ rehearsal: Rehearsal) throws -> Finding {
        let isNew = moment == .beforeFirstUnlock && protectionClass == .completeUnlessOpen
        if !isNew { try make() }
        let held = isNew ? try holdNew() : try hold(for: .reading)
        let expected = contents ?? []
        let existing = rehearsal == .existingMapping ? try held.map(count: expected.count) : nil
        _ = try existing?.read()
        var mapping = existing
        let finding = try act {
            let mapped = try mapping ?? held.map(count: expected.count)
            mapping = mapped
            guard try mapped.read() == expected else { throw Contradiction("it shows something else") }
        }
        if finding == .locked {
            try subject.enter(.unlocked)
            guard try mapping?.read() == expected else {
                return .other("ENOKEY, but after an unlock it shows something else")
            }
        }
        try held.close()
        return try settled(finding)
    }

    func openAfterCreated() throws -> Finding {
        try holdNew().close()
        return try settled(
            try act {
                guard try subject.read(file) == contents else { throw Contradiction("it reads something else") }
            })
    }

    /// What was written while unlocked is made to last at the moment.
    func commit(_ rehearsal: Rehearsal) throws -> Finding {
        try make()
        try subject.enter(.unlocked)
        let held = try subject.hold(file, for: .writing)
        try held.append([1, 2, 3])
        contents? += held.preamble + [1, 2, 3]
        let finding = try act {
            if rehearsal == .sync { try held.sync() } else { try held.close() }
        }
        try held.close()
        return try settled(finding)
    }
}
