@_exported public import enum ProtectionKeys.Hexadecimal  // package
@_exported public import struct ProtectionKeys.SecretBytes
