#define _GNU_SOURCE
#include "directory_entries.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int protectfs_open_beneath(int fd, const char *path, int flags, int same_file_system) {
    struct open_how how = {
        .flags = (unsigned)(flags | O_CLOEXEC),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS
            | (same_file_system ? RESOLVE_NO_XDEV : 0),
    };
    return (int)syscall(SYS_openat2, fd, path, &how, sizeof how);
}

int protectfs_open_parent(int fd, int flags) {
    struct open_how how = {.flags = (unsigned)(flags | O_CLOEXEC), .resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS};
    return (int)syscall(SYS_openat2, fd, "..", &how, sizeof how);
}

int protectfs_open_within_mount(int fd, const char *path) {
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, fd, path, &how, sizeof how);
}

int protectfs_exchange(int from, const char *one, int to, const char *other) {
    return renameat2(from, one, to, other, RENAME_EXCHANGE);
}

int protectfs_rename_new(int from, const char *old, int to, const char *new) {
    return renameat2(from, old, to, new, RENAME_NOREPLACE);
}

int protectfs_is_fixed(int fd) {
    struct statx status;
    if (statx(fd, "", AT_EMPTY_PATH, 0, &status) != 0) return 0;
    return (status.stx_attributes & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND)) != 0;
}

// Of Linux 5.8: older headers do not have it.
#ifndef STATX_MNT_ID
#define STATX_MNT_ID 0x1000U
#endif

static unsigned long long mount_of(int fd, const char *path, int flags) {
    // The kernel's own structure, whose member for this has no name in older headers: bytes 144 to 151.
    struct statx status;
    if (statx(fd, path, AT_STATX_DONT_SYNC | flags, STATX_MNT_ID, &status) != 0 || !(status.stx_mask & STATX_MNT_ID)) return 0;
    unsigned long long number;
    memcpy(&number, (const char *)&status + 144, sizeof number);
    return number;
}

unsigned long long protectfs_mount_of(const char *path) { return mount_of(AT_FDCWD, path, 0); }

unsigned long long protectfs_mount_of_entry(int fd, const char *name) {
    return mount_of(fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT);
}
