# SPDX-License-Identifier: Apache-2.0
"""Runs inside a sandbox: loads filters of its own, in as many processes as it is told, and counts."""

import ctypes
import os
import socket
import struct
import sys
import time

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
SO_ATTACH_FILTER = 26
ALLOW = struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)
libc = ctypes.CDLL(None, use_errno=True)


class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def load():
    """0 or an errno."""
    program = Program(1, ALLOW)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return ctypes.get_errno() if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) < 0 else 0


def attach(s):
    program = Program(1, ALLOW)
    r = libc.setsockopt(s.fileno(), socket.SOL_SOCKET, SO_ATTACH_FILTER, ctypes.byref(program), ctypes.sizeof(program))
    return ctypes.get_errno() if r < 0 else 0


def family(processes, each):
    """How many were loaded by so many processes, all alive at the end; and the last refusal."""
    results, hold = os.pipe(), os.pipe()
    for _ in range(processes):
        if os.fork() == 0:
            os.close(hold[1])
            answers = [load() for _ in range(each)]
            os.write(results[1], bytes([answers.count(0), max(answers)]))
            os.read(hold[0], 1)
            os._exit(0)
    said = b"".join(os.read(results[0], 2) for _ in range(processes))
    for fd in (*results, *hold):
        os.close(fd)
    for _ in range(processes):
        os.wait()
    return sum(said[::2]), max(said[1::2])


def datagram():
    """Stream sockets take filters of unprivileged programs no more, since Linux 6.18."""
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def again():
    """Filters go with their processes: how many of a new family are loaded, within some seconds."""
    until, best = time.monotonic() + 20, 0
    while best < 30 and time.monotonic() < until:
        best = max(best, family(10, 3)[0])
    return best


if sys.argv[1] == "one":
    print(load(), attach(datagram()))
elif sys.argv[1] == "many":
    print(*family(50, 8), again())
elif sys.argv[1] == "sockets":
    answers = [attach(datagram()) for _ in range(300)]
    print(answers.count(0), answers[-1])
