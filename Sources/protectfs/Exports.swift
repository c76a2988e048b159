@_exported import CommandLanguage
@_exported import DownloadVerbs
