#define _GNU_SOURCE
#include "new_programs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

const short protectfs_spawn_in_new_session = POSIX_SPAWN_SETSID;

int protectfs_spawn_with_standard_streams_only(posix_spawn_file_actions_t *actions) {
    return posix_spawn_file_actions_addclosefrom_np(actions, 3);
}

int protectfs_spawn_in_directory(posix_spawn_file_actions_t *actions, const char *directory) {
    return posix_spawn_file_actions_addchdir_np(actions, directory);
}

static volatile sig_atomic_t parent_has_ended;
static pid_t parent;

static void note_end(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)context;
    // Any program of the user can send this signal, but none in the name of another process: sigaction(2), SI_USER.
    if (info->si_code == SI_USER && info->si_pid == parent) parent_has_ended = 1;
}

// Whether its first thread has ended, though others may go on: proc_pid_stat(5), state Z.
static int first_thread_has_ended(pid_t process) {
    char path[32], text[256];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;  // getppid(2) tells, if nothing else does
    ssize_t count = read(file, text, sizeof text - 1);
    close(file);
    if (count <= 0) return 0;
    text[count] = 0;
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] == ' ' && (name_end[2] == 'Z' || name_end[2] == 'X');
}

void protectfs_wait_for_parent(int descriptor, pid_t process) {
    parent = process;
    struct sigaction action = {.sa_sigaction = note_end, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    // The signal comes while this waits, and at no other time.
    sigset_t own, waiting;
    sigemptyset(&own);
    sigaddset(&own, SIGUSR1);
    sigprocmask(SIG_BLOCK, &own, &waiting);
    sigdelset(&waiting, SIGUSR1);
    prctl(PR_SET_PDEATHSIG, SIGUSR1);
    // It may have ended before that, and while another of its threads is there, no signal tells and getppid(2) does not change.
    if (first_thread_has_ended(process)) parent_has_ended = 1;
    while (!parent_has_ended && getppid() == process) {
        struct pollfd pipe = {.fd = descriptor, .events = POLLIN};
        if (ppoll(&pipe, 1, NULL, &waiting) >= 0 || errno != EINTR) break;
    }
    prctl(PR_SET_PDEATHSIG, 0);
}
