"""Who may have an answer: Basic (RFC 7617), Digest (RFC 7616), bearer tokens (RFC 6750), NTLM (MS-NLMP)."""
import base64
import hashlib
import os
import re

import ntlm


class Guard:
    """Lets a request through that one of its schemes accepts, and challenges every other one."""

    def __init__(self, *schemes):
        self.schemes = schemes
        for scheme in schemes:
            if "masked" in scheme:
                scheme["password"] = bytes(byte ^ 1 for byte in scheme["masked"]).decode()
        self.nonces = {}        # nonce -> the last count
        self.challenges = 0

    def check(self, connection, request):
        """None, or the answer that refuses."""
        proxy = any(scheme.get("proxy") for scheme in self.schemes)
        sent = request.header("proxy-authorization" if proxy else "authorization") or ""
        name, _, rest = sent.partition(" ")
        stale = False
        for scheme in self.schemes:
            if scheme["scheme"] == "ntlm" and connection.authentication.get("ntlm") is True:
                return None
            if scheme["scheme"] != name.lower():
                continue
            accepted = getattr(self, name.lower())(scheme, connection, request, rest)
            if accepted is True:
                return None
            if isinstance(accepted, str):       # NTLM's second message
                return self.refusal(proxy, [accepted])
            stale = accepted == ()
        self.challenges += 1
        return self.refusal(proxy, [self.challenge(scheme, stale) for scheme in self.schemes])

    @staticmethod
    def refusal(proxy, challenges):
        return {
            "status": 407 if proxy else 401, "bytes": base64.b64encode(b"refused").decode(),
            "headers": [["Proxy-Authenticate" if proxy else "WWW-Authenticate", text] for text in challenges],
        }

    def realm(self, scheme):
        """A list of realms is gone through, one a challenge."""
        realms = scheme.get("realm", "test")
        return realms if isinstance(realms, str) else realms[min(self.challenges, len(realms)) - 1]

    def challenge(self, scheme, stale=False):
        kind = scheme["scheme"]
        if kind == "raw":
            return scheme["challenge"]
        if kind == "ntlm":
            return "NTLM"
        text = '%s realm="%s"' % (kind.capitalize(), self.realm(scheme))
        if kind == "digest":
            nonce = os.urandom(16).hex()
            self.nonces[nonce] = 0
            text += ', qop="auth", algorithm=%s, nonce="%s"' % (scheme.get("algorithm", "MD5"), nonce)
            text += ', opaque="b3BhcXVl"'
            text += ", userhash=true" if scheme.get("userhash") else ""
            text += ", stale=true" if stale else ""
        return text

    # Each: True, False, () for "right, but with a nonce that is too old", or the next challenge.

    def basic(self, scheme, connection, request, rest):
        return base64.b64decode(rest) == ("%s:%s" % (scheme["user"], scheme["password"])).encode()

    def bearer(self, scheme, connection, request, rest):
        return rest in scheme["tokens"]

    def digest(self, scheme, connection, request, rest):
        fields = {
            name.lower(): quoted or plain
            for name, quoted, plain in re.findall(r'(\w+)\s*=\s*(?:"([^"]*)"|([^\s,]+))', rest)}
        nonce = fields.get("nonce")
        algorithm = scheme.get("algorithm", "MD5")
        user = scheme["user"]
        if scheme.get("userhash"):
            user = digest_of(algorithm)(user + ":" + fields["realm"])
            if fields.get("userhash") != "true":
                return False
        wanted = digest_response(
            algorithm, scheme["user"], fields.get("realm"), scheme["password"], request.method, fields.get("uri"),
            nonce, fields.get("nc"), fields.get("cnonce"), fields.get("qop"))
        right = (
            fields.get("username") == user and fields.get("uri") == request.target
            and fields.get("response") == wanted and nonce in self.nonces
            and fields.get("algorithm", "MD5") == algorithm)
        if not right or int(fields["nc"], 16) <= self.nonces[nonce]:
            return False
        if self.nonces[nonce] >= scheme.get("uses", 1 << 30):
            return ()
        self.nonces[nonce] = int(fields["nc"], 16)
        return True

    def ntlm(self, scheme, connection, request, rest):
        message = base64.b64decode(rest)
        if ntlm.kind(message) == 1:
            challenge = os.urandom(8)
            connection.authentication["ntlm"] = challenge
            return "NTLM " + base64.b64encode(ntlm.challenge(challenge)).decode()
        challenge = connection.authentication.pop("ntlm", None)
        if not isinstance(challenge, bytes):
            return False
        if not ntlm.is_right(message, challenge, scheme["user"], scheme["password"], scheme.get("domain", "")):
            return False
        connection.authentication["ntlm"] = True
        return True


def digest_of(algorithm):
    hashing = {"MD5": hashlib.md5, "SHA-256": hashlib.sha256}[algorithm.removesuffix("-sess")]
    return lambda text: hashing(text.encode()).hexdigest()


def digest_response(algorithm, user, realm, password, method, uri, nonce, count, cnonce, qop):
    """RFC 7616 §3.4.1."""
    digest = digest_of(algorithm)
    first = digest("%s:%s:%s" % (user, realm, password))
    if algorithm.endswith("-sess"):
        first = digest("%s:%s:%s" % (first, nonce, cnonce))
    second = digest("%s:%s" % (method, uri))
    return digest(":".join([first, nonce, count, cnonce, qop, second]))
