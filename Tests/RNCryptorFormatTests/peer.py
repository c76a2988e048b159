"""Seals and opens RNCryptor messages in terms of the Python package `cryptography`, from docs/reference/RNCRYPTOR.md alone.

Standard input and output: JSON lines, bytes in hex. A request has `version`, `secret` (a password, or 64 bytes of keys) and
either `text`, with `initial` and perhaps `salts` (16 bytes) and `cut` (bytes of the password that count), or `message`.
The answer is `message`, or `text`, which is null if the message is refused.
"""
import hashlib
import hmac
import json
import sys

from cryptography.hazmat.primitives import padding
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes


def keys(secret, salts):
    if not salts:
        return secret[:32], secret[32:]
    return [hashlib.pbkdf2_hmac("sha1", secret, salt, 10_000, 32) for salt in (salts[:8], salts[8:])]


def seal(version, secret, text, initial, salts):
    encryption_key, mac_key = keys(secret, salts)
    padder = padding.PKCS7(128).padder()
    encryptor = Cipher(algorithms.AES(encryption_key), modes.CBC(initial)).encryptor()
    message = bytes([version, 1 if salts else 0]) + salts + initial
    message += encryptor.update(padder.update(text) + padder.finalize()) + encryptor.finalize()
    return message + hmac.digest(mac_key, message, "sha256")


def open_(version, secret, message):
    if message[0] != version or message[1] not in (0, 1):
        return None
    salts, rest = (message[2:18], message[18:]) if message[1] else (b"", message[2:])
    encryption_key, mac_key = keys(secret, salts)
    if not hmac.compare_digest(hmac.digest(mac_key, message[:-32], "sha256"), message[-32:]):
        return None
    decryptor = Cipher(algorithms.AES(encryption_key), modes.CBC(rest[:16])).decryptor()
    unpadder = padding.PKCS7(128).unpadder()
    return unpadder.update(decryptor.update(rest[16:-32]) + decryptor.finalize()) + unpadder.finalize()


for line in sys.stdin:
    request = {name: value if isinstance(value, int) else bytes.fromhex(value) for name, value in json.loads(line).items()}
    if "text" in request:
        secret = request["secret"][: request.get("cut")]
        made = seal(request["version"], secret, request["text"], request["initial"], request.get("salts", b""))
        print(json.dumps({"message": made.hex()}))
    else:
        text = open_(request["version"], request["secret"], request["message"])
        print(json.dumps({"text": None if text is None else text.hex()}))
