#!/usr/bin/env python3
"""Reads files of class C with a first-unlock secret, without protectfs and without the passcode: FORMAT.md §2.20.

    first_unlock.py --keybag DIRECTORY --device-key FILE FILE… < SECRET
"""
import argparse
import hmac
import pathlib
import struct
import sys

from keybag import C, Keys, Refused, hkdf, in_force, need, unwrap
from read import File


class FirstUnlockKeys(Keys):
    """Class keys C, and 3 of secrets, by class and generation."""

    def __init__(self, copies, secret, device_key):
        copy, bad = in_force(copies), "damaged class key"
        self.uuid, self.device_key, self.classes, self.of_secrets = copy["uuid"], device_key, {}, {}
        need(hkdf(device_key, None, "device id", self.uuid, 16) == copy["device id"], "other device")
        data, count = copy["bytes"], len(copy["entries"])
        raw = [data[-64 - 200 * n :][:200] for n in range(count, 0, -1)]
        own, name = hkdf(secret, None, "first unlock id", self.uuid, 16), struct.Struct("<BBBBI16s")
        shares = {}
        for entry in raw:
            if entry[0] == 4 and entry[2] == 1 and entry[8:24] == own:
                shares.setdefault(entry[4:8], entry)
        need(shares, "unknown secret")
        used = [(*name.unpack(entry[:24]), entry[4:8]) for entry in raw if entry[0] < 2]
        need(all(generation in shares for _, number, *_, generation in used if number == C), "outdated secret")
        for generation in {generation for kind, *_, generation in used if kind == 0}:
            need(generation in shares, "damaged share")
            share, same = shares[generation], [entry for entry in raw if entry[0] < 2 and entry[4:8] == generation]
            message = self.uuid + share[:168] + b"".join(entry[:24] for entry in same)
            tag = hmac.digest(hkdf(secret, device_key, "first unlock mac", self.uuid), message, "sha256")
            need(hmac.compare_digest(tag, share[168:]), "damaged share")
        for kind, number, _, _, generation, key_id, place in used:
            if number != C:
                continue
            context, wrapped = self.named(number, generation, kind), shares[place][24 + 40 * kind :][:40]
            class_key = unwrap(hkdf(secret, device_key, "first unlock kek", context), wrapped, bad)
            need(hkdf(class_key, None, "class key id", context, 16) == key_id, bad)
            (self.of_secrets if kind == 1 else self.classes)[number, generation] = class_key


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keybag", type=pathlib.Path, required=True, metavar="DIRECTORY")
    parser.add_argument("--device-key", type=pathlib.Path, required=True, metavar="FILE")
    parser.add_argument("files", type=pathlib.Path, nargs="+", metavar="FILE")
    options = parser.parse_args()
    copies = [path.read_bytes() for path in sorted(options.keybag.glob("keybag.[01]"))]
    keys = FirstUnlockKeys(copies, bytes.fromhex(sys.stdin.read().strip()), options.device_key.read_bytes())
    for path in options.files:
        sys.stdout.buffer.writelines(File(path.read_bytes(), keys).text())


if __name__ == "__main__":
    try:
        main()
    except (Refused, OSError) as error:
        print(f"first_unlock.py: error: {error}", file=sys.stderr)
        sys.exit(65)
