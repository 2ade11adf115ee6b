#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ports inside a sandbox, reached through the daemon: by the command line, and over TCP."""

import contextlib
import hashlib
import json
import socket

from client import Client
from daemon import Daemon
from harness import check, equal, main, test, wait_for
from tcp import serving

# Answers each connection with the hash of all it was sent: so it must see our end to answer at all.
HASHES = """
import hashlib, socket, sys, threading
s = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((sys.argv[1], int(sys.argv[2])))
s.listen(128)
def serve(c):
    h = hashlib.sha256()
    while data := c.recv(1 << 16):
        h.update(data)
    c.sendall(h.hexdigest().encode())
    c.close()
while True:
    threading.Thread(target=serve, args=(s.accept()[0],)).start()
"""
# Says what it was sent, as it comes.
ECHO = """
import socket, sys
s = socket.create_server((sys.argv[1], int(sys.argv[2])))
while True:
    c = s.accept()[0]
    while data := c.recv(1 << 16):
        c.sendall(data)
    c.close()
"""
BYTES = bytes(range(256)) * (8 << 12)


def serve(cli, box, program, host, port):
    cli("exec", "-d", box, "--", "python3", "-c", program, host, str(port)).expect(0)
    wait_for(lambda: cli.json_port(box, port), f"port {port} is open")


class Ports(Client):
    def json_port(self, box, port):
        return json.loads(self.api.get(f"/v1/sandboxes/{box}/ports/{port}").expect(200).data)["open"]

    def __init__(self, d):
        super().__init__(d)
        self.api = d.api

    @contextlib.contextmanager
    def forward(self, box, port, *options, env=()):
        p = self.start("port", box, str(port), *options, env=dict(env), stdout=-1)
        try:
            line = p.stdout.readline().decode().strip()
            check(line, "`port` says where it listens")
            yield line
        finally:
            p.terminate()
            p.wait()
            p.stdout.close()


def talk(address, data):
    host, _, port = address.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), 60) as s:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := s.recv(1 << 16):
            answer += piece
    return answer


@test
def a_port_is_reached_by_a_local_address(c):
    with Daemon(c) as d:
        cli = Ports(d)
        box = cli.create()
        want = hashlib.sha256(BYTES).hexdigest().encode()
        serve(cli, box, HASHES, "127.0.0.1", 8080)
        serve(cli, box, HASHES, "::1", 8081)
        for port in (8080, 8081):
            with cli.forward(box, port) as address:
                check(address.startswith("127.0.0.1:"), f"the address is {address}")
                for _ in range(3):
                    equal(talk(address, BYTES), want, f"what port {port} says")
        with cli.forward(box, 8080, "--listen", "[::1]:0", "-o", "json") as line:
            equal(talk(json.loads(line)["address"], b""), hashlib.sha256(b"").hexdigest().encode(), "what it says by IPv6")
        cli("port", "--stdio", box, "8080", stdin=BYTES).expect(0, out=want)


@test
def what_is_not_there_is_said(c):
    with Daemon(c) as d:
        cli = Ports(d)
        box = cli.create()
        check(not cli.json_port(box, 9), "a port where nobody listens is closed")
        cli("port", "--stdio", box, "9").expect(1, says="nothing listens on port 9")
        cli("port", "--stdio", "sbx_nothing", "9").expect(3, says="sbx_nothing")
        cli("port", box, "9", "--listen", "example.com:1").expect(2, says="not an address")
        cli("port", box).expect(2)
        for port in ("0", "65536", "-1", "x", "8080x"):
            d.api.get(f"/v1/sandboxes/{box}/ports/{port}").expect(400, code="invalid")
        with cli.forward(box, 9) as address:  # it may come later, and until then whoever comes is turned away
            with contextlib.suppress(ConnectionResetError):
                equal(talk(address, b"x"), b"", "what nobody says")


@test
def a_port_of_the_host_is_not_one_of_the_sandbox(c):
    with Daemon(c) as d, socket.create_server(("127.0.0.1", 0)) as host:
        cli = Ports(d)
        box = cli.create()
        check(not cli.json_port(box, host.getsockname()[1]), "a port of the host is not open inside")
        serve(cli, box, ECHO, "127.0.0.1", 8080)
        beside = cli.create()
        check(not cli.json_port(beside, 8080), "nor is one of another sandbox")


@test
def connections_end_with_their_sandbox(c):
    with Daemon(c) as d:
        cli = Ports(d)
        box = cli.create()
        serve(cli, box, ECHO, "127.0.0.1", 8080)
        with cli.forward(box, 8080) as address:
            with socket.create_connection(("127.0.0.1", int(address.split(":")[1])), 60) as s:
                s.sendall(b"still here")
                equal(s.recv(100), b"still here", "the echo")
                cli("destroy", box).expect(0)
                equal(s.recv(100), b"", "what comes after the end")


@test
def many_connections_at_once(c):
    with Daemon(c) as d:
        cli = Ports(d)
        box = cli.create()
        serve(cli, box, HASHES, "127.0.0.1", 8080)
        with cli.forward(box, 8080) as address, contextlib.ExitStack() as stack:
            host, port = address.split(":")
            all_of_them = [stack.enter_context(socket.create_connection((host, int(port)), 60)) for _ in range(40)]
            for i, s in enumerate(all_of_them):
                s.sendall(b"%d" % i)
                s.shutdown(socket.SHUT_WR)
            for i, s in enumerate(all_of_them):
                equal(s.recv(100), hashlib.sha256(b"%d" % i).hexdigest().encode(), f"what connection {i} hears")


@test
def over_tcp_the_daemon_copies(c):
    with serving(c) as (d, port, token):
        (everything, _), (reads, _) = token(), token("read")
        cli = Ports(d)
        box = cli.create()
        serve(cli, box, ECHO, "127.0.0.1", 8080)
        far = {"SANDBOXER_URL": f"http://127.0.0.1:{port}", "SANDBOXER_TOKEN": everything.token}
        with cli.forward(box, 8080, env=far) as address:
            with socket.create_connection(("127.0.0.1", int(address.split(":")[1])), 60) as s:
                got = b""
                s.sendall(BYTES[:1 << 20])
                while len(got) < 1 << 20 and (piece := s.recv(1 << 16)):
                    got += piece
                check(got == BYTES[:1 << 20], "what comes back is what was sent")
        cli("port", "--stdio", box, "8080", env={**far, "SANDBOXER_TOKEN": reads.token}).expect(5, says="exec")


@test
def a_client_that_does_not_read_costs_itself_only(c):
    with serving(c) as (d, port, token):
        everything, _ = token()
        cli = Ports(d)
        box = cli.create()
        serve(cli, box, ECHO, "127.0.0.1", 8080)
        with socket.create_connection(("127.0.0.1", port), 60) as s:
            s.sendall(f"GET /v1/sandboxes/{box}/ports/8080 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {everything.token}\r\n"
                      "Connection: upgrade\r\nUpgrade: sandboxer-tcp\r\n\r\n".encode())
            check((head := s.recv(4096)).startswith(b"HTTP/1.1 101"), f"it is connected: {head!r}")
            s.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    s.send(BYTES)  # until everything between us and the program is full
            d.works(box)
            d.works(cli.create())


main()
