"""FORMAT.md §§1 and 2 for the independent reader: primitives, and a keybag opened with passcode and device key, or
with a recovery code alone."""
import base64
import hashlib
import hmac
import re
import struct
import uuid as uuid_module

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

A, B, C, D = CLASSES = (1, 2, 3, 4)
CLASSES_OF = {0: CLASSES, 1: (A, C)}  # of files, of secrets
UNVERIFIED, THIS_DEVICE, VERIFIED = 0, 1, 2


class Refused(Exception):
    """What is wrong, in words: "damaged" and the layer, "unsupported", "not protected", …"""


def need(condition, layer):
    if not condition:
        raise Refused(f"damaged {layer}")


def known(condition):
    if not condition:
        raise Refused("unsupported")


# FORMAT.md §1


def hkdf(key, salt, label, context, length=32):
    info = b"protectfs/1 " + label.encode() + b"\0" + context
    return HKDF(hashes.SHA256(), length, salt, info).derive(key)


def unwrap(kek, wrapped, layer):
    try:
        return aes_key_unwrap(kek, wrapped)
    except InvalidUnwrap:
        raise Refused(f"damaged {layer}") from None


def open_seal(key, aad, sealed, layer):
    try:
        return AESGCM(key).decrypt(sealed[:12], sealed[12:], aad)
    except (InvalidTag, ValueError):
        raise Refused(f"damaged {layer}") from None


def mac(key, text):
    return hmac.digest(key, text, "sha256")


def is_checked(data):
    return hashlib.sha256(data[:-32]).digest() == data[-32:]


def public_of(private):
    public = X25519PrivateKey.from_private_bytes(private).public_key()
    return public.public_bytes(Encoding.Raw, PublicFormat.Raw)


class Fields:
    """Fields one behind the other; what runs out is damaged."""

    def __init__(self, data, layer):
        self.data, self.at, self.layer = data, 0, layer

    def take(self, form):
        size = struct.calcsize("<" + form)
        need(len(self.data) - self.at >= size, self.layer)
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += size
        return values if len(values) > 1 else values[0]

    def zero(self, count):
        need(self.take(f"{count}s") == bytes(count), self.layer)


# FORMAT.md §2


def keybag_copy(data):
    """A copy, or None if it is not valid. Refuses what is valid and breaks another rule."""
    if len(data) < 128 or data[:8] != b"PFSKEYBG" or struct.unpack_from("<I", data, 12)[0] != len(data):
        return None
    if not is_checked(data):
        return None
    fields = Fields(data, "keybag")
    _, version, features, _, sequence, uuid, device_id, p, s, e = fields.take("8sHHIQ16s16sHBB")
    known(version == 1 and features == 0)
    fields.zero(4)
    need(sequence < 2**63 and 1 <= p <= 4095 and 1 <= s <= 8 and 4 <= e <= 64, "keybag")
    path = fields.take(f"{p}s")
    need(path[:1] == b"/" and 0 not in path, "keybag")
    slots, entries = {}, {}
    for _ in range(s):
        kind, prf = fields.take("BB")
        known(kind in (1, 2) and prf == 1)
        fields.zero(2)
        count, salt, wrapped = fields.take("I32s40s")
        need(1000 <= count <= 100_000_000 and kind not in slots, "keybag")
        slots[kind] = count, salt, wrapped
    for _ in range(e):
        kind, number, state = fields.take("BBB")
        fields.zero(1)
        generation, key_id, wrapped, by_device, public, *macs = fields.take("I16s40s40s32s32s32s")
        known(number in CLASSES_OF.get(kind, [number]))
        need(state in (1, 2) and generation >= 1 and (kind, number, generation) not in entries, "keybag")
        if kind in CLASSES_OF:
            name = kind, number
            need(any(by_device) == (name == (0, D)) and any(public) == (name == (0, B)), "keybag")
            need(not any(macs[0] + macs[1]) or (name == (0, B) and state == 1), "keybag")
        entries[kind, number, generation] = state, key_id, wrapped, by_device, public
    need(fields.at == len(data) - 64, "keybag")
    for kind in {0} | {kind for kind, *_ in entries} & CLASSES_OF.keys():
        for number in CLASSES_OF[kind]:
            active = [name for name, entry in entries.items() if name[:2] == (kind, number) and entry[0] == 1]
            need(len(active) == 1, "keybag")
    return {"sequence": sequence, "uuid": uuid, "device id": device_id, "slots": slots, "entries": entries,
            "bytes": data}


def in_force(copies):
    found = []
    for data in copies:
        try:
            copy = keybag_copy(data)
        except Refused as refused:
            if str(refused) == "unsupported":
                raise
            copy = None
        if copy:
            found.append(copy)
    need(found, "keybag")
    return max(found, key=lambda copy: copy["sequence"])


CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
PART = [ord(letter) >> 5 for letter in "protectfs"] + [0] + [ord(letter) & 31 for letter in "protectfs"]


def recovery_octets(text):
    """FORMAT.md §2.7: the octets for PBKDF2, or refused as a typo. The checksum is a remainder of polynomials over
    GF(32), divided here as BIP 173 defines it and not with the table that it prints."""
    letters = text.upper().translate({ord(" "): None, ord("-"): None, 9: None, 13: None, ord("O"): "0", ord("I"): "1",
                                      ord("L"): "1"})
    if len(letters) != 32 or any(letter not in CROCKFORD for letter in letters):
        raise Refused("typo")

    def times(a, b):  # GF(32) = GF(2)[x] / (x^5 + x^3 + 1)
        product = 0
        for i in range(5):
            product ^= a << i if b >> i & 1 else 0
        for i in (8, 7, 6, 5):
            product ^= 0b101001 << i - 5 if product >> i & 1 else 0
        return product

    remainder = [0, 0, 0, 0, 0, 1]
    for value in PART + [CROCKFORD.index(letter) for letter in letters]:
        top, *rest = remainder
        remainder = [a ^ times(top, b) for a, b in zip(rest + [value], (29, 22, 20, 21, 29, 18))]
    if remainder != [0x2BC830A3 >> 5 * (5 - i) & 31 for i in range(6)]:
        raise Refused("typo")
    return letters.encode()


def exported_copy(data):
    """FORMAT.md §2.9: the keybag copy in an export, not judged yet."""
    lines = [line.removesuffix(b"\r") for line in data.split(b"\n")]
    begin, end = b"-----BEGIN PROTECTFS KEYBAG-----", b"-----END PROTECTFS KEYBAG-----"
    if begin not in lines:
        raise Refused("none")
    lines = lines[lines.index(begin) + 1 :]
    need(end in lines, "recovery export")
    *lines, check = lines[: lines.index(end)]
    need(len(lines) >= 6 and check == b"SHA-256: " + sha256_of_lines(lines), "recovery export")
    form = re.fullmatch(rb"version: (\d+)\nkeybag: ([0-9a-f-]{36})\nmade: (.{20})\n\n((?:[^\n]{64}\n)*[^\n]{1,64}\n)\n",
                        b"".join(line + b"\n" for line in lines))
    known(not lines[0].startswith(b"version: ") or lines[0] == b"version: 1")
    need(form, "recovery export")
    text = form[4].replace(b"\n", b"")
    try:
        copy = base64.b64decode(text, validate=True)
    except ValueError:
        raise Refused("damaged recovery export") from None
    need(base64.b64encode(copy) == text, "recovery export")
    found = keybag_copy(copy)
    need(found, "keybag")
    need(str(uuid_module.UUID(bytes=found["uuid"])).encode() == form[2], "recovery export")
    return copy


def sha256_of_lines(lines):
    return hashlib.sha256(b"".join(line + b"\n" for line in lines)).hexdigest().encode()


class ClassKeys:
    """The class keys of a keybag, by class and generation, however they were opened; `device_key` may be None."""

    def file_key(self, wrap):
        if wrap["uuid"] != self.uuid:
            raise Refused("foreign keybag")
        key = self.classes.get((wrap["class"], wrap["generation"]))
        if key is None:
            raise Refused("key lost")
        if wrap["class"] != B:
            context = self.uuid + struct.pack("<BI", wrap["class"], wrap["generation"])
            return unwrap(hkdf(key, None, "file key wrap", context), wrap["wrapped"][:40], "wrap")
        ephemeral = wrap["wrapped"][:32]
        try:
            z = X25519PrivateKey.from_private_bytes(key).exchange(X25519PublicKey.from_public_bytes(ephemeral))
        except ValueError:  # the all-zero secret
            raise Refused("damaged wrap") from None
        kek = hashlib.sha256(b"\0\0\0\1" + z + ephemeral + public_of(key)).digest()
        return unwrap(kek, wrap["wrapped"][32:], "wrap")

    def origin(self, wrap, fid):
        key = {1: self.device_key, 2: self.classes.get((C, wrap["mac generation"]))}.get(wrap["mac key"])
        if key is None:
            return UNVERIFIED
        message = self.uuid + fid + struct.pack("<BIB", wrap["class"], wrap["generation"], wrap["verdict"])
        message += wrap["wrapped"] + wrap["commitment"]
        if not hmac.compare_digest(mac(hkdf(key, None, "origin mac", self.uuid), message), wrap["mac"]):
            return UNVERIFIED
        return min(wrap["verdict"], THIS_DEVICE) if wrap["mac key"] == 1 else wrap["verdict"]


class Keys(ClassKeys):
    """All class keys of a keybag, opened with passcode and device key, or with a recovery code; then the device key may
    be None."""

    def __init__(self, copies, passcode, device_key, recovery_code=None):
        copy = in_force(copies)
        self.uuid, self.device_key, self.classes, self.of_secrets = copy["uuid"], device_key, {}, {}
        if recovery_code is None:
            key = self.key_by_passcode(copy, passcode)
        else:
            key = self.key_by_recovery_code(copy, recovery_code)
        data = copy["bytes"]
        tag = mac(hkdf(key, None, "keybag mac", self.uuid), data[:-64])
        need(hmac.compare_digest(tag, data[-64:-32]), "keybag mac")
        wrapping = hkdf(key, None, "class key wrap", self.uuid)
        for (kind, number, generation), (_, key_id, wrapped, by_device, public) in copy["entries"].items():
            if kind not in CLASSES_OF:
                continue
            opened = unwrap(wrapping, wrapped, "class key")
            context = self.uuid + struct.pack("<BI", 16 * kind + number, generation)
            need(hkdf(opened, None, "class key id", context, 16) == key_id, "class key")
            if kind == 1:
                self.of_secrets[number, generation] = opened
                continue
            need(number != B or public_of(opened) == public, "class key")
            if number == D and device_key is not None:
                under_device = hkdf(device_key, None, "device class key wrap", self.uuid)
                need(unwrap(under_device, by_device, "class key") == opened, "class key")
            self.classes[number, generation] = opened

    def key_by_passcode(self, copy, passcode):
        if hkdf(self.device_key, None, "device id", self.uuid, 16) != copy["device id"]:
            raise Refused("other device")
        need(1 in copy["slots"], "keybag")
        count, salt, wrapped = copy["slots"][1]
        stretched = hashlib.pbkdf2_hmac("sha256", passcode, salt, count)
        try:
            return aes_key_unwrap(hkdf(stretched, self.device_key, "passcode kek", self.uuid), wrapped)
        except InvalidUnwrap:
            raise Refused("wrong passcode") from None

    def key_by_recovery_code(self, copy, code):
        if 2 not in copy["slots"]:
            raise Refused("no recovery code")
        count, salt, wrapped = copy["slots"][2]
        stretched = hashlib.pbkdf2_hmac("sha256", recovery_octets(code), salt, count)
        try:
            return aes_key_unwrap(hkdf(stretched, None, "recovery kek", self.uuid), wrapped)
        except InvalidUnwrap:
            raise Refused("wrong recovery code") from None


# FORMAT.md §2.16


class BackupKeys(ClassKeys):
    """All class keys of a backup keybag, opened with its passphrase alone."""

    def __init__(self, data, passphrase):
        fields = Fields(data, "backup keybag")
        need(len(data) >= 192 and is_checked(data), "backup keybag")
        magic, version, features, length, self.uuid, made, prf = fields.take("8sHHI16sQB")
        need(magic == b"PFSBACKP" and length == len(data) and made < 2**63, "backup keybag")
        known(version == 1 and features == 0 and prf == 1)
        fields.zero(1)
        e, count, salt, wrapped = fields.take("HI32s40s")
        fields.zero(8)
        need(1 <= e <= 1000 and 1000 <= count <= 100_000_000 and length == 192 + 64 * e, "backup keybag")
        stretched = hashlib.pbkdf2_hmac("sha256", passphrase, salt, count)
        try:
            key = aes_key_unwrap(hkdf(stretched, None, "backup kek", self.uuid), wrapped)
        except InvalidUnwrap:
            raise Refused("wrong passphrase") from None
        tag = mac(hkdf(key, None, "backup mac", self.uuid), data[:-64])
        need(hmac.compare_digest(tag, data[-64:-32]), "backup keybag mac")
        wrapping = hkdf(key, None, "backup class key wrap", self.uuid)
        self.device_key, self.classes = None, {}
        for _ in range(e):
            kind, number = fields.take("BB")
            fields.zero(2)
            generation, key_id, wrapped = fields.take("I16s40s")
            if kind != 0:
                continue
            known(number in CLASSES)
            need(generation >= 1, "backup keybag")
            opened = unwrap(wrapping, wrapped, "class key")
            context = self.uuid + struct.pack("<BI", number, generation)
            need(hkdf(opened, None, "class key id", context, 16) == key_id, "class key")
            # Of two keys of one name (a keybag that was put back and rotated again) this reader tries the first.
            self.classes.setdefault((number, generation), opened)
