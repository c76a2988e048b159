@_exported import CommandLanguage
@_exported import ProtectionSecrets
@_exported import SecretVerbs
