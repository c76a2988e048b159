/// The operations of the table, by the names that they have there. What is done for each is in `Scene`.
package enum Rehearsal: String, Sendable, Hashable, CaseIterable {
    // By path.
    case create = "create, class given"
    case createInherited = "create, class inherited"
    case openToRead = "open and read"
    case openToWrite = "open and write"
    case openToAppend = "open and append"
    case openToEmpty = "open with O_TRUNC"
    case openBesideToRead = "open and read, another handle is open"
    case openBesideToWrite = "open and write, another handle is open"
    case truncateByPath = "truncate by path"

    // Through a handle.
    case readOpened = "read, opened handle"
    case writeOpened = "write, opened handle"
    case appendOpened = "append, opened handle"
    case truncateOpened = "truncate, opened handle"
    case readCreated = "read, created handle"
    case writeCreated = "write, created handle"
    case appendCreated = "append, created handle"
    case truncateCreated = "truncate, created handle"
    case openAfterCreated = "open and read, after that handle was closed"
    case newMapping = "new mmap"
    case existingMapping = "existing mmap, page-in"
    case sync = "fsync"
    case close = "close"

    // Names and facts.
    case stat = "stat"
    case getClass = "get class"
    case list = "list"
    case changeMode = "chmod"
    case changeTimes = "utimes"
    case rename = "rename"
    case link = "link"
    case unlink = "unlink"
    case setDirectoryClass = "set class of a directory"
    case copyCiphertext = "raw ciphertext read"

    // Two files, or a file and its successor.
    case exchange = "exchange two files' data"
    case replace = "atomic replace"
    case copy = "copy"
    case protect = "protect a plaintext file"
    case unprotect = "unprotect"
    case rekey = "encrypt anew, same class"
    case readItem = "keychain item, read"
    case addItem = "keychain item, add"
    case updateItem = "keychain item, update"
}
