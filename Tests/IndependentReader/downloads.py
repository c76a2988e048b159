#!/usr/bin/env python3
"""Reads the list of downloads of a keybag without protectfs: FORMAT.md §2.14, on top of the independent reader.

    downloads.py --keybag DIRECTORY --device-key FILE --passcode-fd N

prints one JSON object, `downloads`, `credentials` and `integrityKeys`: the columns by their names, what is sealed opened, ids
and secrets in hexadecimal. A credential has `isRefused` besides. Exit status 65: refused.
"""
import argparse
import hmac
import json
import os
import pathlib
import sqlite3
import struct
import sys

from keybag import Keys, Refused, hkdf, need, open_seal
from read import File

SEALED = {"downloads": ("request", "resource", "failure", "result"), "credentials": ("entry", "secret", "identity"),
          "integrityKeys": ("name", "key")}
JSON = ("request", "resource", "failure", "result", "entry")


def open_value(store_key, sealed, table, column, place):
    context = b"\0".join([table.encode(), column.encode(), place])
    return open_seal(hkdf(store_key, sealed[:16], "stored value", context), context, sealed[16:], f"damaged {table}.{column}")


def rows(database, store_key, table):
    which = " WHERE download IS NOT NULL" if table == "credentials" else ""
    for row in database.execute(f"SELECT * FROM {table}{which}"):
        values = dict(row)
        place = row["download"] + row["id"] if table == "credentials" else row["id"]
        for column in SEALED[table]:
            if values[column]:
                value = open_value(store_key, values[column], table, column, place)
                values[column] = json.loads(value) if column in JSON else value
        yield values


def mark(store_key, credential, realm):
    """What is known of a credential once it was refused; of a client's certificate it takes the certificate, which is not read."""
    space, name = credential["entry"]["space"], credential["entry"].get("name")
    parts = [space["kind"], space["host"], str(space["port"]), realm]
    parts += [name] if credential["entry"]["kind"] == "password" else []
    clear = b"".join(struct.pack("<I", len(part.encode())) + part.encode() for part in parts)
    return hmac.digest(hkdf(store_key, None, "stored mark", b""), clear + credential["secret"], "sha256")


def plain(value):
    """As JSON can say it."""
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    return value.hex() if isinstance(value, bytes) else value


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--keybag", type=pathlib.Path, required=True)
    parser.add_argument("--device-key", type=pathlib.Path, required=True)
    parser.add_argument("--passcode-fd", type=int, required=True)
    options = parser.parse_args()
    copies = [path.read_bytes() for path in (options.keybag / f"keybag.{i}" for i in (0, 1)) if path.exists()]
    keys = Keys(copies, os.fdopen(options.passcode_fd, "rb").readline().removesuffix(b"\n"), options.device_key.read_bytes())
    directory = options.keybag / "downloads"
    store_key = b"".join(File((directory / "key").read_bytes(), keys).text())
    need(len(store_key) == 32, "damaged store key")

    database = sqlite3.connect(f"file:{directory}/queue.sqlite?mode=ro", uri=True)
    database.row_factory = sqlite3.Row
    migrations = [row[0] for row in database.execute("SELECT identifier FROM grdb_migrations")]
    need(migrations == ["1"], "unsupported")
    refused = {row["credential"] for row in database.execute("SELECT * FROM failedCredentials")}
    result = {table: list(rows(database, store_key, table)) for table in SEALED}
    for table in ("downloads", "credentials"):
        result[table].sort(key=lambda row: row["position"])
    for credential in result["credentials"]:
        credential["isRefused"] = credential["identity"] is None and mark(store_key, credential, "") in refused
    print(json.dumps({table: [plain(row) for row in values] for table, values in result.items()}))


if __name__ == "__main__":
    try:
        main()
    except Refused as refused:
        print(f"downloads.py: error: {refused}", file=sys.stderr)
        sys.exit(65)
