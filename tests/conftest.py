"""The same examples each time, the longest tests first, and no other machine is asked."""

import ipaddress
import os
import socket

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("repeatable")

# For the commands that tests start, too; here, before any library reads it.
os.environ["HF_HUB_OFFLINE"] = "1"

LONGEST_FIRST = ("cli", "docs", "training", "contexts", "engines", "tuning", "runs", "text", "core")
"""Folders of tests with files that take long: begun last, one would keep one core busy alone."""


def pytest_collection_modifyitems(items):
    def rank(item):
        folder = item.path.parent.name if "tests" in item.path.parts else None
        return LONGEST_FIRST.index(folder) if folder in LONGEST_FIRST else len(LONGEST_FIRST)

    items.sort(key=rank)


# No test cuts the power: it would show nothing to wait until a file is on the disk.
os.fsync = lambda file: None

OWN = {socket.gethostname(), socket.getfqdn(), "localhost", ""}
connect, connect_ex, look_up = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo


def is_own(host):
    """Return whether a host is this machine: Ray talks to itself by the machine's own address."""
    if host is None or host in OWN:
        return True
    try:
        address = ipaddress.ip_address(str(host).partition("%")[0])
    except ValueError:
        return False
    if address.is_loopback or address.is_unspecified:
        return True
    try:
        # Only an address of this machine can be bound to.
        family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True


def refuse(host):
    """Fail the test; no code that expects a network to fail catches this."""
    pytest.fail(f"this test looks for {host!r}: tests ask no other machine for anything")


def guarded(call):
    def checked(self, address):
        # A datagram socket connects without sending: so Ray finds the machine's own address.
        sends = self.type == socket.SOCK_STREAM
        if sends and self.family in (socket.AF_INET, socket.AF_INET6) and not is_own(address[0]):
            refuse(address[0])
        return call(self, address)

    return checked


def look_up_own(host, *given, **more):
    """Look up the names of this machine alone."""
    name = host.decode() if isinstance(host, bytes) else host
    if not is_own(name):
        refuse(name)
    return look_up(host, *given, **more)


socket.socket.connect, socket.socket.connect_ex = guarded(connect), guarded(connect_ex)
socket.getaddrinfo = look_up_own
