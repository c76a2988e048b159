#!/usr/bin/env python3
"""Makes example.tar.gz: a keybag and files of every class, as format 1 was when it was frozen.

    make-example.py DIRECTORY      of a release build: protectfs, protectfs-secrets, storm-worker

It was run once, and refuses to run again: what a later version writes shows nothing about what an earlier one wrote.
Another archive beside this one would be another example. Everything in it is public.
"""
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ARCHIVE = HERE / "example.tar.gz"
READER = HERE.parent / "IndependentReader"
PASSCODE, PASSPHRASE = "what format 1 writes opens for ever", "and so does a backup of it"
CLASSES = ("complete", "unless-open", "first-unlock", "none")


def text_of(name, size):
    return hashlib.shake_256(name.encode()).digest(size)


def pattern(seed, count):
    """What storm-worker writes for a seed: SplitMix64, little-endian."""
    words, mask = [], 2**64 - 1
    for _ in range(-(-count // 8)):
        seed = seed + 0x9E3779B97F4A7C15 & mask
        mixed = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 & mask
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & mask
        words.append((mixed ^ mixed >> 31).to_bytes(8, "little"))
    return b"".join(words)[:count]


class Maker:
    def __init__(self, build):
        self.build, self.root = build, pathlib.Path(tempfile.mkdtemp(prefix="protectfs-format1-"))
        for name in ("home", "state", "files"):
            (self.root / name).mkdir()
        self.environment = {
            "PATH": "/usr/bin:/bin", "LC_ALL": "C", "HOME": str(self.root / "home"),
            "XDG_STATE_HOME": str(self.root / "state"), "PROTECTFS_KEYBAG": str(self.root / "keybag")}
        self.sums, self.code = {}, None

    def protectfs(self, *words, input=b""):
        done = subprocess.run([self.build / "protectfs", *words], input=input, capture_output=True, cwd=self.root,
                              env=self.environment)
        if done.returncode:
            sys.exit(f"make-example.py: error: protectfs {' '.join(map(str, words))}: {done.stderr.decode()}")
        return done.stdout

    def by_passcode(self, *words):
        return self.protectfs(*words, "--passcode-fd", "0", input=PASSCODE.encode())

    def write(self, name, class_name, size, *options):
        """Written whole: chunks of 64 KiB, because nobody knew how much would come. With `--append`: of 4 KiB."""
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        self.sums[name] = text_of(name, size)
        self.protectfs("write", "--class", class_name, name, *options, input=self.sums[name])

    def change(self, name, *steps, is_killed=False):
        """Works on a file through a handle: `write OFFSET COUNT SEED`, `truncate SIZE`, `sync`."""
        worker = subprocess.Popen([self.build / "storm-worker", self.root / "keybag", "serve"], cwd=self.root,
                                  env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        text = bytearray(self.sums[name])
        for step in (f"open w {self.root / name}", *steps, *([] if is_killed else ["close"])):
            print(step, file=worker.stdin, flush=True)
            answer = worker.stdout.readline()
            assert answer.startswith("ok"), f"{step}: {answer}"
            verb, *numbers = step.split()
            if verb == "write":
                offset, count, seed = map(int, numbers)
                text.extend(bytes(max(0, offset + count - len(text))))
                text[offset : offset + count] = pattern(seed, count)
            elif verb == "truncate":
                size = int(numbers[0])
                text = text[:size] + bytes(max(0, size - len(text)))
        if is_killed:
            os.kill(worker.pid, signal.SIGKILL)
        worker.communicate()
        self.sums[name] = bytes(text)

    def keep(self, *words, value):
        self.protectfs("secret", "add", "--value-fd", "0", *words, input=value.encode())

    def make(self):
        self.code = self.by_passcode("init", "--recovery-code").decode().strip()
        for name in CLASSES:
            self.write(f"files/older/{name}", name, 300)
            self.write(f"files/rotated/{name}", name, 200)
        self.write("files/older/unless-open-chunks", "unless-open", 4097, "--append")
        self.keep("--service", "format1", "--account", "ann", value="kept before a rotation")
        self.code = self.by_passcode("rotate", "--root", "files/rotated").decode().strip()
        assert len(self.code) == 39, self.code
        for name in CLASSES:
            self.write(f"files/newer/{name}-inline", name, 3584)
            self.write(f"files/newer/{name}-chunks", name, 4097, "--append")
        self.write("files/newer/empty", "complete", 0)
        self.write("files/newer/large-chunk", "first-unlock", 30_000)
        self.write("files/newer/holes", "complete", 4096, "--append")
        self.change("files/newer/holes", "write 12388 100 1", "sync", "truncate 28772", "sync")
        self.write("files/newer/two-commits", "none", 100, "--append")
        self.change("files/newer/two-commits", "write 50 60 2", "sync")
        self.write("files/pending/complete", "complete", 9000, "--append")
        self.change("files/pending/complete", "write 100 5000 3", "sync", "write 8000 2000 4", "sync", is_killed=True)
        self.write("files/pending/unless-open", "unless-open", 9000, "--append")
        self.change("files/pending/unless-open", "write 4096 4096 5", "sync", is_killed=True)

        self.keep("--host", "example.org", "--protocol", "https", "--account", "ann", "--accessibility",
                  "after-first-unlock", value="of a host")
        self.keep("--service", "here", "--accessibility", "when-unlocked-this-device-only", value="on this device only")
        self.keep("--service", "service", "--accessibility", "after-first-unlock-this-device-only", value="of a service")
        self.protectfs("backup", "--to", "backup", "--passphrase-fd", "0", "files/older", input=PASSPHRASE.encode())
        self.protectfs("recovery", "export", "export.txt")
        self.protectfs("lock")
        self.write("files/newer/made-while-locked", "unless-open", 250)
        self.by_passcode("unlock")

    def check(self):
        """What is to be committed says what was written, by the command and by the independent reader."""
        names = sorted(self.sums)
        for name in names:
            assert self.protectfs("cat", name) == self.sums[name], name
        copy = [sys.executable, "-B", READER / "read.py", "--keybag", "keybag", *names]
        for options, words in ((["--device-key", "state/protectfs/device-key"], PASSCODE), (["--recovery-code"], self.code)):
            done = subprocess.run([*copy, *options], input=words.encode(), capture_output=True, cwd=self.root)
            assert done.stdout == b"".join(self.sums[name] for name in names), done.stderr.decode()
        for name in ("files/pending/complete", "files/pending/unless-open"):
            assert b"PFSREDO1" in (self.root / name).read_bytes(), name

    def pack(self):
        shutil.copy(self.root / "state/protectfs/device-key", self.root / "device-key")
        (self.root / "recovery-code").write_text(self.code + "\n")
        (self.root / "passcode").write_text(PASSCODE + "\n")
        (self.root / "backup-passphrase").write_text(PASSPHRASE + "\n")
        sums = "".join(f"{hashlib.sha256(text).hexdigest()}  {name}\n" for name, text in sorted(self.sums.items()))
        (self.root / "SHA256SUMS").write_text(sums)
        # The copies lie under the whole path of this directory, which says nothing to anybody.
        (self.root / "backup/files" / self.root.relative_to("/") / "files").rename(self.root / "backup/files/files")
        shutil.rmtree(self.root / "backup/files/tmp")
        shutil.rmtree(self.root / "keybag/run", ignore_errors=True)

        def plain(member):
            member.uid = member.gid = member.mtime = 0
            member.uname = member.gname = ""
            return member

        with tarfile.open(ARCHIVE, "x:gz", compresslevel=9, format=tarfile.PAX_FORMAT) as archive:
            for name in ("SHA256SUMS", "passcode", "recovery-code", "backup-passphrase", "device-key", "export.txt",
                         "keybag", "files", "backup"):
                archive.add(self.root / name, f"example/{name}", filter=plain)

    def clean(self):
        self.protectfs("erase", "--yes")
        shutil.rmtree(self.root)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    if ARCHIVE.exists():
        sys.exit("make-example.py: error: there is an example already; it is never made anew")
    maker = Maker(pathlib.Path(sys.argv[1]).resolve())
    maker.make()
    maker.check()
    maker.pack()
    maker.clean()
