// Files that are in memory only, and what has to be asked of the kernel to be sure of that: calls that Swift's Glibc hides.
#ifndef PROTECTFS_MEMORY_FILES_H
#define PROTECTFS_MEMORY_FILES_H

#include <sys/signalfd.h>

// A new file without a name: memfd_create(2), close-on-exec, may be sealed, never executable where the kernel knows that.
// The descriptor, or -1 with errno set.
int protectfs_memory_file(void);

// Makes a memory file unchangeable for ever, for its maker and for root too: fcntl(2) F_ADD_SEALS with every seal.
// 0, or -1 with errno set.
int protectfs_seal_memory_file(int fd);

// Whether the file system of `fd` is tmpfs or ramfs: fstatfs(2). 1, 0, or -1 with errno set.
int protectfs_is_in_memory(int fd);

// Whether nobody has the file of `fd`, which is open for reading only, open for writing: fcntl(2) F_SETLEASE, given back
// at once. 1, 0, or -1 with errno set.
int protectfs_has_no_writer(int fd);

// From here on the calling thread has the process's descriptors for itself: what it opens and closes, no other thread sees, and the
// other way round; an exec goes on with those of the thread that calls it. unshare(2) CLONE_FILES. 0, or -1 with errno set.
int protectfs_own_descriptors(void);

#endif
