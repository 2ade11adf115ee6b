#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Policies that change, and workers that die, under load: a sandbox's programs open connections all the time, by the proxy
and captured, and nothing of it gets where the policy in force does not lead."""

import contextlib
import os
import resource
import signal
import socket
import time

from daemon import Daemon
from egress_trial import cpu
from egress_world import PUBLIC, PUBLIC_TOO, RESOLVER, World, swallow
from harness import check, diagnose, equal, main, test, wait_for

PUBLIC_NEVER = "93.184.216.36"
PLACES = {"a.example.com": PUBLIC, "b.example.com": PUBLIC_TOO, "never.example.com": PUBLIC_NEVER}
FLIPS, KILLS = 10, 3
POLICY = """version: 1
network_policies: {{one: {{endpoints: [{{host: {host}, port: 7}}], binaries: [{{path: /**}}]}}}}
"""

# A hundred at once, each to one host after the other and by one way after the other; whatever stands is written to.
LOAD = """
import asyncio, itertools, sys
hosts = sys.argv[1:]

async def way_by_proxy(host):
    reader, writer = await asyncio.open_connection("127.0.0.1", 3128)
    writer.write(f"CONNECT {host}:7 HTTP/1.1\\r\\nHost: {host}:7\\r\\n\\r\\n".encode())
    if b" 200 " not in await reader.readuntil(b"\\r\\n\\r\\n"):
        writer.close()
        raise OSError
    return writer

async def way_captured(host):
    return (await asyncio.open_connection(host, 7))[1]

async def client(number):
    for turn in itertools.count(number):
        try:
            way = (way_by_proxy, way_captured)[turn // len(hosts) % 2]
            writer = await asyncio.wait_for(way(hosts[turn % len(hosts)]), 2)
            for _ in range(20):
                writer.write(b"x" * 64)
                await writer.drain()
                await asyncio.sleep(0.005)
            writer.close()
        except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError):
            await asyncio.sleep(0.01)

async def all_of_them():
    await asyncio.gather(*(client(number) for number in range(100)))

asyncio.run(all_of_them())
"""


class Place:
    """An origin under load."""

    def __init__(self, w, address):
        self.w, self.address, self.markers = w, address, 0
        self.origin = w.origin(address, 7, swallow)

    def heard(self):
        """Bytes that came from a sandbox."""
        return sum(len(data) for data in self.origin.heard if not data.startswith(b"marker"))

    def settle(self):
        """Until all that was on its way has been heard: whoever knocked before us was let in before us, and has gone."""
        self.markers += 1
        marker = f"marker{self.markers}".encode()
        with self.w.inside.run(lambda: socket.create_connection((self.address, 7), 10)) as s:
            s.sendall(marker)
            wait_for(lambda: marker in self.origin.heard, "the marker is heard", 60)
        wait_for(lambda: self.origin.closed == self.origin.connections, "what the policy forbids is closed", 60)
        return self.heard()


class Race:
    """A sandbox full of clients, and the three places that they are after."""

    def __init__(self, c, w):
        w.outside.ip(f"addr add {PUBLIC_NEVER}/32 dev lo")
        w.dns.names.update({name: [address] for name, address in PLACES.items()})
        self.w, self.places = w, {name: Place(w, address) for name, address in PLACES.items()}
        self.d = Daemon(c, config=f"egress: {{workers: 1, resolvers: ['{RESOLVER}']}}")

    def __enter__(self):
        self.w.inside.run(self.d.start)
        self.d.__enter__()
        self.box = self.d.create(egress={"policy": POLICY.format(host="a.example.com")})
        self.d.api.post(f"/v1/sandboxes/{self.box}/processes",
                        {"argv": ["python3", "-c", LOAD, *PLACES], "background": True}).expect(200, 201, 202)
        return self

    def __exit__(self, *what):
        self.d.__exit__(*what)

    def allow(self, host):
        answer = self.d.api.request("PUT", f"/v1/sandboxes/{self.box}/egress", POLICY.format(host=host).encode()).expect(200)
        equal(answer.json["in_force"], answer.json["generation"], "the generation in force")

    def grows(self, host):
        before = self.places[host].heard()
        wait_for(lambda: self.places[host].heard() > before + 4096, f"{host} is reached", 60)

    def never(self):
        """What no policy has allowed."""
        place = self.places["never.example.com"]
        equal((place.origin.connections, place.heard()), (0, 0), "what got where nothing may go")
        check("never.example.com" not in {name for name, _ in self.w.dns.asked}, "a name that was never allowed was asked for")

    @property
    def workers(self):
        return self.d.parts("sandboxer-egres")


@test
def policies_change_while_connections_open(c):
    with World() as w, Race(c, w) as race:
        hosts = ("a.example.com", "b.example.com")
        for turn in range(FLIPS):
            allowed, forbidden = hosts[turn % 2], hosts[(turn + 1) % 2]
            race.allow(allowed)
            size = race.places[forbidden].settle()
            race.grows(allowed)
            equal(race.places[forbidden].heard(), size, f"bytes to {forbidden} while only {allowed} is allowed")
        race.never()
        diagnose(f"{FLIPS} policies over {sum(p.origin.connections for p in race.places.values())} connections")


@test
def a_worker_is_killed_under_load(c):
    with World() as w, Race(c, w) as race:
        race.grows("a.example.com")
        for _ in range(KILLS):
            old = race.workers
            equal(len(old), 1, "workers")
            os.kill(old[0], signal.SIGKILL)
            wait_for(lambda old=old: race.workers not in (old, []), "another worker")
            wait_for(lambda: race.d.get(race.box)["egress"]["in_force"] == 1, "the policy is in force again")
            race.grows("a.example.com")
        equal(race.places["b.example.com"].heard(), 0, "bytes to a host that is not allowed")
        check("b.example.com" not in {name for name, _ in w.dns.asked}, "a name that is not allowed was asked for")
        race.never()


@test
def both_at_once(c):
    """The worker dies with a policy on its way: the next one has the last."""
    with World() as w, Race(c, w) as race:
        race.grows("a.example.com")
        for turn in range(KILLS):
            allowed, forbidden = ("b.example.com", "a.example.com")[::1 if turn % 2 == 0 else -1]
            os.kill(race.workers[0], signal.SIGKILL)
            race.d.api.request("PUT", f"/v1/sandboxes/{race.box}/egress", POLICY.format(host=allowed).encode())
            wait_for(lambda: race.d.get(race.box)["egress"]["in_force"] == race.d.get(race.box)["egress"]["generation"],
                     "the last policy is in force", 60)
            race.allow(allowed)
            size = race.places[forbidden].settle()
            race.grows(allowed)
            equal(race.places[forbidden].heard(), size, f"bytes to {forbidden} while only {allowed} is allowed")
        race.never()


EXHAUSTED = "version: 1\nnetwork_policies: {a: {endpoints: [{host: a.example.com, port: 80}], binaries: [{path: /**}]}}\n"
GET = b"GET http://a.example.com/ HTTP/1.1\r\nHost: a.example.com\r\n\r\n"


@test(only="root", because="another user's limits are not ours to set")
def a_proxy_without_descriptors_waits_and_goes_on(c):
    """More connections than it can open: it does not spin, serves who it has, and the others when there is room."""
    with World() as w:
        w.dns.names["a.example.com"] = [PUBLIC]
        w.http(PUBLIC, 80)
        proxy = w.proxy(c, EXHAUSTED)
        pid = proxy.process.pid
        with contextlib.ExitStack() as crowd:
            kept = crowd.enter_context(proxy.open())
            equal(kept.send(GET).head().status, 200, "before")
            kept.exactly(6)
            files = len(os.listdir(f"/proc/{pid}/fd"))
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (files + 20, files + 20))
            clients = [crowd.enter_context(proxy.open()) for _ in range(100)]
            wait_for(lambda: len(os.listdir(f"/proc/{pid}/fd")) >= files + 19, "it has no descriptor left")
            before, started = cpu(pid), time.monotonic()
            wait_for(lambda: time.monotonic() - started > 0.5, "half a second")
            check(cpu(pid) - before < 0.25, "it spins")
            equal(kept.send(GET).head().status, 200, "who has a connection")
            kept.exactly(6)
            for client in clients[:95]:
                client.close()
            equal(clients[-1].send(GET).head().status, 200, "who waited for one")
        equal(proxy.end(), 0, "exit status")


main()
