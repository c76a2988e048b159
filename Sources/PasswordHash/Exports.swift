// What an application needs of the layer below: memory for passwords, and the words of its errors.
@_exported public import enum ProtectionKeys.KeyError
@_exported public import struct ProtectionKeys.SecretBytes
