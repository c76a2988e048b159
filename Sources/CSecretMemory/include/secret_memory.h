// Memory for key bytes: what Swift cannot call itself (variadic syscall) or cannot promise (an unoptimised stack scrub).
#ifndef PROTECTFS_SECRET_MEMORY_H
#define PROTECTFS_SECRET_MEMORY_H

#include <stddef.h>

enum protectfs_backing {
    PROTECTFS_BACKING_SECRET = 1,  // memfd_secret(2): unreadable even through /proc/PID/mem
    PROTECTFS_BACKING_LOCKED = 2,  // mlock(2): never swapped, not in core dumps
    PROTECTFS_BACKING_PLAIN = 3,   // no lock allowed: not in core dumps, but may be swapped
};

// Maps `bytes` (a multiple of the page size) of zeroed memory that a forked child does not get. NULL on failure.
void *protectfs_secret_map(size_t bytes, enum protectfs_backing *backing);

// Fills `bytes` from the kernel's generator, getrandom(2), by the system call itself. 0, or an errno.
int protectfs_random(void *bytes, size_t count);

// Overwrites 64 KiB of the stack below the caller, where earlier calls may have left key bytes.
void protectfs_scrub_stack(void);

// Clears this thread's vector registers, in which AES keys stay: a core dump has the registers of every thread.
void protectfs_clear_vectors(void);

// Call these around a fetch of an algorithm, EVP_CIPHER_fetch(3). The first fetch makes libcrypto build tables of about half a
// MiB. They hold no secrets, and each page of secret memory interrupts all processors, so they are allocated with malloc(3). What
// this thread allocates between the two calls must never hold a key.
void protectfs_begin_fetch(void);
void protectfs_end_fetch(void);
int protectfs_is_fetching(void);

// prctl(2) PR_SET_DUMPABLE 0: no core dump, and other processes of the user neither attach nor read /proc/PID/mem.
// 0, or -1 with errno set.
int protectfs_refuse_dumps(void);

// For a process with many threads that mostly wait: two places to allocate from instead of one for each thread, and large buffers
// go back to the kernel when they are freed. mallopt(3), which Swift's Glibc hides.
void protectfs_keep_heap_small(void);

#endif
