// Nothing but a place for linker flags: Package.swift, at its end.
