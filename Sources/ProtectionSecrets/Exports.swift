@_exported public import DataProtection

@_exported public import struct ProtectionKeys.SecretBytes
