"""How one answer goes out, with what is to be wrong with it. What the fields mean is in Answer.swift."""
import base64
import re
import socket
import struct
import time

PERIOD = 65521      # a prime, so that bytes that were joined at a wrong place show


def pattern(seed):
    state = seed & (2 ** 64 - 1)
    block = bytearray()
    for _ in range(PERIOD):
        state = (state * 6364136223846793005 + 1442695040888963407) & (2 ** 64 - 1)
        block.append(state >> 56)
    return bytes(block)


class Body:
    """Bytes that were given, or any number of bytes of a pattern."""

    blocks = {}

    def __init__(self, answer):
        self.given = base64.b64decode(answer["bytes"]) if "bytes" in answer else None
        self.length = len(self.given) if self.given is not None else answer.get("length", 0)
        if self.given is None and self.length:
            seed = answer.get("seed", 1)
            if seed not in Body.blocks:
                Body.blocks[seed] = pattern(seed) * 17      # about 1 MiB
            self.block = Body.blocks[seed]

    def read(self, start, count):
        if self.given is not None:
            return self.given[start:start + count]
        skip = start % PERIOD
        return self.block[skip:skip + min(count, 1 << 20, len(self.block) - skip)]


def reset(stream):
    """Ends the thread's own connection by RST."""
    try:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        socket.socket.close(socket.socket(fileno=stream.detach()) if hasattr(stream, "context") else stream)
    except OSError:
        pass


def abandon(stream):
    """Makes the thread whose connection it is end it, by RST. Only that thread may close it: the number of the descriptor
    would be another connection's before the thread has noticed."""
    try:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        socket.socket.shutdown(stream, socket.SHUT_RDWR)
    except OSError:
        pass


def selected(request, answer, body):
    """Status, start, end, headers: what of the body the request asks for (RFC 9110 §14)."""
    whole = (answer.get("status", 200), 0, body.length, [])
    asked = re.fullmatch(r"bytes=(\d+)-(\d*)", request.header("range") or "")
    if not asked or "status" in answer or not answer.get("honoursRange", True):
        return whole
    condition = request.header("if-range")
    if condition and condition not in (answer.get("etag"), answer.get("lastModified")):
        return whole
    start = int(asked[1])
    end = min(int(asked[2]) + 1 if asked[2] else body.length, body.length)
    if start >= body.length:
        return (416, 0, 0, [("Content-Range", "bytes */%d" % body.length)])
    return (206, start, end, [("Content-Range", "bytes %d-%d/%d" % (start, end - 1, body.length))])


def send(connection, request, answer):
    """Sends it; False if the connection cannot be used any more."""
    server, stream = connection.server, connection.stream
    if answer.get("delay"):
        time.sleep(answer["delay"])
    if answer.get("raw") is not None:
        stream.sendall(base64.b64decode(answer["raw"]))
        return end(connection, answer.get("end", "close"))
    body = Body(answer)
    status, start, stop, headers = selected(request, answer, body)
    if "contentRange" in answer:
        headers = [("Content-Range", answer["contentRange"])]
    for field, name in (("etag", "ETag"), ("lastModified", "Last-Modified")):
        if answer.get(field):
            headers.append((name, answer[field]))
    if answer.get("honoursRange", True) and body.length and "status" not in answer:
        headers.append(("Accept-Ranges", "bytes"))
    chunked = answer.get("chunked", False)
    if chunked:
        headers.append(("Transfer-Encoding", "chunked"))
    elif answer.get("contentLength", 0) >= 0 and status not in (204, 304):
        headers.append(("Content-Length", str(answer.get("contentLength", stop - start))))
    if answer.get("closes") or answer.get("contentLength", 0) < 0:
        headers.append(("Connection", "close"))
    headers += answer.get("headers", [])
    head = "HTTP/1.1 %d %s\r\n" % (status, answer.get("reason", "OK" if status < 400 else "No"))
    head += "".join("%s: %s\r\n" % tuple(header) for header in headers) + "\r\n"
    head = head.encode("latin-1")
    if "cutHeadAfter" in answer:
        stream.sendall(head[:answer["cutHeadAfter"]])
        return end(connection, answer.get("end", "close"))
    stream.sendall(head)
    if request.method == "HEAD" or status in (204, 304):
        return True
    return send_body(connection, body, start, stop, answer, chunked)


def send_body(connection, body, start, stop, answer, chunked):
    stream = connection.stream
    cut = start + answer["cutAfter"] if "cutAfter" in answer else None
    hold = start + answer["holdAfter"] if "holdAfter" in answer else None
    offset = start
    while offset < stop:
        limits = [mark for mark in (stop, cut, hold) if mark is not None and mark > offset]
        piece = body.read(offset, min(limits) - offset) if offset != cut and offset != hold else b""
        if offset == hold:
            hold = None
            wait(connection.server)
            continue
        if offset == cut:
            return end(connection, answer.get("end", "close"))
        if answer.get("bytesPerSecond"):
            piece = piece[:max(1, answer["bytesPerSecond"] // 20)]
            time.sleep(len(piece) / answer["bytesPerSecond"])
        stream.sendall(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
        offset += len(piece)
    if hold == offset:
        wait(connection.server)
    if cut == offset:
        return end(connection, answer.get("end", "close"))
    if chunked:
        stream.sendall(b"0\r\n\r\n")
    if answer.get("extra"):
        stream.sendall(b"x" * answer["extra"])
    if answer.get("closes") or answer.get("contentLength", 0) < 0 or answer.get("extra"):
        return end(connection, "close")
    return True


def wait(server):
    """Sends nothing more until the test says so."""
    with server.lock:
        server.held += 1
        mine = server.held
        server.lock.notify_all()
        server.lock.wait_for(lambda: server.released >= mine)


def end(connection, how):
    """close: as one ought to; abort: without TLS's closing words; reset: RST; stall: never."""
    stream = connection.stream
    if how == "reset":
        reset(stream)
    elif how == "stall":
        wait(connection.server)
    elif hasattr(stream, "unwrap") and how == "close":
        try:
            stream.settimeout(1)
            stream.unwrap().shutdown(socket.SHUT_WR)
        except OSError:
            pass
    return False
