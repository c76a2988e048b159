@_exported import ArgumentParser
@_exported import CommandLanguage
@_exported import DataProtection
