#!/usr/bin/env python3
"""Checks the worked example of docs/reference/FORMAT-EXAMPLE.md (appendix A): every value is computed from its formula and compared.

The appendix is the only input. The files are rebuilt from it and opened by the independent reader (keybag.py, read.py).
Exit status 1: there are differences, a line for each on stderr."""
import argparse
import hashlib
import hmac
import pathlib
import re
import struct
import sys

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

import keybag
import read

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/reference/FORMAT-EXAMPLE.md"
TITLE = "# Appendix A."
TOKEN = re.compile(r'\s*("[^"]*"|[(),‖]|[^"(),‖]+)')
ENTRY = re.compile(r"(?:(?P<offset>\d+)  )?(?P<name>.+?)(?: = (?P<formula>.+?))? → (?P<value>.+)")


class Wrong(Exception):
    """The appendix breaks its own rules."""


def integer(size):
    return lambda value: value.to_bytes(size, "little")


def derived(key, salt, label, context, length=32):
    return keybag.hkdf(key, salt, label.decode(), context, length)


FUNCTIONS = {
    "PBKDF2": lambda passcode, salt, count: hashlib.pbkdf2_hmac("sha256", passcode, salt, count),
    "HKDF": derived,
    "MAC": lambda key, text: hmac.digest(key, text, "sha256"),
    "SHA-256": lambda text: hashlib.sha256(text).digest(),
    "UNWRAP": lambda kek, wrapped: keybag.unwrap(kek, wrapped, "does not unwrap"),
    "OPEN": lambda key, aad, sealed: keybag.open_seal(key, aad, sealed, "does not open"),
    "SEAL": lambda key, aad, nonce, text: nonce + AESGCM(key).encrypt(nonce, text, aad),
    "X25519": lambda private, public: keybag.x25519(private, public, "no shared secret"),
    "u8": integer(1), "u16": integer(2), "u32": integer(4), "u64": integer(8), "zero": bytes,
}


class Entry:
    """One line of the example: where it is stored, if it is; how it is computed, if it is; and its value."""

    def __init__(self, line):
        found = ENTRY.fullmatch(line.split(" ; ")[0].strip())
        if not found:
            raise Wrong(f"no value: {line}")
        self.name, self.formula = found["name"], found["formula"]
        self.offset = None if found["offset"] is None else int(found["offset"])
        is_hashed = found["value"].startswith("SHA-256 ")  # too long for the page
        self.hash = bytes.fromhex(found["value"].split()[1]) if is_hashed else None
        self.value = None if is_hashed else bytes.fromhex(found["value"].removeprefix("empty"))


class Scope:
    """The entries of one file, or those before the first file. Names are looked up in `outer` too."""

    def __init__(self, name, length, outer):
        self.name, self.length, self.outer, self.entries = name, length, outer, {}

    def add(self, entry):
        if entry.name in self.entries:
            raise Wrong(f"{self.name}: two entries {entry.name}")
        self.entries[entry.name] = entry

    def value(self, name):
        if name in self.entries:
            entry = self.entries[name]
            return self.result(entry.formula) if entry.value is None else entry.value
        if self.outer is None:
            raise Wrong(f"nothing is called {name}")
        return self.outer.value(name)

    def data(self):
        """The bytes of the file. Those that are not listed are zero."""
        data, end = bytearray(self.length), 0
        for entry in sorted(self.stored(), key=lambda entry: entry.offset):
            value = self.value(entry.name)
            if entry.offset < end or entry.offset + len(value) > self.length:
                raise Wrong(f"{self.name}: {entry.name} overlaps its neighbour, or is beyond the end")
            end = entry.offset + len(value)
            data[entry.offset : end] = value
        return bytes(data)

    def stored(self):
        return [entry for entry in self.entries.values() if entry.offset is not None]

    def result(self, formula):
        tokens = [token.strip() for token in TOKEN.findall(formula)]
        value = self.joined(tokens)
        if tokens:
            raise Wrong(f"{self.name}: {formula}: what is {tokens[0]}?")
        return value

    def joined(self, tokens):
        value = self.term(tokens)
        while tokens[:1] == ["‖"]:
            tokens.pop(0)
            value += self.term(tokens)
        return value

    def term(self, tokens):
        word = tokens.pop(0)
        if word[0] == '"':
            return word[1:-1].encode("ascii")
        if word.isdigit():
            return int(word)
        if word == "none":
            return None
        if tokens[:1] != ["("]:
            return self.value(word)
        arguments = []
        while tokens.pop(0) != ")":
            arguments.append(self.joined(tokens))
        if word == "bytes":
            return self.data_between(*arguments)
        return FUNCTIONS[word](*arguments)

    def data_between(self, start, end):
        data = bytearray(end)
        for entry in self.stored():
            if entry.offset < end:
                value = self.value(entry.name)
                data[entry.offset : entry.offset + len(value)] = value
        return bytes(data[start:end])

    def differences(self):
        for entry in self.entries.values():
            if entry.formula is None:
                continue
            value = self.result(entry.formula)
            if entry.hash is not None:
                value, expected = hashlib.sha256(value).digest(), entry.hash
            else:
                expected = entry.value
            if value != expected:
                yield f"{self.name}: {entry.name} is {value.hex()}, the page says {expected.hex()}"


def lines(page):
    """The logical lines of the code blocks of the appendix: lines that begin with a space continue the one before."""
    appendix = page[page.index(TITLE):]
    for block in re.findall(r"^```\n(.*?)^```$", appendix, re.MULTILINE | re.DOTALL):
        joined = []
        for line in block.splitlines():
            if not line.startswith(" "):
                joined.append(line)
                continue
            is_in_value = re.fullmatch(r".*→ [0-9a-f]+", joined[-1])  # digits go on without a space, all else with one
            joined[-1] += line.strip() if is_in_value else " " + line.strip()
        yield from joined


def scopes(page):
    common = Scope("inputs", 0, None)
    found, now = {"inputs": common}, common
    for line in lines(page):
        file = re.fullmatch(r"file (\S+), (\d+) bytes", line)
        if file:
            now = found[file[1]] = Scope(file[1], int(file[2]), found.get("keybag.0", common))
        else:
            now.add(Entry(line))
    return found


def opened(found):
    """What the independent reader makes of the rebuilt files, beside what the page says: (what, is, should be)."""
    common, bag = found["inputs"], found["keybag.0"]
    keys = keybag.Keys([bag.data()], common.value("passcode"), common.value("device key"))
    for number, letter in enumerate("ABCD", 1):
        yield f"class key {letter}", keys.classes[number, 1], bag.value(f"class key {letter}")
    for scope in list(found.values())[2:]:
        file = read.File(scope.data(), keys)
        yield f"text of {scope.name}", b"".join(file.text()), scope.value("text")


def attempts(uuid):
    """§2.19: no failures. The boot is another one, which a program corrects (§2.3)."""
    sector = struct.pack("<8sQ16sIHHQ16s416x", b"PFSTRIES", 1, uuid, 0, 0, 0, 0, bytes(16))
    return 2 * (sector + hashlib.sha256(sector).digest())


def write(found, directory):
    """The files of the example, for protectfs to open, and SHA256SUMS of the plaintexts."""
    common, bag = found["inputs"], found["keybag.0"]
    (directory / "files").mkdir(parents=True)
    (directory / "keybag").mkdir(mode=0o700)
    contents = {"device-key": common.value("device key"), "passcode": common.value("passcode") + b"\n",
                "keybag/keybag.0": bag.data(), "keybag/keybag.1": bag.data(),
                "keybag/attempts": attempts(bag.value("keybag UUID")),
                "keybag/transition": b"PFSTRANS".ljust(64, b"\0")}
    files = list(found.values())[2:]
    contents |= {f"files/{scope.name}": scope.data() for scope in files}
    sums = (f"{hashlib.sha256(scope.value('text')).hexdigest()}  files/{scope.name}\n" for scope in files)
    contents["SHA256SUMS"] = "".join(sums).encode()
    for name, data in contents.items():
        (directory / name).touch(mode=0o600)
        (directory / name).write_bytes(data)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=pathlib.Path, default=PAGE, metavar="FILE", help="instead of docs/reference/FORMAT-EXAMPLE.md")
    parser.add_argument("--write", type=pathlib.Path, metavar="DIRECTORY", help="keybag/, device-key, passcode, files/ …")
    options = parser.parse_args()
    found = scopes(options.page.read_text("utf-8"))
    differences = [difference for scope in found.values() for difference in scope.differences()]
    differences += [f"{what} is {value.hex()} for the independent reader, the page says {expected.hex()}"
                    for what, value, expected in opened(found) if value != expected]
    if options.write:
        write(found, options.write)
    if differences:
        sys.exit("\n".join(differences))
    values = [entry for scope in found.values() for entry in scope.entries.values()]
    print(f"{len(values)} values, {sum(entry.formula is not None for entry in values)} of them computed")
