@_exported import CommandLanguage
@_exported import DownloadVerbs
@_exported import SecretVerbs
