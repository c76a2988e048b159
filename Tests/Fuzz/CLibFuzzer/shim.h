// libFuzzer as a library; its headers do not come with the toolchain. LLVM's docs/LibFuzzer.rst,
// "Using libFuzzer as a library".
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerRunDriver(int *argc, char ***argv, int (*callback)(const uint8_t *data, size_t size));
