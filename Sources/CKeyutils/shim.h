// libkeyutils as Swift sees it; keyutils.h does not include what it needs.
#include <stdint.h>
#include <sys/types.h>

#include <keyutils.h>
