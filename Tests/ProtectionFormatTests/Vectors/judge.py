#!/usr/bin/env python3
"""What the independent reader makes of scenarios, to compare with what they say.

    judge.py FOLDER FILE...     a line for each: the outcome in the words of `expect`, or - where it has nothing to say
"""
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "IndependentReader"))

import backup
import export
import keybag
import listing
import read
import scenario
import stored_secrets
from format1 import MAGIC, parsed, shown


def keys_of(fields):
    """Keys as a keybag would have given them."""
    keys = object.__new__(keybag.Keys)
    keys.uuid, keys.device_key = parsed(fields["keybag"]), parsed(fields["device key"])
    keys.of_secrets = {}
    keys.classes = {("abcd".index(name.split()[2]) + 1, int(name.split()[3])): parsed(value)
                    for name, value in fields.items() if name.startswith("class key ") and "secrets" not in name}
    return keys


def keybag_of(fields):
    copies = [parsed(fields["bytes"])]
    if "recovery code" in fields:
        keys = keybag.Keys(copies, None, None, parsed(fields["recovery code"]).decode())
    else:
        keys = keybag.Keys(copies, parsed(fields["passcode"]), parsed(fields["device key"]))
    return class_keys(keys) == {name: value for name, value in fields.items() if name.startswith("class key ")}


def class_keys(keys):
    return {f"class key {which}{'abcd'[number - 1]} {generation}": key.hex()
            for which, opened in [("", keys.classes), ("of secrets ", keys.of_secrets)]
            for (number, generation), key in opened.items()}


def backup_of(fields):
    keys = backup.BackupKeys(parsed(fields["bytes"]), parsed(fields["passphrase"]))
    return class_keys(keys) == {name: value for name, value in fields.items() if name.startswith("class key ")}


def secret_of(fields):
    keys = keys_of(fields)
    keys.of_secrets = {("abcd".index(name.split()[4]) + 1, int(name.split()[5])): parsed(value)
                       for name, value in fields.items() if name.startswith("class key of secrets ")}
    row = {name: fields[name] for name in stored_secrets.TEXTS}
    row |= {name: int(fields[name]) for name in ("kind", "accessibility", "port", "created", "modified", "generation")}
    row |= {name: parsed(fields[name]) for name in ("id", "wrapped", "value")}
    return shown(stored_secrets.value_of(row, keys)) == fields["text"]


def wrap_of(fields):
    keys, number = object.__new__(keybag.Keys), int(fields["class"])
    keys.uuid, keys.classes = parsed(fields["keybag"]), {(number, int(fields["generation"])): parsed(fields["class key"])}
    wrap = {"uuid": keys.uuid, "class": number, "generation": int(fields["generation"]), "wrapped": parsed(fields["bytes"])}
    return keys.file_key(wrap).hex() == fields["file key"]


def export_of(fields):
    copy = export.exported_copy(parsed(fields["bytes"]))
    keybag.in_force([copy])
    return copy.hex() == fields["copy"]


def head_of(fields):
    data = parsed(fields["bytes"])
    if not keybag.is_checked(data):
        raise keybag.Refused("damaged head")
    if data[:8] != read.MAGIC:
        raise keybag.Refused("not ours")
    keys = keys_of(fields)
    file = read.File(data * 2, keys)
    text = shown(b"".join(file.text())) if file.state["inline"] else None
    found = {"class": str(file.head["wrap"]["class"]), "size": str(file.state["size"]), "text": text,
             "origin": listing.ORIGIN_NAMES[listing.origin(file, keys)].replace("-", " ")}
    return all(fields.get(name) == value for name, value in found.items())


def join_seal_of(fields):
    file, fid = object.__new__(read.File), parsed(fields["file id"])
    file.head = {"chunk size": int(fields["chunk size"]), "fid": fid}
    head_key = keybag.hkdf(parsed(fields["file key"]), None, "head key", fid)
    seal = parsed(fields["bytes"])
    keybag.need(len(seal) == 28, "nothing")
    return keybag.open_seal(head_key, file.aad(5, 0) + parsed(fields["log"]), seal, "nothing") == b""


def redo_of(fields):
    file = object.__new__(read.File)
    data, chunk_size = parsed(fields["bytes"]), int(fields["chunk size"])
    start, file_key, fid = int(fields["redo offset"]), parsed(fields["file key"]), parsed(fields["file id"])
    prefix = MAGIC + struct.pack("<HHIBB6x16s24x", 1, 4096, 0, 1, chunk_size.bit_length() - 1, fid)
    file.data, file.head = bytes(start) + data, {"chunk size": chunk_size, "fid": fid, "prefix": prefix}
    file.head_key = keybag.hkdf(file_key, None, "head key", fid)
    file.chunk_key = keybag.hkdf(file_key, None, "chunk key", fid)
    file.state, file.overlay, file.records = {"counter": int(fields["content counter before"])}, {}, 0
    file.follow_area(start, int(fields["epoch"]))
    if not file.records:
        raise keybag.Refused("no record")
    found = {f"chunk {index}": shown(keybag.open_seal(file.chunk_key, file.aad(4, index), sealed, "damaged chunk"))
             for index, sealed in file.overlay.items()}
    texts = {name: value for name, value in fields.items() if name.startswith("chunk ") and name != "chunk size"}
    return found == texts


def file_of(fields):
    keys = keys_of(fields)
    file = read.File(parsed(fields["bytes"]), keys)
    found = {"text": shown(b"".join(file.text())), "class": str(file.head["wrap"]["class"]),
             "origin": listing.ORIGIN_NAMES[listing.origin(file, keys)].replace("-", " ")}
    return all(fields.get(name, "") == value for name, value in found.items())


JUDGES = {"keybag": keybag_of, "head": head_of, "file": file_of, "join-seal": join_seal_of, "redo-record": redo_of, "wrap": wrap_of,
          "recovery-export": export_of, "backup-keybag": backup_of, "secret": secret_of}


def result(folder, fields):
    """What the reader comes to, in the words of `expect`; None where it has nothing to say."""
    if folder not in JUDGES:
        return None
    try:
        return "success" if JUDGES[folder](fields) else "success with other fields"
    except keybag.Refused as refused:
        return str(refused)


if __name__ == "__main__":
    for path in map(pathlib.Path, sys.argv[2:]):
        print(result(sys.argv[1], scenario.read(path)) or "-")
