"""What Benchmarks/run measures protectfs against where no ready-made tool does the same work.

    peers.py encrypt SOURCE TARGET        AES-256-GCM in 64 KiB chunks, nonce and tag beside each
    peers.py decrypt SOURCE TARGET        the way back
    peers.py small-files DIRECTORY COUNT  COUNT files of 4 KiB, sealed whole and as durable as ours; prints {"seconds": [s]}
    peers.py chmod-fsync DIRECTORY        chmod and fsync of every file, what `chmod -R` does without a promise
    peers.py overwrite FILE COUNT         COUNT pages of 4 KiB at random places of 64 MiB, each fsync'ed; prints the same
    peers.py sqlite FILE COUNT            the same in a table of SQLite, a row a page, WAL, each commit flushed
    peers.py openssl-version              of the OpenSSL inside this Python's package cryptography
"""
import json
import os
import random
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
    names = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    start = time.perf_counter()
    for index in range(int(count)):
        nonce, path = os.urandom(12), f"{directory}/{index}"
        with open(f"{path}.new", "wb", buffering=0) as writer:
            writer.write(nonce + aes.encrypt(nonce, content, None))
            os.fsync(writer.fileno())
        os.rename(f"{path}.new", path)
        os.fsync(names)
    print(json.dumps({"seconds": [time.perf_counter() - start]}))


def chmod_fsync(directory):
    for entry in os.scandir(directory):
        descriptor = os.open(entry.path, os.O_RDONLY)
        os.fchmod(descriptor, 0o640)
        os.fsync(descriptor)
        os.close(descriptor)


PAGE, PAGES = 4096, (64 << 20) // 4096


def overwrite(path, count):
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    if os.fstat(descriptor).st_size == 0:
        for index in range(0, PAGES, 256):
            os.pwrite(descriptor, os.urandom(256 * PAGE), index * PAGE)
        os.fsync(descriptor)
    page, start = os.urandom(PAGE), time.perf_counter()
    for _ in range(int(count)):
        os.pwrite(descriptor, page, random.randrange(PAGES) * PAGE)
        os.fsync(descriptor)
    print(json.dumps({"seconds": [(time.perf_counter() - start) / int(count)]}))
    os.close(descriptor)


def sqlite(path, count):
    import sqlite3  # late: no other verb needs it

    base = sqlite3.connect(path, isolation_level=None)
    base.execute("PRAGMA journal_mode = WAL")
    base.execute("PRAGMA synchronous = FULL")
    if not base.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        base.execute("CREATE TABLE page (number INTEGER PRIMARY KEY, content BLOB)")
        base.execute("BEGIN")
        base.executemany("INSERT INTO page VALUES (?, ?)", ((number, os.urandom(PAGE)) for number in range(PAGES)))
        base.execute("COMMIT")
        base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    page, start = os.urandom(PAGE), time.perf_counter()
    for _ in range(int(count)):
        base.execute("UPDATE page SET content = ? WHERE number = ?", (page, random.randrange(PAGES)))
    print(json.dumps({"seconds": [(time.perf_counter() - start) / int(count)]}))
    base.close()


def openssl_version():
    from cryptography.hazmat.backends.openssl import backend

    print(backend.openssl_version_text().split()[1])


if __name__ == "__main__":
    verbs = {
        "encrypt": encrypt, "decrypt": decrypt, "small-files": small_files, "chmod-fsync": chmod_fsync,
        "overwrite": overwrite, "sqlite": sqlite, "openssl-version": openssl_version,
    }
    verbs[sys.argv[1]](*sys.argv[2:])
