#!/usr/bin/env python3
"""Computes the test vectors of FORMAT.md §1, and recomputes the published ones. It shares no code with the library.

    make-vectors.py          writes the folders derivation, recovery-code, file-key-wrap and class-b-wrap, and the key
                             wraps with another initial value
    make-vectors.py check    compares them with what is there, and recomputes every other folder; exit status 1 on a
                             difference

Everything here is written from FORMAT.md §1 and the RFCs in terms of the Python package `cryptography`. Keys are runs
of consecutive bytes, so that a file is the same in every run and a field taken for another one shows at once.
"""
import hashlib
import hmac
import pathlib
import struct
import sys

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap, aes_key_wrap
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

FOLDER = pathlib.Path(__file__).resolve().parent
A, B, C, D = 1, 2, 3, 4


def run(first, count=32):
    """Bytes first, first + 1, …: a recognisable key, id or salt."""
    return bytes((first + i) % 256 for i in range(count))


UUID, OTHER_UUID, FILE_ID = run(0xA0, 16), run(0xB0, 16), run(0xF0, 16)
DEVICE_KEY, KEYBAG_KEY, CLASS_KEY, PRIVATE_KEY, FILE_KEY = run(0x01), run(0x21), run(0x41), run(0x61), run(0x81)


# What FORMAT.md §1 calls by these names.


def pbkdf2(passcode, salt, count, length=32):
    return PBKDF2HMAC(hashes.SHA256(), length, salt, count).derive(passcode)


def hkdf_raw(key, salt, info, length):
    return HKDF(hashes.SHA256(), length, salt, info).derive(key)


def hkdf(key, salt, label, context, length=32):
    return hkdf_raw(key, salt, b"protectfs/1 " + label.encode() + b"\x00" + context, length)


def mac(key, text):
    return hmac.new(key, text, hashlib.sha256).digest()


def wrap_with_initial_value(kek, key, initial):
    """RFC 3394 §2.2.1 written out, because the ready-made one has only the default initial value."""
    encrypt = Cipher(algorithms.AES(kek), modes.ECB()).encryptor().update
    a, r = initial, [key[i : i + 8] for i in range(0, len(key), 8)]
    for t in range(6 * len(r)):
        block = encrypt(a + r[t % len(r)])
        a, r[t % len(r)] = (int.from_bytes(block[:8], "big") ^ (t + 1)).to_bytes(8, "big"), block[8:]
    return a + b"".join(r)


def x25519(scalar, public):
    return X25519PrivateKey.from_private_bytes(scalar).exchange(X25519PublicKey.from_public_bytes(public))


def public_of(scalar):
    public = X25519PrivateKey.from_private_bytes(scalar).public_key()
    return public.public_bytes(Encoding.Raw, PublicFormat.Raw)


def named(key_class, generation):
    return struct.pack("<BI", key_class, generation)


CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def bech32_polymod(values):
    """As BIP 173 prints it."""
    check = 1
    for value in values:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for i, generator in enumerate([0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3]):
            check ^= generator if top >> i & 1 else 0
    return check


def bech32m(part, values, constant=0x2BC830A3):
    """The six values of the checksum, BIP 350."""
    expanded = [ord(c) >> 5 for c in part] + [0] + [ord(c) & 31 for c in part]
    check = bech32_polymod(expanded + list(values) + [0] * 6) ^ constant
    return [check >> 5 * (5 - i) & 31 for i in range(6)]


def recovery_code(values, constant=0x2BC830A3):
    """FORMAT.md §2.7: 26 values below 32 and the six of the checksum, as 32 symbols."""
    return "".join(CROCKFORD[value] for value in [*values, *bech32m("protectfs", values, constant)])


def in_groups(symbols, separator="-"):
    return separator.join(symbols[i : i + 4] for i in range(0, len(symbols), 4))


RECOVERY_CODE = recovery_code(range(26))

# The folders that are computed here.


def derivation(row, label, key, context, length=32, salt=None, before=(), use=lambda key: {}, suffix=""):
    derived = hkdf(key, salt, label, context, length)
    fields = {"source": f"FORMAT.md §1.1 row {row}", **dict(before), "key": key}
    if salt is not None:
        fields["salt"] = salt
    fields |= {"label": label, "context": context, "derived": derived, **use(derived)}
    return f"derivation/{row:02}-{label.replace(' ', '-')}{suffix}", fields


def wraps(key):
    return lambda kek: {"wraps": key, "wrapped": aes_key_wrap(kek, key)}


def tags(message, length=32):
    return lambda key: {"message": message, "tag": mac(key, message)[:length]}


def derivations():
    """All rows of FORMAT.md §1.1. Behind `derived` stands what the key's only use makes of it."""
    passcode, slot_salt, count = "correct horse \N{DROPLET}".encode(), run(0xC0), 1000
    stretched = pbkdf2(passcode, slot_salt, count)
    slot = {"passcode": passcode, "slot salt": slot_salt, "iterations": count, "keybag": UUID}

    yield derivation(1, "passcode kek", stretched, UUID, 32, DEVICE_KEY, slot, wraps(KEYBAG_KEY))
    of_code = {"recovery code": RECOVERY_CODE.encode(), "slot salt": slot_salt, "iterations": count, "keybag": UUID}
    stretched_code = pbkdf2(RECOVERY_CODE.encode(), slot_salt, count)
    yield derivation(2, "recovery kek", stretched_code, UUID, 32, None, of_code, wraps(KEYBAG_KEY))
    yield derivation(3, "class key wrap", KEYBAG_KEY, UUID, use=wraps(CLASS_KEY), before={"keybag": UUID})
    yield derivation(4, "keybag mac", KEYBAG_KEY, UUID, use=tags(run(0, 100)), before={"keybag": UUID})
    yield derivation(5, "device class key wrap", DEVICE_KEY, UUID, use=wraps(CLASS_KEY), before={"keybag": UUID})
    yield derivation(6, "device id", DEVICE_KEY, UUID, 16, before={"keybag": UUID})
    yield derivation(7, "guess tag", stretched, UUID, 32, DEVICE_KEY, slot, lambda key: {"tag": key[:2]})

    for key_class, key, suffix in [(A, CLASS_KEY, "-a"), (B, PRIVATE_KEY, "-b")]:
        name = {"keybag": UUID, "class": key_class, "generation": 7}
        yield derivation(8, "class key id", key, UUID + named(key_class, 7), 16, before=name, suffix=suffix)
    name = {"keybag": UUID, "class": A, "generation": 0x01020304}
    context = UUID + named(A, 0x01020304)
    yield derivation(9, "file key wrap", CLASS_KEY, context, use=wraps(FILE_KEY), before=name)

    for key, suffix in [(CLASS_KEY, "-under-c"), (DEVICE_KEY, "-under-device-key")]:
        name = {"keybag": UUID, "class": C, "generation": 1} if key == CLASS_KEY else {"keybag": UUID}
        public = tags(UUID + named(B, 7) + public_of(PRIVATE_KEY))
        yield derivation(10, "b public mac", key, UUID, use=public, before=name, suffix=suffix)
        origin = tags(UUID + FILE_ID + named(B, 7) + b"\x02" + run(0x10, 72) + run(0x90))
        yield derivation(11, "origin mac", key, UUID, use=origin, before=name, suffix=suffix)

    for row, label in [(12, "chunk key"), (13, "head key"), (14, "key commitment")]:
        yield derivation(row, label, FILE_KEY, FILE_ID, before={"file id": FILE_ID})

    store_key, place, value = run(0x21), b"downloads\0request\0" + run(0x70, 16), b"a value"
    salt, nonce = run(0xB0, 16), run(0xE0, 12)
    yield derivation(15, "stored value", store_key, place, 32, salt, use=lambda key: {
        "value": value, "sealed": salt + nonce + AESGCM(key).encrypt(nonce, value, place)})
    yield derivation(16, "stored mark", store_key, b"", use=tags(run(0, 100)))

    of_secrets = UUID + named(16 + C, 7)
    yield derivation(17, "secret wrap", CLASS_KEY, of_secrets, use=wraps(run(0x61)), before={"keybag": UUID})
    yield derivation(
        18, "device secret wrap", CLASS_KEY, of_secrets, 32, DEVICE_KEY, {"keybag": UUID}, wraps(run(0x61)))

    backup_key = run(0x31)
    stretched_passphrase = pbkdf2(passcode, slot_salt, count)
    of_passphrase = {"passphrase": passcode, "slot salt": slot_salt, "iterations": count, "keybag": UUID}
    yield derivation(19, "backup kek", stretched_passphrase, UUID, 32, None, of_passphrase, wraps(backup_key))
    yield derivation(20, "backup class key wrap", backup_key, UUID, use=wraps(CLASS_KEY), before={"keybag": UUID})
    yield derivation(21, "backup mac", backup_key, UUID, use=tags(run(0, 100)), before={"keybag": UUID})
    name = {"keybag": UUID, "class": A, "generation": 7}
    yield derivation(22, "upload mac", CLASS_KEY, UUID + named(A, 7), use=tags(run(0, 100)), before=name)


def recovery_codes():
    """FORMAT.md §2.7: what was typed, and the symbols that it stands for, or the typo."""
    check_of_bip350()

    def scenario(name, what, text, symbols=None, **typo):
        fields = {"expect": typo.pop("expect", "success"), "source": f"FORMAT.md §2.7, {what}"}
        fields["text"] = text if isinstance(text, bytes) else text.encode()
        if symbols:
            fields["symbols"] = symbols.encode()
        return f"recovery-code/{name}", fields | {name.replace("_", " "): value for name, value in typo.items()}

    code = RECOVERY_CODE
    yield scenario("worked-example", "the worked example", in_groups(code), code)
    yield scenario("lower-case", "in lower case with spaces", in_groups(code.lower(), " "), code)
    yield scenario("no-separators", "without separators", code, code)
    yield scenario("many-separators", "more separators than needed", f"\t -{in_groups(code, ' - ')}--\r", code)
    lookalikes = in_groups(code).replace("0", "O").replace("1", "l")
    yield scenario("lookalikes", "O for 0 and l for 1", lookalikes, code)
    yield scenario("capital-i", "I for 1, o for 0", code.replace("0", "o").replace("1", "I"), code)
    for value in (0, 31):
        symbols = recovery_code([value] * 26)
        yield scenario(f"all-{value}", f"all symbols of the value {value}", in_groups(symbols), symbols)
    wrong = {"expect": "wrong length"}
    yield scenario("empty", "nothing", "", length=0, **wrong)
    yield scenario("one-short", "the last symbol missing", code[:-1], length=31, **wrong)
    yield scenario("one-long", "one symbol more", code + "0", length=33, **wrong)
    wrong = {"expect": "no such character"}
    yield scenario("letter-u", "the letter U", code.replace("A", "U"), group=3, **wrong)
    e_acute = "\N{LATIN SMALL LETTER E WITH ACUTE}"
    yield scenario("not-ascii", "a letter of two bytes", code[:31] + e_acute, group=8, **wrong)
    no_text = code[:4].encode() + b"\x80" + code[4:].encode()
    yield scenario("not-text", "a byte that is no text", no_text, group=2, **wrong)
    wrong = {"expect": "wrong checksum"}
    yield scenario("one-wrong", "one wrong symbol in group 5", code[:17] + "0" + code[18:], group=5, **wrong)
    yield scenario("checksum-wrong", "one wrong symbol of the checksum", code[:-1] + ("0" if code[-1] != "0" else "1"),
                   group=8, **wrong)
    yield scenario("exchanged", "two neighbours exchanged", code[:8] + code[9] + code[8] + code[10:], **wrong)
    of_bip173 = recovery_code(range(26), 1)
    yield scenario("bech32-constant", "the constant of BIP 173 instead of BIP 350's", of_bip173, **wrong)


def file_key_wraps():
    """WRAP of file keys under class keys, and wraps that were made under another name."""

    def scenario(name, what, keybag, key_class, generation, expect="success", made_for=None, key=CLASS_KEY):
        kek = hkdf(key, None, "file key wrap", (made_for or keybag + named(key_class, generation)))
        fields = {"expect": expect, "source": f"FORMAT.md §1.1 row 9, {what}", "keybag": keybag, "class": key_class}
        fields |= {"generation": generation, "class key": CLASS_KEY}
        if expect == "success":
            fields["file key"] = FILE_KEY
        return f"file-key-wrap/{name}", fields | {"wrapped": aes_key_wrap(kek, FILE_KEY)}

    yield scenario("a-generation-1", "class A, generation 1", UUID, A, 1)
    yield scenario("c-generation-258", "class C, a generation of two bytes", UUID, C, 258)
    yield scenario("d-last-generation", "class D, the highest generation", UUID, D, 0xFFFFFFFF)
    refused = "unwrap failure"
    yield scenario("made-for-c", "wrapped for class C", UUID, A, 1, refused, UUID + named(C, 1))
    yield scenario("made-for-generation-2", "wrapped for generation 2", UUID, A, 1, refused, UUID + named(A, 2))
    big_endian = UUID + struct.pack(">BI", A, 1)
    yield scenario("made-with-big-endian-generation", "generation big-endian", UUID, A, 1, refused, big_endian)
    yield scenario("made-for-other-keybag", "another keybag's UUID", UUID, A, 1, refused, OTHER_UUID + named(A, 1))
    yield scenario("made-with-other-key", "another class key", UUID, A, 1, refused, key=KEYBAG_KEY)


def class_b_wraps():
    """FORMAT.md §1.2."""
    class_public, ephemeral = public_of(PRIVATE_KEY), run(0xD0)

    def scenario(name, what, expect, wrapped, private=PRIVATE_KEY):
        fields = {"expect": expect, "source": f"FORMAT.md §1.2, {what}", "private key": private}
        fields |= {"public key": public_of(private)}
        if expect == "success":
            fields |= {"file key": FILE_KEY}
        return f"class-b-wrap/{name}", fields | {"wrapped": wrapped}

    def wrapped(e_bytes, other_info=None):
        z = x25519(ephemeral, class_public)
        info = e_bytes + class_public if other_info is None else other_info
        return e_bytes + aes_key_wrap(hashlib.sha256(b"\x00\x00\x00\x01" + z + info).digest(), FILE_KEY)

    e = public_of(ephemeral)
    e_top_bit = e[:31] + bytes([e[31] | 0x80])
    good = wrapped(e)
    yield scenario("fixed-ephemeral", "a fixed ephemeral key", "success", good)
    yield scenario("e-with-top-bit", "E is hashed as it stands, its unused top bit included", "success",
                   wrapped(e_top_bit))
    refused = "unwrap failure"
    yield scenario("top-bit-set-afterwards", "the unused top bit of E set afterwards", refused, e_top_bit + good[32:])
    yield scenario("made-for-other-key", "wrapped for another public key", refused, good, private=run(0x62))
    yield scenario("kdf-without-public-keys", "KEK without E and the public key", refused, wrapped(e, b""))
    yield scenario("kdf-without-e", "KEK without E", refused, wrapped(e, class_public))
    yield scenario("kdf-with-exchanged-keys", "KEK with the public key before E", refused, wrapped(e, class_public + e))
    unusable = "unusable public key"
    yield scenario("e-zero", "E of zero bytes", unusable, bytes(32) + good[32:])
    order_8 = bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800")
    yield scenario("e-of-order-8", "E of order 8 (cr.yp.to/ecdh.html#validate)", unusable, order_8 + good[32:])
    # What a wrap would be whose maker let the all-zero secret pass: the integrity value is good, so only Z tells.
    kek = hashlib.sha256(b"\x00\x00\x00\x01" + bytes(32) + bytes(32) + class_public).digest()
    forged = bytes(32) + aes_key_wrap(kek, FILE_KEY)
    yield scenario("e-zero-wrapped-under-zero-secret", "a wrap under the all-zero secret", unusable, forged)


def check_of_bip350():
    """The test vector A1LQFN3A of BIP 350."""
    assert "".join("qpzry9x8gf2tvdw0s3jn54khce6mua7l"[value] for value in bech32m("a", [])) == "lqfn3a"


def key_wraps_with_initial_values():
    kek, key, default = run(0), bytes.fromhex("00112233445566778899aabbccddeeff") + run(0, 16), b"\xa6" * 8
    assert wrap_with_initial_value(kek, key, default) == aes_key_wrap(kek, key)
    of_rfc5649 = bytes.fromhex("a65959a600000020")
    for name, what, initial in [
        ("other-initial-value", "RFC 3394 §2.2.1 with an initial value of zero bytes", bytes(8)),
        ("padded-initial-value", "RFC 5649 §3, whose initial value is not RFC 3394's", of_rfc5649),
    ]:
        wrapped = wrap_with_initial_value(kek, key, initial)
        yield f"aes-key-wrap/{name}", {"expect": "unwrap failure", "source": what, "kek": kek, "wrapped": wrapped}


def text_of(fields):
    shown = {name: value.hex() if isinstance(value, bytes) else value for name, value in fields.items()}
    return "".join(f"{name}: {value}".rstrip() + "\n" for name, value in shown.items())


def made():
    for make in [derivations, recovery_codes, file_key_wraps, class_b_wraps, key_wraps_with_initial_values]:
        for name, fields in make():
            yield FOLDER / f"{name}.txt", text_of({"expect": "success"} | fields)


# The published folders: what each scenario comes to. None is a refusal.


def refuses(error, compute):
    try:
        return compute()
    except error:
        return None


def cbc_encrypt(key, initial, text):
    encryptor = Cipher(algorithms.AES(key), modes.CBC(initial)).encryptor()
    return encryptor.update(text) + encryptor.finalize()


def iterated(v):
    k = u = v["start"]
    for _ in range(int(v["iterations"])):
        k, u = x25519(k, u), k
    return k


PUBLISHED = {
    "sha-256": lambda v: hashlib.sha256(v["message"] * int(v.get("repeated", 1))).digest() == v["digest"],
    "hmac": lambda v: all(
        hmac.digest(v["key"], v["message"], digest)[: int(v.get("truncated to", 64))] == v[name]
        for name, digest in [("hmac-sha-256", "sha256"), ("hmac-sha-512", "sha512")]
        if name in v),
    "hkdf": lambda v: hkdf_raw(v["key"], v.get("salt"), v["info"], len(v["output"])) == v["output"],
    "pbkdf2": lambda v: pbkdf2(v["passcode"], v["salt"], int(v["iterations"]), len(v["output"])) == v["output"],
    "pbkdf2-sha1": lambda v: hashlib.pbkdf2_hmac(
        "sha1", v["password"], v["salt"], int(v["iterations"]), len(v["output"])) == v["output"],
    "x25519": lambda v: refuses(ValueError, lambda: x25519(v["scalar"], v["public"]) == v["shared"]),
    "x25519-iterated": lambda v: iterated(v) == v["result"],
    "x25519-pairs": lambda v: x25519(v["alice private"], v["bob public"]) == v["shared"]
    and x25519(v["bob private"], v["alice public"]) == v["shared"]
    and (public_of(v["alice private"]), public_of(v["bob private"])) == (v["alice public"], v["bob public"]),
    "aes-key-wrap": lambda v: refuses(InvalidUnwrap, lambda: aes_key_unwrap(v["kek"], v["wrapped"]) == v["key"]),
    "aes-256-cbc": lambda v: cbc_encrypt(v["key"], v["initial"], v["text"]) == v["sealed"],
    "aes-256-gcm": lambda v: refuses(InvalidTag, lambda: AESGCM(v["key"]).decrypt(
        v["nonce"], v["ciphertext"] + v["tag"], v["associated"]) == v["text"]),
}


def read(path):
    fields = dict(line.partition(":")[::2] for line in path.read_text().splitlines())
    clear = {"expect", "source", "iterations", "repeated", "truncated to"}
    return {name: value.strip() if name in clear else bytes.fromhex(value) for name, value in fields.items()}


def check():
    for path, text in made():
        if not path.exists() or path.read_text() != text:
            yield f"{path.relative_to(FOLDER)}: not what this script makes"
    for folder, is_good in PUBLISHED.items():
        for path in sorted((FOLDER / folder).glob("*.txt")):
            vector = read(path)
            if bool(is_good(vector)) != (vector["expect"] == "success"):
                yield f"{path.relative_to(FOLDER)}: the outcome is another one"
    known = {path.parent.name for path, _ in made()} | set(PUBLISHED)
    yield from (f"{p.name}: nobody checks this folder" for p in FOLDER.iterdir() if p.is_dir() and p.name not in known)


if sys.argv[1:] == ["check"]:
    differences = list(check())
    print(*differences, sep="\n", end="\n" if differences else "")
    sys.exit(1 if differences else 0)
elif sys.argv[1:]:
    sys.exit("usage: make-vectors.py [check]")
for path, text in made():
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
