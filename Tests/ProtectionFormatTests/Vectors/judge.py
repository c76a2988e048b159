"""What the independent reader makes of a scenario, to compare with what the scenario says."""
import struct

import export
import keybag
import listing
import read
from format1 import MAGIC, parsed, shown


def keys_of(fields):
    """Keys as a keybag would have given them."""
    keys = object.__new__(keybag.Keys)
    keys.uuid, keys.device_key = parsed(fields["keybag"]), parsed(fields["device key"])
    keys.of_secrets = {}
    keys.classes = {("abcd".index(name.split()[2]) + 1, int(name.split()[3])): parsed(value)
                    for name, value in fields.items() if name.startswith("class key ")}
    return keys


def keybag_of(fields):
    copies = [parsed(fields["bytes"])]
    if "recovery code" in fields:
        keys = keybag.Keys(copies, None, None, parsed(fields["recovery code"]).decode())
    else:
        keys = keybag.Keys(copies, parsed(fields["passcode"]), parsed(fields["device key"]))
    expected = {name: value for name, value in fields.items() if name.startswith("class key ")}
    return {f"class key {which}{'abcd'[number - 1]} {generation}": key.hex()
            for which, opened in [("", keys.classes), ("of secrets ", keys.of_secrets)]
            for (number, generation), key in opened.items()} == expected


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


def outcome(folder, fields):
    """None if the reader comes to what `expect` says, or has nothing to say."""
    judges = {"keybag": keybag_of, "head": head_of, "file": file_of, "redo-record": redo_of,
              "recovery-export": export_of}
    if folder not in judges:
        return None
    try:
        result = "success" if judges[folder](fields) else "success with other fields"
    except keybag.Refused as refused:
        result = str(refused)
    return None if result == fields["expect"] else result
