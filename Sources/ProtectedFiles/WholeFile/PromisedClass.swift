import DurableFiles
import Keybags
import ProtectionKeys

/// What is to happen to a new file when the process that created it has closed it.
package protocol ClosePromise: AnyObject {
    /// The file is closed.
    func perform()
    /// The file did not get its name and is nowhere.
    func withdraw()
}

/// The class that a new file is to get when the process that created it has closed it.
///
/// A promise must outlive the process that made it. The layer that can note it, the queue, says how.
package struct PromisedClass {
    /// Stronger than the class that the file is created with, or the same.
    package let protectionClass: ProtectionClass
    private let note: (NewFile) throws(DataProtectionError) -> (any ClosePromise)?

    package init(
        _ protectionClass: ProtectionClass,
        note: @escaping (NewFile) throws(DataProtectionError) -> (any ClosePromise)?
    ) {
        self.protectionClass = protectionClass
        self.note = note
    }

    /// Notes the promise of a finished file that has no name yet; nil: there is nothing to promise.
    package func make(for file: NewFile) throws(DataProtectionError) -> (any ClosePromise)? { try note(file) }
}
