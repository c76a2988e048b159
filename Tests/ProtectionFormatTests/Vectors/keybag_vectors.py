"""Scenarios of FORMAT.md §2: keybag copies, attempts, transition, events, payloads of the keyring, exports."""
import base64
import struct
import uuid

from format1 import (A, B, C, CLASS_KEYS, D, DEVICE_KEY, KEYBAG_KEY, PASSCODE, RECOVERY_CODE, UUID, entry, keybag,
                     patched, run, sha256, slot, tokens, u16, u32, u64)

OPENED = {"passcode": PASSCODE, "device key": DEVICE_KEY, "keybag key": KEYBAG_KEY}
KEYS = {f"class key {letter} 1": CLASS_KEYS[number] for letter, number in zip("abcd", CLASS_KEYS)}


def keybags():
    def scenario(name, what, expect="success", copy=None, fields=None):
        keys = OPENED if expect == "success" else {"passcode": PASSCODE, "device key": DEVICE_KEY}
        keys = keys | (KEYS if expect == "success" else {}) | (fields or {})
        fields = {"expect": expect, "source": f"FORMAT.md §2.1, {what}"} | keys
        return f"keybag/{name}", fields | {"bytes": tokens(copy or keybag())}

    every = [entry(number) for number in CLASS_KEYS]
    retired = {"class key b 2": run(0x62), "class key c 2": run(0x52)}
    yield scenario("four-keys", "one active key a class")
    yield scenario("shortest-path", "a path of one byte", copy=keybag(b"/"))
    yield scenario("longest-path", "a path of 4,095 bytes", copy=keybag(b"/" * 4095))
    yield scenario("last-sequence", "the highest sequence", copy=keybag(sequence=2**63 - 1))
    yield scenario("recovery-slot", "a passcode slot and a recovery slot", copy=keybag(slots=[slot(), slot(2)]))
    yield scenario("most-iterations", "the bounds of iterations, in a slot that is not opened",
                   copy=keybag(slots=[slot(), slot(2, count=100_000_000)]))
    by_code = {"recovery code": RECOVERY_CODE.encode()}
    with_code = keybag(slots=[slot(), slot(2)])
    yield scenario("recovery-code", "a keybag opened with its recovery code", copy=with_code, fields=by_code)
    yield scenario("recovery-code-other-device", "the same, where another device key is", copy=with_code,
                   fields=by_code | {"device key": run(0x02)})
    yield scenario("recovery-code-alone", "a keybag without a passcode slot", copy=keybag(slots=[slot(2)]),
                   fields=by_code)
    yield scenario("recovery-code-wrong", "another recovery code", "wrong recovery code", with_code,
                   fields={"recovery code": b"0000-0000-0000-0000-0000-0000-002B-8GMR"})
    yield scenario("recovery-code-typo", "a code with a wrong symbol", "typo", with_code,
                   fields={"recovery code": b"1" + RECOVERY_CODE.encode()[1:]})
    yield scenario("recovery-code-none", "no recovery slot", "no recovery code", fields=by_code)
    old = [entry(A), entry(B, state=2), entry(B, 2, key=run(0x62)), entry(C, state=2), entry(C, 2, key=run(0x52)),
           entry(D)]
    yield scenario("retired", "retired generations of B and C", copy=keybag(entries=old), fields=retired)
    of_secrets = [entry(A, kind=1, key=run(0xE1)), entry(C, kind=1, key=run(0xE3))]
    keys = {"class key of secrets a 1": run(0xE1), "class key of secrets c 1": run(0xE3)}
    yield scenario("secrets", "class keys of secrets", copy=keybag(entries=every + of_secrets), fields=keys)
    rotated = [entry(A, kind=1, state=2, key=run(0xE1)), entry(C, 2, kind=1, key=run(0xF3))]
    rotated += [entry(A, 2, kind=1, key=run(0xF1)), entry(C, kind=1, state=2, key=run(0xE3))]
    yield scenario("secrets-retired", "retired class keys of secrets", copy=keybag(entries=every + rotated),
                   fields=keys | {"class key of secrets a 2": run(0xF1), "class key of secrets c 2": run(0xF3)})
    reserved = [entry(9, kind=3, key=run(7)), entry(1, kind=2, state=2, key=run(8)), entry(1, kind=255, key=run(9))]
    yield scenario("reserved-kinds", "kinds that are kept and not used", copy=keybag(entries=every + reserved))
    many = every + [entry(A, 2 + i, 2, key=run(i)) for i in range(60)]
    yield scenario("most-entries", "64 entries", copy=keybag(entries=many),
                   fields={f"class key a {2 + i}": run(i) for i in range(60)})

    def refused(name, what, copy=None, **options):
        return scenario(name, what, "damaged keybag", copy or keybag(**options))

    yield refused("magic", "another magic", patch={0: b"PFSKEYBF"})
    yield refused("check", "the last byte of the check changed", late={975: bytes([keybag()[975] ^ 1])})
    for name, length in [("length-one-less", 1007), ("length-one-more", 1009), ("length-0", 0)]:
        yield refused(name, f"a length of {length} in a copy of {len(keybag())}", patch={12: u32(length)})
    yield refused("one-byte", "a file of 1 byte", copy=b"P")
    yield refused("sequence", "sequence 2^63", sequence=2**63)
    yield refused("path-length-0", "no path", copy=keybag(b""))
    yield refused("path-length-4096", "a path of 4,096 bytes", copy=keybag(b"/" * 4096))
    yield refused("path-relative", "a path that is not absolute", copy=keybag(b"device-key"))
    yield refused("path-nul", "a NUL in the path", copy=keybag(b"/device\0key"))
    yield refused("slots-0", "no slot", slots=[])
    yield refused("slots-9", "nine slots", slots=[slot()] * 9)
    yield refused("slots-2-passcode", "two passcode slots", slots=[slot(), slot()])
    yield refused("slots-2-recovery", "two recovery slots", slots=[slot(), slot(2), slot(2)])
    yield refused("counts-too-few", "one slot fewer than there is room for", counts=(19, 1, 4), slots=[slot(), slot(2)])
    yield refused("counts-too-many", "one entry more than there is room for", counts=(19, 1, 5))
    yield refused("entries-3", "three entries", entries=every[:3])
    yield refused("entries-65", "65 entries", entries=every + [entry(A, 2 + i, 2) for i in range(61)])
    yield refused("reserved-60", "a non-zero byte at 60", patch={60: b"\1"})
    yield refused("slot-reserved", "a non-zero byte in a slot", slots=[slot(patch={3: b"\1"})])
    yield refused("iterations-999", "999 iterations", slots=[slot(count=999)])
    yield refused("iterations-0", "no iterations", slots=[slot(count=0)])
    yield refused("iterations-too-many", "100,000,001 iterations", slots=[slot(count=100_000_001)])
    for state in (0, 3):
        yield refused(f"state-{state}", f"state {state}", entries=every[:3] + [entry(D, state=state)])
    yield refused("entry-reserved", "a non-zero byte in an entry", entries=every[:3] + [entry(D, patch={3: b"\1"})])
    yield refused("generation-0", "generation 0", entries=every[:3] + [entry(D, 0)])
    yield refused("active-none", "no active key of class A", entries=every[1:] + [entry(A, state=2)])
    yield refused("active-2", "two active keys of class A", entries=every + [entry(A, 2)])
    yield refused("generation-twice", "two keys of one generation", entries=every + [entry(A, state=2)])
    yield refused("reserved-kind-twice", "one kind, class and generation twice",
                  entries=every + [entry(9, kind=3, key=run(7)), entry(9, kind=3, state=2, key=run(8))])
    yield refused("secrets-one", "a class key of secrets of class A alone", entries=every + of_secrets[:1])
    yield refused("secrets-active-none", "no active class key of secrets of class C",
                  entries=every + [of_secrets[0], entry(C, kind=1, state=2, key=run(0xE3))])
    yield refused("secrets-active-2", "two active class keys of secrets of class A",
                  entries=every + of_secrets + [entry(A, 2, kind=1, key=run(0xF1))])
    yield refused("secrets-device-wrap", "a class key of secrets with a wrap by the device key",
                  entries=every + [of_secrets[0], entry(C, kind=1, key=run(0xE3), patch={64: run(1, 40)})])
    yield refused("secrets-public-key", "a class key of secrets with a public key",
                  entries=every + [of_secrets[0], entry(C, kind=1, key=run(0xE3), patch={104: run(1)})])
    yield refused("device-wrap-missing", "class D without a wrap by the device key",
                  entries=every[:3] + [entry(D, patch={64: bytes(40)})])
    yield refused("device-wrap-of-a", "class A with a wrap by the device key",
                  entries=[entry(A, patch={64: run(1, 40)})] + every[1:])
    yield refused("public-key-missing", "class B without a public key, its MACs there",
                  entries=[every[0], entry(B, patch={104: bytes(32)})] + every[2:])
    yield refused("public-key-of-c", "class C with a public key",
                  entries=every[:2] + [entry(C, patch={104: run(1)})] + every[3:])
    for offset, which in [(136, "under C"), (168, "under the device key")]:
        yield refused(f"mac-of-retired-{offset}", f"a retired key of B with a MAC {which}",
                      entries=every + [entry(B, 2, 2, key=run(0x62), patch={offset: run(1)})])
        yield refused(f"mac-of-a-{offset}", f"class A with a MAC {which}",
                      entries=[entry(A, patch={offset: run(1)})] + every[1:])

    for name, what, options in [
        ("version-2", "version 2", {"patch": {8: u16(2)}}),
        ("version-0", "version 0", {"patch": {8: u16(0)}}),
        ("features", "an unknown feature", {"patch": {10: u16(1 << 15)}}),
        ("slot-kind-3", "a slot of kind 3", {"slots": [slot(), slot(3)]}),
        ("prf-2", "a PRF that is not known", {"slots": [slot(prf=2)]}),
        ("class-5", "class 5", {"entries": every + [entry(5, key=run(7))]}),
        ("class-6", "class 6, reserved for Apple's F", {"entries": every + [entry(6, key=run(7))]}),
        ("secrets-class-2", "class B of secrets", {"entries": every + of_secrets + [entry(B, kind=1, key=run(7))]}),
        ("secrets-class-4", "class D of secrets", {"entries": every + of_secrets + [entry(D, kind=1, key=run(7))]}),
    ]:
        yield scenario(name, what, "unsupported", keybag(**options))

    yield scenario("mac", "the MAC under another key", "damaged keybag mac", keybag(mac_key=run(0x22)))
    yield scenario("mac-of-other-slot-salt", "a slot's salt changed, the check made anew", "wrong passcode",
                   keybag(slots=[slot(patch={8: run(0xC1)})]))
    yield scenario("wrong-passcode", "another passcode", "wrong passcode", fields={"passcode": PASSCODE + b" "})
    yield scenario("other-device", "another device key", "other device", fields={"device key": run(0x02)})
    other = entry(A, patch={8: entry(A, 2)[8:24]})
    yield scenario("class-key-id", "the id of another generation", "damaged class key",
                   keybag(entries=[other] + every[1:]))
    other = entry(A, patch={24: entry(A, key=run(0x42))[24:64]})
    yield scenario("class-key-of-other-id", "another key behind the id", "damaged class key",
                   keybag(entries=[other] + every[1:]))
    other = entry(A, patch={24: run(0, 40)})
    yield scenario("class-key-wrap", "a wrap of nothing", "damaged class key", keybag(entries=[other] + every[1:]))
    other = entry(B, patch={104: entry(B, key=run(0x62))[104:136]})
    yield scenario("public-key", "another public key", "damaged class key",
                   keybag(entries=[every[0], other] + every[2:]))
    other = entry(A, kind=1, patch={24: entry(A, kind=1, key=run(0xE2))[24:64]}, key=run(0xE1))
    yield scenario("secrets-class-key", "another class key of secrets behind the id", "damaged class key",
                   keybag(entries=every + [other, of_secrets[1]]))
    yield scenario("secrets-of-files", "a class key of secrets whose id is one of a file class", "damaged class key",
                   keybag(entries=every + [entry(A, kind=1, patch={8: entry(A, key=run(0xE1))[8:24]}, key=run(0xE1)),
                                           of_secrets[1]]))
    other = entry(D, patch={64: entry(D, key=run(0x72))[64:104]})
    yield scenario("device-wrap", "another key of D under the device key", "damaged class key",
                   keybag(entries=every[:3] + [other]))


def attempts():
    def scenario(name, what, sequence=1, failures=0, tag=None, boot_time=0, expect="success", patch=None, late=None,
                 cut=512):
        clear = b"PFSTRIES" + u64(sequence) + UUID + u32(failures) + u16(tag or 0) + u16(tag is not None)
        clear = patched((clear + u64(boot_time) + run(0x10, 16)).ljust(480, b"\0"), patch)
        data = patched(clear + sha256(clear), late)[:cut]
        fields = {"expect": expect, "source": f"FORMAT.md §2.3, {what}"}
        if expect == "success":
            fields |= {"keybag": UUID, "sequence": sequence, "failures": failures, "boot time": boot_time}
            fields |= {"boot id": run(0x10, 16)} | ({} if tag is None else {"guess tag": u16(tag)})
        return f"attempts/{name}", fields | {"bytes": tokens(data)}

    yield scenario("no-failures", "a new keybag's")
    yield scenario("one-failure", "a failure with its tag", 7, 1, 0xABCD, 123_456_789_012)
    yield scenario("tag-0", "a tag that is zero", 8, 3, 0, 1)
    yield scenario("most-failures", "all numbers at their highest", 2**62 - 1, 2**32 - 1, 0xFFFF, 2**64 - 1)
    damaged = {"expect": "damaged attempts"}
    yield scenario("magic", "another magic", patch={0: b"p"}, **damaged)
    yield scenario("check", "a byte changed afterwards", late={32: b"\1"}, **damaged)
    yield scenario("sequence", "sequence 2^62", 2**62, **damaged)
    yield scenario("tag-flag-2", "2 where 0 or 1 belongs", tag=1, patch={38: u16(2)}, **damaged)
    yield scenario("tag-without-flag", "a tag that is said not to be there", patch={36: u16(1)}, **damaged)
    yield scenario("reserved-64", "a non-zero byte at 64", patch={64: b"\1"}, **damaged)
    yield scenario("reserved-479", "a non-zero byte at 479", patch={479: b"\1"}, **damaged)
    yield scenario("short", "a sector that ends early", cut=511, **damaged)


def transitions():
    def scenario(name, what, counter=0, deadline=0, changed=0, boot=bytes(16), limit=0, expect="success", patch=None,
                 cut=64):
        data = b"PFSTRANS" + struct.pack("<QQ16sQQ", counter, deadline, boot, changed, limit) + bytes(8)
        fields = {"expect": expect, "source": f"FORMAT.md §2.4, {what}"}
        if expect == "success":
            fields |= {"counter": counter, "deadline": deadline, "boot id": boot, "changed at": changed, "limit": limit}
        return f"transition/{name}", fields | {"bytes": tokens(patched(data, patch)[:cut])}

    last = 2**64 - 1
    yield scenario("new", "a new keybag's")
    yield scenario("armed", "an armed lock", 5, 987_654_321_000, 1_700_000_000, run(0x10, 16))
    yield scenario("limited", "a limited unlock", 5, 0, 1_700_000_000, run(0x10, 16), 987_654_321_000)
    yield scenario("highest", "all numbers at their highest", last, last, last, b"\xff" * 16, last)
    nothing = {"counter": 5, "deadline": 6, "changed": 7, "expect": "nothing"}
    yield scenario("magic", "another magic", patch={7: b"s"}, **nothing)
    yield scenario("reserved-56", "a non-zero byte at 56", patch={56: b"\1"}, **nothing)
    yield scenario("reserved-63", "a non-zero byte at 63", patch={63: b"\1"}, **nothing)
    yield scenario("short", "a file that ends early", cut=63, **nothing)
    yield scenario("cut-after-fields", "a file without its last 16 bytes", cut=48, **nothing)


def events():
    def scenario(name, what, kind=3, counter=0, deadline=0, boot=bytes(16), expect="success", patch=None, late=None,
                 cut=96):
        clear = patched(b"PFSEVENT" + bytes([kind]) + bytes(7) + UUID + u64(counter) + u64(deadline) + boot, patch)
        data = patched(clear + sha256(clear), late)[:cut]
        fields = {"expect": expect, "source": f"FORMAT.md §2.12, {what}"}
        if expect == "success":
            fields |= {"kind": kind, "keybag": UUID, "counter": counter, "deadline": deadline, "boot id": boot}
        return f"event/{name}", fields | {"bytes": tokens(data)}

    last = 2**64 - 1
    boot = run(0x10, 16)
    yield scenario("armed", "an armed lock", 1, 5, 987_654_321_000, boot)
    yield scenario("locked", "a lock", 2, 6, 0, boot)
    yield scenario("unlocked", "an unlock", 3, 6, 0, boot)
    yield scenario("limited", "a limited unlock", 3, 6, 987_654_321_000, boot)
    yield scenario("highest", "all numbers at their highest", 3, last, last, b"\xff" * 16)
    nothing = {"counter": 5, "deadline": 6, "expect": "nothing"}
    yield scenario("magic", "another magic", patch={7: b"t"}, **nothing)
    yield scenario("kind-0", "an event that there is not", 0, **nothing)
    yield scenario("kind-4", "an event that there is not yet", 4, **nothing)
    yield scenario("reserved-9", "a non-zero byte at 9", patch={9: b"\1"}, **nothing)
    yield scenario("reserved-15", "a non-zero byte at 15", patch={15: b"\1"}, **nothing)
    yield scenario("check", "a byte changed afterwards", late={40: b"\1"}, **nothing)
    yield scenario("short", "a file that ends early", cut=95, **nothing)


def clients():
    def scenario(name, what, acknowledged=0, complete=0, unless_open=0, pid=1, program="editor", plaintext=0,
                 expect="success", patch=None, cut=256, extra=b""):
        data = b"PFSCLIEN" + struct.pack("<QIIII16x", acknowledged, complete, unless_open, pid, plaintext)
        data = patched(data + program.encode().ljust(208, b"\0"), patch)[:cut] + extra
        fields = {"expect": expect, "source": f"FORMAT.md §2.13, {what}"}
        if expect == "success":
            fields |= {"acknowledged": acknowledged, "complete handles": complete, "unless-open handles": unless_open,
                       "process": pid, "plaintext files": plaintext, "program": program.encode()}
        return f"client/{name}", fields | {"bytes": tokens(data)}

    yield scenario("no-handles", "a process without handles")
    yield scenario("handles", "handles of both classes", 7, 3, 4, 4711)
    yield scenario("highest", "all numbers at their highest", 2**64 - 1, 2**32 - 1, 2**32 - 1, 2**31 - 1, "x" * 208,
                   2**32 - 1)
    yield scenario("plaintext", "a program that was given the plaintext of two files", 2**64 - 1, plaintext=2)
    nothing = {"expect": "nothing"}
    yield scenario("magic", "another magic", patch={7: b"n"}, **nothing)
    yield scenario("process-2-31", "process id 2^31", pid=2**31, **nothing)
    yield scenario("reserved-32", "a non-zero byte at 32", patch={32: b"\1"}, **nothing)
    yield scenario("reserved-47", "a non-zero byte at 47", patch={47: b"\1"}, **nothing)
    yield scenario("short", "a file that ends early", cut=255, **nothing)
    yield scenario("empty", "a file of no byte", cut=0, **nothing)


def ring_payloads():
    def scenario(name, what, keys, expect="success", loaded=1_700_000_000, n=None, patch=None, cut=None, extra=b""):
        data = struct.pack("<BB6xQ", 1, len(keys) if n is None else n, loaded)
        for number, generation, key, *kind in keys:
            data += struct.pack("<BBHI", *kind or [0], number, 0, generation) + key
        fields = {"expect": expect, "source": f"FORMAT.md §2.5, {what}"}
        if expect == "success":
            fields |= {"loaded at": loaded}
            for number, generation, key, *kind in keys:
                what = "class key id" if kind == [255] else "class key of secrets" if kind else "class key"
                fields[f"{what} {'abcd'[number - 1]} {generation}"] = key[:16] if kind == [255] else key
        return f"ring-payload/{name}", fields | {"bytes": tokens((patched(data, patch) + extra)[:cut])}

    a, b, c = ((number, 1, CLASS_KEYS[number]) for number in (A, B, C))
    yield scenario("a-and-b", "the key that goes with a lock", [a, b])
    yield scenario("c", "the key that stays", [c])
    yield scenario("secrets", "class keys of files and of secrets", [a, b, (A, 1, run(0xE1), 1)])
    yield scenario("c-retired", "two generations of C", [(C, 1, run(0x52)), (C, 0x01020304, CLASS_KEYS[C])])
    yield scenario("id-of-d", "the key that stays, with the ids of two generations of D", [
        c, (D, 1, run(0x71)[:16] + bytes(16), 255), (D, 2, run(0x91)[:16] + bytes(16), 255)])
    yield scenario("most-entries", "64 entries", [(A, i + 1, run(i)) for i in range(64)], loaded=2**64 - 1)
    yield scenario("other-kind", "an entry of a reserved kind before the one that is used", [b], n=2, patch={
        16: b"\2\2\0\0" + u32(1) + run(9), 56: struct.pack("<BBHI", 0, B, 0, 1) + CLASS_KEYS[B]})
    refused = "no payload"
    yield scenario("version-2", "version 2", [c], refused, patch={0: b"\2"})
    yield scenario("version-0", "version 0", [c], refused, patch={0: b"\0"})
    yield scenario("entries-0", "no entry", [], refused)
    yield scenario("entries-65", "65 entries", [(A, i + 1, run(i)) for i in range(65)], refused)
    yield scenario("count-too-low", "an entry more than it says", [a, b], refused, n=1)
    yield scenario("count-too-high", "an entry fewer than it says", [a, b], refused, n=3)
    yield scenario("short", "a payload that ends early", [a, b], refused, cut=95)
    yield scenario("long", "a byte behind the last entry", [a, b], refused, extra=b"\0")
    yield scenario("header-only", "a header that ends early", [a], refused, cut=15)
    for offset in (2, 7, 18, 59):
        yield scenario(f"reserved-{offset}", f"a non-zero byte at {offset}", [a, b], refused, patch={offset: b"\1"})


def recovery_exports():
    good = keybag(slots=[slot(), slot(2)])

    def export(copy=good, version="1", name=None, made="2026-11-20T18:00:00Z", width=64, check=None, newline="\n",
               base=None, extra=()):
        name = name or str(uuid.UUID(bytes=UUID))
        text = base or base64.b64encode(copy).decode()
        lines = [f"version: {version}", f"keybag: {name}", f"made: {made}", "", *extra]
        lines += [text[i : i + width] for i in range(0, len(text), width)] + [""]
        check = check or sha256("".join(line + "\n" for line in lines).encode()).hex()
        lines = ["-----BEGIN PROTECTFS KEYBAG-----", *lines, f"SHA-256: {check}", "-----END PROTECTFS KEYBAG-----"]
        return "".join(line + newline for line in lines)

    def scenario(name, what, text, expect="success", copy=good):
        fields = {"expect": expect, "source": f"FORMAT.md §2.9, {what}", "bytes": text.encode()}
        if expect == "success":
            fields |= {"copy": copy, "made": "2026-11-20T18:00:00Z"}
        return f"recovery-export/{name}", fields

    yield scenario("alone", "an export and nothing else", export())
    mail = f"From: me\n> quoted\n\n{export()}\n-- \nsent from a machine\n"
    yield scenario("in-mail", "text before and behind it", mail)
    yield scenario("crlf", "lines that end in CR LF", mail.replace("\n", "\r\n"))
    yield scenario("no-last-newline", "no newline behind its end", export()[:-1])
    for slots in (2, 1):
        copy = keybag(b"/d" * (24 + slots), slots=[slot(), slot(2)][:slots])
        yield scenario(f"padding-{slots}", f"a copy of {len(copy)} bytes", export(copy), copy=copy)
    yield scenario("two", "two exports, of which the first counts", export() + export(keybag()))
    yield scenario("none", "a mail without an export", "hello\n", "none")
    yield scenario("empty", "nothing", "", "none")
    yield scenario("indented", "a mark that is not at the beginning of its line", " " + export(), "none")
    yield scenario("version-2", "version 2", export(version="2"), "unsupported")
    damaged = "damaged recovery export"
    yield scenario("check", "a check of another export", export(check="00" * 32), damaged)
    yield scenario("cut", "an export that ends early", export()[:900], damaged)
    yield scenario("other-uuid", "a UUID that is not the copy's", export(name=str(uuid.UUID(int=1))), damaged)
    yield scenario("width-76", "lines of 76 characters", export(width=76), damaged)
    yield scenario("blank-line", "one empty line more", export(extra=[""]), damaged)
    yield scenario("made", "a time of 10 characters", export(made="2026-11-20"), damaged)
    digits = base64.b64encode(keybag(b"/d" * 25, slots=[slot(), slot(2)])).decode().rstrip("=")
    trailing = digits[:-1] + chr(ord(digits[-1]) + 1) + "=" * (-len(digits) % 4)  # A to B, Q to R
    assert trailing[-1] == "=" and base64.b64decode(trailing) == base64.b64decode(digits + "==")
    yield scenario("trailing-bits", "bits behind the last byte", export(base=trailing), damaged)
    yield scenario("not-base64", "a character that is not of base 64", export(base="*" * 64), damaged)
    for number, expect in [(1, "none"), (2, damaged)]:
        lookalike = export().replace("KEYBAG", "\N{KELVIN SIGN}EYBAG", number).replace(
            "\N{KELVIN SIGN}EYBAG", "KEYBAG", number - 1)
        yield scenario(f"kelvin-{number}", "a K that only looks like one", lookalike, expect)
    yield scenario("copy-damaged", "a damaged copy in a good export", export(keybag(sequence=2**63)), "damaged keybag")
    yield scenario("copy-unsupported", "a copy of version 2", export(keybag(patch={8: u16(2)})), "unsupported")
