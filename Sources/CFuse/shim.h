// libfuse's low-level interface as Swift sees it. 3.14 is the version of Debian 12 and Ubuntu 24.04.
#define FUSE_USE_VERSION 314

#include <fuse_lowlevel.h>
#include <sys/syscall.h>
#include <unistd.h>

// Whether a request is of a thread of this process: the kernel names threads, fuse(4). tgkill(2), which Swift cannot call, with no signal.
static inline int protectfs_is_own_request(fuse_req_t request) {
    return syscall(SYS_tgkill, getpid(), fuse_req_ctx(request)->pid, 0) == 0;
}
