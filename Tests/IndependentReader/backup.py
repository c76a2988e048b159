#!/usr/bin/env python3
"""Reads the copies in a backup without protectfs, with the backup's passphrase alone: FORMAT.md §2.16, on top of the
independent reader.

    backup.py BACKUP FILE... < passphrase > plaintext

Exit status 65: refused."""
import argparse
import hashlib
import hmac
import pathlib
import struct
import sys

from keybag import CLASSES_OF, Fields, Keys, Refused, hkdf, is_checked, need, unwrap
from read import File


class BackupKeys(Keys):
    """All class keys of a backup keybag."""

    def __init__(self, data, passphrase):
        bad = "damaged backup keybag"
        need(data[:8] == b"PFSBACKP" and data[12:16] == struct.pack("<I", len(data)) and is_checked(data), bad)
        fields = Fields(data[8:-64], bad)
        version, features = fields.take("HH")
        need(version == 1 and features == 0, "unsupported")
        _, self.uuid, made, prf = fields.take("I16sQB")
        need(prf == 1, "unsupported")
        e, count, salt, wrapped = fields.take("xHI32s40s8x")
        need(made < 2**63 and 1 <= e <= 1000 and 1000 <= count <= 100_000_000, bad)
        entries = [fields.take("BB2xI16s40s") for _ in range(e)]
        need(fields.at == len(fields.data), bad)
        for kind, number, generation, *_ in entries:
            need(kind not in CLASSES_OF or number in CLASSES_OF[kind], "unsupported")
            need(generation >= 1, bad)
        need(len({entry[:4] for entry in entries}) == e, bad)

        stretched = hashlib.pbkdf2_hmac("sha256", passphrase, salt, count)
        key = unwrap(hkdf(stretched, None, "backup kek", self.uuid), wrapped, "wrong passphrase")
        tag = hmac.digest(hkdf(key, None, "backup mac", self.uuid), data[:-64], "sha256")
        need(hmac.compare_digest(tag, data[-64:-32]), "damaged backup keybag mac")
        wrapping = hkdf(key, None, "backup class key wrap", self.uuid)
        self.device_key, self.classes, self.of_secrets = None, {}, {}
        for kind, number, generation, key_id, wrapped in entries:
            if kind in CLASSES_OF:
                opened = unwrap(wrapping, wrapped, "damaged class key")
                context = self.named(number, generation, kind)
                need(hkdf(opened, None, "class key id", context, 16) == key_id, "damaged class key")
                # Of two keys of one name (a keybag that was put back and rotated again) this reader tries the first.
                (self.of_secrets if kind == 1 else self.classes).setdefault((number, generation), opened)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("backup", type=pathlib.Path, metavar="BACKUP", help="directory of the backup")
    parser.add_argument("files", type=pathlib.Path, nargs="+", metavar="FILE", help="copies in it")
    options = parser.parse_args()
    keys = BackupKeys((options.backup / "keybag").read_bytes(), sys.stdin.buffer.readline().removesuffix(b"\n"))
    for path in options.files:
        sys.stdout.buffer.writelines(File(path.read_bytes(), keys).text())


if __name__ == "__main__":
    try:
        main()
    except (Refused, OSError) as error:
        print(f"backup.py: error: {error}", file=sys.stderr)
        sys.exit(65)
