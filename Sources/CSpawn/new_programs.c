#define _GNU_SOURCE
#include "new_programs.h"

const short protectfs_spawn_in_new_session = POSIX_SPAWN_SETSID;

int protectfs_spawn_with_standard_streams_only(posix_spawn_file_actions_t *actions) {
    return posix_spawn_file_actions_addclosefrom_np(actions, 3);
}

int protectfs_spawn_in_directory(posix_spawn_file_actions_t *actions, const char *directory) {
    return posix_spawn_file_actions_addchdir_np(actions, directory);
}
