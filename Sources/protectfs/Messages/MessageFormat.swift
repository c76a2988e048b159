import ArgumentParser

/// `--format`, which the old verbs import and export took. There was only one.
enum MessageFormat: String, CaseIterable, ExpressibleByArgument {
    case rncryptor
}
