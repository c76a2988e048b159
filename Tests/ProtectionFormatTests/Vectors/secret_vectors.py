"""Scenarios of FORMAT.md §2.15: rows of the store of secrets. Columns are fields; class keys are those of
keybag/secrets."""
import struct

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.keywrap import aes_key_wrap
from format1 import A, C, DEVICE_KEY, OTHER_UUID, UUID, hkdf, named, run, sha256, shown, u32

KEYS = {"class key of secrets a 1": run(0xE1), "class key of secrets c 1": run(0xE3)}
TEXTS = ("accessGroup", "service", "account", "protocol", "host", "path", "realm", "name")
GENERIC = {"kind": 1, "service": "mail", "account": "ann"}
INTERNET = {"kind": 2, "account": "ann", "protocol": "https", "host": "example.org", "port": 8443, "path": "/a b",
            "realm": "caf\N{LATIN SMALL LETTER E WITH ACUTE}"}
IDENTITY = {"kind": 3, "name": "laptop"}


def associated(row, uuid=UUID):
    data = b"protectfs/1 secret\0" + uuid + row["id"] + bytes([row["kind"], row["accessibility"]])
    data += struct.pack("<IQQ", row["port"], row["created"], row["modified"])
    return data + b"".join(u32(len(row[name].encode())) + row[name].encode() for name in TEXTS)


def sealed(name, row, text, uuid=UUID, generation=None, class_key=None, device_key=DEVICE_KEY):
    """The columns that depend on keys."""
    number, is_here_only = (A if row["accessibility"] <= 2 else C), row["accessibility"] in (2, 4)
    class_key, item_key = class_key or KEYS[f"class key of secrets {' a c'[number]} 1"], sha256(name.encode())
    context = uuid + named(number, generation or row["generation"], kind=1)
    kek = (hkdf(class_key, device_key, "device secret wrap", context) if is_here_only
           else hkdf(class_key, None, "secret wrap", context))
    nonce = sha256(f"{name} nonce".encode())[:12]
    value = nonce + AESGCM(item_key).encrypt(nonce, text, associated(row, uuid))
    return {"wrapped": aes_key_wrap(kek, item_key), "value": value}


def secrets():
    def scenario(name, what, columns, expect="success", text=b"a secret", late=None, fields=None, **options):
        """`late` are columns that were changed after the value was sealed."""
        row = dict.fromkeys(TEXTS, "") | {"id": run(0x90, 16), "accessGroup": "protectfs", "port": 0, "accessibility": 1,
                                          "created": 1_700_000_000_000, "modified": 1_700_000_000_001,
                                          "generation": 1} | columns
        row |= sealed(f"secret/{name}", row, text, **options)
        row |= late or {}
        head = {"expect": expect, "source": f"FORMAT.md §2.15, {what}", "keybag": UUID, "device key": DEVICE_KEY}
        head |= KEYS | (fields or {}) | ({"text": shown(text)} if expect == "success" else {})
        return f"secret/{name}", head | row

    yield scenario("generic", "a generic password", GENERIC)
    yield scenario("internet", "an internet password", INTERNET)
    yield scenario("identity", "an identity: length of the passphrase, the passphrase, its PKCS #12", IDENTITY,
                   text=u32(2) + b"ok" + bytes.fromhex("3003020100"))
    for number, what in [(2, "while unlocked, on this device only"), (3, "after the first unlock"),
                         (4, "after the first unlock, on this device only")]:
        yield scenario(f"accessibility-{number}", what, GENERIC | {"accessibility": number})
    yield scenario("empty", "a value of no byte", GENERIC, text=b"")
    yield scenario("generation-2", "a generation that is kept", GENERIC | {"generation": 2}, class_key=run(0xF1),
                   fields={"class key of secrets a 2": run(0xF1)})

    bad = "damaged secret"
    for column, value in [("accessGroup", "other"), ("service", "mall"), ("account", "anne"), ("modified", 1), ("created", 1),
                          ("id", run(0x91, 16))]:
        yield scenario(f"other-{column.lower()}", f"another {column} than the value was sealed with", GENERIC, bad,
                       late={column: value})
    for column, value in [("host", "example.com"), ("port", 443), ("path", ""), ("realm", ""), ("protocol", "imap")]:
        yield scenario(f"other-{column}", f"another {column} than the value was sealed with", INTERNET, bad,
                       late={column: value})
    yield scenario("other-name", "another name than the value was sealed with", IDENTITY, bad, late={"name": "desktop"})
    yield scenario("moved", "bytes of the account in the service", GENERIC, bad, late={"service": "maila", "account": "nn"})
    yield scenario("other-accessibility", "this device only where it was sealed without", GENERIC, bad,
                   late={"accessibility": 2})
    yield scenario("other-keybag", "the UUID of another keybag", GENERIC, bad, uuid=OTHER_UUID)
    yield scenario("other-device", "this device only, under another device key", GENERIC | {"accessibility": 2}, bad,
                   device_key=run(2))
    yield scenario("other-class-key", "wrapped under another class key", GENERIC, bad, class_key=run(0xE2))
    yield scenario("other-generation", "wrapped for another generation", GENERIC, bad, generation=2)
    yield scenario("wrapped", "a wrap of nothing", GENERIC, bad, late={"wrapped": bytes(40)})
    yield scenario("value-zero", "zero bytes instead of a value", GENERIC, bad, late={"value": bytes(36)})
    yield scenario("value-short", "a value shorter than nonce and tag", GENERIC, bad, late={"value": bytes(27)})
    yield scenario("value-of-other-row", "the value of another row", GENERIC, bad, late={
        "value": sealed("secret/generic", dict.fromkeys(TEXTS, "") | GENERIC | {
            "id": run(0x92, 16), "accessibility": 1, "port": 0, "created": 1, "modified": 1, "generation": 1}, b"x")["value"]})
    for name, columns, what in [("kind-4", {"kind": 4}, "kind 4"), ("accessibility-5", {"accessibility": 5}, "accessibility 5"),
                                ("port-65536", {"port": 65_536}, "port 65,536"), ("generation-0", {"generation": 0}, "generation 0"),
                                ("no-name", {"service": "", "account": ""}, "neither service nor account")]:
        yield scenario(name, what, GENERIC, bad, late=columns)
    yield scenario("key-lost", "a generation that the keybag does not hold", GENERIC | {"generation": 2}, "key lost",
                   class_key=run(0xF1))
