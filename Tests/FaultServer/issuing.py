"""Throw-away certificates. Imported when a test asks for one: it takes longer than all else that the server does."""
import datetime
import ipaddress
import os

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

made = {}       # name -> (key, certificate)


def issuer_named(directory, name):
    """The key and certificate of an authority: made here, or by another server that has left them in `directory`."""
    if name not in made:
        with open(os.path.join(directory, name + ".key"), "rb") as file:
            key = serialization.load_pem_private_key(file.read(), None)
        with open(os.path.join(directory, name + ".pem"), "rb") as file:
            made[name] = (key, x509.load_pem_x509_certificate(file.read()))
    return made[name]


def make(directory, name, options):
    """Makes a certificate and writes NAME.pem and NAME.key (and NAME.p12). `options`, all optional:

    issuer (a name made before; without one it is self-signed), authority, names, days (valid from now), starts (days
    from now), client (for clients), commonName, passphrase (of NAME.p12).
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, options.get("commonName", name))])
    issuer_key, issuer = issuer_named(directory, options["issuer"]) if "issuer" in options else (key, None)
    begin = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=options.get("starts", -2))
    builder = (
        x509.CertificateBuilder().subject_name(subject).issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key()).serial_number(x509.random_serial_number())
        .not_valid_before(begin).not_valid_after(begin + datetime.timedelta(days=options.get("days", 30)))
        .add_extension(x509.BasicConstraints(ca=options.get("authority", False), path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False))
    if options.get("names"):
        builder = builder.add_extension(
            x509.SubjectAlternativeName([general_name(value) for value in options["names"]]), critical=False)
    if not options.get("authority"):
        usage = ExtendedKeyUsageOID.CLIENT_AUTH if options.get("client") else ExtendedKeyUsageOID.SERVER_AUTH
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    certificate = builder.sign(issuer_key, hashes.SHA256())
    made[name] = (key, certificate)
    passphrase = options.get("passphrase", "passphrase").encode()
    chain = [issuer] if issuer else None
    write(directory, name + ".pem", certificate.public_bytes(serialization.Encoding.PEM))
    write(directory, name + ".key", key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    write(directory, name + ".p12", pkcs12.serialize_key_and_certificates(
        name.encode(), key, certificate, chain, serialization.BestAvailableEncryption(passphrase)))
    return os.path.join(directory, name)


def general_name(value):
    try:
        return x509.IPAddress(ipaddress.ip_address(value))
    except ValueError:
        return x509.DNSName(value)


def write(directory, name, content):
    with open(os.path.join(directory, name), "wb") as file:
        file.write(content)
