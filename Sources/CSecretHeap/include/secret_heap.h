// libcrypto's memory in programs of ours: memory that cannot be read from outside, as that of SecretBytes.
#ifndef PROTECTFS_SECRET_HEAP_H
#define PROTECTFS_SECRET_HEAP_H

#include "secret_memory.h"

// The worst memory that libcrypto has been given so far: PROTECTFS_BACKING_PLAIN too if it did not take ours at all.
enum protectfs_backing protectfs_secret_heap_backing(void);

#endif
