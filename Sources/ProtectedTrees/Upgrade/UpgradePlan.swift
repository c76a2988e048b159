import DurableFiles
import Keybags
import ProtectedFiles
import ProtectionKeys

/// What an upgrade is to make of a directory: the classes, and what is included that is left out otherwise.
package struct UpgradePlan: Hashable, Sendable {
    /// The class of what no rule says anything of; nil: it stays as it is.
    package let protectionClass: ProtectionClass?
    package let rules: UpgradeRules?
    package let includes: Set<LeftOut>

    /// The class that a file is to have at least; nil: it stays as it is.
    package func wanted(for names: [[UInt8]]) -> ProtectionClass? {
        switch rules?.verdict(for: names) {
        case .atLeast(let named): named
        case .leave: nil
        case nil: protectionClass
        }
    }

    /// The default class that a directory is to have at least; nil: it stays as it is. `none` is no default.
    package func wantedDefault(of names: [[UInt8]]) -> ProtectionClass? {
        let named: ProtectionClass?
        switch rules?.verdict(forAllIn: names) {
        case .atLeast(let rule): named = rule
        case .leave: named = nil
        case nil: named = protectionClass
        }
        return named == ProtectionClass.none ? nil : named
    }
}
