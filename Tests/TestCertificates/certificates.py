"""Makes the certificates of the tests, with keys that nobody else has: prints them as one JSON object.

name → {"certificate": DER in base 64, "key": PKCS #8 in base 64}; names that end in ".p12" → {"p12": …}.
"""
import base64
import datetime
import ipaddress
import json

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat, pkcs12)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

# The long one is good now, and when the tests look at a time of their own.
PAST, SOON = datetime.datetime(2020, 1, 1), datetime.datetime(2021, 1, 1)
FUTURE, FAR = datetime.datetime(2100, 1, 1), datetime.datetime(2120, 1, 1)

LOCAL = ["localhost", "127.0.0.1", "::1"]
made = {}


class Made:
    def __init__(self, certificate, key):
        self.certificate, self.key = certificate, key


def general(name):
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def usage(*, authority):
    others = ["content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only",
              "decipher_only"]
    flags = dict.fromkeys(others, False)
    return x509.KeyUsage(
        digital_signature=not authority, key_cert_sign=authority, crl_sign=authority, **flags)


def make(name, issuer=None, *, subject=None, key=None, names=(), authority=None, path=None, basic=True, first=PAST, last=FAR,
         purpose=ExtendedKeyUsageOID.SERVER_AUTH, extra=()):
    """A certificate of `subject`, issued by what is called `issuer`, or by itself."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    authority = bool(authority)
    own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject or name)])
    by = made[issuer] if issuer else Made(None, key)
    builder = (
        x509.CertificateBuilder().subject_name(own).issuer_name(by.certificate.subject if issuer else own)
        .public_key(key.public_key()).serial_number(x509.random_serial_number())
        .not_valid_before(first).not_valid_after(last)
        .add_extension(usage(authority=authority), critical=True))
    if basic:
        builder = builder.add_extension(x509.BasicConstraints(authority, path if authority else None), critical=True)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([general(n) for n in names]), critical=False)
    if purpose and not authority:
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    for extension, critical in extra:
        builder = builder.add_extension(extension, critical)
    certificate = builder.sign(by.key, hashes.SHA256())
    made[name] = Made(certificate, key)
    return made[name]


make("root", authority=True)
make("other-root", authority=True)
make("intermediate", "root", authority=True, path=0)
# The same authority, that somebody else vouches for.
make("cross", "other-root", subject="intermediate", key=made["intermediate"].key, authority=True, path=0)
make("server", "intermediate", names=LOCAL)
make("renewed", "intermediate", subject="server", key=made["server"].key, names=LOCAL)
make("backup", "intermediate", names=LOCAL)
make("direct", "root", names=LOCAL)
make("of-other-root", "other-root", names=LOCAL)

make("self-signed", names=LOCAL)
make("nameless", purpose=None)  # as devices make them for themselves
make("expired", "intermediate", names=LOCAL, last=SOON)
make("not-yet-valid", "intermediate", names=LOCAL, first=FUTURE)
make("expired-and-for-others", "intermediate", names=["other.example.org"], last=SOON)
make("expired-intermediate", "root", authority=True, last=SOON)
make("under-expired", "expired-intermediate", names=LOCAL)

make("for-others", "intermediate", names=["other.example.org"])
make("address-only", "intermediate", names=["127.0.0.1"])
make("address-as-name", "intermediate", names=[])
make("common-name-only", "intermediate", subject="localhost")
make("wildcard", "intermediate", names=["*.example.org"])
make("wildcard-in-label", "intermediate", names=["f*.example.org"])
make("wildcard-of-everything", "intermediate", names=["*.org", "*"])
make("nul-in-name", "intermediate", names=["localhost\0.example.org"])
make("rude", "intermediate", subject="\x1b[31mred\nline", names=["\x1b[2J.example.org"])

make("no-authority", "root")
make("under-no-authority", "no-authority", names=LOCAL)
make("half-authority", "root", authority=True, basic=False)
make("under-half-authority", "half-authority", names=LOCAL)
make("too-deep-authority", "intermediate", authority=True)
make("too-deep", "too-deep-authority", names=LOCAL)
make("constrained", "root", authority=True, extra=[
    (x509.NameConstraints([x509.DNSName("example.org")], [x509.DNSName("forbidden.example.org")]), True)])
make("outside-constraint", "constrained", names=["localhost"])
make("inside-constraint", "constrained", names=["www.example.org"])
make("in-excluded", "constrained", names=["www.forbidden.example.org"])

make("client", "intermediate", purpose=ExtendedKeyUsageOID.CLIENT_AUTH, names=LOCAL)
make("other-client", "other-root", purpose=ExtendedKeyUsageOID.CLIENT_AUTH)
make("strange", "intermediate", names=LOCAL, extra=[
    (x509.UnrecognizedExtension(ObjectIdentifier("1.2.3.4.5"), b"\5\0"), True)])
make("weak-key", "intermediate", names=LOCAL, key=rsa.generate_private_key(65537, 1024))
make("rsa-authority", "root", authority=True, key=rsa.generate_private_key(65537, 2048))
make("rsa", "rsa-authority", names=LOCAL)


def weakly_signed(one, key):
    """The same certificate under sha1WithRSAEncryption, which the library does not sign with any more (RFC 8017 A.2.4)."""
    strong, weak = bytes.fromhex("2a864886f70d01010b"), bytes.fromhex("2a864886f70d010105")
    body = one.certificate.tbs_certificate_bytes.replace(strong, weak)
    signature = key.sign(body, padding.PKCS1v15(), hashes.SHA1())
    der = one.certificate.public_bytes(Encoding.DER).replace(strong, weak).replace(one.certificate.signature, signature)
    return Made(x509.load_der_x509_certificate(der), one.key)


made["weak-signature"] = weakly_signed(made["rsa"], made["rsa-authority"].key)


def identity(name, passphrase, *authorities):
    encryption = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    return pkcs12.serialize_key_and_certificates(
        name.encode(), made[name].key, made[name].certificate, [made[a].certificate for a in authorities] or None, encryption)


def text(data):
    return base64.b64encode(data).decode()


result = {
    name: {
        "certificate": text(one.certificate.public_bytes(Encoding.DER)),
        "key": text(one.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())),
    }
    for name, one in made.items()
}
result["client.p12"] = {"p12": text(identity("client", b"correct horse", "intermediate"))}
result["other-client.p12"] = {"p12": text(identity("other-client", b"correct horse"))}
result["without-passphrase.p12"] = {"p12": text(identity("client", None))}
result["certificate-only.p12"] = {"p12": text(pkcs12.serialize_key_and_certificates(
    b"none", None, None, [made["client"].certificate], BestAvailableEncryption(b"correct horse")))}
# Certificates and key each ask for 8,388,607 iterations: together more than the limit.
costly = PrivateFormat.PKCS12.encryption_builder().kdf_rounds(0x10000).hmac_hash(hashes.SHA256()).key_cert_algorithm(
    pkcs12.PBES.PBESv2SHA256AndAES256CBC).build(b"correct horse")
der = pkcs12.serialize_key_and_certificates(b"client", made["client"].key, made["client"].certificate, None, costly)
assert der.count(b"\x02\x03\x01\0\0") >= 2
result["costly.p12"] = {"p12": text(der.replace(b"\x02\x03\x01\0\0", b"\x02\x03\x7f\xff\xff"))}
print(json.dumps(result))
