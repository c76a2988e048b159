#!/usr/bin/env python3
"""Searches a program that has used protectfs's library, and was locked, for every key that it has ever known.

    scan.py --worker PROGRAM --keybag DIRECTORY --device-key FILE --files DIRECTORY
            (passcode and recovery code on stdin, a line each)

starts `storm-worker KEYBAG remnants FILES`, waits until it is locked, computes all keys by the independent reader, and
looks for each window of eight bytes of each of them in every readable mapping of the process, in its arguments and
environment, and in the core file that it leaves when it aborts. A key is looked for as it is, with the bytes of its 4- and
8-byte words turned round (as hash functions load them), and under HMAC's two pads.

Prints what it found as JSON. `planted` is what must be found: a pattern that the program keeps in ordinary memory, and
the chunk key of a class B file that it has open, which is in a cipher context of libcrypto until it is closed.
"""
import argparse
import array
import hashlib
import hmac
import json
import os
import pathlib
import resource
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "IndependentReader"))
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.keywrap import aes_key_unwrap
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from keybag import A, B, C, D, Keys, hkdf, in_force, recovery_octets
from read import File
from stored_secrets import item_key_of

CLASS_NAMES = {A: "A", B: "B private", C: "C", D: "D"}


def extracted(key, salt=None):
    """What HKDF makes of a key before it expands it (RFC 5869 §2.2): whoever has it has all that is derived from the key."""
    return hmac.digest(salt or bytes(32), key, "sha256")


def copies_of(keybag):
    return [path.read_bytes() for path in (keybag / f"keybag.{i}" for i in (0, 1)) if path.exists()]


def slot_secrets(copy, passcode, device_key, code):
    """The ways from passcode and recovery code to the keybag key, through the slots of one moment."""
    found, uuid = {}, copy["uuid"]
    for kind, (count, salt, wrapped) in copy["slots"].items():
        word, with_device, label = [(passcode, device_key, "passcode kek"), (code, None, "recovery kek")][kind - 1]
        stretched = hashlib.pbkdf2_hmac("sha256", word, salt, count)
        kek = hkdf(stretched, with_device, label, uuid)
        found |= {f"{label}: PBKDF2 output": stretched, f"{label}: extracted": extracted(stretched, with_device), label: kek}
        found["keybag key"] = aes_key_unwrap(kek, wrapped)
    return found


def secrets(keybag, before, passcode, device_key, code, files):
    """Every key on the way from passcode and recovery code to the chunks of class A files, and of class B files that are
    closed, by name."""
    copies = copies_of(keybag)
    copy = in_force(copies)
    uuid = copy["uuid"]
    octets = recovery_octets(code.decode())
    found = {f"first {name}": key for name, key in slot_secrets(before, passcode, device_key, octets).items()}
    found |= slot_secrets(copy, passcode, device_key, octets)
    keybag_key = found["keybag key"]
    found |= {
        "passcode": passcode, "device key": device_key, "recovery code": octets, "recovery code in groups": code,
        "device key, extracted": extracted(device_key), "keybag key, extracted": extracted(keybag_key),
        "class-wrapping key": hkdf(keybag_key, None, "class key wrap", uuid),
        "keybag MAC key": hkdf(keybag_key, None, "keybag mac", uuid),
        "device wrapping key": hkdf(device_key, None, "device class key wrap", uuid),
    }
    keys = Keys(copies, passcode, device_key)
    for (number, generation), key in keys.classes.items():
        name = f"{CLASS_NAMES[number]}, generation {generation}"
        found[f"class key {name}"] = key
        if number != B:
            found[f"class key {name}, extracted"] = extracted(key)
            context = uuid + struct.pack("<BI", number, generation)
            found[f"file-key wrapping key {name}"] = hkdf(key, None, "file key wrap", context)
    found |= secrets_of_store(keybag, keys)
    for path in sorted(files.iterdir()):
        if not path.is_file():
            continue
        file = File(path.read_bytes(), keys)
        wrap = file.head["wrap"]
        if wrap["class"] == B and path.name.endswith("-handle"):
            found["planted: chunk key of an open B handle"] = file.chunk_key
        elif wrap["class"] in (A, B):
            file_key = keys.file_key(wrap)
            found |= {
                f"file key of {path.name}": file_key, f"file key of {path.name}, extracted": extracted(file_key),
                f"chunk key of {path.name}": file.chunk_key, f"head key of {path.name}": file.head_key,
            }
        if wrap["class"] == B:
            private = X25519PrivateKey.from_private_bytes(keys.classes[B, wrap["generation"]])
            ephemeral = wrap["wrapped"][:32]
            z = private.exchange(X25519PublicKey.from_public_bytes(ephemeral))
            public = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
            found[f"X25519 secret of {path.name}"] = z
            found[f"file-key wrapping key of {path.name}"] = hashlib.sha256(b"\0\0\0\1" + z + ephemeral + public).digest()
    return found


def secrets_of_store(keybag, keys):
    """The keys on the way from the class keys of secrets to each value of the store (FORMAT.md §2.15)."""
    found = {}
    for (number, generation), key in keys.of_secrets.items():
        name = f"of secrets {CLASS_NAMES[number]}, generation {generation}"
        context = keys.named(number, generation, 1)
        found |= {
            f"class key {name}": key, f"class key {name}, extracted": extracted(key),
            f"secret-wrapping key {name}": hkdf(key, None, "secret wrap", context),
        }
    if not (keybag / "secrets").is_dir():
        return found
    with tempfile.TemporaryDirectory() as directory:  # its log can only be read where it can be written
        copy = shutil.copytree(keybag / "secrets", f"{directory}/secrets", ignore=shutil.ignore_patterns("bell*"))
        database = sqlite3.connect(f"{copy}/secrets.sqlite")
        database.row_factory = sqlite3.Row
        for row in database.execute("SELECT * FROM secrets"):
            found[f"item key of {row['account']}"] = item_key_of(row, keys)
    return found


def turned(data, width):
    return b"".join(data[i : i + width][::-1] for i in range(0, len(data), width))


def windows(named):
    """Each window of eight bytes, as array.array("Q") reads it, with the name of what it is from."""
    found = {}
    for name, secret in named.items():
        pads = {"": secret, " (inner pad)": bytes(b ^ 0x36 for b in secret), " (outer pad)": bytes(b ^ 0x5C for b in secret)}
        for pad, data in pads.items():
            whole = data[: len(data) // 8 * 8]
            for order, text in (("", data), (" (words)", turned(whole, 4)), (" (long words)", turned(whole, 8))):
                for at in range(len(text) - 7):
                    found[struct.unpack_from("=Q", text, at)[0]] = f"{name}{pad}{order}"
    return found


class Search:
    def __init__(self, named):
        self.windows = windows(named)
        self.bytes, self.hits = 0, {}

    def look(self, data, where):
        """Every window at every address: eight times the words, from the first eight offsets."""
        self.bytes += len(data)
        for shift in range(8):
            words = array.array("Q")
            end = shift + (len(data) - shift) // 8 * 8
            words.frombytes(data[shift:end])
            for word in set(words) & self.windows.keys():
                self.hits.setdefault(self.windows[word], set()).add(where)

    def report(self):
        planted = {name: sorted(where) for name, where in self.hits.items() if name.startswith("planted")}
        found = {name: sorted(where) for name, where in self.hits.items() if not name.startswith("planted")}
        return {"bytes": self.bytes, "planted": planted, "found": found}


PIECE = 1 << 24


def look_through(search, stream, start, end, where):
    """The bytes of a file or an address space from `start` to `end`; pieces overlap, so that nothing is cut in two."""
    at = start
    while at < end:
        stream.seek(at)
        data = stream.read(min(PIECE + 7, end - at))
        if not data:
            return
        search.look(data, where)
        at += PIECE


def mappings(pid):
    """(start, end, access, name, KiB that are not what a file has) of each. smaps: proc_pid_smaps(5)."""
    found = []
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        fields = line.split(None, 5)
        if fields[0].endswith(":"):
            if fields[0] == "Anonymous:":
                found[-1][4] = int(fields[1])
        else:
            start, end = (int(number, 16) for number in fields[0].split("-"))
            found.append([start, end, fields[1], fields[5].strip() if len(fields) > 5 else "anonymous", 0])
    return found


# proc_pid_pagemap(5): in memory, in swap, and still what the file has (or shared).
PRESENT, SWAPPED, OF_THE_FILE = 1 << 63, 1 << 62, 1 << 61
PAGE = os.sysconf("SC_PAGE_SIZE")


def changed(pagemap, start, end):
    """The parts of a private mapping of a file that are no longer what the file has, as (start, end)."""
    pagemap.seek(start // PAGE * 8)
    entries = array.array("Q")
    entries.frombytes(pagemap.read((end - start) // PAGE * 8))
    parts = []
    for number, entry in enumerate(entries):
        if entry & (PRESENT | SWAPPED) and not entry & OF_THE_FILE:
            at = start + number * PAGE
            if parts and parts[-1][1] == at:
                parts[-1] = parts[-1][0], at + PAGE
            else:
                parts.append((at, at + PAGE))
    return parts


def look_through_process(search, pid):
    """All that can be read, but for pages of private mappings of files that were never written to."""
    unreadable, unchanged, every = [], 0, mappings(pid)
    with open(f"/proc/{pid}/mem", "rb", 0) as memory, open(f"/proc/{pid}/pagemap", "rb", 0) as pagemap:
        for start, end, access, name, written in every:
            if "r" not in access:
                continue
            parts = [(start, end)]
            if access.endswith("p") and name.startswith("/"):
                parts = changed(pagemap, start, end)
                looked_at = sum(to - at for at, to in parts)
                if looked_at < written << 10:
                    sys.exit(f"scan.py: error: {name}: {looked_at} bytes of {written} KiB that were written to")
                unchanged += end - start - looked_at
            try:
                for at, to in parts:
                    look_through(search, memory, at, to, name)
            except OSError:
                unreadable.append(name)
    for name in ("cmdline", "environ"):
        search.look(pathlib.Path(f"/proc/{pid}/{name}").read_bytes(), name)
    return {"mappings": len(every), "unchanged": unchanged, "unreadable": unreadable}


def look_through_core(named, directory):
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if pattern.startswith(("|", "/")):
        return {"skipped": f"core dumps go elsewhere: {pattern}"}
    cores = [path for path in directory.iterdir() if path.is_file()]
    if not cores:
        return {"skipped": "no core file was made"}
    search = Search(named)
    for core in cores:
        with open(core, "rb", 0) as stream:
            look_through(search, stream, 0, core.stat().st_size, "core")
    return search.report()


def main():
    parser = argparse.ArgumentParser()
    for name in ("--worker", "--keybag", "--device-key", "--files"):
        parser.add_argument(name, type=pathlib.Path, required=True)
    options = parser.parse_args()
    passcode, code = sys.stdin.buffer.read().split(b"\n")[:2]
    before = in_force(copies_of(options.keybag))
    planted = os.urandom(32)
    cores = options.files / "cores"
    cores.mkdir(parents=True)

    def prepare():
        for number, text in (3, passcode), (4, planted), (5, code):
            reader, writer = os.pipe()
            os.write(writer, text)
            os.close(writer)
            # Not through a number that the other one needs.
            high = os.dup(reader) if reader < 6 else reader
            os.dup2(high, number)
        for number in range(6, 256):
            try:
                os.close(number)
            except OSError:
                pass
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))

    worker = subprocess.Popen(
        [options.worker, options.keybag, "remnants", options.files], cwd=cores, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, close_fds=False, preexec_fn=prepare)
    line = worker.stdout.readline()
    if line != b"locked\n":
        sys.exit(f"scan.py: error: the worker says {line!r}")
    named = secrets(options.keybag, before, passcode, options.device_key.read_bytes(), code, options.files)
    named["planted"] = planted
    search = Search(named)
    # Threads that end would take their stacks from under the search.
    os.kill(worker.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, worker.pid, os.WSTOPPED)
    try:
        process = look_through_process(search, worker.pid)
    except PermissionError as error:
        worker.kill()
        print(json.dumps({"skipped": f"the memory of a child cannot be read here: {error}"}))
        return
    os.kill(worker.pid, signal.SIGCONT)
    output, errors = worker.communicate(b"\n")
    search.look(output + errors, "output")
    report = {"secrets": sum(not name.startswith("planted") for name in named), "aborted": worker.returncode == -6, **process, **search.report()}
    print(json.dumps(report | {"core": look_through_core(named, cores)}))


if __name__ == "__main__":
    main()
