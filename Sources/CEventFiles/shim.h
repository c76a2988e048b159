// eventfd(2), timerfd_create(2) and statfs(2): glibc's module for Swift leaves these headers out.
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <sys/vfs.h>
