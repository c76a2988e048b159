// libcurl as Swift sees it. What is here is what Swift cannot call: curl_easy_setopt(3) and its kin are variadic, and macros
// besides. One function for each kind of value, named after what libcurl calls that kind.
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

// libcurl's memory, which has credentials and what was sent and received: whatever is given back is wiped before.

static inline void protectfs_curl_free(void *block) {
    if (block) explicit_bzero(block, malloc_usable_size(block));
    free(block);
}

static inline void *protectfs_curl_realloc(void *block, size_t size) {
    if (!block) return malloc(size);
    size_t usable = malloc_usable_size(block);
    if (size <= usable && size >= usable / 2) return block;
    void *moved = malloc(size ? size : 1);  // realloc(3) would leave what was there
    if (!moved) return NULL;
    memcpy(moved, block, usable < size ? usable : size);
    protectfs_curl_free(block);
    return moved;
}

/// curl_global_init_mem(3). libcurl must not be in use yet.
static inline CURLcode protectfs_curl_initialise(void) {
    return curl_global_init_mem(
        CURL_GLOBAL_DEFAULT, malloc, protectfs_curl_free, protectfs_curl_realloc, strdup, calloc);
}

static inline CURLcode protectfs_curl_set_long(CURL *handle, CURLoption option, long value) {
    return curl_easy_setopt(handle, option, value);
}

static inline CURLcode protectfs_curl_set_offset(CURL *handle, CURLoption option, curl_off_t value) {
    return curl_easy_setopt(handle, option, value);
}

/// A string, which libcurl copies; or a pointer, which it keeps.
static inline CURLcode protectfs_curl_set_pointer(CURL *handle, CURLoption option, const void *value) {
    return curl_easy_setopt(handle, option, value);
}

/// CURLOPT_WRITEFUNCTION, CURLOPT_HEADERFUNCTION, CURLOPT_READFUNCTION: they have one type.
typedef size_t (*protectfs_curl_data_callback)(char *bytes, size_t size, size_t count, void *context);

static inline CURLcode protectfs_curl_set_data_callback(
    CURL *handle, CURLoption option, protectfs_curl_data_callback callback) {
    return curl_easy_setopt(handle, option, callback);
}

static inline CURLcode protectfs_curl_set_seek_callback(CURL *handle, curl_seek_callback callback) {
    return curl_easy_setopt(handle, CURLOPT_SEEKFUNCTION, callback);
}

static inline CURLcode protectfs_curl_set_tls_callback(CURL *handle, curl_ssl_ctx_callback callback) {
    return curl_easy_setopt(handle, CURLOPT_SSL_CTX_FUNCTION, callback);
}

static inline CURLcode protectfs_curl_get_long(CURL *handle, CURLINFO info, long *value) {
    return curl_easy_getinfo(handle, info, value);
}

static inline CURLcode protectfs_curl_get_offset(CURL *handle, CURLINFO info, curl_off_t *value) {
    return curl_easy_getinfo(handle, info, value);
}

/// CURLOPT_PRIVATE.
static inline CURLcode protectfs_curl_get_context(CURL *handle, void **value) {
    return curl_easy_getinfo(handle, CURLINFO_PRIVATE, value);
}

/// The TLS connection that is in use (an SSL of OpenSSL), or NULL.
static inline void *protectfs_curl_get_tls(CURL *handle) {
    struct curl_tlssessioninfo *session = NULL;
    if (curl_easy_getinfo(handle, CURLINFO_TLS_SSL_PTR, &session) != CURLE_OK || !session) return NULL;
    return session->backend == CURLSSLBACKEND_OPENSSL ? session->internals : NULL;
}

static inline CURLMcode protectfs_curl_multi_set_long(CURLM *multi, CURLMoption option, long value) {
    return curl_multi_setopt(multi, option, value);
}
