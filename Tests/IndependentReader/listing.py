#!/usr/bin/env python3
"""Says of protected files, without protectfs and in a line for each: class, origin, generation of the head in force,
number of redo records in force, size. The first line on stdin is the passcode or the recovery code, as for read.py."""
import hmac
import struct
import sys

from keybag import C, Refused, hkdf
from read import files

CLASS_NAMES = ["complete", "unless-open", "first-unlock", "none"]
ORIGIN_NAMES = ["unverified", "this-device", "verified"]


def origin(file, keys):
    """FORMAT.md §3.3: the verdict of the wrap record in force, as a number."""
    wrap = file.head["wrap"]
    key = {1: keys.device_key, 2: keys.classes.get((C, wrap["mac_generation"]))}.get(wrap["mac_key"])
    if key is None:
        return 0
    message = keys.uuid + file.head["fid"] + struct.pack("<BIB", wrap["class"], wrap["generation"], wrap["verdict"])
    message += wrap["wrapped"] + wrap["commitment"]
    tag = hmac.digest(hkdf(key, None, "origin mac", keys.uuid), message, "sha256")
    return min(wrap["verdict"], wrap["mac_key"]) if hmac.compare_digest(tag, wrap["mac"]) else 0


def line(file, keys):
    name, verdict = CLASS_NAMES[file.head["wrap"]["class"] - 1], ORIGIN_NAMES[origin(file, keys)]
    return f'{name} {verdict} {file.head["generation"]} {file.records} {file.state["size"]}'


if __name__ == "__main__":
    try:
        for file, keys in files(__doc__):
            print(line(file, keys))
    except (Refused, OSError) as error:
        print(f"listing.py: error: {error}", file=sys.stderr)
        sys.exit(65)
