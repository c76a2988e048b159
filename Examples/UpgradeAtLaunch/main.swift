import DataProtection

// Protects what older versions of a program left as plaintext or in a weaker class. Runs at every start, at the lowest priority,
// beside the program's work. Costs one look at each file if there is nothing to do.
let documents = FilePath(CommandLine.arguments.dropFirst().first ?? "documents")
let keybag = try Keybag.user
let upgrade = Task { try await keybag.upgradeAtLaunch(documents, to: .complete) }

print("at work")

let summary = try await upgrade.value
print("\(summary.converted) protected, \(summary.raised) raised, \(summary.unchanged) as they were")
if summary.queued > 0 { print("\(summary.queued) wait for the next unlock") }
for failure in summary.failures { print("\(failure.path): \(failure.error)") }
