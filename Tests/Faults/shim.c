// Preloaded into the commands that Tests/Faults/fault-table tries: one system call of a run fails, or writes half, as if the disk,
// a quota, a signal or the keyring had done that. All others are made as ever.
//
//     FAULTS_DIRECTORY   has `counters` (64 times 4 bytes, shared by all processes of the run), and gets `log`
//     FAULT              CALL:NUMBER:ERRNO, CALL:NUMBER:ERRNO+ (from that one on) or CALL:NUMBER:half; nothing: none fails
//     FAULTS_LOG         set: every call is logged, not only the one that failed
//     FAULTS_STDIO       set: standard input and output count as well
//
// A call counts under one name whichever of its doors is taken (openat for open, open64 and openat2; create
// where they may make a file). Calls that libc makes inside of
// itself, and those of the loader, do not count. PBKDF2 is cut to 1,000 iterations: it is no system call, and would take half a
// second of each run; and nothing is really flushed: no power is cut here. Only programs named protectfs* and *-worker are touched, not the shells between them.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NONE = 0, HALF = -1, PLACES = 64 };

static const char *names[PLACES];
static volatile uint32_t own_counters[PLACES], *counters = own_counters;
static char fault_call[32], log_path[PATH_MAX], program_directory[PATH_MAX];
static unsigned fault_number;
static int fault_errno, is_lasting, logs_all, has_stdio, is_active;

#define REAL(result, name, ...) \
    static result (*real)(__VA_ARGS__); \
    if (!real) real = (result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

__attribute__((constructor)) static void begin(void) {
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0) return;
    program[length] = 0;
    const char *name = strrchr(program, '/') + 1;
    size_t size = strlen(name);
    if (strncmp(name, "protectfs", 9) != 0 && !(size > 7 && strcmp(name + size - 7, "-worker") == 0)) return;
    const char *directory = getenv("FAULTS_DIRECTORY"), *fault = getenv("FAULT");
    if (!directory) return;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/counters", directory);
    snprintf(log_path, sizeof log_path, "%s/log", directory);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
        void *shared = mmap(NULL, 4 * PLACES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (shared != MAP_FAILED) counters = shared;
        syscall(SYS_close, fd);
    }
    char end[16] = "";
    if (fault && sscanf(fault, "%31[^:]:%u:%15s", fault_call, &fault_number, end) == 3) {
        fault_errno = strcmp(end, "half") == 0 ? HALF : atoi(end);
        is_lasting = end[strlen(end) - 1] == '+';
    }
    memcpy(program_directory, program, (size_t)(name - program));
    logs_all = getenv("FAULTS_LOG") != NULL;
    has_stdio = getenv("FAULTS_STDIO") != NULL;
    is_active = 1;
}

static void note(const char *mark, const char *call, const char *path, int fd) {
    char line[PATH_MAX + 128], target[PATH_MAX] = "";
    if (!path && fd >= 0) {
        char link[32];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = syscall(SYS_readlink, link, target, sizeof target - 1);
        target[length > 0 ? length : 0] = 0;
        path = target;
    }
    int size = snprintf(line, sizeof line, "%s\t%s\t%s\n", mark, call, path ? path : "");
    int log = (int)syscall(SYS_openat, AT_FDCWD, log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    syscall(SYS_write, log, line, (size_t)size);
    syscall(SYS_close, log);
}

static int is_event_descriptor(int fd) {
    char link[32], target[32] = "";
    if (fd < 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    syscall(SYS_readlink, link, target, sizeof target - 1);
    return strncmp(target, "anon_inode:", 11) == 0;
}

// What is to become of this call: NONE, HALF, or an errno, which is set already.
static int fate(const char *call, const char *path, int fd, int can_halve) {
    if (!is_active || (!path && fd == 2) || (!path && fd >= 0 && fd < 2 && !has_stdio)) return NONE;
    // What Swift's runtime looks for beside the program before main().
    if (path && program_directory[0] && strncmp(path, program_directory, strlen(program_directory) - 1) == 0) return NONE;
    // What libdispatch, which is in our programs, asks of its own threads and descriptors: it takes no for the end of the world.
    unsigned thread, end = 0;
    if (path && sscanf(path, "/proc/%u/stat%n", &thread, &end) == 1 && end && !path[end]) return NONE;
    if (strcmp(call, "stat") == 0 && is_event_descriptor(fd)) return NONE;
    int before = errno, place = 0;
    while (place < PLACES - 1 && names[place] && strcmp(names[place], call) != 0) place++;
    if (!names[place]) return NONE;
    unsigned number = __atomic_add_fetch((uint32_t *)&counters[place], 1, __ATOMIC_SEQ_CST);
    int is_meant = strcmp(call, fault_call) == 0 && (number == fault_number || (is_lasting && number > fault_number));
    if (is_meant && fault_errno == HALF && !can_halve) is_meant = 0;
    if (logs_all || is_meant) note(is_meant ? "failed" : "made", call, path, fd);
    errno = is_meant && fault_errno > 0 ? fault_errno : before;
    return is_meant ? fault_errno : NONE;
}

static const char *names[PLACES] = {
    "openat", "create", "opendir", "readdir", "read", "pread64", "write", "pwrite64", "ftruncate", "fallocate", "fsync", "fdatasync", "rename",
    "link", "unlink", "mkdir", "rmdir", "symlink", "chmod", "chown", "utimens", "setxattr", "getxattr", "close", "sendfile",
    "copy_file_range", "flock", "fcntl", "add_key", "keyctl_search", "keyctl_link", "keyctl_unlink", "keyctl_read",
    "keyctl_setperm", "keyctl_set_timeout", "keyctl_invalidate", "mmap", "memfd_create", "memfd_secret", "getrandom", "stat", "spawn",
};

// A function that fails with -1 and errno, and does not exist otherwise than as one call.
#define CALL(result, symbol, name, path, fd, parameters, arguments, ...) \
    result symbol parameters { \
        REAL(result, #symbol, __VA_ARGS__); \
        if (fate(name, path, fd, 0) > 0) return -1; \
        return real arguments; \
    }

#define OPEN(symbol, parameters, arguments, path, ...) \
    int symbol parameters { \
        REAL(int, #symbol, __VA_ARGS__); \
        mode_t mode = 0; \
        va_list rest; \
        va_start(rest, flags); \
        if (flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))) mode = va_arg(rest, mode_t); \
        va_end(rest); \
        if (fate(flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)) ? "create" : "openat", path, -1, 0) > 0) return -1; \
        return real arguments; \
    }
OPEN(open, (const char *path, int flags, ...), (path, flags, mode), path, const char *, int, mode_t)
OPEN(open64, (const char *path, int flags, ...), (path, flags, mode), path, const char *, int, mode_t)
OPEN(openat, (int at, const char *path, int flags, ...), (at, path, flags, mode), path, int, const char *, int, mode_t)
OPEN(openat64, (int at, const char *path, int flags, ...), (at, path, flags, mode), path, int, const char *, int, mode_t)

DIR *opendir(const char *path) {
    REAL(DIR *, "opendir", const char *);
    return fate("opendir", path, -1, 0) > 0 ? NULL : real(path);
}
DIR *fdopendir(int fd) {
    REAL(DIR *, "fdopendir", int);
    return fate("opendir", NULL, fd, 0) > 0 ? NULL : real(fd);
}
struct dirent *readdir(DIR *directory) {
    REAL(struct dirent *, "readdir", DIR *);
    return fate("readdir", NULL, dirfd(directory), 0) > 0 ? NULL : real(directory);
}
struct dirent64 *readdir64(DIR *directory) {
    REAL(struct dirent64 *, "readdir64", DIR *);
    return fate("readdir", NULL, dirfd(directory), 0) > 0 ? NULL : real(directory);
}

// A function that moves `count` bytes, and may move half of them.
#define MOVE(symbol, name, fd, parameters, whole, half, ...) \
    ssize_t symbol parameters { \
        REAL(ssize_t, #symbol, __VA_ARGS__); \
        int end = fate(name, NULL, fd, count > 1); \
        if (end > 0) return -1; \
        return end == HALF ? real half : real whole; \
    }
MOVE(read, "read", fd, (int fd, void *to, size_t count), (fd, to, count), (fd, to, count / 2), int, void *, size_t)
MOVE(write, "write", fd, (int fd, const void *from, size_t count), (fd, from, count), (fd, from, count / 2), int, const void *, size_t)
#define AT(symbol, name, type, offset_type) \
    MOVE(symbol, name, fd, (int fd, type from, size_t count, offset_type at), (fd, from, count, at), (fd, from, count / 2, at), \
         int, type, size_t, offset_type)
AT(pread, "pread64", void *, off_t)
AT(pread64, "pread64", void *, off64_t)
AT(pwrite, "pwrite64", const void *, off_t)
AT(pwrite64, "pwrite64", const void *, off64_t)
MOVE(sendfile, "sendfile", to, (int to, int from, off_t *at, size_t count), (to, from, at, count), (to, from, at, count / 2), int, int,
     off_t *, size_t)
MOVE(copy_file_range, "copy_file_range", to,
     (int from, off64_t *at, int to, off64_t *there, size_t count, unsigned flags), (from, at, to, there, count, flags),
     (from, at, to, there, count / 2, flags), int, off64_t *, int, off64_t *, size_t, unsigned)

CALL(int, ftruncate, "ftruncate", NULL, fd, (int fd, off_t size), (fd, size), int, off_t)
CALL(int, ftruncate64, "ftruncate", NULL, fd, (int fd, off64_t size), (fd, size), int, off64_t)
CALL(int, fallocate, "fallocate", NULL, fd, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size), int, int, off_t, off_t)
CALL(int, fallocate64, "fallocate", NULL, fd, (int fd, int mode, off64_t at, off64_t size), (fd, mode, at, size), int, int, off64_t,
     off64_t)
int fsync(int fd) { return fate("fsync", NULL, fd, 0) > 0 ? -1 : 0; }
int fdatasync(int fd) { return fate("fdatasync", NULL, fd, 0) > 0 ? -1 : 0; }
CALL(int, rename, "rename", to, -1, (const char *from, const char *to), (from, to), const char *, const char *)
CALL(int, renameat, "rename", to, -1, (int a, const char *from, int b, const char *to), (a, from, b, to), int, const char *, int,
     const char *)
CALL(int, renameat2, "rename", to, -1, (int a, const char *from, int b, const char *to, unsigned flags), (a, from, b, to, flags), int,
     const char *, int, const char *, unsigned)
CALL(int, link, "link", to, -1, (const char *from, const char *to), (from, to), const char *, const char *)
CALL(int, linkat, "link", to, -1, (int a, const char *from, int b, const char *to, int flags), (a, from, b, to, flags), int,
     const char *, int, const char *, int)
CALL(int, unlink, "unlink", path, -1, (const char *path), (path), const char *)
CALL(int, unlinkat, "unlink", path, -1, (int at, const char *path, int flags), (at, path, flags), int, const char *, int)
CALL(int, mkdir, "mkdir", path, -1, (const char *path, mode_t mode), (path, mode), const char *, mode_t)
CALL(int, mkdirat, "mkdir", path, -1, (int at, const char *path, mode_t mode), (at, path, mode), int, const char *, mode_t)
CALL(int, mknod, "create", path, -1, (const char *path, mode_t mode, dev_t device), (path, mode, device), const char *, mode_t, dev_t)
CALL(int, mknodat, "create", path, -1, (int at, const char *path, mode_t mode, dev_t device), (at, path, mode, device), int,
     const char *, mode_t, dev_t)
CALL(int, rmdir, "rmdir", path, -1, (const char *path), (path), const char *)
CALL(int, symlink, "symlink", path, -1, (const char *target, const char *path), (target, path), const char *, const char *)
CALL(int, symlinkat, "symlink", path, -1, (const char *target, int at, const char *path), (target, at, path), const char *, int,
     const char *)
CALL(int, chmod, "chmod", path, -1, (const char *path, mode_t mode), (path, mode), const char *, mode_t)
CALL(int, fchmod, "chmod", NULL, fd, (int fd, mode_t mode), (fd, mode), int, mode_t)
CALL(int, fchown, "chown", NULL, fd, (int fd, uid_t user, gid_t group), (fd, user, group), int, uid_t, gid_t)
CALL(int, futimens, "utimens", NULL, fd, (int fd, const struct timespec times[2]), (fd, times), int, const struct timespec *)
CALL(int, fsetxattr, "setxattr", NULL, fd, (int fd, const char *name, const void *value, size_t size, int flags),
     (fd, name, value, size, flags), int, const char *, const void *, size_t, int)
CALL(int, setxattr, "setxattr", path, -1, (const char *path, const char *name, const void *value, size_t size, int flags),
     (path, name, value, size, flags), const char *, const char *, const void *, size_t, int)
CALL(int, lsetxattr, "setxattr", path, -1, (const char *path, const char *name, const void *value, size_t size, int flags),
     (path, name, value, size, flags), const char *, const char *, const void *, size_t, int)
CALL(int, fremovexattr, "setxattr", NULL, fd, (int fd, const char *name), (fd, name), int, const char *)
CALL(int, removexattr, "setxattr", path, -1, (const char *path, const char *name), (path, name), const char *, const char *)
CALL(ssize_t, fgetxattr, "getxattr", NULL, fd, (int fd, const char *name, void *to, size_t size), (fd, name, to, size), int,
     const char *, void *, size_t)
CALL(ssize_t, getxattr, "getxattr", path, -1, (const char *path, const char *name, void *to, size_t size), (path, name, to, size),
     const char *, const char *, void *, size_t)
CALL(ssize_t, lgetxattr, "getxattr", path, -1, (const char *path, const char *name, void *to, size_t size), (path, name, to, size),
     const char *, const char *, void *, size_t)
CALL(ssize_t, flistxattr, "getxattr", NULL, fd, (int fd, char *to, size_t size), (fd, to, size), int, char *, size_t)
CALL(int, flock, "flock", NULL, fd, (int fd, int kind), (fd, kind), int, int)
CALL(int, fstat, "stat", NULL, fd, (int fd, struct stat *to), (fd, to), int, struct stat *)
CALL(int, stat, "stat", path, -1, (const char *path, struct stat *to), (path, to), const char *, struct stat *)
CALL(int, lstat, "stat", path, -1, (const char *path, struct stat *to), (path, to), const char *, struct stat *)
CALL(int, fstatat, "stat", path, -1, (int at, const char *path, struct stat *to, int flags), (at, path, to, flags), int, const char *,
     struct stat *, int)
CALL(int, memfd_create, "memfd_create", name, -1, (const char *name, unsigned flags), (name, flags), const char *, unsigned)

// The descriptor is gone, whatever close(2) says.
int close(int fd) {
    REAL(int, "close", int);
    int end = fate("close", NULL, fd, 0), saved = errno, result = real(fd);
    if (end <= 0) return result;
    errno = saved;
    return -1;
}

static int is_lock(int command) {
    return command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW;
}
#define FCNTL(symbol) \
    int symbol(int fd, int command, ...) { \
        REAL(int, #symbol, int, int, void *); \
        va_list rest; \
        va_start(rest, command); \
        void *argument = va_arg(rest, void *); \
        va_end(rest); \
        if (is_lock(command) && fate("fcntl", NULL, fd, 0) > 0) return -1; \
        return real(fd, command, argument); \
    }
FCNTL(fcntl)
FCNTL(fcntl64)

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
    if (fate("mmap", NULL, fd, 0) > 0) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
}

long syscall(long number, ...) {
    REAL(long, "syscall", long, ...);
    long a[6];
    va_list rest;
    va_start(rest, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(rest, long);
    va_end(rest);
    if (number == SYS_openat2 && fate("openat", (const char *)a[1], -1, 0) > 0) return -1;
    if (number == SYS_memfd_secret && fate("memfd_secret", "", -1, 0) > 0) return -1;
    if (number == SYS_getrandom && fate("getrandom", "", -1, 0) > 0) return -1;
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

// libkeyutils: serials are int32_t.
#define KEY(symbol, parameters, arguments, ...) CALL(long, symbol, #symbol, "", -1, parameters, arguments, __VA_ARGS__)
int32_t add_key(const char *type, const char *name, const void *payload, size_t size, int32_t ring) {
    REAL(int32_t, "add_key", const char *, const char *, const void *, size_t, int32_t);
    return fate("add_key", "", -1, 0) > 0 ? -1 : real(type, name, payload, size, ring);
}
KEY(keyctl_search, (int32_t ring, const char *type, const char *name, int32_t to), (ring, type, name, to), int32_t, const char *,
    const char *, int32_t)
KEY(keyctl_link, (int32_t key, int32_t ring), (key, ring), int32_t, int32_t)
KEY(keyctl_unlink, (int32_t key, int32_t ring), (key, ring), int32_t, int32_t)
KEY(keyctl_read, (int32_t key, char *to, size_t size), (key, to, size), int32_t, char *, size_t)
KEY(keyctl_setperm, (int32_t key, uint32_t rights), (key, rights), int32_t, uint32_t)
KEY(keyctl_set_timeout, (int32_t key, unsigned seconds), (key, seconds), int32_t, unsigned)
KEY(keyctl_invalidate, (int32_t key), (key), int32_t)

// libcrypto: 1 is success.
int PKCS5_PBKDF2_HMAC(const char *password, int length, const unsigned char *salt, int salt_length, int iterations, const void *digest,
                      int size, unsigned char *to) {
    REAL(int, "PKCS5_PBKDF2_HMAC", const char *, int, const unsigned char *, int, int, const void *, int, unsigned char *);
    return real(password, length, salt, salt_length, iterations < 1000 ? iterations : 1000, digest, size, to);
}

int posix_spawn(pid_t *child, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
                char *const arguments[], char *const environment[]) {
    REAL(int, "posix_spawn", pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const *,
         char *const *);
    int end = fate("spawn", path, -1, 0);
    return end > 0 ? end : real(child, path, actions, attributes, arguments, environment);
}
