@_exported public import DataProtection
@_exported public import struct ProtectionKeys.RunningDigest
@_exported public import TrustedHTTP
