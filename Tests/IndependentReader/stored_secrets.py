#!/usr/bin/env python3
"""Reads a store of secrets without protectfs: FORMAT.md §2.15, on top of the independent reader.

    stored_secrets.py --keybag DIRECTORY --device-key FILE | --recovery-code < passcode or recovery code
    stored_secrets.py --backup DIRECTORY < passphrase

prints one JSON object a line for each secret: its attributes by their names, and `value` in hexadecimal. A secret of
this device only needs the device key. One that is refused does not keep the others: exit status 65 then."""
import argparse
import json
import pathlib
import sqlite3
import struct
import sys

from backup import BackupKeys
from keybag import A, C, Keys, Refused, hkdf, need, open_seal, unwrap

TEXTS = ("accessGroup", "service", "account", "protocol", "host", "path", "realm", "name")


def item_key_of(row, keys):
    """The key of the value of a row."""
    number, is_here_only = (A if row["accessibility"] <= 2 else C), row["accessibility"] in (2, 4)
    key = keys.of_secrets.get((number, row["generation"]))
    need(key is not None, "key lost")
    need(keys.device_key is not None or not is_here_only, "other device")
    context = keys.named(number, row["generation"], kind=1)
    kek = (hkdf(key, keys.device_key, "device secret wrap", context) if is_here_only
           else hkdf(key, None, "secret wrap", context))
    return unwrap(kek, row["wrapped"], "damaged secret")


def value_of(row, keys):
    """The value of a row; it opens under the attributes that it was stored with."""
    need(row["kind"] in (1, 2, 3) and row["accessibility"] in (1, 2, 3, 4), "damaged secret")
    need(1 <= row["generation"] < 2**32 and 0 <= row["port"] < 2**16, "damaged secret")
    item_key = item_key_of(row, keys)
    aad = b"protectfs/1 secret\0" + keys.uuid + row["id"] + bytes([row["kind"], row["accessibility"]])
    aad += struct.pack("<IQQ", row["port"], row["created"], row["modified"])
    aad += b"".join(struct.pack("<I", len(text)) + text for text in (row[name].encode() for name in TEXTS))
    return open_seal(item_key, aad, row["value"], "damaged secret")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keybag", type=pathlib.Path, metavar="DIRECTORY")
    parser.add_argument("--backup", type=pathlib.Path, metavar="DIRECTORY")
    parser.add_argument("--device-key", type=pathlib.Path, metavar="FILE", help="for secrets of this device only")
    parser.add_argument("--recovery-code", action="store_true", help="stdin has that; no device key is needed")
    options, words = parser.parse_args(), sys.stdin.buffer.readline().removesuffix(b"\n")
    if options.backup:
        keys, place = BackupKeys((options.backup / "keybag").read_bytes(), words), options.backup
    else:
        copies = [path.read_bytes() for path in sorted(options.keybag.glob("keybag.[01]"))]
        code = words.decode("ascii", "replace") if options.recovery_code else None
        need(options.device_key or options.recovery_code, "no device key")
        device_key = options.device_key.read_bytes() if options.device_key else None
        keys, place = Keys(copies, words, device_key, code), options.keybag / "secrets"
    database = sqlite3.connect(f"file:{place / 'secrets.sqlite'}?mode=ro", uri=True)
    database.row_factory = sqlite3.Row
    if not options.backup:
        migrations = [row[0] for row in database.execute("SELECT identifier FROM grdb_migrations")]
        need(migrations == ["1"], "unsupported")
    status = 0
    for row in database.execute("SELECT * FROM secrets ORDER BY created, id"):
        clear = {name: row[name] for name in ("kind", "accessibility", *TEXTS, "port")}
        try:
            print(json.dumps(clear | {"value": value_of(row, keys).hex()}))
        except Refused as refused:
            print(f"stored_secrets.py: error: {row['id'].hex()}: {refused}", file=sys.stderr)
            status = 65
    return status


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Refused, OSError) as error:
        print(f"stored_secrets.py: error: {error}", file=sys.stderr)
        sys.exit(65)
