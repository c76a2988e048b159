#!/usr/bin/env python3
"""What somebody gets who has an old copy of a keybag, opened by its passcode and device key, or by its recovery code:

    attack.py --keybag DIRECTORY --device-key FILE --passcode-fd N FILE...

tries every class key of that copy on every place of every file where a wrapped file key could lie, whatever class,
generation or keybag is written there, and prints a line FILE OFFSET CLASS GENERATION for each that opens. It was written
from docs/reference/FORMAT.md §§1.1, 1.2 and 3.3 like read.py beside it.
"""
import argparse
import hashlib
import os
import pathlib
import struct

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap

from keybag import B, BASE_POINT, Keys, hkdf, x25519


def symmetric_keys(keys):
    """Wrapping keys: each class key under its own name, and under that of every other class key."""
    for number, generation in keys.classes:
        if number == B:
            continue
        for name in keys.classes:
            context = keys.uuid + struct.pack("<BI", *name)
            yield (number, generation), hkdf(keys.classes[number, generation], None, "file key wrap", context)


def wrapped_keys_of_b(data, at, private, public):
    """The key-encryption key for a wrap of class B at this place."""
    ephemeral = data[at : at + 32]
    try:
        z = private.exchange(X25519PublicKey.from_public_bytes(ephemeral))
    except ValueError:
        return None
    return hashlib.sha256(b"\0\0\0\1" + z + ephemeral + public).digest()


def opens(key, wrapped):
    try:
        aes_key_unwrap(key, wrapped)
        return True
    except (InvalidUnwrap, ValueError):
        return False


def finds(data, keys):
    symmetric = list(symmetric_keys(keys))
    # The private key is made once: that takes ten times as long as an exchange.
    pairs = [(name, X25519PrivateKey.from_private_bytes(key), x25519(key, BASE_POINT, "damaged class key"))
             for name, key in keys.classes.items() if name[0] == B]
    for at in range(0, max(len(data) - 39, 0)):
        wrapped = data[at : at + 40]
        # A wrapped key looks like random bytes. Of 40 of those, fewer than 24 are different once in a hundred million times.
        if len(set(wrapped)) < 24:
            continue
        for name, key in symmetric:
            if opens(key, wrapped):
                yield at, name
        for name, private, public in pairs:
            key = wrapped_keys_of_b(data, at, private, public) if len(data) - at >= 72 else None
            if key and opens(key, data[at + 32 : at + 72]):
                yield at, name


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--keybag", type=pathlib.Path, required=True)
    parser.add_argument("--device-key", type=pathlib.Path)
    parser.add_argument("--passcode-fd", type=int)
    parser.add_argument("--recovery-code-fd", type=int)
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    code = options.recovery_code_fd is not None
    secret = os.read(options.recovery_code_fd if code else options.passcode_fd, 4096).split(b"\n")[0]
    copies = [path.read_bytes() for path in sorted(options.keybag.glob("keybag.[01]"))]
    device_key = options.device_key.read_bytes() if options.device_key else None
    keys = Keys(copies, secret, device_key, secret.decode() if code else None)
    for path in options.files:
        for at, (number, generation) in finds(path.read_bytes(), keys):
            print(path, at, number, generation)


main()
