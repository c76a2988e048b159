"""Which errors each call may give, as the manual pages allow them; `half` moves half the bytes, `+` fails from then on."""
import errno

WRITING = ("ENOSPC", "EDQUOT", "EIO", "EINTR", "half")
ENTRY = ("ENOSPC", "EDQUOT", "EIO")
FLUSH = ("EIO", "ENOSPC", "EDQUOT", "EINTR", "EIO+")
ERRORS = {
    "write": WRITING, "pwrite64": WRITING + ("ENOSPC+",), "ftruncate": ("EIO", "EINTR"),
    "fallocate": ("ENOSPC", "EDQUOT", "EIO", "EINTR"), "copy_file_range": ("ENOSPC", "EDQUOT", "EIO", "EINTR", "half"),
    "sendfile": ("EIO", "half"), "fsync": FLUSH, "fdatasync": FLUSH,
    "create": ENTRY, "mkdir": ENTRY, "rename": ENTRY, "link": ENTRY, "symlink": ENTRY, "setxattr": ENTRY,
    "unlink": ("EIO",), "rmdir": ("EIO",), "chmod": ("EIO",), "chown": ("EIO", "EDQUOT"), "utimens": ("EIO",),
    # Regular files: no EINTR (open(2), slow devices only); of close(2) it is allowed, and the descriptor is gone.
    "openat": ("EIO", "EMFILE"), "close": ("EIO", "EINTR", "EDQUOT"),
    "read": ("EIO", "EINTR", "half"), "pread64": ("EIO", "EINTR", "half"), "opendir": ("EIO",), "readdir": ("EIO",), "stat": ("EIO",),
    "getxattr": ("EIO",), "flock": ("EINTR", "ENOLCK"), "fcntl": ("EINTR", "ENOLCK"),
    "add_key": ("EDQUOT", "ENOMEM"), "keyctl_link": ("EDQUOT", "ENOMEM"), "keyctl_search": ("ENOMEM",), "keyctl_read": ("ENOMEM",),
    "keyctl_unlink": ("ENOMEM",), "keyctl_setperm": ("EACCES",), "keyctl_set_timeout": ("EACCES",), "keyctl_invalidate": ("EACCES",),
    "mmap": ("ENOMEM",), "memfd_create": ("ENFILE",), "memfd_secret": ("ENOSYS",), "getrandom": ("ENOSYS",), "spawn": ("EAGAIN",),
}

# Calls that change something, and those that make it last. The others look, open, lock and map.
CHANGING = {"write", "pwrite64", "ftruncate", "fallocate", "copy_file_range", "sendfile", "fsync", "fdatasync", "create", "mkdir",
            "rename", "link", "symlink", "setxattr", "unlink", "rmdir", "chmod", "chown", "utimens", "add_key", "keyctl_link",
            "keyctl_unlink", "keyctl_setperm", "keyctl_set_timeout", "keyctl_invalidate"}


def fault(call, number, error):
    """As shim.c reads it."""
    if error == "half":
        return f"{call}:{number}:half"
    return f"{call}:{number}:{getattr(errno, error.rstrip('+'))}{'+' if error.endswith('+') else ''}"
