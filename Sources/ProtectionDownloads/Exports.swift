@_exported public import TrustedHTTP
