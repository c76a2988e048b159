// libcrypto's memory in programs of ours: memory that cannot be read from outside, as that of SecretBytes.
#ifndef PROTECTFS_SECRET_HEAP_H
#define PROTECTFS_SECRET_HEAP_H

#include <stddef.h>

// Bytes mapped for it, and 1 if libcrypto allocates from it: a program that links this has it from the moment it is loaded.
size_t protectfs_secret_heap_bytes(void);
int protectfs_secret_heap_is_in_use(void);

#endif
