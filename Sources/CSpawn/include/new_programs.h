// How programs are started: what Swift's Glibc hides of spawn.h.
#ifndef PROTECTFS_NEW_PROGRAMS_H
#define PROTECTFS_NEW_PROGRAMS_H

#include <spawn.h>
#include <sys/types.h>

// POSIX_SPAWN_SETSID of spawn.h: the child begins a session of its own.
extern const short protectfs_spawn_in_new_session;

// The child has nothing open from descriptor 3 on: posix_spawn_file_actions_addclosefrom_np(3), since glibc 2.34.
// 0, or an error number.
int protectfs_spawn_with_standard_streams_only(posix_spawn_file_actions_t *actions);

// The child begins in this directory: posix_spawn_file_actions_addchdir_np(3), since glibc 2.29. 0, or an error number.
int protectfs_spawn_in_directory(posix_spawn_file_actions_t *actions, const char *directory);

// Returns when the thread that has started this process, one of that process, has ended (prctl(2) PR_SET_PDEATHSIG, by SIGUSR1), or the
// descriptor can be read.
void protectfs_wait_for_parent(int descriptor, pid_t process);

#endif
