"""Proxies: a tunnel by CONNECT (RFC 9110 §9.3.6) and by SOCKS 5 (RFC 1928)."""
import socket
import struct
import threading


def join(left, right):
    """Copies both ways until one side ends."""
    def copy(source, destination):
        try:
            while piece := source.recv(65536):
                destination.sendall(piece)
        except OSError:
            pass
        for end in (source, destination):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
    other = threading.Thread(target=copy, args=(right, left), daemon=True)
    other.start()
    copy(left, right)
    other.join()


def connect(port):
    """To this machine, whatever the name was: names of tests lead nowhere."""
    return socket.create_connection(("127.0.0.1", port), 10)


def tunnel(connection, target):
    try:
        other = connect(int(target.rpartition(":")[2]))
    except OSError:
        connection.stream.sendall(b"HTTP/1.1 502 No\r\nContent-Length: 0\r\n\r\n")
        return True
    connection.stream.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
    join(connection.stream, other)
    return False


def socks(server, connection):
    stream = connection.stream
    version, count = connection.read_exactly(2)
    connection.read_exactly(count)
    stream.sendall(b"\x05\x00")
    _, command, _, kind = connection.read_exactly(4)
    if kind == 3:
        host = connection.read_exactly(connection.read_exactly(1)[0]).decode()
    else:
        host = socket.inet_ntop(socket.AF_INET6 if kind == 4 else socket.AF_INET, connection.read_exactly(16 if kind == 4 else 4))
    port = struct.unpack(">H", connection.read_exactly(2))[0]
    with server.lock:
        server.proxied.append("%s %s:%d" % ("name" if kind == 3 else "address", host, port))
    stream.sendall(b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
    join(stream, connect(port))
