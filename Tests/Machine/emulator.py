"""A machine under QEMU: its power, its terminals, a root shell in it, and its memory.

It is emulated: a machine inside a machine often has no hardware support that works, and nothing here needs to be fast."""
import base64
import json
import os
import pathlib
import re
import socket
import subprocess
import threading
import time

MEMORY = 1 << 30  # bytes; below 3 GiB it is all at the addresses from 0 on


class Failed(Exception):
    """What did not come to pass, with what was seen instead."""


def connected(path, seconds=10):
    end = time.monotonic() + seconds
    while True:
        stream = socket.socket(socket.AF_UNIX)
        try:
            stream.connect(str(path))
            return stream
        except OSError:
            stream.close()
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


class Monitor:
    """QEMU's own protocol: JSON lines, with events between the answers."""

    def __init__(self, path):
        self.stream = connected(path).makefile("rw")
        self.stream.readline()
        self.ask("qmp_capabilities")

    def ask(self, command, **arguments):
        self.stream.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.stream.flush()
        for line in self.stream:
            answer = json.loads(line)
            if "error" in answer:
                raise Failed(f"{command}: {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]
        raise Failed(f"{command}: the machine is gone")


class GuestAgent:
    """Commands that root runs in the machine."""

    def __init__(self, path):
        self.path, self.stream = path, None

    def ask(self, command, **arguments):
        if self.stream is None:
            self.connect()
        try:
            self.send(command, **arguments)
            return self.answer()
        except OSError as error:
            self.close()
            raise Failed(f"the machine does not answer to {command}: {error}") from None

    def connect(self, seconds=240):
        """Waits for the agent, which is started with the machine."""
        end = time.monotonic() + seconds
        while True:
            try:
                self.stream = connected(self.path)
                self.stream.settimeout(3)
                self.file = self.stream.makefile("rb")
                # Answers to earlier questions may come before the one to this.
                number = int.from_bytes(os.urandom(4), "big")
                self.send("guest-sync", id=number)
                while self.answer() != number:
                    pass
                return self.stream.settimeout(30)
            except (OSError, ValueError) as error:
                self.close()
                if time.monotonic() > end:
                    raise Failed(f"the machine does not start: {error}") from None
                time.sleep(0.3)

    def send(self, command, **arguments):
        self.stream.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")

    def answer(self):
        line = self.file.readline()
        if not line:
            raise OSError("end of file")
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"]["desc"])
        return answer["return"]

    def close(self):
        if self.stream:
            self.stream.close()
        self.stream = None


class Terminal:
    """A serial line, on which the machine offers a login."""

    def __init__(self, path):
        self.stream, self.text, self.changed = connected(path), "", threading.Condition()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        while data := self.stream.recv(4096):
            with self.changed:
                self.text += data.decode(errors="replace").replace("\r", "")
                self.changed.notify_all()

    def type(self, line):
        self.stream.sendall(line.encode() + b"\r")

    def see(self, pattern, seconds=60):
        """Waits for it in what has not been seen yet, and gives what it matched."""
        end = time.monotonic() + seconds
        with self.changed:
            while not (match := re.search(pattern, self.text)):
                left = end - time.monotonic()
                if left <= 0:
                    raise Failed(f"not seen on the terminal: {pattern}; instead:\n{self.text}")
                self.changed.wait(left)
            self.text = self.text[match.end() :]
            return match

    def answer(self, question, text):
        """Types once whoever asks listens: what was typed before is thrown away."""
        self.see(question)
        time.sleep(1)
        self.type(text)

    def login(self, user, password):
        self.type("")
        self.answer(r"login: ", user)
        self.answer(r"Password: ", password)
        self.see(r"ready> ")

    def run(self, command, seconds=60):
        """What a command prints in the session, and its status. The status is not in the line as it is typed."""
        self.type(f"{command}; echo \"<$?>\"")
        self.see(r"\$\?>\"\n", seconds)
        match = self.see(r"(?s)(.*?)<(\d+)>\nready> ", seconds)
        return int(match[2]), match[1].strip()


class Module:
    """A TPM 2.0 by swtpm(8), which outlives the machine as a chip does: its state is in a file."""

    def __init__(self, files):
        self.socket, state = files / "tpm.socket", files / "tpm"
        state.mkdir(exist_ok=True)
        self.socket.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            ["swtpm", "socket", "--tpm2", "--tpmstate", f"dir={state}", "--ctrl", f"type=unixio,path={self.socket}"],
            stdin=subprocess.DEVNULL)

    def end(self):
        self.process.kill()
        self.process.wait()


class Machine:
    def __init__(self, files, options=""):
        """`files` has disk, kernel and initrd; `options` go to the kernel."""
        self.files = pathlib.Path(files)
        self.module = Module(self.files)
        connected(self.module.socket).close()
        sockets = {name: self.files / f"{name}.socket" for name in ("monitor", "agent", "terminal")}
        for path in sockets.values():
            path.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-m", f"{MEMORY >> 20}M", "-smp", "2", "-display", "none", "-nodefaults",
             "-no-user-config", "-drive", f"file={self.files}/disk,if=virtio,format=raw", "-kernel", f"{self.files}/kernel",
             "-initrd", f"{self.files}/initrd", "-append", f"root=/dev/vda rw console=ttyS1 panic=-1 {options}",
             "-serial", f"unix:{sockets['terminal']},server=on,wait=off",
             "-serial", f"file:{self.files}/kernel.log", "-qmp", f"unix:{sockets['monitor']},server=on,wait=off",
             "-device", "virtio-serial", "-chardev", f"socket,path={sockets['agent']},server=on,wait=off,id=agent",
             "-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0", "-device", "virtio-rng-pci",
             "-chardev", f"socket,path={self.module.socket},id=tpm", "-tpmdev", "emulator,id=module,chardev=tpm",
             "-device", "tpm-crb,tpmdev=module"],
            stdin=subprocess.DEVNULL)
        self.monitor, self.agent = Monitor(sockets["monitor"]), GuestAgent(sockets["agent"])
        self.terminal = Terminal(sockets["terminal"])

    def root(self, command, seconds=120):
        """What root's shell prints, standard error included, and its status."""
        started = self.agent.ask(
            "guest-exec", path="/bin/sh", arg=["-c", f"exec 2>&1; {command}"], **{"capture-output": True},
            env=["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"])
        end = time.monotonic() + seconds
        while not (state := self.agent.ask("guest-exec-status", pid=started["pid"]))["exited"]:
            if time.monotonic() > end:
                raise Failed(f"does not end within {seconds} s: {command}")
            time.sleep(0.1)
        return state.get("exitcode", -1), base64.b64decode(state.get("out-data", "")).decode(errors="replace")

    def bytes_of(self, path):
        status, text = self.root(f"base64 --wrap=0 {path}")
        if status != 0:
            raise Failed(text)
        return base64.b64decode(text)

    def is_suspended(self):
        return self.monitor.ask("query-status")["status"] == "suspended"

    def memory(self):
        """All of it, as it is now, in a file."""
        path = self.files / "memory"
        self.monitor.ask("pmemsave", val=0, size=MEMORY, filename=str(path))
        return path

    def end(self):
        """As when the power is cut."""
        self.process.kill()
        self.process.wait()
        self.module.end()
