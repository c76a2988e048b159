#define _GNU_SOURCE
#include "secret_memory.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *map_secret(size_t bytes) {
#ifdef SYS_memfd_secret
    int fd = (int)syscall(SYS_memfd_secret, O_CLOEXEC);
    if (fd < 0) return MAP_FAILED;
    void *memory = MAP_FAILED;
    if (ftruncate(fd, (off_t)bytes) == 0) memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return memory;
#else
    (void)bytes;
    return MAP_FAILED;
#endif
}

void *protectfs_secret_map(size_t bytes, enum protectfs_backing *backing) {
    void *memory = map_secret(bytes);
    *backing = PROTECTFS_BACKING_SECRET;
    if (memory == MAP_FAILED) {
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) return NULL;
        *backing = mlock(memory, bytes) == 0 ? PROTECTFS_BACKING_LOCKED : PROTECTFS_BACKING_PLAIN;
    }
    // Not WIPEONFORK: a child that went on with zeroed keys would seal under them. It must fault instead.
    madvise(memory, bytes, MADV_DONTFORK);
    madvise(memory, bytes, MADV_DONTDUMP);
    return memory;
}

__attribute__((noinline)) void protectfs_scrub_stack(void) {
    char below[64 * 1024];
    explicit_bzero(below, sizeof below);
}

int protectfs_refuse_dumps(void) { return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); }
