#!/usr/bin/env python3
"""Reads protected files without protectfs, by docs/reference/FORMAT.md alone (keybag.py: its §§1 and 2; this file: §3).

The first line on stdin is the passcode or the recovery code. Nothing is locked. Exit status 65: refused."""
import argparse
import pathlib
import struct
import sys

from keybag import B, CLASSES, Fields, Keys, Refused, hkdf, is_checked, need, open_seal

HEAD, FIRST_CHUNK, OVERHEAD, NOT_INLINE = 4096, 8192, 28, 0xFFFFFFFF
MAGIC = bytes.fromhex("895046530d0a1a0a")
WRAP = "counter class algorithm verdict mac_key generation uuid wrapped commitment mac_generation mac".split()

def content_record(data, chunk_size):
    """§3.4: the fields of the content record at the beginning of `data`."""
    fields, bad = Fields(data, "damaged content record"), "damaged content record"
    counter, size, count, redo, epoch, seals, inline, runs = fields.take("QQQQQQIH34x")
    is_inline, home = inline != NOT_INLINE, FIRST_CHUNK + count * (chunk_size + OVERHEAD)
    need(counter < 2**62 and seals < 2**62 and size <= 2**60 and runs <= 32 and (redo == 0) == (epoch == 0), bad)
    need(count == (0 if is_inline else -(-size // chunk_size)), bad)
    need(not is_inline or (inline == size <= 3584 and runs == redo == 0), bad)
    need(redo == 0 or (redo % 4096 == 0 and home <= redo <= 2**62), bad)
    holes, end = [], -1
    for _ in range(runs):
        first, length = fields.take("QQ")
        need(length >= 1 and end < first and first + length <= count, bad)
        holes.append(range(first, end := first + length))
    return {"counter": counter, "size": size, "count": count, "redo": redo, "epoch": epoch, "inline": is_inline,
            "home": home, "holes": holes, "clear": data[: fields.at], "seal": fields.take("28s"), "length": fields.at}

def head(data):
    """§§3.1 to 3.3: the fields of a head whose check is good."""
    fields, wrap, bad = Fields(data, "damaged head"), Fields(data[64:268], "damaged wrap record"), "damaged wrap record"
    version, length, features, cipher, exponent = fields.take("8sHHIBB")[1:]
    need(version == 1, "unsupported")
    need(length == HEAD, "damaged head")
    need(features == 0 and cipher == 1 and exponent in (12, 16), "unsupported")
    fid = fields.take("6x16s24x")
    w = dict(zip(WRAP, wrap.take("QBBBBI16s72s32sI32s"))) | {"clear": data[64:240]}
    need(1 <= w["counter"] < 2**62, bad)
    need(w["class"] not in (6, 7) and (w["algorithm"] in (1, 2) or w["class"] not in CLASSES), "unsupported")
    need(w["class"] in CLASSES and w["verdict"] <= 2 and w["mac_key"] <= 2 and w["generation"] >= 1, bad)
    need((w["algorithm"] == 2) == (w["class"] == B) and (w["algorithm"] == 2 or not any(w["wrapped"][40:])), bad)
    need((w["mac_generation"] > 0) == (w["mac_key"] == 2) and (w["mac_key"] or not (w["verdict"] or any(w["mac"]))), bad)
    w["seal"] = wrap.take("4x28s")
    content = content_record(data[268:], 1 << exponent)
    end = 268 + content["length"] + (content["size"] + OVERHEAD if content["inline"] else 0)
    need(not any(data[end:-32]), "damaged head")
    return {"prefix": data[:64], "fid": fid, "chunk size": 1 << exponent, "wrap": w, "content": content,
            "inline": data[384:end], "generation": w["counter"] + content["counter"]}

def head_in_force(data):
    """§3.7, items 1 and 2."""
    slots = [data[:HEAD], data[HEAD:FIRST_CHUNK]]
    good = [head(slot) for slot in slots if len(slot) == HEAD and slot[:8] == MAGIC and is_checked(slot)]
    has_magic = (data and MAGIC.startswith(data[:8])) or slots[1].startswith(MAGIC)
    has_magic = has_magic or (len(slots[0]) == HEAD and is_checked(MAGIC + slots[0][8:]))
    need(good, "damaged head" if has_magic else "not protected")
    best = max(good, key=lambda h: h["generation"])  # of equals the first
    need(good[0]["prefix"] == good[-1]["prefix"], "damaged head")
    need(len(data) >= FIRST_CHUNK or (best["generation"] == 1 and best["content"]["inline"]), "damaged head")
    return best

class File:
    """A protected file, as its bytes and a keybag's keys say."""
    def __init__(self, data, keys):
        self.data, self.head, self.records, self.overlay = data, head_in_force(data), 0, {}
        wrap, self.state, fid = self.head["wrap"], self.head["content"], self.head["fid"]
        file_key = keys.file_key(wrap)
        need(hkdf(file_key, None, "key commitment", fid) == wrap["commitment"], "damaged key commitment")
        self.head_key, self.chunk_key = hkdf(file_key, None, "head key", fid), hkdf(file_key, None, "chunk key", fid)
        self.check(1, wrap, "damaged wrap record")
        self.check(2, self.state, "damaged content record")
        if self.state["redo"]:
            self.follow_area(self.state["redo"], self.state["epoch"])

    def aad(self, kind, index):
        return struct.pack("<4sHBx16sQI", b"PFS1", 1, kind, self.head["fid"], index, self.head["chunk size"])  # §3.5

    def check(self, kind, record, otherwise):
        aad = self.aad(kind, record["counter"]) + self.head["prefix"] + record["clear"]
        open_seal(self.head_key, aad, record["seal"], otherwise)

    def length(self, index):  # of a sealed chunk
        return min(self.head["chunk size"], self.state["size"] - index * self.head["chunk size"]) + OVERHEAD

    def is_hole(self, index):
        return any(index in run for run in self.state["holes"])

    def follow_area(self, start, epoch):
        """§3.6: makes `state` and `overlay` those of the last record in force."""
        at, bad = start, "damaged redo record"
        while at + 196 <= len(self.data):
            magic, fid, own, length, n, k = struct.unpack_from("<8s16sQQII", self.data, at)
            record = self.data[at : at + length]
            is_next = (magic, fid, own) == (b"PFSREDO1", self.head["fid"], epoch) and 196 <= length <= 2**26
            if not is_next or len(record) != length or not is_checked(record):
                return
            at, before, last = at + length, self.state["counter"], -1
            self.state = content_record(record[48:-32], self.head["chunk size"])
            chunks = Fields(record[48 + k : -32], bad)
            need(at - start <= 2**28 and self.state["length"] == k and self.state["counter"] == before + 1, bad)
            need(not self.state["inline"] and self.state["redo"] == 0 and self.state["home"] <= start, bad)
            for _ in range(n):
                index, m = chunks.take("QI4x")
                need(last < index < self.state["count"] and not self.is_hole(index) and m == self.length(index), bad)
                self.overlay[index], last = chunks.take(f"{m}s"), index
            need(chunks.at == len(chunks.data), bad)
            self.check(2, self.state, "damaged content record")
            self.records += 1

    def text(self):
        """The plaintext in parts: §3.7, item 4."""
        if self.state["inline"]:
            aad = self.aad(3, self.state["counter"])
            yield open_seal(self.head_key, aad, self.head["inline"], "damaged inline file")
        for index in range(self.state["count"]):
            length, home = self.length(index), FIRST_CHUNK + index * (self.head["chunk size"] + OVERHEAD)
            if self.is_hole(index):
                yield bytes(length - OVERHEAD)
                continue
            sealed = self.overlay.get(index, self.data[home : home + length])
            need(len(sealed) == length, "damaged chunk")  # it may be of a commit before the file grew
            yield open_seal(self.chunk_key, self.aad(4, index), sealed, "damaged chunk")

def files(description):
    """What the command line asks for, file by file."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keybag", type=pathlib.Path, required=True, metavar="DIRECTORY")
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--device-key", type=pathlib.Path, metavar="FILE", help="stdin has the passcode")
    way.add_argument("--recovery-code", action="store_true", help="stdin has that; no device key is needed")
    parser.add_argument("files", type=pathlib.Path, nargs="+", metavar="FILE", help="protected files")
    options, secret = parser.parse_args(), sys.stdin.buffer.readline().removesuffix(b"\n")
    copies = [path.read_bytes() for path in sorted(options.keybag.glob("keybag.[01]"))]
    device_key = None if options.recovery_code else options.device_key.read_bytes()
    keys = Keys(copies, secret, device_key, secret.decode("ascii", "replace") if options.recovery_code else None)
    return ((File(path.read_bytes(), keys), keys) for path in options.files)

if __name__ == "__main__":
    try:
        for file, _ in files(__doc__):
            sys.stdout.buffer.writelines(file.text())
    except (Refused, OSError) as error:
        print(f"read.py: error: {error}", file=sys.stderr)
        sys.exit(65)
