"""The system calls and steps of which behaviours consist: see posix_names.py and posix_files.py."""
import copy
import ctypes
import errno
import fcntl
import mmap
import os
import pickle
import socket
import struct
import subprocess
import time
from os import O_CREAT, O_NONBLOCK, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY, SEEK_SET

OTHER = 64001  # A user and a group that nobody else is: of files that belong to others.
SHARED = 64002  # A group that the tested user is in, beside its own.
NOREPLACE, EXCHANGE, WHITEOUT = 1, 2, 4  # linux/fs.h
KEEP_SIZE, PUNCH_HOLE, COLLAPSE, ZERO, INSERT = 1, 2 | 1, 8, 16, 32  # linux/falloc.h
NOW, OMIT = (1 << 30) - 1, (1 << 30) - 2  # sys/stat.h
NOFOLLOW, HERE = 0x100, -100  # AT_SYMLINK_NOFOLLOW, AT_FDCWD
LONG = "n" * 255
A, B = 4, 5  # The descriptors that fill() opens. Behaviours begin with 0 to 3.

libc = ctypes.CDLL(None, use_errno=True)


def of_libc(name, *types, result=ctypes.c_int, failure=-1):
    """A function of libc that os does not have."""
    function = getattr(libc, name)
    function.argtypes, function.restype = types, result

    def call(*arguments):
        ctypes.set_errno(0)
        returned = function(*(os.fsencode(each) if isinstance(each, str) else each for each in arguments))
        if returned == failure and ctypes.get_errno():
            raise OSError(ctypes.get_errno(), name)
        return returned
    return call


class Entry(ctypes.Structure):
    """struct dirent of dirent.h."""
    _fields_ = [("inode", ctypes.c_uint64), ("offset", ctypes.c_int64), ("length", ctypes.c_uint16), ("kind", ctypes.c_uint8),
                ("name", ctypes.c_char * 256)]


TEXT, INT, LONG_INT, ADDRESS = ctypes.c_char_p, ctypes.c_int, ctypes.c_int64, ctypes.c_void_p
OWN = {
    "open": lambda path, flags=O_RDONLY, mode=0o777, **named: os.open(path, flags, mode, **named),
    "renameat2": of_libc("renameat2", INT, TEXT, INT, TEXT, ctypes.c_uint),
    "fallocate": of_libc("fallocate", INT, INT, LONG_INT, LONG_INT),
    "utimensat": of_libc("utimensat", INT, TEXT, ADDRESS, INT),
    "fchmodat": of_libc("fchmodat", INT, TEXT, ctypes.c_uint, INT),
    "statx": of_libc("statx", INT, TEXT, INT, ctypes.c_uint, ADDRESS),
    "name_to_handle_at": of_libc("name_to_handle_at", INT, TEXT, ADDRESS, ADDRESS, INT),
    "getxattr_of_libc": of_libc("getxattr", TEXT, TEXT, ADDRESS, ctypes.c_size_t, result=ctypes.c_ssize_t),
    "inotify_init1": of_libc("inotify_init1", INT),
    "inotify_add_watch": of_libc("inotify_add_watch", INT, TEXT, ctypes.c_uint32),
    "opendir": of_libc("opendir", TEXT, result=ADDRESS, failure=None),
    "readdir": of_libc("readdir", ADDRESS, result=ctypes.POINTER(Entry)),
    "telldir": of_libc("telldir", ADDRESS, result=ctypes.c_long),
    "seekdir": of_libc("seekdir", ADDRESS, ctypes.c_long, result=None),
    "rewinddir": of_libc("rewinddir", ADDRESS, result=None),
    "flock": fcntl.flock, "fcntl": fcntl.fcntl, "ioctl": fcntl.ioctl, "mmap": mmap.mmap,
}


class Failed(str):
    """The name of an errno, which a call gave."""
    __repr__ = str.__str__

    @classmethod
    def of(cls, error):
        return cls("EOPNOTSUPP" if error.errno == errno.EOPNOTSUPP else errno.errorcode[error.errno])


class Descriptor(int):
    """What open(2) returned. All are equal."""
    def __repr__(self):
        return "open"


class Calls:
    """`do.rename("a", "b")` is os.rename, or the one in OWN; instead of an exception it returns the errno. A call that gets the errno of another
    one as an argument is left out, and returns that."""
    def __getattr__(self, name):
        def call(*arguments, **named):
            function = OWN.get(name) or getattr(os, name)
            failed = [each for each in arguments if isinstance(each, Failed)]
            if failed:
                return failed[0]
            try:
                result = function(*arguments, **named)
            except OSError as error:
                return Failed.of(error)
            return Descriptor(result) if name == "open" else result
        return call


do = Calls()

# MARK: steps


def opens(name, flags=O_RDONLY, mode=0o644):
    return do.close(do.open(name, flags, mode)) or "opens"


def quiet(result):
    """What a call returned is of no interest, but whether it failed is."""
    return result if isinstance(result, Failed) else None


def file(name, content=b"", mode=0o644):
    descriptor = do.open(name, O_WRONLY | O_CREAT | O_TRUNC, mode)
    written = do.write(descriptor, content)
    do.close(descriptor)
    return written


def content(name):
    descriptor = do.open(name, O_RDONLY)
    found = do.pread(descriptor, 1 << 24, 0)
    do.close(descriptor)
    return short(found)


def short(found):
    """Long content, so that a difference can be read."""
    if isinstance(found, bytes) and len(found) > 40:
        return f"{len(found)} bytes, {found.count(0)} of them zero, sum {sum(found) % 65521}, {found[:8]}…{found[-8:]}"
    return found


def status(name, follow=False):
    found = do.fstat(name) if isinstance(name, int) else do.stat(name, follow_symlinks=follow)
    return found if isinstance(found, Failed) else f"{found.st_mode:o} {found.st_nlink} links {found.st_size} bytes"


def owner(name):
    found = do.lstat(name)
    return found if isinstance(found, Failed) else f"{found.st_uid}:{found.st_gid} {found.st_mode:o}"


def names(directory="."):
    found = do.listdir(directory)
    return found if isinstance(found, Failed) else " ".join(sorted(found))


def listed(name, **named):
    """The attributes of a file. What a security module adds is of no interest."""
    found = do.listxattr(name, **named)
    return found if isinstance(found, Failed) else " ".join(sorted(each for each in found if each.startswith("user.")))


def times(name, *which):
    found = do.stat(name, follow_symlinks=False)
    return found if isinstance(found, Failed) else [getattr(found, f"st_{each}time_ns") for each in which or "am"]


def touches(step, *paths, which="mc"):
    """What a step returns, and which times of these files it changes: modification, change, access."""
    def all_times():
        return [None if isinstance(found, Failed) else [getattr(found, f"st_{each}time_ns") for each in which]
                for found in (do.fstat(each) if isinstance(each, int) else do.lstat(each) for each in paths)]
    for each in paths:
        do.utime(each, ns=(10**18, 10**18 + 1), **({} if isinstance(each, int) else {"follow_symlinks": False}))
    before = all_times()
    time.sleep(0.02)
    result = step()
    return result, [then and now and "".join(letter for letter, old, new in zip(which, then, now) if old != new)
                    for then, now in zip(before, all_times())]


def accesses(step, *paths):
    """What a step returns, and which files it changes the access time of."""
    return touches(step, *paths, which="a")


def set_times(name, accessed, modified, flags=0):
    """utimensat(2), with whole structures; and whether access, modification and change time are those of before, of now, or as asked for."""
    before = times(name, *"amc")
    time.sleep(0.02)
    start = time.time_ns() - 10**7
    returned = do.utimensat(HERE, name, struct.pack("4q", *accessed, *modified), flags)
    after = times(name, *"amc")
    if isinstance(after, Failed) or isinstance(before, Failed):
        return returned, after
    asked = [seconds * 10**9 + nanoseconds for seconds, nanoseconds in (accessed, modified)]
    return returned, ["as before" if old == new else "now" if start <= new <= time.time_ns() else "asked" if new in asked else "another"
                      for old, new in zip(before, after)]


def elsewhere(step):
    """Another process does it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, pickle.dumps(repr(step())))
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        outcome = pickle.loads(pipe.read())
    os.waitpid(child, 0)
    return Failed(outcome)


def special_mode(step):
    """Whether a step takes set-user-ID and set-group-ID away."""
    return [file("a", b"123"), file("b", b"45"), do.chmod("a", 0o6777), step(), owner("a")]


def run(*words):
    try:
        return subprocess.run(words, capture_output=True, timeout=20).stdout
    except OSError as error:
        return Failed.of(error)


def mapped(name, flags, protection, change=None, length=4096):
    """Maps a file, changes the mapping, and returns its first bytes."""
    descriptor = do.open(name, flags)
    mapping = do.mmap(descriptor, length, mmap.MAP_SHARED, protection)
    do.close(descriptor)
    if isinstance(mapping, Failed):
        return mapping
    if change:
        mapping[:len(change)] = change
        mapping.flush()
    return mapping[:8]


def link_chain(count):
    """So many symbolic links, one to the other, and a file behind them."""
    file("0", b"end")
    for number in range(count):
        os.symlink(str(number), str(number + 1))
    return content(str(count))


def deep(count):
    """So many directories of 200 bytes in each other."""
    for _ in range(count):
        os.mkdir("d" * 200)
        os.chdir("d" * 200)


def bind(name):
    """A socket of that name."""
    server = socket.socket(socket.AF_UNIX)
    try:
        server.bind(name)
    except OSError as error:
        return Failed.of(error)
    return server


def talk(name):
    """What goes through a socket that has this name."""
    server = bind(name)
    server.listen()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(name)
        client.sendall(b"hello")
        return server.accept()[0].recv(10)


def entry(stream):
    found = do.readdir(stream)
    return found.contents if found else None


def entries(stream):
    return [each.name.decode() for each in iter(lambda: entry(stream), None)]


def changing_directory(change):
    """What is read of 600 names, after 100 of them were, and after a change."""
    for number in range(600):
        do.mkfifo(f"name{number}")
    stream = do.opendir(".")
    first = [entry(stream).name.decode() for _ in range(100)]
    change(stream, [name for name in first if name.startswith("name")])
    return first, entries(stream)


def each_once(change):
    """Whether each name that nobody has changed is read exactly once."""
    first, rest = changing_directory(change)
    stayed = set(os.listdir())
    read = [name for name in first + rest if name in stayed and name.startswith("name")]
    return len(read), len(set(read))


def sought():
    """Whether seekdir(3) finds its place, and rewinddir(3) shows what is there by then."""
    for number in range(300):
        do.mkfifo(f"name{number}")
    stream = do.opendir(".")
    for _ in range(50):
        entry(stream)
    place = do.telldir(stream)
    rest = entries(stream)
    do.seekdir(stream, place)
    again = entries(stream)
    do.mkfifo("new")
    do.unlink("name7")
    do.rewinddir(stream)
    return len(rest), rest == again, sorted(entries(stream)) == sorted([".", "..", *os.listdir()])


def numbers(*chosen):
    """Whether readdir(3) gives the inode numbers that stat(2) does."""
    stream = do.opendir(".")
    found = {each.name.decode(): each.inode for each in map(copy.copy, iter(lambda: entry(stream), None))}
    return [found[name] == os.stat(name).st_ino for name in chosen]


def removed_while_read():
    """What a stream gives whose directory has gone."""
    do.mkdir("d")
    stream = do.opendir("d")
    return do.rmdir("d"), entries(stream), do.rewinddir(stream), entries(stream)


def kinds():
    """What readdir(3) says of each kind of file."""
    file("file"), do.mkdir("directory"), do.symlink("x", "link"), do.mkfifo("fifo"), bind("socket")
    stream = do.opendir(".")
    return sorted((each.name, each.kind) for each in map(copy.copy, iter(lambda: entry(stream), None)))


def watched(step):
    """The events of inotify(7)."""
    watch = do.inotify_init1(O_NONBLOCK)
    do.inotify_add_watch(watch, ".", 0xFC6)  # All but reads and opens.
    step()
    data, events = os.read(watch, 65536), []
    while data:
        _, mask, _, length = struct.unpack("iIII", data[:16])
        events.append((mask, data[16:16 + length].rstrip(b"\0")))
        data = data[16 + length:]
    return events


def birth_time(name):
    buffer = ctypes.create_string_buffer(256)
    return do.statx(HERE, name, 0, 0x800, buffer) or bool(struct.unpack("I", buffer[:4])[0] & 0x800)


def room(found):
    return found if isinstance(found, Failed) else (found.f_bsize, found.f_frsize, found.f_blocks, found.f_files, found.f_namemax)


def aligned(content):
    """A buffer at the beginning of a page, for O_DIRECT."""
    buffer = mmap.mmap(-1, 8192)
    buffer[:len(content)] = content
    return memoryview(buffer)[:len(content)]


def fill(source=b"0123456789" * 1000):
    """Two files: the first with content, both open."""
    return file("a", source), do.open("a", O_RDWR), do.open("b", O_RDWR | O_CREAT, 0o644)


def tries_modes(step, modes=(0, 1, 4, 5, 6, 7)):
    """A step with a file of each mode: what it returns."""
    found = []
    for mode in (each << 6 for each in modes):
        file("m", b"#!/bin/true\n"), do.chmod("m", mode)
        found.append(step("m"))
        do.chmod("m", 0o600), do.unlink("m")
    return found


def lock(kind, start=0, length=0, command=fcntl.F_SETLK):
    return command, struct.pack("hhqqi4x", kind, SEEK_SET, start, length, 0)


def locked_by(descriptor, kind=fcntl.F_WRLCK, start=0, length=0):
    found = do.fcntl(descriptor, *lock(kind, start, length, fcntl.F_GETLK))
    if isinstance(found, Failed):
        return found
    kind, _, start, length, process = struct.unpack("hhqqi4x", found)
    return kind, start, length, process == os.getppid()


def link_often(name, count):
    """Makes so many hard links, and returns the first errno."""
    for number in range(count):
        failed = do.link(name, f"{name}{number}")
        if failed:
            return failed
    return None
