"""What FORMAT.md says, as a writer: the bytes of keybags, heads, records and chunks, good ones and broken ones.

`patch` changes bytes before they are sealed and hashed, so that the broken rule is the only one; `late` changes them
afterwards. Keys are runs of consecutive bytes; nonces come from the scenario's name, so that files never change.
"""
import hashlib
import hmac
import re
import struct

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from cryptography.hazmat.primitives.keywrap import aes_key_wrap
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

A, B, C, D = 1, 2, 3, 4
UNVERIFIED, THIS_DEVICE, VERIFIED = 0, 1, 2
MAGIC = b"\x89PFS\r\n\x1a\n"


def run(first, count=32):
    """Bytes first, first + 1, …: a recognisable key, id or salt."""
    return bytes((first + i) % 256 for i in range(count))


def ramp(count):
    """Text whose period is no power of two, so that no two chunks are alike."""
    return bytes(i % 251 for i in range(count))


UUID, OTHER_UUID = run(0xA0, 16), run(0xB0, 16)
FILE_ID, OTHER_FILE_ID = run(0xF0, 16), run(0xE0, 16)
DEVICE_KEY, KEYBAG_KEY, FILE_KEY, OTHER_FILE_KEY = run(0x01), run(0x21), run(0x81), run(0x91)
CLASS_KEYS = {A: run(0x41), B: run(0x61), C: run(0x51), D: run(0x71)}
EPHEMERAL, EPOCH, OTHER_EPOCH = run(0xD0), 0x3837363534333231, 0x4847464544434241
PASSCODE, SALT, COUNT = "correct horse \N{DROPLET}".encode(), run(0xC0), 1000
RECOVERY_CODE = "0123-4567-89AB-CDEF-GHJK-MNPQ-RS6H-FCGA"


def hkdf(key, salt, label, context, length=32):
    extracted = hmac.digest(salt or bytes(32), key, "sha256")
    return HKDFExpand(hashes.SHA256(), length, b"protectfs/1 " + label.encode() + b"\x00" + context).derive(extracted)


def mac(key, text):
    return hmac.digest(key, text, "sha256")


def sha256(text):
    return hashlib.sha256(text).digest()


def public_of(private):
    public = X25519PrivateKey.from_private_bytes(private).public_key()
    return public.public_bytes(Encoding.Raw, PublicFormat.Raw)


def named(number, generation, kind=0):
    return struct.pack("<BI", (16 * kind + number) & 255, generation)


def patched(data, patch):
    changed = bytearray(data)
    for offset, new in (patch or {}).items():
        changed[offset : offset + len(new)] = new
    return bytes(changed)


def u16(value):
    return value.to_bytes(2, "little")


def u32(value):
    return value.to_bytes(4, "little")


def u64(value):
    return value.to_bytes(8, "little")


# FORMAT.md §2


def slot(kind=1, prf=1, count=COUNT, passcode=None, device_key=DEVICE_KEY, patch=None):
    passcode = passcode or (RECOVERY_CODE.replace("-", "").encode() if kind == 2 else PASSCODE)
    stretched = hashlib.pbkdf2_hmac("sha256", passcode, SALT, COUNT)
    kek = (hkdf(stretched, device_key, "passcode kek", UUID) if kind == 1
           else hkdf(stretched, None, "recovery kek", UUID))
    return patched(struct.pack("<BBHI", kind, prf, 0, count) + SALT + aes_key_wrap(kek, KEYBAG_KEY), patch)


def entry(number, generation=1, state=1, key=None, kind=0, patch=None):
    key = key or CLASS_KEYS[number]
    context = UUID + named(number, generation, kind)
    data = struct.pack("<BBBBI", kind, number, state, 0, generation) + hkdf(key, None, "class key id", context, 16)
    data += aes_key_wrap(hkdf(KEYBAG_KEY, None, "class key wrap", UUID), key)
    under_device = hkdf(DEVICE_KEY, None, "device class key wrap", UUID)
    data += aes_key_wrap(under_device, key) if (kind, number) == (0, D) else bytes(40)
    if (kind, number) == (0, B):
        data += public_of(key)
        if state == 1:
            message = context + public_of(key)
            data += mac(hkdf(CLASS_KEYS[C], None, "b public mac", UUID), message)
            data += mac(hkdf(DEVICE_KEY, None, "b public mac", UUID), message)
    return patched(data.ljust(200, b"\0"), patch)


def keybag(path=b"/nowhere/device-key", slots=None, entries=None, sequence=1, counts=None, mac_key=KEYBAG_KEY,
           patch=None, late=None):
    slots = [slot()] if slots is None else slots
    entries = [entry(number) for number in CLASS_KEYS] if entries is None else entries
    body = path + b"".join(slots) + b"".join(entries)
    p, s, e = counts or (len(path), len(slots), len(entries))
    device_id = hkdf(DEVICE_KEY, None, "device id", UUID, 16)
    data = struct.pack("<8sHHIQ16s16sHBBI", b"PFSKEYBG", 1, 0, 128 + len(body), sequence, UUID, device_id, p, s, e, 0)
    data = patched(data + body, patch)
    data += mac(hkdf(mac_key, None, "keybag mac", UUID), data)
    return patched(data + sha256(data), late)


# FORMAT.md §3


class File:
    """A protected file in the making. `name` gives the nonces."""

    def __init__(self, name, exponent=12, fid=FILE_ID, key=FILE_KEY, patch=None):
        self.name, self.nonces, self.fid, self.key, self.chunk_size = name, 0, fid, key, 1 << exponent
        prefix = MAGIC + struct.pack("<HHIBB6x16s24x", 1, 4096, 0, 1, exponent, fid)
        self.prefix = patched(prefix, patch)
        self.head_key, self.chunk_key = hkdf(key, None, "head key", fid), hkdf(key, None, "chunk key", fid)
        self.commitment = hkdf(key, None, "key commitment", fid)

    def seal(self, key, aad, text):
        self.nonces += 1
        nonce = sha256(f"{self.name} {self.nonces}".encode())[:12]
        return nonce + AESGCM(key).encrypt(nonce, text, aad)

    def aad(self, kind, index, extra=b""):
        return b"PFS1" + struct.pack("<HBx16sQI", 1, kind, self.fid, index, self.chunk_size) + extra

    def wrapped(self, number, generation, class_key, uuid, key=None):
        """72 bytes."""
        key = key or self.key
        if number != B:
            kek = hkdf(class_key, None, "file key wrap", uuid + named(number, generation))
            return aes_key_wrap(kek, key).ljust(72, b"\0")
        e, public = public_of(EPHEMERAL), public_of(class_key)
        z = X25519PrivateKey.from_private_bytes(EPHEMERAL).exchange(X25519PublicKey.from_public_bytes(public))
        return e + aes_key_wrap(sha256(b"\x00\x00\x00\x01" + z + e + public), key)

    def wrap(self, number=A, counter=1, generation=1, uuid=UUID, origin="c", verdict=None, wrapped=None,
             commitment=None, mac_key=None, patch=None, seal_key=None, index=None):
        verdict = {"c": VERIFIED, "device": THIS_DEVICE, None: UNVERIFIED}[origin] if verdict is None else verdict
        wrapped = wrapped or self.wrapped(number, generation, CLASS_KEYS[number], uuid)
        commitment = commitment or self.commitment
        message = uuid + self.fid + named(number, generation) + bytes([verdict]) + wrapped + commitment
        behind = mac_key or {"c": CLASS_KEYS[C], "device": DEVICE_KEY, None: None}[origin]
        tag = mac(hkdf(behind, None, "origin mac", uuid), message) if behind else bytes(32)
        which = {"c": 2, "device": 1, None: 0}[origin]
        clear = struct.pack("<QBBBBI", counter, number, 2 if number == B else 1, verdict, which, generation) + uuid
        clear += wrapped + commitment + u32(1 if which == 2 else 0) + tag + bytes(4)
        clear = patched(clear, patch)
        counter = int.from_bytes(clear[:8], "little") if index is None else index
        return clear + self.seal(seal_key or self.head_key, self.aad(1, counter, self.prefix + clear), b"")

    def content(self, size, counter=0, holes=(), redo=0, epoch=0, seals=2, inline=None, patch=None, seal_key=None,
                index=None):
        inline = size <= 3584 if inline is None else inline
        count = 0 if inline else -(-size // self.chunk_size)
        clear = struct.pack("<QQQQQQIHH32x", counter, size, count, redo, epoch, seals,
                            size if inline else 0xFFFFFFFF, len(holes), 0)
        clear = patched(clear + b"".join(u64(first) + u64(length) for first, length in holes), patch)
        counter = int.from_bytes(clear[:8], "little") if index is None else index
        return clear + self.seal(seal_key or self.head_key, self.aad(2, counter, self.prefix + clear), b"")

    def inline(self, text, counter=0):
        return self.seal(self.head_key, self.aad(3, counter), text)

    def head(self, wrap=None, content=None, inline=b"", patch=None, late=None):
        data = self.prefix + (wrap or self.wrap()) + content
        if inline:
            data = data.ljust(384, b"\0") + inline
        data = patched(data.ljust(4064, b"\0"), patch)
        return patched(data + sha256(data), late)

    def inline_head(self, text, counter=0, wrap=None, **options):
        return self.head(wrap, self.content(len(text), counter), self.inline(text, counter), **options)

    def chunk(self, index, text):
        return self.seal(self.chunk_key, self.aad(4, index), text)

    def home(self, index):
        return 8192 + index * (self.chunk_size + 28)

    def chunks(self, text, holes=()):
        """What lies at the homes of all chunks, from 8192 on."""
        size, data = self.chunk_size, b""
        for index in range(-(-len(text) // size)):
            part = text[index * size : (index + 1) * size]
            is_hole = any(first <= index < first + length for first, length in holes)
            data += bytes(len(part) + 28) if is_hole else self.chunk(index, part)
        return data

    def redo(self, content, chunks, epoch=EPOCH, fid=None, magic=b"PFSREDO1", length=None, n=None, k=None, patch=None,
             extra=b"", late=None):
        """`chunks`: index and sealed bytes, in the order given."""
        body = b"".join(u64(index) + u32(len(sealed)) + bytes(4) + sealed for index, sealed in chunks) + extra
        length = 80 + len(content) + len(body) if length is None else length
        n, k = len(chunks) if n is None else n, len(content) if k is None else k
        data = struct.pack("<8s16sQQII", magic, fid or self.fid, epoch, length, n, k) + content + body
        data = patched(data, patch)
        return patched(data + sha256(data), late)


# The files of the vectors: `name: value` lines


def tokens(data):
    """Hex, with long runs of zeros as zero*COUNT."""
    parts, at = [], 0
    for match in re.finditer(rb"\x00{24,}", data):
        parts += [data[at : match.start()].hex()] if match.start() > at else []
        parts.append(f"zero*{match.end() - match.start()}")
        at = match.end()
    return " ".join(parts + ([data[at:].hex()] if at < len(data) else []))


def shown(data):
    """The same, for text that is a ramp."""
    return f"ramp*{len(data)}" if len(data) > 64 and data == ramp(len(data)) else tokens(data)


def parsed(value):
    data = b""
    for token in value.split():
        kind, _, count = token.partition("*")
        data += {"zero": bytes, "ramp": ramp}[kind](int(count)) if count else bytes.fromhex(token)
    return data
