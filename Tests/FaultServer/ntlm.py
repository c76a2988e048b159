"""A server's part of NTLM, as far as a response of version 2 can be verified (MS-NLMP §2.2, §3.3.2).

MD4 (RFC 1320) is here because OpenSSL 3 has it only in a provider that is not loaded by default.
"""
import hmac
import struct

SIGNATURE = b"NTLMSSP\0"


def kind(message):
    return struct.unpack("<I", message[8:12])[0] if message.startswith(SIGNATURE) else 0


def challenge(nonce):
    """The second message: Unicode, NTLM, target information with a name and the end."""
    flags = 0x00000001 | 0x00000200 | 0x00080000 | 0x00800000 | 0x00000004
    target = "TEST".encode("utf-16-le")
    information = struct.pack("<HH", 2, len(target)) + target + struct.pack("<HH", 0, 0)
    payload = 48
    return (
        SIGNATURE + struct.pack("<I", 2) + struct.pack("<HHI", len(target), len(target), payload)
        + struct.pack("<I", flags) + nonce + bytes(8)
        + struct.pack("<HHI", len(information), len(information), payload + len(target)) + target + information)


def is_right(message, nonce, user, password, domain):
    """Whether the third message's NTLMv2 response fits; the older responses are refused."""
    if kind(message) != 3:
        return False
    def field(offset):
        length, _, start = struct.unpack("<HHI", message[offset:offset + 8])
        return message[start:start + length]
    response, sent_domain, sent_user = field(20), field(28), field(36)
    if len(response) < 44 or sent_user.decode("utf-16-le") != user or sent_domain.decode("utf-16-le") != domain:
        return False
    owf = mac(md4(password.encode("utf-16-le")), (user.upper() + domain).encode("utf-16-le"))
    return hmac.compare_digest(mac(owf, nonce + response[16:]), response[:16])


def mac(key, text):
    return hmac.new(key, text, "md5").digest()


def md4(text):
    mask = 0xFFFFFFFF
    rotate = lambda value, count: ((value << count) | (value >> (32 - count))) & mask
    rounds = (
        (lambda x, y, z: (x & y) | (~x & z), 0, range(16), (3, 7, 11, 19)),
        (lambda x, y, z: (x & y) | (x & z) | (y & z), 0x5A827999,
         [row + 4 * column for row in range(4) for column in range(4)], (3, 5, 9, 13)),
        (lambda x, y, z: x ^ y ^ z, 0x6ED9EBA1, [0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15], (3, 9, 11, 15)))
    padded = text + b"\x80" + bytes((55 - len(text)) % 64) + struct.pack("<Q", 8 * len(text))
    state = [0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476]
    for begin in range(0, len(padded), 64):
        words = struct.unpack("<16I", padded[begin:begin + 64])
        a, b, c, d = state
        for mix, constant, order, shifts in rounds:
            for step, index in enumerate(order):
                mixed = (a + (mix(b, c, d) & mask) + words[index] + constant) & mask
                a, b, c, d = d, rotate(mixed, shifts[step % 4]), b, c
        state = [(old + new) & mask for old, new in zip(state, (a, b, c, d))]
    return struct.pack("<4I", *state)
