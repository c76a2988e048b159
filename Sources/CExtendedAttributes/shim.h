// xattr(7): glibc's module for Swift leaves this header out.
#include <sys/types.h>

#include <sys/xattr.h>
