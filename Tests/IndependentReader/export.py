#!/usr/bin/env python3
"""Takes the keybag out of a recovery export, without protectfs: FORMAT.md §2.9.

    mkdir keybag; export.py EXPORT > keybag/keybag.0
"""
import base64
import hashlib
import pathlib
import re
import sys
import uuid

from keybag import Refused, keybag_copy, need

BEGIN, END = b"-----BEGIN PROTECTFS KEYBAG-----", b"-----END PROTECTFS KEYBAG-----"
FORM = (rb"version: (\d+)\nkeybag: ([0-9a-f-]{36})\nmade: (.{20})\n\n"
        rb"((?:[^\n]{64}\n)*[^\n]{1,64}\n)\n")


def exported_copy(data):
    """The bytes of a copy that keeps the rules of §2.1."""
    bad = "damaged recovery export"
    lines = [line.removesuffix(b"\r") for line in data.split(b"\n")]
    need(BEGIN in lines, "none")
    lines = lines[lines.index(BEGIN) + 1 :]
    need(END in lines, bad)
    *lines, check = lines[: lines.index(END)]
    text = b"".join(line + b"\n" for line in lines)
    need(len(lines) >= 6 and check == b"SHA-256: " + hashlib.sha256(text).hexdigest().encode(), bad)
    need(not lines[0].startswith(b"version: ") or lines[0] == b"version: 1", "unsupported")
    form = re.fullmatch(FORM, text)
    need(form, bad)
    sealed = form[4].replace(b"\n", b"")
    try:
        copy = base64.b64decode(sealed, validate=True)
    except ValueError:
        raise Refused(bad) from None
    need(base64.b64encode(copy) == sealed, bad)
    found = keybag_copy(copy)
    need(str(uuid.UUID(bytes=found["uuid"])).encode() == form[2], bad)
    return copy


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    try:
        sys.stdout.buffer.write(exported_copy(pathlib.Path(sys.argv[1]).read_bytes()))
    except (Refused, OSError) as error:
        print(f"export.py: error: {error}", file=sys.stderr)
        sys.exit(65)
