// libfuse's low-level interface as Swift sees it. 3.14 is the version of Debian 12 and Ubuntu 24.04.
#define FUSE_USE_VERSION 314

#include <fuse_lowlevel.h>
