"""TLS contexts with certificates that were made before."""
import os
import ssl


def context(directory, tls):
    """`tls`: chain (names made before, or files; the first one's key is used), clientAuthority, atMost ("1.1", "1.2")."""
    chain = tls.get("chain") or ["server"]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:@SECLEVEL=0")      # what is weak is for the client to refuse
    if tls.get("atMost"):
        if tls["atMost"] == "1.1":
            context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = getattr(ssl.TLSVersion, "TLSv" + tls["atMost"].replace(".", "_"))
    paths = [name if "/" in name else os.path.join(directory, name) for name in chain]
    joined = os.path.join(directory, "chain-%d.pem" % id(context))
    with open(joined, "w") as file:
        for path in paths:
            file.write(open(path + ".pem").read())
    context.load_cert_chain(joined, paths[0] + ".key")
    if tls.get("clientAuthority"):
        authority = tls["clientAuthority"]
        context.load_verify_locations(
            (authority if "/" in authority else os.path.join(directory, authority)) + ".pem")
        context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["http/1.1"])
    return context
