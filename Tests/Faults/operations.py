"""Every operation that changes anything: what is there before it, the command, and what a user can see of the state."""
import hashlib
import http.server
import json
import os
import re
import shutil
import subprocess
import threading

from bed import PASSCODE

OTHER = b"passcode two"
PASSPHRASE = b"a passphrase for a backup in tests"
SMALL, TEXT, LARGE = b"a small text\n", bytes(range(256)) * 40, bytes(range(251)) * 1600
OPERATIONS = {}


class Operation:
    """
    prepare(bed)   makes what is there before, with the keybag unlocked
    ring           `unlocked`, `locked` or `before`: in which state the command runs
    command        arguments, or a function(bed) that gives them; `input` and `fds` are what it reads; `lines`: of a worker that serves
    look(bed, run) the state that a user can see, a dictionary: each part is the old one or the new one, whatever fails
    status         of the run without a fault
    between        part → states that are neither, and no fault: what they are is said where they are written
    closes         a file that a writer which failed, or was dead before, has left open: the next one closes it, before `verify` looks
    listens        whether `look` also weighs what the command has said
    refuses(done)  whether it says that it failed; by its status, unless it is a service
    repeats        whether the same command, again, is what a user does after a failure; else `again(bed)`
    """

    def __init__(self, name, command=None, *, prepare=None, ring="unlocked", stdin=b"", fds=None, lines=None, look=None, status=0,
                 between=None, again=None, repeats=True, again_status=(0,), verifies=True, closes=None, listens=False, refuses=None,
                 program="protectfs", timeout=60):
        self.name, self.command, self.prepare, self.ring, self.stdin, self.fds = name, command, prepare, ring, stdin, fds
        self.lines, self.look, self.status, self.between = lines, look or (lambda bed, run: bed.tree()), status, between or {}
        self.again, self.repeats, self.again_status, self.verifies = again, repeats, again_status, verifies
        self.refuses = refuses or (lambda done: done.status != status)
        self.listens = listens
        self.program, self.timeout, self.closes = program, timeout, closes or ("f" if lines else None)
        OPERATIONS[name] = self

    def run(self, bed, **fault):
        if self.lines:
            return bed.serve(self.lines, timeout=self.timeout, **fault)
        arguments = self.command(bed) if callable(self.command) else self.command
        return bed.run(*arguments, stdin=self.stdin, fds=self.fds, program=self.program, timeout=self.timeout, **fault)


def passcodes(bed, *candidates):
    """Which of them unlock a copy of the keybag; the ring is left as it was."""
    found = []
    for passcode in candidates:
        copy = bed.here / "keybag-copy"
        shutil.copytree(bed.keybag, copy, symlinks=True)
        done = bed.run("unlock", "--only-first-unlock", "--keybag", copy, "--passcode-fd", 3, fds={3: passcode})
        shutil.rmtree(copy)
        if done.status == 0:
            found.append(passcode.decode())
        elif done.status != 77:
            found.append(f"status {done.status}: {done.errors.strip()}")
    return found


def state(bed):
    done = bed.run("status")
    words = done.output.decode().splitlines()[0].split(": ", 1) if done.status == 0 else ["", f"status {done.status} {done.errors}"]
    return words[1].split(" since")[0]


def one(name, content, protection="complete"):
    def prepare(bed):
        bed.must("write", "--class", protection, name, stdin=content)
    return prepare


# MARK: the keybag

def opens(*candidates):
    def look(bed, run):
        seen = {"ring": state(bed)} if bed.keybag.exists() else {"keybag": "none"}
        if bed.keybag.exists():
            seen["keybag"] = passcodes(bed, *candidates)
            if not seen["ring"].startswith("unlocked"):
                passcode = next((p for p in candidates if p.decode() in seen["keybag"]), None)
                if passcode:
                    bed.run("unlock", "--wait", "--passcode-fd", 3, fds={3: passcode})
        return seen | bed.tree()
    return look


def no_keybag(bed):
    shutil.rmtree(bed.keybag)
    shutil.rmtree(bed.here / "state")


for options in ([], ["--recovery-code"]):
    # A keybag that was made and not unlocked is said to be there: what the user does then is unlock it.
    command = ["init", *options, "--passcode-fd", 3]
    Operation(" ".join(["init", *options]), command, prepare=no_keybag, ring="before", fds={3: PASSCODE}, look=opens(PASSCODE),
              verifies=False, between={"ring": ["locked, not unlocked", "locked"]},
              again=lambda bed, command=command: bed.run(
                  *(["unlock", "--passcode-fd", 3] if bed.keybag.exists() else command), fds={3: PASSCODE}))
Operation("unlock", ["unlock", "--passcode-fd", 3], prepare=one("f", TEXT), ring="before", fds={3: PASSCODE}, look=opens(PASSCODE),
          between={"ring": ["locked"]})
Operation("unlock --only-first-unlock", ["unlock", "--only-first-unlock", "--passcode-fd", 3], prepare=one("f", TEXT), ring="before",
          fds={3: PASSCODE}, look=opens(PASSCODE))


def attempts(bed, run):
    """The count of the sector in force: FORMAT.md §2.3."""
    count, highest = None, -1
    stored = (bed.keybag / "attempts").read_bytes()
    for sector in (stored[:512], stored[512:]):
        sequence = int.from_bytes(sector[8:16], "little")
        if hashlib.sha256(sector[:480]).digest() == sector[480:] and sequence > highest:
            highest, count = sequence, int.from_bytes(sector[32:36], "little")
    return {"failures": count, "free tries": 1 if run is not None and run.status == 77 and count == 0 else 0}


Operation("unlock, wrong passcode", ["unlock", "--passcode-fd", 3], ring="locked", fds={3: b"wrong"}, look=attempts, status=77,
          listens=True, repeats=False, verifies=False)
Operation("lock", ["lock"], prepare=one("f", TEXT), look=opens(PASSCODE))
Operation("passcode", ["passcode", "--passcode-fd", 3, "--new-passcode-fd", 4], fds={3: PASSCODE, 4: OTHER}, prepare=one("f", TEXT),
          look=opens(PASSCODE, OTHER), again_status=(0, 77))


def service_secrets(bed, run):
    done = bed.run("service-secret", "list")
    return {"ring": state(bed), "secrets": done.output.decode() if done.status == 0 else f"status {done.status} {done.errors}"} | bed.tree()


def service_secret(bed):
    one("f", TEXT)(bed)
    bed.must("service-secret", "add", "--passcode-fd", 3, "boot", fds={3: PASSCODE})


Operation("service-secret add", ["service-secret", "add", "--passcode-fd", 3, "boot"], fds={3: PASSCODE}, prepare=one("f", TEXT),
          look=service_secrets, again_status=(0, 73))
Operation("service-secret remove", ["service-secret", "remove", "--passcode-fd", 3, "boot"], fds={3: PASSCODE}, prepare=service_secret,
          look=service_secrets, again_status=(0, 66))


def codes(bed, *candidates):
    found = []
    for code in candidates:
        copy = bed.here / "keybag-copy"
        shutil.copytree(bed.keybag, copy, symlinks=True)
        done = bed.run("passcode", "--with-recovery-code", "--keybag", copy, "--recovery-code-fd", 3, "--new-passcode-fd", 4,
                       fds={3: code, 4: b"third"})
        shutil.rmtree(copy)
        if done.status == 0:
            found.append(code)
        elif done.status not in (66, 77, 65):
            found.append(f"status {done.status}: {done.errors.strip()}")
    return found


def shown(output):
    """The recovery code in what a command printed."""
    words = [word for word in output.split() if word.count(b"-") == 7]
    return words[-1] if words else None


def with_code(bed):
    bed.must("write", "--class", "complete", "f", stdin=TEXT)
    code = shown(bed.must("recovery", "new", "--passcode-fd", 3, fds={3: PASSCODE}))
    (bed.here / "code").write_bytes(code)


def recovers(*candidates):
    def look(bed, run):
        old, new = (bed.here / "code").read_bytes(), shown(run.output) if run else None
        found = codes(bed, old, *([new] if new else []))
        # Exactly one of them, whatever happened; which one is what the part says.
        said = ["old" if code == old else "new" if code == new else code for code in found]
        seen = opens(*candidates)(bed, run)
        return seen | {"code": said}
    return look


Operation("recovery new", ["recovery", "new", "--passcode-fd", 3], fds={3: PASSCODE}, prepare=with_code, look=recovers(PASSCODE),
          listens=True)
Operation("passcode --with-recovery-code",
          ["passcode", "--with-recovery-code", "--recovery-code-fd", 3, "--new-passcode-fd", 4], prepare=with_code, ring="locked",
          look=recovers(PASSCODE, OTHER), listens=True, fds=None, again_status=(0, 77))
OPERATIONS["passcode --with-recovery-code"].run = lambda bed, **fault: bed.run(
    *OPERATIONS["passcode --with-recovery-code"].command, fds={3: (bed.here / "code").read_bytes(), 4: OTHER}, **fault)


def exported(bed, run):
    path = bed.work / "export"
    done = path.read_bytes() if path.exists() else b"none"
    return {"export": "whole" if b"END" in done.splitlines()[-1] or len(done) > 2500 else done.decode()[:20]}


def made_export(bed):
    one("f", TEXT)(bed)
    bed.must("recovery", "new", "--passcode-fd", 3, fds={3: PASSCODE})
    bed.must("recovery", "export", "../export")


def lost_copies(bed):
    made_export(bed)
    for number in (0, 1):
        stored = bytearray((bed.keybag / f"keybag.{number}").read_bytes())
        stored[-1] ^= 1
        (bed.keybag / f"keybag.{number}").write_bytes(stored)


def only_export(bed):
    made_export(bed)
    shutil.rmtree(bed.keybag)


Operation("recovery export", ["recovery", "export", "export"], look=exported, verifies=False,
          prepare=lambda bed: bed.must("recovery", "new", "--passcode-fd", 3, fds={3: PASSCODE}), again_status=(0, 73))
Operation("recovery restore, no keybag", ["recovery", "restore", "../export"], prepare=only_export, ring="before", look=opens(PASSCODE),
          again_status=(0, 73))
Operation("recovery restore, damaged keybag", ["recovery", "restore", "../export"], prepare=lost_copies, ring="before",
          look=lambda bed, run: {"keybag": [p for p in passcodes(bed, PASSCODE) if not p.startswith("status 65")]} | (
              bed.tree() if bed.run("unlock", "--passcode-fd", 3, fds={3: PASSCODE}).status == 0 else {"work/f": "no keybag"}),
          again_status=(0, 73))


def four(bed):
    for protection in ("complete", "unless-open", "first-unlock", "none"):
        bed.must("write", "--class", protection, protection, stdin=TEXT)
    bed.must("secret", "add", "--service", "s", "--account", "a", "--value-fd", 3, fds={3: b"value"})


def secret(bed, account="a"):
    done = bed.run("secret", "get", "--service", "s", "--account", account)
    return done.output.decode() if done.status == 0 else f"status {done.status}" + ("" if done.status == 66 else done.errors)


def generations(bed, run):
    """Which class keys there are, and what is readable with them."""
    ring = state(bed)
    if ring != "unlocked":
        bed.run("unlock", "--wait", "--passcode-fd", 3, fds={3: PASSCODE})
    done = json.loads(bed.must("status", "--json"))["keybags"][0]
    return {"ring": ring, "generation": (done["generation"], tuple(done["retiredGenerations"])), "secret": secret(bed)} | bed.tree() | {
        "keybag": passcodes(bed, PASSCODE)}


def rotated(bed):
    four(bed)
    bed.must("rotate", "--root", ".", "--jobs", 1, "--passcode-fd", 3, fds={3: PASSCODE})


def finish_rotation(bed):
    """What the messages say: go on where it was; or, where no new keys were made, once more."""
    generation = json.loads(bed.must("status", "--json"))["keybags"][0]["generation"]
    if generation == 2:
        return bed.run("rotate", "--resume", "--root", ".", "--jobs", 1)
    return OPERATIONS["rotate"].run(bed)


Operation("rotate", ["rotate", "--root", ".", "--jobs", 1, "--passcode-fd", 3], prepare=four, fds={3: PASSCODE}, look=generations,
          # New keys that cannot be put into the ring: the old ones are not left there, and it says to unlock.
          again=finish_rotation, between={"ring": ["locked"]})
Operation("rotate --forget", ["rotate", "--forget", "--yes", "--root", ".", "--jobs", 1, "--passcode-fd", 3], prepare=rotated,
          fds={3: PASSCODE}, look=generations, between={"ring": ["locked"]},
          refuses=lambda done: done.status != 0 or "the keybag is locked now" in done.errors)
Operation("erase", ["erase", "--yes"], prepare=one("f", TEXT), verifies=False, again_status=(0, 66),
          look=lambda bed, run: {"keys": "ring" if b"protectfs:" in open("/proc/keys", "rb").read() and state(bed) == "unlocked" else
                                 "gone", "keybag": passcodes(bed, PASSCODE) if any(bed.keybag.glob("keybag.*")) else "none"},
          # Half erased is what it is for: the keys are gone, and the next try removes the rest.
          between={"keybag": "any"})

# MARK: files

PLAIN = lambda bed: (bed.work / "f").write_bytes(TEXT)
Operation("protect", ["protect", "--class", "complete", "f"], prepare=PLAIN)
Operation("protect, large", ["protect", "--class", "unless-open", "f"], prepare=lambda bed: (bed.work / "f").write_bytes(LARGE))
Operation("unprotect", ["unprotect", "f"], prepare=one("f", TEXT), again_status=(0, 65), verifies=False)


def small_tree(bed):
    (bed.work / "d/e").mkdir(parents=True)
    for name, text in (("a", TEXT), ("d/b", SMALL), ("d/e/c", b"")):
        (bed.work / name).write_bytes(text)
    bed.must("write", "--class", "none", "d/weak", stdin=TEXT)
    os.symlink("a", bed.work / "link")


Operation("protect --recursive", ["protect", "--recursive", "--yes", "--class", "complete", "."], prepare=small_tree)
Operation("upgrade", ["upgrade", "--jobs", 1, "--class", "complete", "."], prepare=small_tree)
Operation("write, new", ["write", "--class", "complete", "f"], stdin=TEXT)
Operation("write, new, inline", ["write", "--class", "unless-open", "f"], stdin=SMALL)
Operation("write, new, large, locked", ["write", "--class", "unless-open", "f"], stdin=LARGE, ring="locked",
          look=lambda bed, run: (bed.enter("unlocked"), bed.tree())[1])
Operation("write, replacing", ["write", "f"], prepare=one("f", SMALL), stdin=TEXT)


def appends(name, prepare, stdin=SMALL, **more):
    Operation(name, ["write", "--append", "f"], prepare=prepare, stdin=stdin, repeats=False, closes="f", **more)


def how_much(bed, run):
    """A large input is committed in pieces: what was there, and then so much of it as the message says, or more."""
    found = bed.run("cat", "f").output
    if not (found.startswith(TEXT) and LARGE.startswith(found[len(TEXT):])):
        return {"f": "other bytes"}
    count = len(found) - len(TEXT)
    said = re.search(r"(\d+) bytes were written", run.errors) if run else None
    if said and count < int(said[1]):
        return {"f": f"{count} bytes, and it said {said[1]}"}
    return {"f": "nothing" if count == 0 else "whole" if count == len(LARGE) else "some" if said else f"{count} bytes, untold"}


Operation("edit", ["edit", "--editor", "sh -c 'printf more >>\"$1\"' sh", "f"], prepare=one("f", TEXT), repeats=False)


def with_redo(bed):
    """A file whose last commits are redo records, as a killed writer leaves it."""
    bed.must("write", "--class", "complete", "f", stdin=TEXT)
    worker = subprocess.Popen([bed.binaries / "storm-worker", bed.keybag, "serve"], cwd=bed.work, env=bed.environment(),
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for line in (b"open w f\n", b"write 100 5000 1\n", b"sync\n", b"write 9000 200 2\n", b"sync\n"):
        worker.stdin.write(line)
        worker.stdin.flush()
        assert worker.stdout.readline().startswith(b"ok")
    worker.kill()
    worker.communicate()


appends("append, inline", one("f", SMALL))
appends("append, inline to chunks", one("f", SMALL), TEXT)
appends("append, chunks", one("f", TEXT))
appends("append, large", one("f", TEXT), LARGE, look=how_much, listens=True, between={"f": ["some"]})
appends("append, with a redo area", with_redo)


def segment_log(bed):
    bed.must("write", "--append", "--segments", "--class", "unless-open", "log", stdin=b"one\n")


def queued(bed, run):
    """After an unlock and the queue: nothing waits, and each line is there once."""
    bed.must("unlock", "--wait", "--passcode-fd", 3, fds={3: PASSCODE})
    bed.must("queue", "run")
    if bed.run("queue").output:
        return {"queue": bed.run("queue").output.decode()}
    return bed.tree()


Operation("append --segments, locked", ["write", "--append", "--segments", "--class", "unless-open", "log"], stdin=b"two\n",
          prepare=segment_log, ring="locked", look=queued, repeats=False)
Operation("write --raise-to, locked", ["write", "--class", "unless-open", "--raise-to", "complete", "f"], stdin=TEXT, ring="locked",
          look=queued)


def full_queue(bed):
    segment_log(bed)
    bed.must("lock")
    bed.must("write", "--append", "--segments", "--class", "unless-open", "log", stdin=b"two\n")
    bed.must("write", "--class", "unless-open", "--raise-to", "complete", "f", stdin=TEXT)


Operation("queue run", ["queue", "run"], prepare=full_queue, closes="log",
          look=lambda bed, run: {"queue": bed.must("queue").decode() != ""} | {
              name: what for name, what in bed.tree().items() if "segment" not in name})

# MARK: classes

Operation("class, raised", ["class", "f", "complete"], prepare=one("f", TEXT, "first-unlock"))
Operation("class, lowered", ["class", "--allow-weaker", "f", "none"], prepare=one("f", TEXT))
Operation("class, with a redo area", ["class", "f", "unless-open", "--allow-weaker"], prepare=with_redo, closes="f")
# Its chunks at home, half of which may be: the records stay in force.
Operation("repair", ["repair", "f"], prepare=with_redo, closes="f", between={"chunks": "any"},
          look=lambda bed, run: bed.tree() | {"chunks": hashlib.sha256((bed.work / "f").read_bytes()[8192:20000]).hexdigest()[:8]})
Operation("class --rekey", ["class", "--rekey", "f"], prepare=one("f", TEXT),
          look=lambda bed, run: bed.tree() | {"id": "old" if (bed.work / "f").read_bytes()[24:200] == (
              bed.place / "saved/class --rekey/work/f").read_bytes()[24:200] else "new"})
Operation("class of a directory", ["class", "d", "complete"], prepare=lambda bed: (bed.work / "d").mkdir(),
          look=lambda bed, run: {"d": bed.must("class", "d").decode().strip()})

# MARK: messages, backups


def message(bed):
    one("f", TEXT)(bed)
    bed.must("rncryptor", "seal", "f", "-o", "../message", "--password-fd", 3, fds={3: PASSPHRASE})


def opened_message(bed, run):
    path = bed.work / "f.rncryptor"
    if not path.exists():
        return {"message": "none"}
    done = bed.run("rncryptor", "open", path, "-o", "-", "--password-fd", 3, fds={3: PASSPHRASE})
    return {"message": hashlib.sha256(done.output).hexdigest() if done.status == 0 else done.errors}


Operation("rncryptor seal", ["rncryptor", "seal", "f", "--password-fd", 3], prepare=one("f", TEXT),
          fds={3: PASSPHRASE}, look=opened_message, again_status=(0, 73))
Operation("rncryptor open", ["rncryptor", "open", "../message", "-o", "g", "--class", "complete", "--password-fd", 3], prepare=message,
          fds={3: PASSPHRASE}, again_status=(0, 73))


def backed_up(bed):
    (bed.work / "d").mkdir()
    for name, text in (("a", TEXT), ("d/b", SMALL)):
        bed.must("write", "--class", "complete", name, stdin=text)
    bed.must("backup", "--to", "../backup", "--passphrase-fd", 3, ".", fds={3: PASSPHRASE})


def changed(bed):
    backed_up(bed)
    bed.must("write", "a", stdin=SMALL)
    bed.must("write", "--class", "none", "new", stdin=TEXT)


def restored(bed, run, source="backup"):
    """What the backup gives back."""
    if not (bed.here / source / "keybag").exists():
        return {"backup": "no keybag"}
    target = bed.here / "look"
    shutil.rmtree(target, ignore_errors=True)
    done = bed.run("restore", bed.here / source, "--to", target, "--passphrase-fd", 3, fds={3: PASSPHRASE})
    if done.status != 0:
        return {"backup": f"status {done.status} {done.errors}"}
    seen = {name.split(f"/{bed.work.name}/", 1)[1]: what for name, what in bed.tree("look").items()}
    shutil.rmtree(target, ignore_errors=True)
    return seen | {"backup": "opens"}


def back_up_again(bed):
    """The passphrase is asked for only where no class keys are stored yet."""
    has_keys = (bed.here / "backup/keybag").exists()
    options = [] if has_keys else ["--passphrase-fd", 3]
    return bed.run("backup", "--to", "../backup", *options, ".", fds=None if has_keys else {3: PASSPHRASE})


Operation("backup, the first", ["backup", "--to", "../backup", "--passphrase-fd", 3, "."], prepare=small_tree, fds={3: PASSPHRASE},
          look=restored, again=back_up_again)
Operation("backup, again", ["backup", "--to", "../backup", "."], prepare=changed, look=restored)
Operation("backup --new-keybag", ["backup", "--to", "../backup", "--new-keybag", "--passphrase-fd", 3, "."], fds={3: PASSPHRASE},
          prepare=lambda bed: (backed_up(bed), bed.must("rotate", "--root", ".", "--passcode-fd", 3, fds={3: PASSCODE}),
                               bed.must("write", "a", stdin=SMALL)), look=restored)


def to_restore(bed):
    backed_up(bed)
    shutil.rmtree(bed.work)
    bed.work.mkdir()


Operation("restore", ["restore", "../backup", "--to", ".", "--passphrase-fd", 3], prepare=to_restore, fds={3: PASSPHRASE},
          look=lambda bed, run: {name: what for name, what in bed.tree().items() if "/bed/work/" in name or "unfinished" not in name})

# MARK: secrets


def secrets(*accounts):
    def look(bed, run):
        return {account: secret(bed, account) for account in accounts}
    return look


def two_secrets(bed):
    for account in ("a", "b"):
        bed.must("secret", "add", "--service", "s", "--account", account, "--value-fd", 3, fds={3: b"value " + account.encode()})


def exported_secrets(bed):
    two_secrets(bed)
    bed.must("secret", "export", "../secrets")
    for account in ("a", "b"):
        bed.must("secret", "delete", "--service", "s", "--account", account)


NAMED = ["--service", "s", "--account", "a"]
Operation("secret add, the first", ["secret", "add", *NAMED, "--value-fd", 3], fds={3: b"new"}, look=secrets("a"), again_status=(0, 73),
          verifies=False)
Operation("secret set", ["secret", "set", *NAMED, "--value-fd", 3], prepare=two_secrets, fds={3: b"new"}, look=secrets("a", "b"),
          verifies=False)
Operation("secret update", ["secret", "update", *NAMED, "--accessibility", "after-first-unlock", "--value-fd", 3], prepare=two_secrets,
          fds={3: b"new"}, look=secrets("a", "b"), verifies=False)
Operation("secret delete", ["secret", "delete", *NAMED], prepare=two_secrets, look=secrets("a", "b"), again_status=(0, 66),
          verifies=False)
Operation("secret export", ["secret", "export", "f"], prepare=two_secrets, again_status=(0, 73))
Operation("secret import", ["secret", "import", "../secrets"], prepare=exported_secrets, look=lambda bed, run: {
    "both": tuple(secrets("a", "b")(bed, run).values())}, again_status=(0, 73), verifies=False)

# MARK: downloads


class Server(http.server.BaseHTTPRequestHandler):
    """`/small`, `/large`: the same bytes every time."""

    bodies = {"/small": TEXT, "/large": LARGE * 4}

    def do_GET(self):
        try:
            self.answer(self.bodies[self.path])
        except (BrokenPipeError, ConnectionResetError):
            pass

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"one"')
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def url(name):
    if not hasattr(url, "server"):
        url.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
        threading.Thread(target=url.server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{url.server.server_port}/{name}"


def entries(bed, *command):
    """What `download … --json` lists; or that it cannot."""
    done = bed.run("download", *command, "--json")
    return json.loads(done.output or b"[]") if done.status == 0 else f"status {done.status} {done.errors}"


def downloads(bed, run):
    """The file, and how many downloads the list has that are not over. A class that could not be raised is the queue's work."""
    bed.must("queue", "run")
    found = entries(bed, "list")
    over = ("finished", "failed", "cancelled")
    listed = len([d for d in found if d.get("state") not in over]) if isinstance(found, list) else found
    partial = {name: what for name, what in bed.tree().items() if ".protectfs-download-" not in name}
    return {"listed": listed} | partial


def resume(bed):
    """What failed goes on only if it is told to; what waits for nothing goes on by itself."""
    for download in json.loads(bed.must("download", "list", "--json")):
        if download["state"] == "failed":
            bed.must("download", "resume", download["id"])
    return bed.run("download", "run", "--until-idle")


PLAIN_HTTP = ["--allow-plain-http", "--retries", "1"]
Operation("download add", lambda bed: ["download", "add", *PLAIN_HTTP, "-o", "f", url("small")], look=downloads, verifies=False,
          again_status=(0, 73))
for size in ("small", "large"):
    Operation(f"download get, {size}", lambda bed, size=size: ["download", "get", *PLAIN_HTTP, "-o", "f", url(size)], look=downloads,
              again_status=(0, 73),
              between={"listed": [1]})
Operation("download run", ["download", "run", "--until-idle"], look=downloads, again=resume,
          refuses=lambda done: done.status != 0 or "failed" in done.errors, prepare=lambda bed: bed.must("download", "add", *PLAIN_HTTP, "-o", "f", url("large")))



def states(bed, run):
    """What becomes of each download; one that is not in the list any more is gone."""
    found = entries(bed, "list")
    return {"downloads": [d["state"] for d in found] or ["none"] if isinstance(found, list) else found}


def added(bed):
    bed.must("download", "add", *PLAIN_HTTP, "-o", "f", url("small"))


def of_the_first(verb):
    return lambda bed: ["download", verb, json.loads(bed.must("download", "list", "--json"))[0]["id"]]


def paused(bed):
    added(bed)
    bed.must(*of_the_first("pause")(bed))


Operation("download pause", of_the_first("pause"), prepare=added, look=states, verifies=False)
Operation("download resume", of_the_first("resume"), prepare=paused, look=states, verifies=False)
# It is cancelled first, and then taken out of the list. A second try finds nothing of that name.
Operation("download cancel", of_the_first("cancel"), prepare=added, look=states, verifies=False, between={"downloads": [["cancelled"]]},
          again=lambda bed: bed.run(*(of_the_first("cancel")(bed) if states(bed, None)["downloads"] != ["none"] else ["status"])))


def listed(*command):
    return lambda bed, run: {"list": entries(bed, *command)}


CREDENTIAL = ["download", "credentials", "add", "localhost", "--user", "kim", "--password-fd", 3]
Operation("download credentials add", CREDENTIAL, fds={3: b"secret"}, look=listed("credentials", "list"), verifies=False,
          again_status=(0, 73))
Operation("download credentials remove", ["download", "credentials", "remove", "localhost"], look=listed("credentials", "list"),
          prepare=lambda bed: bed.must(*CREDENTIAL, fds={3: b"secret"}), again_status=(0, 66), verifies=False)
KEY = ["download", "key", "add", "one", "--key-fd", 3]
Operation("download key add", KEY, fds={3: bytes(range(32))}, look=listed("key", "list"), again_status=(0, 73), verifies=False)
Operation("download key retire", ["download", "key", "retire", "one"], prepare=lambda bed: bed.must(*KEY, fds={3: bytes(range(32))}),
          look=listed("key", "list"), again_status=(0, 66), verifies=False)
EXCEPTION = ["localhost:443", "--certificate", "ab" * 32, "--reason", "expired"]
Operation("download trust add", ["download", "trust", "add", *EXCEPTION], look=listed("trust", "list"), verifies=False)
Operation("download trust remove", ["download", "trust", "remove", "localhost:443"], look=listed("trust", "list"),
          prepare=lambda bed: bed.must("download", "trust", "add", *EXCEPTION), again_status=(0, 66), verifies=False)

# MARK: handles: what is acknowledged by `sync` and `close`


def handle(name, lines, prepare):
    Operation(f"handle: {name}", prepare=prepare, lines=["open w f", *lines, "close"], program="storm-worker", repeats=False)


handle("overwrite", ["write 100 3000 1", "sync", "write 5000 5000 2", "write 20 10 3", "sync"], one("f", TEXT))
handle("append", ["append 10 1", "sync", "append 9000 2", "sync", "append 1 3"], one("f", TEXT))
handle("inline, then chunks", ["append 10 1", "sync", "append 9000 2", "sync", "write 0 100 3", "sync"], one("f", SMALL))
handle("truncate", ["truncate 5000", "sync", "append 3000 1", "truncate 100", "sync", "truncate 9000", "sync"], one("f", TEXT))
handle("holes", ["write 100000 100 1", "sync", "write 50000 5000 2", "sync", "truncate 60000", "sync"], one("f", TEXT))
handle("close with an open redo area", ["write 100 3000 1", "sync", "write 5000 5000 2", "sync"], with_redo)
handle("64 KiB chunks", ["write 1000 70000 1", "sync", "append 100000 2", "sync"], one("f", LARGE))
