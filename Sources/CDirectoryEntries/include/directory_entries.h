// What Swift cannot call to reach names in an open directory: openat2(2), which has no wrapper and needs the variadic
// syscall(2), and renameat2(2) and statx(2), which Glibc's module hides behind _GNU_SOURCE.
#ifndef PROTECTFS_DIRECTORY_ENTRIES_H
#define PROTECTFS_DIRECTORY_ENTRIES_H

// Opens `path` below the directory `fd`: no component may be a link, lead above `fd`, or, if `same_file_system`, into another
// mount. openat2(2) with RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS, RESOLVE_NO_MAGICLINKS and RESOLVE_NO_XDEV.
// The descriptor, close-on-exec, or -1 with errno set: ELOOP for a link, EXDEV for another mount or the way out,
// ENOSYS before Linux 5.6.
int protectfs_open_beneath(int fd, const char *path, int flags, int same_file_system);

// Opens the directory above `fd`: openat2(2) with RESOLVE_NO_XDEV. At the root of the process it is `fd` itself.
// The descriptor, close-on-exec, or -1 with errno set: EXDEV at the root of a mount, ENOSYS before Linux 5.6.
int protectfs_open_parent(int fd, int flags);

// Opens the directory that `path` leads to from the directory `fd`, by links too, but not into another mount: O_PATH, openat2(2) with
// RESOLVE_NO_XDEV and RESOLVE_NO_MAGICLINKS. Nothing of another mount is looked at.
// The descriptor, close-on-exec, or -1 with errno set: EXDEV on the way into or out of a mount, ENOSYS before Linux 5.6.
int protectfs_open_within_mount(int fd, const char *path);

// Exchanges `one` in the directory `from` and `other` in the directory `to` in one step: renameat2(2) with RENAME_EXCHANGE.
// 0, or -1 with errno set: EINVAL where the file system cannot do that.
int protectfs_exchange(int from, const char *one, int to, const char *other);

// Gives `old` in the directory `from` the name `new` in the directory `to`, if nothing has it: renameat2(2) with RENAME_NOREPLACE.
// 0, or -1 with errno set: EEXIST; EINVAL where the file system cannot do that.
int protectfs_rename_new(int from, const char *old, int to, const char *new);

// Whether names may not be taken away: of a file, or in a directory, that is immutable or append-only (chattr(1)). statx(2).
// 0 too where the file system knows no such thing.
int protectfs_is_fixed(int fd);

// The number of the mount that `path` leads to, a link too, as /proc/PID/mountinfo has it: statx(2), without asking the server of a network
// or FUSE file system. 0 if there is nothing, or before Linux 5.8.
unsigned long long protectfs_mount_of(const char *path);

// The same for `name` in the directory `fd`, which is not followed if it is a link.
unsigned long long protectfs_mount_of_entry(int fd, const char *name);

#endif
