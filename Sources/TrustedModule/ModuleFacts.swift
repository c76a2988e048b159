/// What a TPM says of itself. TPM 2.0 Part 2, §6.13 (TPM_PT).
package struct ModuleFacts: Hashable, Sendable {
    /// The maker, up to four characters, such as `INTC`.
    package let manufacturer: String
    /// Wrong authorization values that count now.
    package let failedTries: UInt32
    /// Wrong values after which all are refused.
    package let maximumTries: UInt32
    /// Seconds after which the TPM forgets one wrong value; 0: it forgets none, or counts none.
    package let secondsForOneTry: UInt32
    /// Whether all values are refused now.
    package let isLockedOut: Bool
    /// Whether the owner hierarchy has a password.
    package let ownerHasPassword: Bool
    /// Whether a password guards the count of wrong values. Without it anybody with the machine can reset the count.
    package let lockoutHasPassword: Bool

    /// Wrong values that the TPM still accepts.
    package var triesLeft: UInt32 { isLockedOut ? 0 : maximumTries - min(failedTries, maximumTries) }

    /// Whether it is software, of a hypervisor for example: it keeps no secret from its host.
    package var isVirtual: Bool { ["IBM", "MSFT", "GOOG", "AMZN"].contains(manufacturer) }

    package init(
        manufacturer: String, failedTries: UInt32, maximumTries: UInt32, secondsForOneTry: UInt32, isLockedOut: Bool,
        ownerHasPassword: Bool, lockoutHasPassword: Bool
    ) {
        self.manufacturer = manufacturer
        self.failedTries = failedTries
        self.maximumTries = maximumTries
        self.secondsForOneTry = secondsForOneTry
        self.isLockedOut = isLockedOut
        self.ownerHasPassword = ownerHasPassword
        self.lockoutHasPassword = lockoutHasPassword
    }

    /// Reads it from properties by number.
    init(_ properties: [UInt32: UInt32]) {
        func value(_ property: UInt32) -> UInt32 { properties[property] ?? 0 }
        let letters = stride(from: 24, through: 0, by: -8).map { UInt8(truncatingIfNeeded: value(0x105) >> $0) }
        let permanent = value(0x200)  // TPMA_PERMANENT
        self.init(
            manufacturer: String(decoding: letters.filter { (0x21...0x7E).contains($0) }, as: UTF8.self),
            failedTries: value(0x20E), maximumTries: value(0x20F), secondsForOneTry: value(0x210),
            isLockedOut: permanent & 1 << 9 != 0, ownerHasPassword: permanent & 1 != 0,
            lockoutHasPassword: permanent & 1 << 2 != 0)
    }
}
