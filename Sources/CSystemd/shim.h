// libsystemd's D-Bus client as Swift sees it.
#include <systemd/sd-bus.h>
