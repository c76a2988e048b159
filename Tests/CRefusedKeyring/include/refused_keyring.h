// Kernel keyrings as a container has them: its seccomp filter refuses all three calls.
#ifndef PROTECTFS_REFUSED_KEYRING_H
#define PROTECTFS_REFUSED_KEYRING_H

// From now on add_key(2), request_key(2) and keyctl(2) fail with EPERM, in all threads of this process, for good.
// 0, or an error number.
int protectfs_refuse_keyring(void);

#endif
