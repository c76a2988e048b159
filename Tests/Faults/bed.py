"""A home for the commands that are tried: a keybag, files, and a user keyring that nobody else has."""
import ctypes
import errno
import hashlib
import itertools
import os
import pathlib
import shutil
import signal
import stat
import struct
import subprocess
import sys
import threading

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "IndependentReader"))
from keybag import Refused
from listing import CLASS_NAMES
from read import head_in_force

PASSCODE = b"passcode one"
MAGIC = b"\x89PFS\r\n\x1a\n"
THREAD_KEYRING, USER_KEYRING = -1, -4
NO_SPAWN = f"spawn:1:{errno.EAGAIN}"


class Wrong(Exception):
    """What a preparation or a look at the state did not do as it must: no fault was injected."""


class Run:
    """What a command left behind; `answers` are those of a worker that serves."""

    def __init__(self, status, output, errors, answers=()):
        self.status, self.output, self.errors, self.answers = status, output, errors, list(answers)


class Bed:
    """Everything lies below `here`, always at the same place: a keybag names its device key by a path."""

    def __init__(self, place, binaries, shim):
        self.place, self.binaries, self.shim = pathlib.Path(place), pathlib.Path(binaries), shim
        self.here, self.keybag, self.work = self.place / "bed", self.place / "bed/keybag", self.place / "bed/work"
        self.faults = self.place / "faults"
        self.faults.mkdir(parents=True)
        # The saved bed that lies here as it was saved, with its keys in the ring; none since a command ran.
        self.untouched = None
        self.keyutils = ctypes.CDLL("libkeyutils.so.1", use_errno=True)
        self.keyutils.keyctl_read.restype = ctypes.c_long
        self.keyutils.keyctl_read.argtypes = [ctypes.c_int32, ctypes.c_char_p, ctypes.c_size_t]
        self.keyutils.keyctl_describe.argtypes = [ctypes.c_int32, ctypes.c_char_p, ctypes.c_size_t]
        self.keyutils.add_key.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int32]
        self.keyutils.keyctl_setperm.argtypes = [ctypes.c_int32, ctypes.c_uint32]

    def environment(self, fault=None, logs=False, stdio=True):
        (self.faults / "counters").write_bytes(bytes(256))
        (self.faults / "log").unlink(missing_ok=True)
        variables = {"PATH": "/usr/bin:/bin", "HOME": f"{self.here}/home", "LC_ALL": "C", "SWIFT_BACKTRACE": "enable=no",
                     "LD_PRELOAD": self.shim, "FAULTS_DIRECTORY": str(self.faults), "PROTECTFS_KEYBAG": str(self.keybag)}
        for name in ("DATA", "STATE", "CONFIG", "RUNTIME"):
            variables[f"XDG_{name}_{'DIR' if name == 'RUNTIME' else 'HOME'}"] = str(self.here / name.lower())
        if fault:
            variables["FAULT"] = fault
        if logs:
            variables["FAULTS_LOG"] = "1"
        if stdio:
            variables["FAULTS_STDIO"] = "1"
        return variables

    # MARK: running

    def run(self, *arguments, stdin=b"", fds=None, program="protectfs", timeout=60, **fault):
        """Runs a program in `work`. `fds`: what descriptors 3, 4 … give. A run that does not end has the status "hangs"."""
        self.untouched = None
        places = {}
        for number, content in (fds or {}).items():
            reader, writer = os.pipe()
            os.write(writer, content)
            os.close(writer)
            places[number] = reader
        # Descriptors get their numbers from a shell.
        numbered = ["sh", "-c", "exec " + " ".join(f"{n}<&{r}" for n, r in places.items()) + '; exec "$@"', "sh"] if places else []
        process = subprocess.Popen(
            [*numbered, str(self.binaries / program), *map(str, arguments)],
            cwd=self.work, env=self.environment(**fault), pass_fds=list(places.values()), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        for reader in places.values():
            os.close(reader)
        try:
            output, errors = process.communicate(stdin, timeout)
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
            status = "hangs"
        return Run(status, output, errors.decode("utf-8", "replace"))

    def must(self, *arguments, **more):
        done = self.run(*arguments, **more)
        if done.status != 0:
            raise Wrong(f"{' '.join(map(str, arguments))}: status {done.status}: {done.errors}")
        return done.output

    def serve(self, lines, timeout=60, **fault):
        """`storm-worker … serve`: a line at a time, up to the first that it refuses, and then `close`."""
        self.untouched = None
        process = subprocess.Popen(
            [self.binaries / "storm-worker", self.keybag, "serve"], cwd=self.work, env=self.environment(stdio=False, **fault),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        hung = []
        watch = threading.Timer(timeout, lambda: (hung.append(1), os.killpg(process.pid, signal.SIGKILL)))
        watch.start()
        answers = []
        try:
            for line in lines:
                process.stdin.write(line.encode() + b"\n")
                process.stdin.flush()
                answers.append(process.stdout.readline().decode().strip() or "the worker has ended")
                if not answers[-1].startswith("ok"):
                    break
        except BrokenPipeError:
            answers.append(process.stdout.readline().decode().strip() or "the worker has ended")
        watch.cancel()
        # Not by the end of its input: Swift's readLine() reads on for ever where errno is EINTR from before.
        process.kill()
        _, errors = process.communicate()
        status = "hangs" if hung else 0 if process.returncode == -signal.SIGKILL else process.returncode
        return Run(status, b"", errors.decode("utf-8", "replace"), answers)

    def log(self):
        """(mark, call, path) of each call that the shim wrote down."""
        try:
            text = (self.faults / "log").read_text(errors="replace")
        except FileNotFoundError:
            return []
        return [tuple(line.split("\t", 2)) for line in text.splitlines() if line.count("\t") >= 2]

    # MARK: beds

    def save(self, name):
        shutil.copytree(self.here, self.place / "saved" / name, symlinks=True)

    def load(self, name):
        self.untouched = None
        shutil.rmtree(self.here, ignore_errors=True)
        shutil.copytree(self.place / "saved" / name, self.here, symlinks=True)

    @staticmethod
    def everything(below):
        """Name → kind, rights, attributes and bytes: what a later command can find in a directory."""
        found = {}
        for place, directories, files in os.walk(below):
            for path in (os.path.join(place, name) for name in directories + files):
                mode, content = os.lstat(path).st_mode, None
                if stat.S_ISREG(mode):
                    with open(path, "rb") as file:
                        content = file.read()
                elif stat.S_ISLNK(mode):
                    content = os.readlink(path)
                attributes = {name: os.getxattr(path, name, follow_symlinks=False)
                              for name in os.listxattr(path, follow_symlinks=False)}
                found[path] = mode, attributes, content
        return found

    def keybag_files(self):
        """The keybag, without what processes tell each other while they run."""
        run = f"{self.keybag}/run"
        return {path: what for path, what in self.everything(self.keybag).items() if path != run and not path.startswith(run + "/")}

    def make(self):
        shutil.rmtree(self.here, ignore_errors=True)
        self.work.mkdir(parents=True)
        for name in ("home", "data", "state", "config", "runtime"):
            (self.here / name).mkdir(mode=0o700)

    # MARK: the ring

    def forget_keys(self):
        """As a boot would leave it."""
        self.untouched = None
        self.keyutils.keyctl_clear(USER_KEYRING)

    def read_key(self, serial):
        """The payload of a key; of a keyring the serials of its keys, four bytes each. None of one that nobody can read."""
        size = self.keyutils.keyctl_read(serial, None, 0)
        if size < 0:
            return None
        payload = ctypes.create_string_buffer(size)
        self.keyutils.keyctl_read(serial, payload, size)
        return payload.raw

    def ring(self):
        """What is in the ring: description → rights, payload, and when it expires. Of a key that is dead only its serial."""
        with open("/proc/keys", encoding="utf-8", errors="replace") as file:
            expiry = {int(line.split()[0], 16): line.split()[3] for line in file}
        keys = {}
        for (serial,) in struct.iter_unpack("=i", self.read_key(USER_KEYRING)):
            described = ctypes.create_string_buffer(4096)
            if self.keyutils.keyctl_describe(serial, described, len(described)) < 0:
                keys[serial] = None
                continue
            kind, _, _, rights, description = described.value.split(b";", 4)
            keys[description] = kind, int(rights, 16), self.read_key(serial), expiry.get(serial & 0xFFFFFFFF, "perm")
        return keys

    def put_keys(self, keys):
        """Makes the ring what ``ring()`` has found: a command would take as long as the one that is tried."""
        self.forget_keys()
        for description, (kind, rights, payload, expiry) in keys.items():
            if (kind, expiry) != (b"user", "perm"):
                raise Wrong(f"this key cannot be made again: {description}")
            # As RingKey.load does it: rights are only for the possessor to set.
            serial = self.keyutils.add_key(kind, description, payload, len(payload), THREAD_KEYRING)
            if min(serial, self.keyutils.keyctl_setperm(serial, rights), self.keyutils.keyctl_link(serial, USER_KEYRING)) < 0:
                raise Wrong(f"a key cannot be put into the ring: {os.strerror(ctypes.get_errno())}")
            self.keyutils.keyctl_unlink(serial, THREAD_KEYRING)

    def enter(self, state, passcode=PASSCODE):
        self.forget_keys()
        if state != "before":
            # No work in the background: what waits is done by whoever is tried, or by `unlock --wait`.
            self.must("unlock", "--passcode-fd", 3, fds={3: passcode}, fault=NO_SPAWN)
        if state == "locked":
            self.must("lock")

    # MARK: looking

    def names(self, directory):
        """Every name below a directory, but what processes tell each other while they run, and SQLite's own files."""
        found = set()
        for place, directories, files in os.walk(directory):
            directories[:] = [name for name in directories if not (name == "run" and pathlib.Path(place) == self.keybag)]
            for name in directories + files:
                if not name.endswith(("-wal", "-shm")):
                    found.add(os.path.relpath(os.path.join(place, name), directory))
        return found

    def is_protected(self, path):
        with open(path, "rb") as file:
            return file.read(8) == MAGIC

    def texts(self, paths):
        """What `cat` prints of all these protected files, by one command; nothing if it fails at one, or if it is not clear which is whose."""
        try:
            sizes = [head_in_force(path.read_bytes())["content"]["size"] for path in paths]
        except Refused:
            return {}
        done = self.run("cat", *paths)
        if done.status != 0 or len(done.output) != sum(sizes):
            return {}
        ends = list(itertools.accumulate(sizes))
        return {path: done.output[end - size:end] for path, size, end in zip(paths, sizes, ends)}

    def contents(self, path, text=None):
        """Class and SHA-256 of what a reader gets, which is `text` where that is known; of a plain file `plain`."""
        if path.is_symlink():
            return f"link {os.readlink(path)}"
        if not self.is_protected(path):
            return "plain " + hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        if text is None:
            done = self.run("cat", path)
            if done.status != 0:
                return f"UNREADABLE {done.status} {done.errors.strip()}"
            text = done.output
        # By the independent reader: another command for every file after every fault would take a third of the time.
        name = CLASS_NAMES[head_in_force(path.read_bytes())["wrap"]["class"] - 1]
        return f"{name} {len(text)} {hashlib.sha256(text).hexdigest()[:16]}"

    def tree(self, below="work"):
        """What is in each file."""
        root = self.here / below
        if not root.exists():
            return {}
        paths = {f"{below}/{name}": root / name for name in sorted(self.names(root))
                 if not (root / name).is_dir() and ".protectfs-unfinished-" not in name}
        protected = [path for path in paths.values() if not path.is_symlink() and self.is_protected(path)]
        texts = self.texts(protected) if len(protected) > 1 else {}
        return {name: self.contents(path, texts.get(path)) for name, path in paths.items()}
