#!/usr/bin/env python3
"""Searches processes that use a locked keybag for what opens its class A files, and for class B's private key.

    processes.py --keybag DIRECTORY --device-key FILE --files DIRECTORY [--own PID] PID …     (passcode on stdin)

With --unlocked every key is looked for, in processes that are at work: those of files that they have open, too.

All processes are stopped while they are searched, and go on then. --own names one of our executables, where no plaintext
of the files may be either. Prints what was found in which process as JSON; `planted`, the chunk key of a class B file
`…-handle` that somebody has open, must be found somewhere, or the search is blind.
"""
import argparse
import json
import os
import pathlib
import signal
import sys
import time

import scan
from keybag import Keys, in_force
from read import File

# There is no recovery code here, and the search for one needs a well-formed one.
CODE = b"0123-4567-89AB-CDEF-GHJK-MNPQ-RS6H-FCGA"
WORDS = ("passcode", "recovery code", "recovery code in groups")
GONE = ("class key A", "class key B private", "file-key wrapping key A", "planted")


def wanted(options, passcode):
    """Class key A and B private, and the keys of class A files."""
    copies = scan.copies_of(options.keybag)
    device_key = options.device_key.read_bytes()
    named = scan.secrets(options.keybag, in_force(copies), passcode, device_key, CODE, options.files)
    keys, texts = Keys(copies, passcode, device_key), {}
    if options.unlocked:  # words are no keys: a test's passcode is made of some that are everywhere
        return {name: key for name, key in named.items() if name not in WORDS}, texts
    for path in options.files.iterdir():
        file = File(path.read_bytes(), keys)
        is_open_b = path.name.endswith("-handle")
        for name in list(named):
            if name.endswith(f" of {path.name}") and (is_open_b or file.head["wrap"]["class"] != scan.A):
                del named[name]
        if path.name == "complete":  # the others are numbers: mostly zeros, which are everywhere
            texts["text of complete"] = b"".join(file.text())
    return {name: key for name, key in named.items() if name.startswith(GONE) or " of " in name}, texts


def stopped(pid):
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0] in "Tt"


def search(pid, named):
    found = scan.Search(named)
    while not stopped(pid):
        time.sleep(0.001)
    try:
        return scan.look_through_process(found, pid) | found.report()
    except PermissionError as error:
        return {"skipped": str(error)}


def main():
    parser = argparse.ArgumentParser()
    for name in ("--keybag", "--device-key", "--files"):
        parser.add_argument(name, type=pathlib.Path, required=True)
    parser.add_argument("--own", type=int)
    parser.add_argument("--unlocked", action="store_true", help="look for all keys, in processes that work with them")
    parser.add_argument("pids", type=int, nargs="+", metavar="PID")
    options = parser.parse_args()
    named, texts = wanted(options, sys.stdin.buffer.read().split(b"\n")[0])
    for pid in options.pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        processes = {pid: search(pid, named | texts if pid == options.own else named) for pid in options.pids}
    finally:
        for pid in options.pids:
            os.kill(pid, signal.SIGCONT)
    print(json.dumps({"names": sorted(named), "texts": sorted(texts), "processes": processes}))


if __name__ == "__main__":
    main()
