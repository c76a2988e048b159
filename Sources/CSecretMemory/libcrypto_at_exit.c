#include <openssl/crypto.h>

// libcrypto would take itself apart in exit(3), under the hands of threads that still seal a chunk or close a connection:
// "double free or corruption", or SIGSEGV, instead of the exit status. The kernel gives everything back as well. It counts only
// if nobody has called libcrypto before, so it is done as the program is loaded. See OPENSSL_init_crypto(3), OPENSSL_INIT_NO_ATEXIT.
__attribute__((constructor)) static void keep_libcrypto_at_exit(void) {
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}
