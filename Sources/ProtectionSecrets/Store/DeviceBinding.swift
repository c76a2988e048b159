import DataProtection
import ProtectionKeys

/// Whether the device key takes part in the wrap of an item key: with secrets of this device only.
struct DeviceBinding: ~Copyable {
    private let device: DeviceKey?

    /// - Throws: `otherDevice`, `deviceKeyUnusable`.
    init(_ accessibility: SecretAccessibility, _ keybag: Keybag) throws(DataProtectionError) {
        device = accessibility.isThisDeviceOnly ? try keybag.deviceKey() : nil
    }

    /// Wraps an item key: 40 bytes.
    borrowing func wrap(_ item: borrowing ItemKey, _ key: borrowing ClassKey) throws(KeyError) -> WrappedKey {
        switch device {
        case .some(let device): try key.wrap(item, with: device)
        case nil: try key.wrap(item)
        }
    }

    /// - Throws: `unwrapFailed`.
    borrowing func unwrap(_ wrapped: WrappedKey, _ key: borrowing ClassKey) throws(KeyError) -> ItemKey {
        switch device {
        case .some(let device): try key.unwrapItem(wrapped, with: device)
        case nil: try key.unwrapItem(wrapped)
        }
    }
}
