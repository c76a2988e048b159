"""Scenarios of FORMAT.md §2.16: backup keybags. The same class keys as in keybag/four-keys."""
import hashlib
import struct

from cryptography.hazmat.primitives.keywrap import aes_key_wrap
from format1 import A, B, C, CLASS_KEYS, COUNT, D, SALT, UUID, hkdf, mac, named, patched, run, sha256, tokens, u16, u32, u64

PASSPHRASE, BACKUP_KEY = "a longer phrase \N{DROPLET}".encode(), run(0x31)
KEYS = {f"class key {letter} 1": CLASS_KEYS[number] for letter, number in zip("abcd", CLASS_KEYS)}


def entry(number, generation=1, key=None, kind=0, key_id=None, patch=None):
    key = key or CLASS_KEYS[number]
    key_id = key_id or hkdf(key, None, "class key id", UUID + named(number, generation, kind), 16)
    data = struct.pack("<BBHI", kind, number, 0, generation) + key_id
    return patched(data + aes_key_wrap(hkdf(BACKUP_KEY, None, "backup class key wrap", UUID), key), patch)


FOUR = [entry(number) for number in CLASS_KEYS]


def backup_keybag(entries=FOUR, count=COUNT, e=None, mac_key=BACKUP_KEY, patch=None, late=None):
    stretched = hashlib.pbkdf2_hmac("sha256", PASSPHRASE, SALT, COUNT)
    wrapped = aes_key_wrap(hkdf(stretched, None, "backup kek", UUID), BACKUP_KEY)
    data = b"PFSBACKP" + struct.pack("<HHI16sQBBHI", 1, 0, 192 + 64 * len(entries), UUID, 1_700_000_000, 1, 0,
                                     len(entries) if e is None else e, count)
    data = patched(data + SALT + wrapped + bytes(8) + b"".join(entries), patch)
    data += mac(hkdf(mac_key, None, "backup mac", UUID), data)
    return patched(data + sha256(data), late)


def backup_keybags():
    def scenario(name, what, expect="success", data=None, fields=None, **options):
        opened = {"backup key": BACKUP_KEY} | KEYS if expect == "success" else {}
        fields = {"expect": expect, "source": f"FORMAT.md §2.16, {what}", "passphrase": PASSPHRASE} | opened | (fields or {})
        return f"backup-keybag/{name}", fields | {"bytes": tokens(backup_keybag(**options) if data is None else data)}

    of_secrets = [entry(A, kind=1, key=run(0xE1)), entry(C, kind=1, key=run(0xE3))]
    yield scenario("four-keys", "a key for each class")
    yield scenario("secrets", "class keys of secrets too", entries=FOUR + of_secrets, fields={
        "class key of secrets a 1": run(0xE1), "class key of secrets c 1": run(0xE3)})
    yield scenario("generations", "retired generations", entries=FOUR + [entry(B, 2, run(0x62)), entry(C, 2, run(0x52))],
                   fields={"class key b 2": run(0x62), "class key c 2": run(0x52)})
    yield scenario("two-of-one-name", "two keys of one name: the first is that of the field", entries=FOUR + [
        entry(A, key=run(0x42))])
    yield scenario("reserved-kind", "a kind that is kept and not used", entries=FOUR + [entry(9, kind=3, key=run(7))])

    bad = "damaged backup keybag"
    yield scenario("magic", "another magic", bad, patch={0: b"PFSBACKQ"})
    yield scenario("check", "a byte of the check changed", bad, late={447: bytes([backup_keybag()[447] ^ 1])})
    yield scenario("short", "a file that ends early", bad, data=backup_keybag()[:-1])
    yield scenario("long", "a byte behind the end", bad, data=backup_keybag() + b"\0")
    yield scenario("one-byte", "a file of 1 byte", bad, data=b"P")
    yield scenario("length", "a length that is one entry more", bad, patch={12: u32(512)})
    yield scenario("made", "made at 2^63", bad, patch={32: u64(2**63)})
    yield scenario("entries-0", "no entry", bad, entries=[])
    yield scenario("entries-too-many", "one entry more than there is room for", bad, e=5)
    yield scenario("entries-too-few", "one entry fewer than there are", bad, e=3)
    yield scenario("reserved-41", "a non-zero byte at 41", bad, patch={41: b"\1"})
    yield scenario("reserved-120", "a non-zero byte at 120", bad, patch={120: b"\1"})
    yield scenario("iterations-999", "999 iterations", bad, count=999)
    yield scenario("iterations-too-many", "100,000,001 iterations", bad, count=100_000_001)
    yield scenario("entry-reserved", "a non-zero byte in an entry", bad, entries=FOUR[:3] + [entry(D, patch={2: b"\1"})])
    yield scenario("generation-0", "generation 0", bad, entries=FOUR[:3] + [entry(D, 0)])
    yield scenario("twice", "one key twice", bad, entries=FOUR + FOUR[:1])
    yield scenario("version-2", "version 2", "unsupported", patch={8: u16(2)})
    yield scenario("features", "an unknown feature", "unsupported", patch={10: u16(1)})
    yield scenario("prf-2", "a PRF that is not known", "unsupported", patch={40: b"\2"})
    yield scenario("class-5", "class 5", "unsupported", entries=FOUR + [entry(5, key=run(7))])
    yield scenario("secrets-class-2", "class B of secrets", "unsupported", entries=FOUR + [entry(B, kind=1, key=run(7))])

    wrong = "wrong passphrase"
    yield scenario("passphrase", "another passphrase", wrong, fields={"passphrase": PASSPHRASE + b" "})
    yield scenario("salt", "the salt changed, MAC and check made anew", wrong, patch={48: b"\0"})
    yield scenario("count", "the count changed, MAC and check made anew", wrong, patch={44: u32(COUNT + 1)})
    yield scenario("wrap", "the wrap of the backup key changed", wrong, patch={80: bytes(40)})
    yield scenario("mac", "the MAC under another key", "damaged backup keybag mac", mac_key=run(0x32))
    yield scenario("class-key-wrap", "a wrap of nothing", "damaged class key", entries=[entry(A, patch={24: bytes(40)})] + FOUR[1:])
    yield scenario("class-key-id", "another key behind the id", "damaged class key",
                   entries=[entry(A, key=run(0x42), key_id=FOUR[0][8:24])] + FOUR[1:])
