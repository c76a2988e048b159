import ArgumentParser

/// A format of others, in which data comes and goes.
enum MessageFormat: String, CaseIterable, ExpressibleByArgument {
    /// RNCryptor: version 3 is written, 2 and 3 are read.
    case rncryptor
}
