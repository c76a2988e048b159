#!/usr/bin/env python3
"""Reads protected files without protectfs: an independent reader of format 1, written from docs/FORMAT.md alone,
in two parts: keybag.py has §§1 and 2, this file §3.

    read.py [--list] --keybag DIRECTORY --device-key FILE --passcode-fd N FILE...
    read.py [--list] --backup DIRECTORY --passcode-fd N FILE...    (N gives the backup's passphrase)

prints the plaintext of the files, one behind the other; with --list a line for each of them instead: class, origin,
generation, number of redo records in force, size. The passcode is read from descriptor N, up to a newline or the end.
No keyring is used, nothing is written, no lock is taken: read what nobody writes meanwhile. Exit status 65: refused.
"""
import argparse
import hmac
import os
import pathlib
import struct
import sys

from keybag import B, CLASSES, BackupKeys, Fields, Keys, Refused, hkdf, is_checked, known, need, open_seal

HEAD, FIRST_CHUNK, OVERHEAD, NOT_INLINE = 4096, 8192, 28, 0xFFFFFFFF
MAGIC = bytes.fromhex("895046530d0a1a0a")
CLASS_NAMES = ["complete", "unless-open", "first-unlock", "none"]
ORIGIN_NAMES = ["unverified", "this-device", "verified"]


# FORMAT.md §3


def content_record(data, chunk_size):
    """The fields of a content record, from the beginning of `data`."""
    fields = Fields(data, "content record")
    counter, size, count, redo, epoch, seals, inline, runs = fields.take("QQQQQQIH")
    fields.zero(34)
    need(counter < 2**62 and seals < 2**62 and size <= 2**60 and runs <= 32, "content record")
    need((redo == 0) == (epoch == 0), "content record")
    if inline != NOT_INLINE:
        need(inline == size <= 3584 and count == runs == redo == 0, "content record")
    else:
        need(count == -(-size // chunk_size), "content record")
    home = FIRST_CHUNK + count * (chunk_size + OVERHEAD)
    need(redo == 0 or (redo % 4096 == 0 and home <= redo <= 2**62), "content record")
    holes, end = [], -1
    for _ in range(runs):
        first, length = fields.take("QQ")
        need(length >= 1 and first > end and first + length <= count, "content record")
        end = first + length
        holes.append(range(first, end))
    clear = data[: fields.at]
    return {"counter": counter, "size": size, "count": count, "redo": redo, "epoch": epoch, "holes": holes,
            "inline": inline != NOT_INLINE, "clear": clear, "seal": fields.take("28s"), "length": fields.at}


def head(data):
    """The fields of a head whose check is good."""
    fields = Fields(data, "head")
    _, version, length, features, cipher, exponent = fields.take("8sHHIBB")
    known(version == 1)
    need(length == HEAD, "head")
    known(features == 0 and cipher == 1 and exponent in (12, 16))
    fields.zero(6)
    fid = fields.take("16s")
    fields.zero(24)
    wrap = Fields(data[64:268], "wrap record")
    names = ["counter", "class", "algorithm", "verdict", "mac key", "generation", "uuid", "wrapped", "commitment",
             "mac generation", "mac"]
    w = dict(zip(names, wrap.take("QBBBBI16s72s32sI32s")))
    wrap.zero(4)
    w |= {"clear": data[64:240], "seal": wrap.take("28s")}
    known(w["class"] not in (6, 7))
    need(w["class"] in CLASSES, "wrap record")
    known(w["algorithm"] in (1, 2))
    need(1 <= w["counter"] < 2**62 and w["generation"] >= 1, "wrap record")
    need((w["algorithm"] == 2) == (w["class"] == B) and w["verdict"] <= 2 and w["mac key"] <= 2, "wrap record")
    need(w["algorithm"] == 2 or not any(w["wrapped"][40:]), "wrap record")
    need((w["mac generation"] > 0) == (w["mac key"] == 2), "wrap record")
    need(w["mac key"] or not (w["verdict"] or any(w["mac"])), "wrap record")
    content = content_record(data[268:], 1 << exponent)
    end = 268 + content["length"] + (content["size"] + OVERHEAD if content["inline"] else 0)
    need(not any(data[end:-32]), "head")
    return {"prefix": data[:64], "fid": fid, "chunk size": 1 << exponent, "wrap": w, "content": content,
            "inline": data[384:end], "generation": w["counter"] + content["counter"]}


def looks_like_ours(data):
    if MAGIC.startswith(data[:8]) or data[HEAD : HEAD + 8] == MAGIC:
        return len(data) > 0
    return len(data) >= HEAD and is_checked(MAGIC + data[8:HEAD])


def head_in_force(data):
    slots = [data[:HEAD], data[HEAD:FIRST_CHUNK]]
    good = [head(slot) for slot in slots if len(slot) == HEAD and slot[:8] == MAGIC and is_checked(slot)]
    if not good:
        raise Refused("damaged head" if looks_like_ours(data) else "not protected")
    need(len({h["prefix"] for h in good}) == 1, "head")
    best = max(good, key=lambda h: h["generation"])  # of equals the first
    need(len(data) >= FIRST_CHUNK or (best["generation"] == 1 and best["content"]["inline"]), "head")
    return best


class File:
    """A protected file, as its bytes and a keybag's keys say."""

    def __init__(self, data, keys):
        self.data, self.head = data, head_in_force(data)
        wrap, content, fid = self.head["wrap"], self.head["content"], self.head["fid"]
        file_key = keys.file_key(wrap)
        commitment = hkdf(file_key, None, "key commitment", fid)
        need(hmac.compare_digest(commitment, wrap["commitment"]), "key commitment")
        self.head_key, self.chunk_key = hkdf(file_key, None, "head key", fid), hkdf(file_key, None, "chunk key", fid)
        self.check(1, wrap, "wrap record")
        self.check(2, content, "content record")
        self.origin, self.records, self.overlay, self.state = keys.origin(wrap, fid), 0, {}, content
        if content["redo"]:
            self.follow_area(content["redo"], content["epoch"])

    def aad(self, kind, index, extra=b""):
        head = self.head
        return b"PFS1" + struct.pack("<HBB16sQI", 1, kind, 0, head["fid"], index, head["chunk size"]) + extra

    def check(self, kind, record, layer):
        aad = self.aad(kind, record["counter"], self.head["prefix"] + record["clear"])
        open_seal(self.head_key, aad, record["seal"], layer)

    def sealed_length(self, index):
        return min(self.head["chunk size"], self.state["size"] - index * self.head["chunk size"]) + OVERHEAD

    def home(self, index):
        return FIRST_CHUNK + index * (self.head["chunk size"] + OVERHEAD)

    def is_hole(self, index):
        return any(index in run for run in self.state["holes"])

    def follow_area(self, at, epoch):
        start, size = at, self.head["chunk size"]
        while at + 196 <= len(self.data):
            magic, fid, own, length, n, k = struct.unpack_from("<8s16sQQII", self.data, at)
            record = self.data[at : at + length]
            if (magic, fid, own) != (b"PFSREDO1", self.head["fid"], epoch) or not 196 <= length <= 2**26:
                return
            if len(record) != length or not is_checked(record):
                return
            at += length
            need(at - start <= 2**28, "redo record")
            content, before = content_record(record[48:-32], size), self.state
            need(content["length"] == k and not content["inline"] and content["redo"] == 0, "redo record")
            need(content["counter"] == before["counter"] + 1 and self.home(content["count"]) <= start, "redo record")
            self.state, last, chunks = content, -1, Fields(record[48 + k : -32], "redo record")
            for _ in range(n):
                index, m = chunks.take("QI")
                chunks.zero(4)
                need(last < index < content["count"] and not self.is_hole(index), "redo record")
                need(m == self.sealed_length(index), "redo record")
                self.overlay[index], last = chunks.take(f"{m}s"), index
            need(chunks.at == len(record) - 80 - k, "redo record")
            self.check(2, content, "content record")
            self.records += 1

    def text(self):
        if self.state["inline"]:
            yield open_seal(self.head_key, self.aad(3, self.state["counter"]), self.head["inline"], "inline file")
        for index in range(self.state["count"]):
            length = self.sealed_length(index)
            if self.is_hole(index):
                yield bytes(length - OVERHEAD)
                continue
            sealed = self.overlay.get(index, self.data[self.home(index) : self.home(index) + length])
            need(len(sealed) == length, "chunk")
            yield open_seal(self.chunk_key, self.aad(4, index), sealed, "chunk")


def line_of(descriptor):
    with os.fdopen(descriptor, "rb") as file:
        return file.read().split(b"\n")[0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--keybag", type=pathlib.Path)
    parser.add_argument("--backup", type=pathlib.Path, help="instead of the keybag: a backup, with its passphrase alone")
    parser.add_argument("--device-key", type=pathlib.Path)
    parser.add_argument("--passcode-fd", type=int)
    parser.add_argument("--recovery-code-fd", type=int, help="instead of the passcode and the device key")
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    if options.backup:
        keys = BackupKeys((options.backup / "keybag").read_bytes(), line_of(options.passcode_fd))
        return show(options, keys)
    secret = line_of(options.passcode_fd if options.recovery_code_fd is None else options.recovery_code_fd)
    copies = [path.read_bytes() for path in (options.keybag / f"keybag.{i}" for i in (0, 1)) if path.exists()]
    if options.recovery_code_fd is None:
        keys = Keys(copies, secret, options.device_key.read_bytes())
    else:
        keys = Keys(copies, None, None, secret.decode("ascii"))
    show(options, keys)


def show(options, keys):
    for path in options.files:
        file = File(path.read_bytes(), keys)
        if options.list:
            name, origin = CLASS_NAMES[file.head["wrap"]["class"] - 1], ORIGIN_NAMES[file.origin]
            print(name, origin, file.head["generation"], file.records, file.state["size"])
            continue
        for part in file.text():
            sys.stdout.buffer.write(part)


if __name__ == "__main__":
    try:
        main()
    except Refused as refused:
        print(f"read.py: error: {refused}", file=sys.stderr)
        sys.exit(65)
