#!/usr/bin/env python3
"""Reads files of a keybag that is bound to hardware, without protectfs and without the hardware: FORMAT.md §2.21.

    hardware.py --keybag DIRECTORY --device-key FILE --secret HEX FILE… < PASSCODE

The secret is that which the hardware would give. Without it, read.py with the same passcode opens nothing.
"""
import argparse
import hashlib
import pathlib
import sys

from keybag import Keys, Refused, hkdf, in_force, need
from read import File


def passcode_of_slot(copies, passcode, secret):
    """§2.21: what takes the place of the passcode."""
    copy = in_force(copies)
    count, salt, _ = copy["slots"][1]
    entries = [copy["bytes"][-64 - 200 * n :][:200] for n in range(len(copy["entries"]), 0, -1)]
    shares = [entry for entry in entries if entry[:4] == b"\3\1\1\0" and entry[136:168] == salt]
    need(len(shares) == 1 and shares[0][64:68] == b"\1\0\0\0" and not any(shares[0][168:]), "not bound to hardware")
    stretched = hashlib.pbkdf2_hmac("sha256", passcode, salt, count)
    return hkdf(secret, stretched, "hardware passcode", copy["uuid"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keybag", type=pathlib.Path, required=True, metavar="DIRECTORY")
    parser.add_argument("--device-key", type=pathlib.Path, required=True, metavar="FILE")
    parser.add_argument("--secret", type=bytes.fromhex, required=True, metavar="HEX")
    parser.add_argument("files", type=pathlib.Path, nargs="+", metavar="FILE")
    options, passcode = parser.parse_args(), sys.stdin.buffer.readline().removesuffix(b"\n")
    copies = [path.read_bytes() for path in sorted(options.keybag.glob("keybag.[01]"))]
    keys = Keys(copies, passcode_of_slot(copies, passcode, options.secret), options.device_key.read_bytes())
    for path in options.files:
        sys.stdout.buffer.writelines(File(path.read_bytes(), keys).text())


if __name__ == "__main__":
    try:
        main()
    except (Refused, OSError) as error:
        print(f"hardware.py: error: {error}", file=sys.stderr)
        sys.exit(65)
