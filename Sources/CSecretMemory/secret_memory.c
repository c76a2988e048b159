#define _GNU_SOURCE
#include "secret_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *map_secret(size_t bytes) {
#ifdef SYS_memfd_secret
    // ftruncate(2) beyond a limit on the size of files (ulimit -f) ends the process by SIGXFSZ.
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) return MAP_FAILED;
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

int protectfs_random(void *bytes, size_t count) {
    char *next = bytes;
    while (count > 0) {
        long made = syscall(SYS_getrandom, next, count, 0);
        if (made < 0 && errno == EINTR) continue;
        if (made < 0) return errno;
        next += made;
        count -= (size_t)made;
    }
    return 0;
}

__attribute__((noinline)) void protectfs_scrub_stack(void) {
    char below[64 * 1024];
    explicit_bzero(below, sizeof below);
}

static __thread int fetches;

void protectfs_begin_fetch(void) { fetches++; }

void protectfs_end_fetch(void) { fetches--; }

int protectfs_is_fetching(void) { return fetches > 0; }

int protectfs_refuse_dumps(void) { return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); }

void protectfs_keep_heap_small(void) {
    mallopt(M_ARENA_MAX, 2);
    mallopt(M_MMAP_THRESHOLD, 512 * 1024);
}

// No function has to keep vector registers for its caller: on x86-64 none, on AArch64 none but 8 to 15, which libcrypto puts
// back. The compiler of a program for every x86-64 processor does not know those above 15, so they cannot be listed.
void protectfs_clear_vectors(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        __asm__ volatile(
            "vpxorq %%zmm16, %%zmm16, %%zmm16\n vpxorq %%zmm17, %%zmm17, %%zmm17\n vpxorq %%zmm18, %%zmm18, %%zmm18\n"
            "vpxorq %%zmm19, %%zmm19, %%zmm19\n vpxorq %%zmm20, %%zmm20, %%zmm20\n vpxorq %%zmm21, %%zmm21, %%zmm21\n"
            "vpxorq %%zmm22, %%zmm22, %%zmm22\n vpxorq %%zmm23, %%zmm23, %%zmm23\n vpxorq %%zmm24, %%zmm24, %%zmm24\n"
            "vpxorq %%zmm25, %%zmm25, %%zmm25\n vpxorq %%zmm26, %%zmm26, %%zmm26\n vpxorq %%zmm27, %%zmm27, %%zmm27\n"
            "vpxorq %%zmm28, %%zmm28, %%zmm28\n vpxorq %%zmm29, %%zmm29, %%zmm29\n vpxorq %%zmm30, %%zmm30, %%zmm30\n"
            "vpxorq %%zmm31, %%zmm31, %%zmm31" ::: "memory");
    if (__builtin_cpu_supports("avx"))
        __asm__ volatile("vzeroall" ::: "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                         "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
#elif defined(__aarch64__)
#define ZERO(n) "movi v" #n ".2d, #0\n"
    __asm__ volatile(ZERO(0) ZERO(1) ZERO(2) ZERO(3) ZERO(4) ZERO(5) ZERO(6) ZERO(7) ZERO(16) ZERO(17) ZERO(18) ZERO(19)
                         ZERO(20) ZERO(21) ZERO(22) ZERO(23) ZERO(24) ZERO(25) ZERO(26) ZERO(27) ZERO(28) ZERO(29)
                             ZERO(30) ZERO(31) ::: "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18",
                     "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
#endif
}
