@_exported public import struct ProtectionKeys.SecretBytes
