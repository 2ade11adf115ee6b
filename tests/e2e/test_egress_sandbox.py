#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""The table of attacks in real sandboxes: every case through every adapter from programs of a sandbox that a daemon made,
as its root and as a plain user of it, with the boundary in force. What that makes of connections is real, and so is who
holds them."""

import copy

from egress_cases import API
from egress_sandbox import Sandbox
from egress_table import missing_cells, run_all, show_table
from egress_trial import POLICY, table
from egress_world import PUBLIC, World, answer
from harness import check, equal, main, test

ROOT_ONLY = {"only": "root", "because": "a plain user's sandbox has one identity; its boundary is the same"}
USERS = {"root": "0", "uid": "1000"}  # in the table -> inside


def callers(c):
    """The same caller under the name that the table has for the sandbox's user, with a directory of its own."""
    for name in USERS:
        made = copy.copy(c)
        made.name, made.dir = name, c.mkdir(c.dir / name)
        yield made


@test(**ROOT_ONLY, seconds=600)
def every_case_by_every_way(c):
    problems = []
    run_all(problems, [(made, lambda world, who: Sandbox(world, who, POLICY, USERS[who.name])) for made in callers(c)])
    check(not problems, "\n".join(problems))


@test(**ROOT_ONLY)
def the_table(c):
    show_table({name: name for name in USERS})
    missing = [cell for name in USERS for cell in missing_cells(name)]
    check(not table or not missing, f"cells are missing: {missing}")


FETCH = """
import sys, urllib.request
proxy = urllib.request.ProxyHandler({"http": "http://127.0.0.1:3128"} if sys.argv[1] == "proxy" else {})
try: print(urllib.request.build_opener(proxy).open("http://api.example.com/ok", timeout=10).status)
except OSError as e: print("refused")
"""


@test(**ROOT_ONLY)
def a_hosts_file_is_the_sandboxes_own_business(c):
    """Case 21: what the file says is what a program of the sandbox dials, and nothing that we look at."""
    with World() as world, Sandbox(world, c, POLICY, "0") as box:
        world.dns.names[API] = [PUBLIC]
        origin = world.origin(PUBLIC, 80, answer())
        inside = world.origin("10.77.0.1", 80, answer(), inside=True)
        box.exec("sh", "-c", f"echo 10.77.0.1 {API} >> /etc/hosts", user="0")
        look = "import socket, sys; print(socket.gethostbyname(sys.argv[1]))"
        equal(box.exec("python3", "-c", look, API, user="0"), "10.77.0.1\n", "the name, inside")
        equal(box.exec("python3", "-c", FETCH, "direct", user="0"), "refused\n", "what the file leads to")
        equal(box.exec("python3", "-c", FETCH, "proxy", user="0"), "200\n", "the name, by the proxy")
        equal((inside.connections, origin.connections), (0, 1), "connections")


main()
