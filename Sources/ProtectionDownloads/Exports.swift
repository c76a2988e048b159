@_exported public import DataProtection
@_exported public import TrustedHTTP

@_exported public import struct ProtectionKeys.RunningDigest
