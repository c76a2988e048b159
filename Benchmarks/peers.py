"""What Benchmarks/run measures protectfs against where no ready-made tool does the same work.

    peers.py encrypt SOURCE TARGET        AES-256-GCM in 64 KiB chunks, nonce and tag beside each
    peers.py decrypt SOURCE TARGET        the way back
    peers.py small-files DIRECTORY COUNT  COUNT files of 4 KiB, sealed whole; prints {"seconds": [s]}
    peers.py chmod-fsync DIRECTORY        chmod and fsync of every file, what `chmod -R` does without a promise
    peers.py openssl-version              of the OpenSSL inside this Python's package cryptography
"""
import json
import os
import sys
import time

CHUNK = 65536
SEALED = 12 + CHUNK + 16  # nonce, ciphertext, tag
KEY = bytes(32)  # the speed of AES does not depend on the key, and nothing here is secret


def cipher():
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # late: `chmod-fsync` does without it

    return AESGCM(KEY)


def encrypt(source, target):
    aes, index = cipher(), 0
    with open(source, "rb", buffering=0) as reader, open(target, "wb", buffering=0) as writer:
        while chunk := reader.read(CHUNK):
            nonce = os.urandom(12)
            writer.write(nonce + aes.encrypt(nonce, chunk, index.to_bytes(8, "little")))
            index += 1


def decrypt(source, target):
    aes, index = cipher(), 0
    with open(source, "rb", buffering=0) as reader, open(target, "wb", buffering=0) as writer:
        while sealed := reader.read(SEALED):
            writer.write(aes.decrypt(sealed[:12], sealed[12:], index.to_bytes(8, "little")))
            index += 1


def small_files(directory, count):
    aes, content = cipher(), os.urandom(4096)
    start = time.perf_counter()
    for index in range(int(count)):
        nonce = os.urandom(12)
        with open(f"{directory}/{index}", "wb", buffering=0) as writer:
            writer.write(nonce + aes.encrypt(nonce, content, None))
    print(json.dumps({"seconds": [time.perf_counter() - start]}))


def chmod_fsync(directory):
    for entry in os.scandir(directory):
        descriptor = os.open(entry.path, os.O_RDONLY)
        os.fchmod(descriptor, 0o640)
        os.fsync(descriptor)
        os.close(descriptor)


def openssl_version():
    from cryptography.hazmat.backends.openssl import backend

    print(backend.openssl_version_text().split()[1])


if __name__ == "__main__":
    verbs = {
        "encrypt": encrypt, "decrypt": decrypt, "small-files": small_files, "chmod-fsync": chmod_fsync,
        "openssl-version": openssl_version,
    }
    verbs[sys.argv[1]](*sys.argv[2:])
