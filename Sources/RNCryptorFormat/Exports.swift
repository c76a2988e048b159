// What an application needs of the layer below: where passwords and keys lie, and what libcrypto says.
@_exported public import enum ProtectionKeys.KeyError
@_exported public import struct ProtectionKeys.SecretBytes
