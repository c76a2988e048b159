import DataProtection
import SystemPackage

/// Runs cells of the table, each in a directory of its own, one after the other.
package final class ConformanceRun {
    private let subject: any Subject
    private let backstage: LibrarySubject
    /// Where each cell gets a directory.
    private let place: FilePath
    private var count = 0

    /// - Parameter subject: who is held against the table.
    package init(_ stage: Stage, _ subject: any Subject) {
        (self.subject, backstage) = (subject, LibrarySubject(stage))
        place = (subject as? MountSubject)?.tree ?? stage.scratch.path
    }

    /// What comes of a cell; nil for one that cannot arise.
    package func finding(_ cell: Cell) -> Finding? {
        if let reason = cell.unavailable { return .notApplicable(reason) }
        guard cell.expected != .cannotArise else { return nil }
        count += 1
        do {
            let directory = try Scratch.makeDirectory("\(count)", in: place)
            defer { Scratch.remove(directory) }
            return try Scene(subject, backstage, directory, cell).play(cell.attempt)
        } catch let error as NotApplicable {
            return .notApplicable(error.reason)
        } catch let error as Contradiction {
            return .other("it cannot be prepared or looked at: \(error.text)")
        } catch {
            let facts = (error as? DataProtectionError)?.facts ?? "\(error)"
            return .other("it cannot be prepared or looked at: \(facts)")
        }
    }
}

/// How a cell and what came of it compare.
package enum Verdict: Sendable, Hashable {
    case agreed, different, cannotArise
    case notApplicable(String)

    package init(_ cell: Cell, _ finding: Finding?) {
        switch (cell.expected, finding) {
        case (_, .notApplicable(let reason)?): self = .notApplicable(reason)
        case (.cannotArise, nil): self = .cannotArise
        case (.goes, .goes?), (.locked, .locked?), (.refused, .refused?): self = .agreed
        default: self = .different
        }
    }
}
