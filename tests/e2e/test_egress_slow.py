#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Clients that dawdle, and clients that never read, by every way out: they take a bounded part of the worker, others
are served beside them, and when they go nothing of them stays."""

import contextlib
import os
import resource
import select
import socket
import struct

from egress_box import Box, question
from egress_cases import hello
from egress_world import PUBLIC, World, answer, echo, swallow
from harness import check, diagnose, equal, main, test, wait_for

API = "api.example.com"
PORTS = {"echo": 7, "sink": 9, "flood": 19, "web": 80, "deaf": 99, "tls": 443}
POLICY = {"version": 1, "network_policies": {
    "api": {"endpoints": [{"host": API, "ports": [port for name, port in PORTS.items() if name != "web"]}],
            "binaries": [{"path": "/**"}]},
    "web": {"endpoints": [{"host": API, "port": PORTS["web"], "protocol": "rest", "access": "full"}],
            "binaries": [{"path": "/**"}]}}}
CROWD = 40
OPEN_MAX = 2048           # connections of a box that the worker takes
HALF_OPEN = int(os.environ.get("HALF_OPEN", "3000"))
CLIENT_BYTES = 40 << 10   # what one may take of the worker: a buffer each way, and what goes with them
SLACK_BYTES = 1 << 20     # what the worker takes for itself, whoever comes


def flood(connection, _):
    """Never stops, as long as it is read."""
    while True:
        connection.sendall(b"x" * 65536)


def deaf(connection, _):
    """Reads nothing, until it is over."""
    over = select.poll()
    over.register(connection, 0)  # the end of both directions is told in any case
    over.poll(60000)


def half_open():
    """Nobody waits for it: the queue of those to be accepted is short."""
    client = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    client.connect_ex(("127.0.0.1", 3128))
    return client


def anonymous(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon:"))


class Slow:
    """A box, somebody to talk to behind it, and the crowd in front."""

    def __init__(self, world, box, stack):
        self.world, self.box, self.stack = world, box, stack
        world.dns.names[API] = [PUBLIC]
        world.origin(PUBLIC, PORTS["echo"], echo)
        world.origin(PUBLIC, PORTS["sink"], swallow)
        world.origin(PUBLIC, PORTS["flood"], flood)
        world.origin(PUBLIC, PORTS["deaf"], deaf)
        world.origin(PUBLIC, PORTS["tls"], swallow)
        world.origin(PUBLIC, PORTS["web"], answer(b"y" * (4 << 20)))
        self.serve()
        self.bytes = anonymous(box.process.pid)
        self.crowd = []

    def join(self, client, data=b""):
        self.crowd.append(self.stack.enter_context(client))
        return client.send(data) if data else client

    def fill(self, client, piece):
        """Sends until nobody takes more."""
        client = self.join(client)
        client.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while client.socket.send(piece):
                pass

    def serve(self):
        """Somebody who behaves, by every way."""
        with self.box.tunnel(f"{API}:7")[0] as client:
            equal(client.send(b"one").exactly(3), b"one", "by CONNECT")
        with self.box.capture(API, 7) as client:
            equal(client.send(b"two").exactly(3), b"two", "captured")
        with self.box.open() as client:
            client.send(f"GET http://{API}/ HTTP/1.1\r\nHost: {API}\r\nConnection: close\r\n\r\n")
            equal(client.rest().status, 200, "forwarded")
        equal(self.box.ask(API).rcode, "NOERROR", "by DNS")
        equal(self.box.ask_tcp(question(API)).rcode, "NOERROR", "by DNS over TCP")

    def check(self):
        """While the crowd is there, and when it has gone."""
        self.serve()
        grown = anonymous(self.box.process.pid) - self.bytes
        check(grown <= len(self.crowd) * CLIENT_BYTES + SLACK_BYTES,
              f"{len(self.crowd)} clients take {grown >> 10} KiB of the worker")
        equal(self.box.process.poll(), None, "exit status")
        for client in self.crowd:
            client.close()
        self.serve()


@contextlib.contextmanager
def slow(c):
    with World() as world, Box(world, c, POLICY) as box, contextlib.ExitStack() as stack:
        yield Slow(world, box, stack)


@test
def heads_that_do_not_end(c):
    with slow(c) as s:
        for _ in range(CROWD):
            s.join(s.box.open(), b"CONNECT api.exa")
            s.join(s.box.open(), b"GET http://api.example.com/ HTTP/1.1\r\nX: " + b"y" * 8000)
            s.join(s.box.open(), b"G")
            s.join(s.box.open())
            s.join(s.box.capture(API, PORTS["web"]), b"GET / HTTP/1.1\r\nHost: api")
        for client in s.crowd:
            with contextlib.suppress(OSError):
                client.send(b"x")
        s.check()


@test
def more_half_open_connections_than_may_be(c):
    """As many as the machine lets a process have, if that is asked for."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(HALF_OPEN, most - 1000)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        with slow(c) as s:
            crowd = s.box.run(lambda: [half_open() for _ in range(wanted)])
            for client in crowd:
                with contextlib.suppress(OSError):
                    client.send(b"GET")
            pid = s.box.process.pid
            check(len(os.listdir(f"/proc/{pid}/fd")) <= 2 * OPEN_MAX + 64, "descriptors of the worker")
            grown = anonymous(pid) - s.bytes
            check(grown <= OPEN_MAX * CLIENT_BYTES + SLACK_BYTES, f"{wanted} clients take {grown >> 10} KiB of the worker")
            equal(s.box.ask(API).rcode, "NOERROR", "by DNS beside them")
            for client in crowd:
                client.close()
            wait_for(lambda: len(os.listdir(f"/proc/{pid}/fd")) < 100, "nothing of them stays", 60)
            s.serve()
        diagnose(f"{wanted} half-open connections, {OPEN_MAX} at a time with the worker: {grown >> 10} KiB of it")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@test
def hellos_that_do_not_end(c):
    with slow(c) as s:
        first = hello(API)
        for _ in range(CROWD):
            s.join(s.box.tunnel(f"{API}:443")[0], first[:9])
            s.join(s.box.tunnel(f"{API}:443")[0])
            s.join(s.box.capture(API, 443), first[:-1])
            s.join(s.box.capture(API, 443), b"\x16")
        s.check()


@test
def bodies_that_do_not_end(c):
    with slow(c) as s:
        for _ in range(CROWD):
            for framing, body in (("Content-Length: 1000000", b"x"), ("Transfer-Encoding: chunked", b"ffff\r\nx")):
                head = f"{{}} HTTP/1.1\r\nHost: {API}\r\n{framing}\r\n\r\n".encode()
                s.join(s.box.open(), head.replace(b"{}", f"POST http://{API}/x".encode()) + body)
                s.join(s.box.capture(API, PORTS["web"]), head.replace(b"{}", b"POST /x") + body)
        s.check()


@test
def answers_that_nobody_reads(c):
    with slow(c) as s:
        for _ in range(CROWD // 2):
            s.join(s.box.open(), f"GET http://{API}/x HTTP/1.1\r\nHost: {API}\r\n\r\n".encode() * 3)
            s.join(s.box.capture(API, PORTS["web"]), f"GET /x HTTP/1.1\r\nHost: {API}\r\n\r\n".encode() * 3)
        s.check()


@test
def tunnels_that_nobody_reads(c):
    with slow(c) as s:
        for _ in range(CROWD // 2):
            s.join(s.box.tunnel(f"{API}:{PORTS['flood']}")[0], b"go")
            s.join(s.box.capture(API, PORTS["flood"]), b"go")
        s.check()


@test
def servers_that_read_nothing(c):
    with slow(c) as s:
        for _ in range(CROWD // 4):
            s.fill(s.box.tunnel(f"{API}:{PORTS['deaf']}")[0], b"x" * 65536)
            s.fill(s.box.capture(API, PORTS["deaf"]), b"x" * 65536)
        s.check()


@test
def questions_that_do_not_end(c):
    """Somebody else's connections, too: as many as there may be are taken, and UDP is served beside them."""
    with slow(c) as s:
        whole = struct.pack("!H", len(question(API))) + question(API)
        for data in (b"\0", whole[:-1], b"\3\xff" + b"x" * 500):
            for _ in range(8):
                s.join(s.box.dial("127.0.0.1", 53), data)
        s.check()


@test
def answers_of_dns_that_nobody_reads(c):
    with slow(c) as s:
        whole = struct.pack("!H", len(question(API))) + question(API)
        for _ in range(16):
            s.fill(s.box.dial("127.0.0.1", 53), whole * 1000)
        s.check()


@test
def more_connections_for_dns_than_may_be(c):
    with slow(c) as s:
        for _ in range(CROWD):
            with contextlib.suppress(OSError):
                s.join(s.box.dial("127.0.0.1", 53))
        equal(s.box.ask(API).rcode, "NOERROR", "by UDP beside them")
        for client in s.crowd:
            client.close()

        def served():
            with contextlib.suppress(OSError):
                return s.box.ask_tcp(question(API)).rcode == "NOERROR"
            return False
        wait_for(served, "it is served over TCP when they are gone")


@test
def questions_nobody_waits_for(c):
    """UDP clients that ask and go: the answers have nowhere to go to."""
    with slow(c) as s:
        def ask_and_go():
            for number in range(2000):
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
                    gone.sendto(question(API, number=number), ("127.0.0.1", 53))
        s.box.run(ask_and_go)
        s.check()


main()
