// Cipher contexts, HMAC states and big numbers have key bytes in them while they are used. libcrypto takes their memory from
// malloc(3) unless it is told otherwise before it takes any, CRYPTO_set_mem_functions(3); so this is done as the program is loaded,
// and only in programs of ours: in others it is not for a library to decide.
//
// Blocks of a power of two, each with its size in front; what is given back is wiped and kept for the next of that size. What is larger
// than a block has a mapping of its own. Tables of algorithms hold no secrets and come from malloc(3): see protectfs_begin_fetch.
// OpenSSL's own secure heap, CRYPTO_secure_malloc(3), would not do: libcrypto takes from it only what it calls secret itself, which
// cipher contexts are not, and it can be read through /proc/PID/mem.
#define _GNU_SOURCE
#include "secret_heap.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "secret_memory.h"

enum { HEADER = 16, SMALLEST = 5, LARGEST = 15, REGION = 256 * 1024, PAGE = 4096, PLAIN = 1 };

struct block {
    size_t size;  // with this header; the lowest bit, PLAIN, marks a block of malloc(3)
    struct block *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *free_blocks[LARGEST + 1];
static char *region, *region_end;
static int worst = PROTECTFS_BACKING_SECRET;

static void note(int backing) {
    if (backing > __atomic_load_n(&worst, __ATOMIC_RELAXED)) __atomic_store_n(&worst, backing, __ATOMIC_RELAXED);
}

static void *map(size_t bytes) {
    enum protectfs_backing backing;
    void *memory = protectfs_secret_map(bytes, &backing);
    if (memory != NULL) note(backing);
    return memory;
}

static int power(size_t bytes) {
    int power = SMALLEST;
    while (((size_t)1 << power) < bytes) power++;
    return power;
}

static struct block *taken(size_t bytes) {
    if (bytes > (size_t)1 << LARGEST) {
        size_t whole = (bytes + PAGE - 1) / PAGE * PAGE;
        struct block *block = map(whole);
        if (block != NULL) block->size = whole;
        return block;
    }
    int size = power(bytes);
    pthread_mutex_lock(&lock);
    struct block *block = free_blocks[size];
    if (block != NULL) {
        free_blocks[size] = block->next;
        block->next = NULL;
    } else {
        if (region_end - region < (ptrdiff_t)1 << size) {
            region = map(REGION);
            region_end = region == NULL ? NULL : region + REGION;
        }
        if (region != NULL) {
            block = (struct block *)region;
            block->size = (size_t)1 << size;
            region += (size_t)1 << size;
        }
    }
    pthread_mutex_unlock(&lock);
    return block;
}

// A block of malloc(3). Sizes are multiples of 16, so the lowest bit is free for PLAIN.
static struct block *plain(size_t bytes) {
    size_t size = (bytes + HEADER - 1) / HEADER * HEADER;
    struct block *block = malloc(size);
    if (block != NULL) block->size = size | PLAIN;
    return block;
}

static void *allocate(size_t bytes, const char *file, int line) {
    (void)file, (void)line;
    if (bytes == 0 || bytes > SIZE_MAX / 2) return NULL;
    struct block *block = protectfs_is_fetching() ? plain(bytes + HEADER) : taken(bytes + HEADER);
    if (block == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    return (char *)block + HEADER;
}

static void release(void *memory, const char *file, int line) {
    (void)file, (void)line;
    if (memory == NULL) return;
    struct block *block = (struct block *)((char *)memory - HEADER);
    size_t size = block->size;
    if (size & PLAIN) {
        free(block);
        return;
    }
    explicit_bzero(memory, size - HEADER);
    if (size > (size_t)1 << LARGEST) {
        munmap(block, size);
        return;
    }
    int error = errno;  // free(3) keeps it, too
    pthread_mutex_lock(&lock);
    block->next = free_blocks[power(size)];
    free_blocks[power(size)] = block;
    pthread_mutex_unlock(&lock);
    errno = error;
}

static void *reallocate(void *memory, size_t bytes, const char *file, int line) {
    if (memory == NULL) return allocate(bytes, file, line);
    if (bytes == 0) {
        release(memory, file, line);
        return NULL;
    }
    size_t room = (((struct block *)((char *)memory - HEADER))->size & ~(size_t)PLAIN) - HEADER;
    if (bytes <= room) return memory;
    void *larger = allocate(bytes, file, line);
    if (larger == NULL) return NULL;
    memcpy(larger, memory, room);
    release(memory, file, line);
    return larger;
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED 1  // a sanitizer watches the blocks of malloc(3): libcrypto keeps them
#endif
#endif

// A child of fork(2) has none of this memory, and must not call libcrypto: our programs only start others (posix_spawn(3)). A bundle
// of tests links them and is none of them, and it forks.
static int is_test_bundle(void) {
    const char *end = strrchr(program_invocation_short_name, '.');
    return end != NULL && strcmp(end, ".xctest") == 0;
}

// Before every constructor that calls libcrypto: with the first block taken from malloc(3) it would be too late.
__attribute__((constructor(101))) static void give_to_libcrypto(void) {
#ifndef IS_SANITIZED
    if (!is_test_bundle() && !CRYPTO_set_mem_functions(allocate, reallocate, release)) note(PROTECTFS_BACKING_PLAIN);
#else
    (void)allocate, (void)reallocate, (void)release, (void)is_test_bundle;
#endif
}

enum protectfs_backing protectfs_secret_heap_backing(void) {
    return (enum protectfs_backing)__atomic_load_n(&worst, __ATOMIC_RELAXED);
}
