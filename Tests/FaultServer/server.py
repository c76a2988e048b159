"""An HTTP/1.1 server whose every answer a test has written beforehand, faults included.

Reads one command a line from standard input, as a JSON list, and answers each with a line of JSON: {"result": …} or
{"error": …}. Ends when standard input does. Every byte of HTTP that reaches it is in `received` of its directory, before
anybody looks at what it means: a test that says that no request was sent looks there.
"""
import base64
import hashlib
import json
import os
import shutil
import socket
import ssl
import sys
import threading

sys.path.insert(0, sys.argv[1])

import answers
import authentication
import certificates
import proxy

DIRECTORY = sys.argv[1]


class Server:
    def __init__(self):
        self.lock = threading.Condition()
        self.scripts = {}       # target -> answers, of which the last one stays
        self.guards = {}        # path prefix -> authentication
        self.requests = []
        self.handshakes = []    # "" or why it failed
        self.proxied = []       # what SOCKS was asked for
        self.accepted = 0
        self.held = 0
        self.released = 0
        self.listeners = {}     # name -> (socket, connections)
        self.log = open(os.path.join(DIRECTORY, "received"), "ab", buffering=0)

    # What a test says

    def listen(self, name, kind, port=0, tls=None):
        """Listens on a port of loopback; `kind` is http, https, proxy or socks."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(128)
        context = certificates.context(DIRECTORY, tls or {}) if kind == "https" else None
        self.listeners[name] = (listener, set())
        threading.Thread(target=self.accept, args=(name, kind, context), daemon=True).start()
        return listener.getsockname()[1]

    def close(self, name):
        """Refuses connections from now on, and breaks off those that there are."""
        listener, connections = self.listeners.pop(name)
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for connection in list(connections):
            answers.abandon(connection)

    def script(self, target, *answers):
        with self.lock:
            self.scripts[target] = list(answers)

    def guard(self, prefix, *schemes):
        with self.lock:
            self.guards[prefix] = authentication.Guard(*schemes)

    def release(self):
        with self.lock:
            self.released = self.held
            self.lock.notify_all()

    # Connections

    def accept(self, name, kind, context):
        listener, connections = self.listeners[name]
        while True:
            try:
                connection = listener.accept()[0]
            except OSError:
                return
            with self.lock:
                self.accepted += 1
                number = self.accepted
            connections.add(connection)
            threading.Thread(
                target=self.serve, args=(connection, connections, name, kind, context, number), daemon=True).start()

    def serve(self, raw, connections, name, kind, context, number):
        stream = raw
        try:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context:
                try:
                    stream = context.wrap_socket(raw, server_side=True)
                except (ssl.SSLError, OSError) as error:
                    with self.lock:
                        self.handshakes.append(str(error) or "failed")
                    return
                connections.discard(raw)
                connections.add(stream)
                with self.lock:
                    self.handshakes.append("")
            if kind == "socks":
                return proxy.socks(self, Connection(self, stream, name, number))
            connection = Connection(self, stream, name, number)
            while connection.serve_one():
                pass
        except (OSError, ValueError):
            pass
        finally:
            connections.discard(raw)
            connections.discard(stream)
            stream.close()


class Connection:
    """One connection, from the server's side."""

    def __init__(self, server, stream, name, number):
        (self.server, self.stream, self.name, self.number) = (server, stream, name, number)
        self.buffer = b""
        self.authentication = {}    # NTLM belongs to a connection

    def read_more(self):
        more = self.stream.recv(65536)
        self.server.log.write(more)
        self.buffer += more
        return bool(more)

    def read_exactly(self, count):
        while len(self.buffer) < count:
            if not self.read_more():
                raise ValueError("the request ends early")
        (taken, self.buffer) = (self.buffer[:count], self.buffer[count:])
        return taken

    def read_until(self, mark):
        while mark not in self.buffer:
            if not self.read_more():
                if self.buffer:
                    raise ValueError("the request ends early")
                return None
        (taken, self.buffer) = self.buffer.split(mark, 1)
        return taken

    def read_body(self, request):
        length = request.header("content-length")
        if (request.header("transfer-encoding") or "").lower() == "chunked":
            body = b""
            while size := int(self.read_until(b"\r\n"), 16):
                body += self.read_exactly(size + 2)[:-2]
            self.read_until(b"\r\n")
            return body
        return self.read_exactly(int(length)) if length else b""

    def serve_one(self):
        """Answers one request; False at the end of the connection."""
        head = self.read_until(b"\r\n\r\n")
        if head is None:
            return False
        request = Request(head, self)
        answer = self.answer_to(request)
        if request.header("expect") == "100-continue" and not answer.get("refusesContinue"):
            self.stream.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if not answer.get("refusesContinue"):
            request.body = self.read_body(request)
        with self.server.lock:
            self.server.requests.append(request)
            self.server.lock.notify_all()
        if request.method == "CONNECT" and answer.get("tunnels"):
            return proxy.tunnel(self, request.target)
        return answers.send(self, request, answer) and not answer.get("refusesContinue")

    def answer_to(self, request):
        with self.server.lock:
            target = request.target
            if "://" in target:     # a request to a proxy
                target = "/" + target.split("://", 1)[1].partition("/")[2]
            path = target.partition("?")[0]
            guards = [prefix for prefix in self.server.guards if path.startswith(prefix)]
            if guards:
                challenged = self.server.guards[max(guards, key=len)].check(self, request)
                if challenged:
                    return challenged
            script = self.server.scripts.get(target) or self.server.scripts.get(path)
            if not script and request.method == "CONNECT":
                return {"tunnels": True}
            if not script:
                return {"status": 404}
            return script.pop(0) if len(script) > 1 else script[0]


class Request:
    def __init__(self, head, connection):
        lines = head.decode("latin-1").split("\r\n")
        (self.method, self.target, self.version) = lines[0].split(" ", 2)
        self.headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines[1:])]
        self.body = b""
        self.connection = connection.number
        self.listener = connection.name
        self.subject = None
        if isinstance(connection.stream, ssl.SSLSocket):
            peer = connection.stream.getpeercert()
            if peer:
                self.subject = ",".join("=".join(pair) for part in peer["subject"] for pair in part)

    def header(self, name):
        return next((value for field, value in self.headers if field.lower() == name), None)

    def report(self):
        return {
            "method": self.method, "target": self.target, "version": self.version, "headers": self.headers,
            "bodyCount": len(self.body), "bodySHA256": hashlib.sha256(self.body).hexdigest(),
            "body": base64.b64encode(self.body[:65536]).decode(),
            "connection": self.connection, "listener": self.listener, "clientSubject": self.subject,
        }


def make_certificate(name, options):
    import issuing
    return issuing.make(DIRECTORY, name, options)


server = Server()
COMMANDS = {
    "listen": server.listen, "close": server.close, "script": server.script, "guard": server.guard,
    "release": server.release,
    "held": lambda: server.held,
    "requests": lambda: [request.report() for request in list(server.requests)],
    "handshakes": lambda: list(server.handshakes),
    "proxied": lambda: list(server.proxied),
    "digest": authentication.digest_response,
    "accepted": lambda: server.accepted,
    "certificate": make_certificate,
}

for line in sys.stdin:
    name, *arguments = json.loads(line)
    try:
        answer = {"result": COMMANDS[name](*arguments)}
    except Exception as error:
        answer = {"error": "%s: %s: %s" % (name, type(error).__name__, error)}
    print(json.dumps(answer), flush=True)
shutil.rmtree(DIRECTORY, ignore_errors=True)   # a test that was killed cannot
os._exit(0)
