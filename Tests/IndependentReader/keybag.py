"""FORMAT.md §§1 and 2 for the independent reader: primitives, and a keybag opened by passcode or recovery code."""
import hashlib
import hmac
import struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes, keywrap
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

A, B, C, D = CLASSES = (1, 2, 3, 4)
CLASSES_OF = {0: CLASSES, 1: (A, C)}  # by the kind of a class-key entry: of files, of secrets
BASE_POINT = bytes([9]) + bytes(31)  # of X25519: with it a private key gives its public one
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
BIP_173 = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)  # 1, 2, 4, 8, 16 times its polynomial

class Refused(Exception):
    """What is wrong, in words: "damaged" and the layer that found it, "unsupported", "not protected", "key lost" …"""

def need(condition, otherwise):
    if not condition:
        raise Refused(otherwise)

def hkdf(key, salt, label, context, length=32):
    info = b"protectfs/1 " + label.encode() + b"\0" + context
    return HKDF(hashes.SHA256(), length, salt, info).derive(key)

def opened(otherwise, function, *arguments):
    """What the package `cryptography` makes of it; what does not open is `otherwise`."""
    try:
        return function(*arguments)
    except (InvalidTag, keywrap.InvalidUnwrap, ValueError):
        raise Refused(otherwise) from None

def unwrap(kek, wrapped, otherwise):
    return opened(otherwise, keywrap.aes_key_unwrap, kek, wrapped)

def open_seal(key, aad, sealed, otherwise):
    return opened(otherwise, AESGCM(key).decrypt, sealed[:12], sealed[12:], aad)

def x25519(private, public, otherwise):
    public = X25519PublicKey.from_public_bytes(public)
    return opened(otherwise, X25519PrivateKey.from_private_bytes(private).exchange, public)  # no all-zero secret

def is_checked(data):
    return hashlib.sha256(data[:-32]).digest() == data[-32:]  # the keyless check

class Fields:
    """Fields one behind the other. What runs out, or is not zero where "x" stands, is `otherwise`."""
    def __init__(self, data, otherwise):
        self.data, self.at, self.otherwise = data, 0, otherwise

    def take(self, form):
        size = struct.calcsize("<" + form)
        data = self.data[self.at : self.at + size]
        self.at += size
        need(len(data) == size, self.otherwise)
        values = struct.unpack("<" + form, data)
        need(struct.pack("<" + form, *values) == data, self.otherwise)  # "x" packs as zero
        return values if len(values) > 1 else values[0]

def keybag_copy(data):
    """§2.1: the fields of a copy that keeps the rules, whichever class keys it has."""
    fields, bad = Fields(data[8:-64], "damaged keybag"), "damaged keybag"
    need(data[:8] == b"PFSKEYBG" and data[12:16] == struct.pack("<I", len(data)) and is_checked(data), bad)
    version, features = fields.take("HH")
    need(version == 1 and features == 0, "unsupported")
    _, sequence, uuid, device_id, p, s, e = fields.take("IQ16s16sHBB4x")
    need(sequence < 2**63 and 1 <= p <= 4095 and 1 <= s <= 8 and 4 <= e <= 64, bad)
    path, slots, entries = fields.take(f"{p}s"), {}, {}
    need(path[:1] == b"/" and 0 not in path, bad)
    for _ in range(s):
        kind, prf = fields.take("BB")
        need(kind in (1, 2) and prf == 1, "unsupported")
        count, salt, wrapped = fields.take("2xI32s40s")
        need(1000 <= count <= 100_000_000, bad)
        slots[kind] = count, salt, wrapped
    for _ in range(e):
        kind, number, state, generation, key_id, wrapped, by_device, public, macs = fields.take("BBBxI16s40s40s32s64s")
        need(state in (1, 2) and generation >= 1, bad)
        need(number in CLASSES_OF.get(kind, [number]), "unsupported")
        if kind in CLASSES_OF:
            need(any(by_device) == ((kind, number) == (0, D)) and any(public) == ((kind, number) == (0, B)), bad)
            need(not any(macs) or (kind, number, state) == (0, B, 1), bad)
        entries[kind, number, generation] = state, key_id, wrapped, by_device, public
    need(fields.at == len(fields.data) and len(slots) == s and len(entries) == e, bad)  # no two of one name
    active = [name[:2] for name, (state, *_) in entries.items() if state == 1]
    for kind in {0} | {kind for kind, *_ in entries} & CLASSES_OF.keys():
        need(all(active.count((kind, number)) == 1 for number in CLASSES_OF[kind]), bad)
    return {"sequence": sequence, "uuid": uuid, "device id": device_id, "slots": slots, "entries": entries, "bytes": data}

def in_force(copies):
    found = []
    for data in copies:
        try:
            found.append(keybag_copy(data))
        except Refused as refused:
            need(str(refused) != "unsupported", "unsupported")  # no falling back to the other copy
    need(found, "damaged keybag")
    return max(found, key=lambda copy: copy["sequence"])  # of equals the first

def recovery_octets(text):
    """§2.7: the octets for PBKDF2 of a recovery code without typo."""
    letters = text.upper().translate(str.maketrans("OIL", "011", " \t\r-"))
    need(text.isascii() and len(letters) == 32 and set(letters) <= set(CROCKFORD), "typo")
    expanded, remainder = [n >> 5 for n in b"protectfs"] + [0] + [n & 31 for n in b"protectfs"], 1
    for value in expanded + [CROCKFORD.index(letter) for letter in letters]:
        top, remainder = remainder >> 25, (remainder << 5 ^ value) % 2**30
        for bit, multiple in enumerate(BIP_173):
            remainder ^= multiple * (top >> bit & 1)
    need(remainder == 0x2BC830A3, "typo")
    return letters.encode()

class Keys:
    """The class keys of a keybag, by class and generation. Beside a recovery code `device_key` may be None."""
    def __init__(self, copies, passcode, device_key, recovery_code=None):
        copy, bad = in_force(copies), "damaged class key"
        self.uuid, self.device_key, self.classes, self.of_secrets = copy["uuid"], device_key, {}, {}
        by_code = recovery_code is not None
        need(by_code or hkdf(device_key, None, "device id", self.uuid, 16) == copy["device id"], "other device")
        kind, name, salt_of_kek = (2, "recovery code", None) if by_code else (1, "passcode", device_key)
        need(kind in copy["slots"], f"no {name}")
        count, salt, wrapped = copy["slots"][kind]
        stretched = hashlib.pbkdf2_hmac("sha256", recovery_octets(recovery_code) if by_code else passcode, salt, count)
        key = unwrap(hkdf(stretched, salt_of_kek, name.split()[0] + " kek", self.uuid), wrapped, f"wrong {name}")
        tag = hmac.digest(hkdf(key, None, "keybag mac", self.uuid), copy["bytes"][:-64], "sha256")
        need(hmac.compare_digest(tag, copy["bytes"][-64:-32]), "damaged keybag mac")
        wrapping = hkdf(key, None, "class key wrap", self.uuid)
        under_device = device_key and hkdf(device_key, None, "device class key wrap", self.uuid)
        used = [(name, entry) for name, entry in copy["entries"].items() if name[0] in CLASSES_OF]
        for (kind, number, generation), (_, key_id, wrapped, by_device, public) in used:
            class_key = unwrap(wrapping, wrapped, bad)
            need(hkdf(class_key, None, "class key id", self.named(number, generation, kind), 16) == key_id, bad)
            need(not any(public) or x25519(class_key, BASE_POINT, bad) == public, bad)
            need(not any(by_device) or not under_device or unwrap(under_device, by_device, bad) == class_key, bad)
            (self.of_secrets if kind == 1 else self.classes)[number, generation] = class_key

    def named(self, number, generation, kind=0):
        return self.uuid + struct.pack("<BI", 16 * kind + number, generation)  # UUID ‖ class‖gen of §1.1

    def file_key(self, wrap):
        """§§1.2 and 3.3: the file key of a wrap record."""
        need(wrap["uuid"] == self.uuid, "foreign keybag")
        key, wrapped = self.classes.get((wrap["class"], wrap["generation"])), wrap["wrapped"]
        need(key is not None, "key lost")
        if wrap["class"] != B:
            kek = hkdf(key, None, "file key wrap", self.named(wrap["class"], wrap["generation"]))
            return unwrap(kek, wrapped[:40], "damaged wrap")
        z = x25519(key, wrapped[:32], "damaged wrap")
        kek = hashlib.sha256(b"\0\0\0\1" + z + wrapped[:32] + x25519(key, BASE_POINT, "damaged wrap")).digest()
        return unwrap(kek, wrapped[32:], "damaged wrap")
