#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Endpoints that end: by time, and by how often they are used, whatever dies meanwhile."""

import contextlib
import datetime
import os
import signal

from daemon import Daemon
from egress_world import PUBLIC, RESOLVER, World, echo
from harness import check, equal, main, test, wait_for

CONFIG = f"egress: {{workers: 1, resolvers: ['{RESOLVER}']}}"
NAME = "api.example.com"
HOLD = """
import socket, sys
s = socket.create_connection((sys.argv[1], 7), 10)
s.sendall(b"x")
s.recv(1)
print("open", flush=True)
s.settimeout(60)
try:
    print("closed", len(s.recv(1)))
except ConnectionError:
    print("closed")
"""


@contextlib.contextmanager
def daemon(c):
    with World() as w:
        w.dns.names[NAME] = [PUBLIC]
        web, tunnels = w.http(PUBLIC, 80), w.origin(PUBLIC, 7, echo)
        d = Daemon(c, config=CONFIG)
        spawn = d.spawn
        d.spawn = lambda *args, **options: w.inside.run(lambda: spawn(*args, **options))
        with d:
            yield d, web, tunnels


def policy(term, port=80):
    return f"version: 1\nnetwork_policies: {{a: {{endpoints: [{{host: {NAME}, port: {port}}}], {term}, " \
           "binaries: [{path: /**}]}}\n"


def soon(seconds):
    at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def asks(d, box, *flags):
    """Whether an answer came."""
    return d.api.run(box, ["curl", "-sf", "-m", "10", *flags, f"http://{NAME}/"]).expect(200).json["exit_code"] == 0


def in_force(d, box, generation=1):
    wait_for(lambda: d.get(box)["egress"]["in_force"] == generation, "the policy is in force again")


def denials(d, box):
    return {x["code"] for x in d.api.get(f"/v1/sandboxes/{box}/egress/denials").expect(200).json["denials"]}


@test
def time_ends_an_endpoint_and_what_stands_on_it(c):
    with daemon(c) as (d, _, tunnels):
        box = d.create(egress={"policy": policy(f"until: '{soon(3600)}'", 7)})
        connection, response = d.api.open("POST", f"/v1/sandboxes/{box}/processes", {"argv": ["python3", "-c", HOLD, NAME]})
        response.readline()
        check(b"open" in response.readline(), "the tunnel stands")
        d.api.request("PUT", f"/v1/sandboxes/{box}/egress", policy(f"until: '{soon(8)}'", 7).encode()).expect(200)
        equal(tunnels.closed, 0, "tunnels that are closed before their time")
        check(b"closed" in response.readline(), "it is closed when its time is over")
        connection.close()
        seen = d.api.run(box, ["python3", "-c", HOLD, NAME]).json
        check(seen["exit_code"] != 0 and "open" not in seen["stdout"], f"after the end: {seen}")
        d.api.run(box, ["curl", "-s", "-m", "10", f"http://{NAME}:7/"]).expect(200)
        check("policy_expired" in denials(d, box), f"denials: {denials(d, box)}")
        equal(tunnels.connections, 1, "connections")


@test
def time_goes_on_while_the_daemon_is_dead(c):
    with daemon(c) as (d, web, _):
        box = d.create(egress={"policy": policy(f"until: '{soon(3)}'")})
        d.kill()
        d.start()
        wait_for(lambda: d.get(box)["egress"]["in_force"] == 1, "the policy is in force again")
        wait_for(lambda: not asks(d, box), "its time is over")
        check("policy_expired" in denials(d, box), f"denials: {denials(d, box)}")
        seen = web.connections
        equal((asks(d, box), web.connections), (False, seen), "an answer, and connections")


@test
def every_use_is_had_once(c):
    with daemon(c) as (d, web, _):
        box = d.create(egress={"policy": policy("uses: 3")})
        equal([asks(d, box), asks(d, box, "--noproxy", "*"), asks(d, box), asks(d, box), asks(d, box, "--noproxy", "*")],
              [True, True, True, False, False], "answers")
        equal(web.connections, 3, "connections")
        check("uses_spent" in denials(d, box), f"denials: {denials(d, box)}")
        d.api.request("PUT", f"/v1/sandboxes/{box}/egress", policy("uses: 1").encode()).expect(200)
        equal([asks(d, box), asks(d, box)], [True, False], "answers by a new policy")


@test
def no_use_is_had_twice_whoever_dies(c):
    with daemon(c) as (d, web, _):
        one, two = (d.create(egress={"policy": policy("uses: 2")}) for _ in range(2))
        check(asks(d, one) and asks(d, two), "the first uses")
        old = d.parts("sandboxer-egres")
        os.kill(old[0], signal.SIGKILL)
        wait_for(lambda: d.parts("sandboxer-egres") not in (old, []), "another worker")
        in_force(d, one)
        equal(asks(d, one), False, "an answer after a worker's death, which takes what was left along")
        three = d.create(egress={"policy": policy("uses: 2")})
        check(asks(d, three), "the first use of another")
        d.kill()
        d.start()
        for box in (one, two, three):
            in_force(d, box)
            equal(asks(d, box), False, "an answer after the daemon's death")
        equal(web.connections, 3, "connections")
        d.api.request("PUT", f"/v1/sandboxes/{one}/egress", policy("uses: 1").encode()).expect(200)
        equal([asks(d, one), asks(d, one)], [True, False], "answers by a new policy")


main()
