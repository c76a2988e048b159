// What an application needs of the layers below: the classes and the names in errors, not the keys.
@_exported public import DurableFiles
@_exported public import Keybags
@_exported public import ProtectedFiles
@_exported public import ProtectedTrees

@_exported public import enum ProtectionFormat.AccessRule
@_exported public import enum ProtectionFormat.AttemptedOperation
@_exported public import enum ProtectionFormat.FileOperation
@_exported public import enum ProtectionFormat.FormatError
@_exported public import enum ProtectionFormat.Mangling
@_exported public import struct ProtectionFormat.OriginMark
@_exported public import enum ProtectionFormat.ProtectionState
@_exported public import enum ProtectionKeys.Base64  // package
@_exported public import enum ProtectionKeys.CryptographyLibrary
@_exported public import struct ProtectionKeys.FirstUnlockSecret
@_exported public import enum ProtectionKeys.Hexadecimal  // package
@_exported public import enum ProtectionKeys.KeyError
@_exported public import struct ProtectionKeys.KeybagUUID
@_exported public import enum ProtectionKeys.ProtectionClass
@_exported public import struct ProtectionKeys.RecoveryCode
@_exported public import enum ProtectionKeys.RecoveryCodeTypo
@_exported public import struct ProtectionKeys.SecretBytes
@_exported public import enum ProtectionKeys.SecretMemoryBacking
@_exported public import struct SystemPackage.Errno
@_exported public import struct SystemPackage.FilePath
