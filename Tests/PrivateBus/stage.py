"""Two message buses in a directory of their own, with python-dbusmock's logind on the system bus.

Reads one command a line from standard input, as a JSON list, and answers each with a line of JSON: its result, or
{"error": …}. Ends, and everything that it started, when standard input does.
"""
import json
import os
import signal
import subprocess
import sys
import time

import dbus
import dbus.bus
import dbus.lowlevel

LOGIND = "org.freedesktop.login1"
MANAGER = "/org/freedesktop/login1"
MOCK = "org.freedesktop.DBus.Mock"
CONFIGURATION = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path={path}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy></busconfig>"""

directory = sys.argv[1]
processes = {}
connections = {}


def path(bus):
    return os.path.join(directory, bus)


def address(bus):
    return "unix:path=" + path(bus)


def wait_until(condition, what):
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)
    raise RuntimeError("waited in vain for " + what)


def start_bus(bus):
    with open(path(bus) + ".conf", "w") as file:
        file.write(CONFIGURATION.format(path=path(bus)))
    processes[bus] = subprocess.Popen(
        ["dbus-daemon", "--nofork", "--nopidfile", "--config-file", path(bus) + ".conf"],
        stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: is_connected(bus), "the bus")
    os.chmod(path(bus), 0o666)


def is_connected(bus):
    try:
        connections[bus] = connect(bus)
        return True
    except dbus.DBusException:
        return False


def connect(bus):
    connection = dbus.bus.BusConnection(address(bus))
    connection.set_exit_on_disconnect(False)
    return connection


def stop(name):
    process = processes.pop(name, None)
    if process:
        process.kill()
        process.wait()
    if os.path.exists(path(name)):
        os.unlink(path(name))


def start_logind():
    environment = dict(os.environ, DBUS_SYSTEM_BUS_ADDRESS=address("system"))
    processes["logind"] = subprocess.Popen(
        ["/usr/bin/python3", "-m", "dbusmock", "--system", "--template", "logind"], env=environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    wait_until(lambda: connections["system"].name_has_owner(LOGIND), "logind")
    wait_until(has_template, "the template")


def has_template():
    try:
        sessions()
        return True
    except dbus.DBusException:
        return False


def sessions():
    return call(MANAGER, LOGIND + ".Manager", "ListSessions")


def call(place, interface, member, *arguments):
    return connections["system"].get_object(LOGIND, place, introspect=False).get_dbus_method(member, interface)(*arguments)


def place(session):
    return MANAGER + "/session/" + session


def emit(interface, member, signature, arguments):
    call(MANAGER, MOCK, "EmitSignal", interface, member, signature, arguments)


def set_property(session, name, value):
    call(place(session), MOCK, "UpdateProperties", LOGIND + ".Session", {name: value})


def add(session, uid):
    call(MANAGER, MOCK, "AddSession", session, "seat" + session, dbus.UInt32(uid), "somebody", True)
    emit(LOGIND + ".Manager", "SessionNew", "so", [session, dbus.ObjectPath(place(session))])


def remove(session):
    call(MANAGER, MOCK, "RemoveObject", place(session))
    emit(LOGIND + ".Manager", "SessionRemoved", "so", [session, dbus.ObjectPath(place(session))])


def send(bus, where, interface, member, value, destination):
    """A signal from this program, which owns no name: to all, or to the connections of one process."""
    connection = connect(bus)
    for receiver in [None] if destination is None else names_of(bus, destination):
        message = dbus.lowlevel.SignalMessage(where, interface, member)
        if value is not None:
            message.append(value)
        if receiver:
            message.set_destination(receiver)
        connection.send_message(message)
    connection.flush()
    connection.close()


def names_of(bus, process):
    driver = connections[bus].get_object("org.freedesktop.DBus", "/org/freedesktop/DBus", introspect=False)
    names = [name for name in driver.ListNames(dbus_interface="org.freedesktop.DBus") if name.startswith(":")]
    found = [
        name for name in names
        if driver.GetConnectionUnixProcessID(name, dbus_interface="org.freedesktop.DBus") == process]
    if not found:
        raise RuntimeError("process %d is not on the bus" % process)
    return found


def lock_timed(session):
    """When logind was told to send the signal: nanoseconds of CLOCK_MONOTONIC."""
    begin = time.monotonic_ns()
    call(place(session), LOGIND + ".Session", "Lock")
    return begin


def inhibitors():
    return [list(map(str, found[:4])) for found in call(MANAGER, LOGIND + ".Manager", "ListInhibitors")]


COMMANDS = {
    "start-bus": start_bus,
    "start-logind": start_logind,
    "stop": stop,
    "add": add,
    "remove": remove,
    "lock": lambda session: call(place(session), LOGIND + ".Session", "Lock"),
    "lock-timed": lock_timed,
    "unlock": lambda session: call(place(session), LOGIND + ".Session", "Unlock"),
    "property": set_property,
    "sleep": lambda begins: emit(LOGIND + ".Manager", "PrepareForSleep", "b", [begins]),
    "send": send,
    "inhibitors": inhibitors,
    "is-on-bus": lambda bus, process: bool(names_of(bus, process)),
}

try:
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        try:
            answer = {"result": COMMANDS[name](*arguments)}
            json.dumps(answer)
        except Exception as error:
            answer = {"error": "%s: %s" % (name, error)}
        print(json.dumps(answer, default=str), flush=True)
finally:
    for name in list(processes):
        stop(name)
