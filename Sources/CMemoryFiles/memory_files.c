#define _GNU_SOURCE
#include "memory_files.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U  // Linux 6.3
#endif

int protectfs_memory_file(void) {
    int fd = memfd_create("protectfs", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) fd = memfd_create("protectfs", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd;
}

int protectfs_seal_memory_file(int fd) {
    return fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
}

int protectfs_is_in_memory(int fd) {
    struct statfs status;
    if (fstatfs(fd, &status) != 0) return -1;
    return status.f_type == 0x01021994 || status.f_type == 0x858458f6;  // TMPFS_MAGIC, RAMFS_MAGIC
}

int protectfs_has_no_writer(int fd) {
    if (fcntl(fd, F_SETLEASE, F_RDLCK) != 0) return errno == EAGAIN ? 0 : -1;
    fcntl(fd, F_SETLEASE, F_UNLCK);
    return 1;
}

int protectfs_own_descriptors(void) {
    return unshare(CLONE_FILES);
}
