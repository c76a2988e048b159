// libsystemd's D-Bus client, and what it says of logins, as Swift sees them.
#include <systemd/sd-bus.h>
#include <systemd/sd-login.h>
