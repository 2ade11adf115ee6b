# SPDX-License-Identifier: Apache-2.0
"""What the table of attacks is filled with: a world with a box in it, ways in, probes, and the cells of those cases that
take more than a probe."""

import contextlib
import re
import socket
import threading
import time

from egress_cases import API, get, hello
from egress_world import OUTSIDE, PUBLIC, PUBLIC_TOO, echo, swallow
from harness import Failure, check, equal

ADAPTERS = ("connect", "forward", "transparent", "dns")
OWN = "93.184.216.99"
REST = {"protocol": "rest", "rules": [{"allow": {"method": "GET", "path": "/**"}},
                                      {"allow": {"method": "POST", "path": "/**"}}],
        "deny_rules": [{"method": "*", "path": "/secret/**"}, {"method": "GET", "path": "/**", "query": {"token": "*"}}]}
ANYBODY = {"binaries": [{"path": "/**"}]}
POLICY = {"version": 1, "network_policies": {
    "api": {"endpoints": [{"host": API, "port": 443}, {"host": API, "port": 80, **REST}], **ANYBODY},
    "raw": {"endpoints": [{"host": "raw.example.com", "port": 7}, {"host": "*.wild.example.com", "ports": [7, 80, 443]}],
            **ANYBODY},
    "inspected": {"endpoints": [{"host": "insp.example.com", "port": 80, **REST}], **ANYBODY},
    "programs": {"endpoints": [{"host": "prog.example.com", "ports": [7, 80]}],
                 "binaries": [{"path": "/usr/bin/curl"}]}}}
NAMES = {API: [PUBLIC], "raw.example.com": [PUBLIC], "insp.example.com": [PUBLIC], "prog.example.com": [PUBLIC],
         "metadata.wild.example.com": ["169.254.169.254"], "own.wild.example.com": [OWN],
         "gateway.wild.example.com": ["10.77.0.1"]}
table = {}   # (number, adapter, caller) -> text
cells = {}   # (number, adapter) -> function


def cell(number, *adapters):
    """Registers what a case does through these adapters: a function of a Trial and an adapter, which says how it went."""
    def register(function):
        for adapter in adapters:
            cells[number, adapter] = function
        return function
    return register


class Web:
    """An origin's handler: answers each request with the next of the script, or with 200. A part of a script that
    is None closes; an event is set."""

    def __init__(self):
        self.script = []

    def __call__(self, connection, hear):
        pending = b""
        while True:
            while b"\r\n\r\n" not in pending:
                data = hear()
                if not data:
                    return
                pending += data
            head, _, pending = pending.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            while length and len(pending) < int(length[1]):
                pending += hear()
            while b"chunked" in head and b"0\r\n\r\n" not in pending:
                pending += hear()
            pending = pending.partition(b"0\r\n\r\n")[2] if b"chunked" in head else \
                pending[int(length[1]) if length else 0:]
            said = self.script.pop(0) if self.script else \
                b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n" + (b"" if head.startswith(b"HEAD") else b"hello\n")
            for part in said if isinstance(said, list) else [said]:
                if part is None:
                    return
                if isinstance(part, threading.Event):
                    part.set()
                    continue
                connection.sendall(part)
                time.sleep(0.01 if isinstance(said, list) else 0)


class Trial:
    """A world with a box in it, and what was heard of it outside."""

    def __init__(self, c, world, box):
        self.c, self.world, self.box, self.web = c, world, box, Web()
        world.inside.ip(f"addr add {OWN}/32 dev lo")
        world.dns.names.update(NAMES)
        self.origin80 = world.origin(PUBLIC, 80, self.web)
        self.origin443 = world.origin(PUBLIC, 443, swallow)
        self.origin7 = world.origin(PUBLIC, 7, echo)
        for address, inside in ((PUBLIC_TOO, False), (OUTSIDE, False), ("10.77.0.1", True), (OWN, True)):
            for port in (80, 443):
                world.origin(address, port, swallow, inside=inside)
        self.forged = {}  # adapter -> how forged names ended
        self.slow = {}    # adapter -> clients that never come to the end of what they say
        self.mark()

    def mark(self):
        self.heard = {origin: len(origin.bytes) for origin in self.world.origins}
        self.asked = len(self.world.dns.asked)

    def news(self):
        """What origins have heard since the mark."""
        return b"".join(origin.bytes[self.heard[origin]:] for origin in self.world.origins)

    def names(self):
        return {name for name, _ in self.world.dns.asked[self.asked:]}

    def silent(self, names=()):
        check(not self.news(), f"got out: {self.news()[:300]!r}")
        check(self.names() <= set(names), f"was asked for: {self.names() - set(names)}")

    # ---- ways in ----

    def raw(self, adapter, host, port):
        """A connection that carries bytes to a name."""
        if adapter == "transparent":
            return self.box.capture(host, port)
        client, found = self.box.tunnel(f"{host}:{port}")
        check(found.status == 200, f"CONNECT {host}:{port}: {found.data[:300]!r}")
        return client

    def http(self, adapter):
        """One that carries HTTP to the API."""
        return self.box.open() if adapter == "forward" else self.raw(adapter, API, 80)

    def refused(self, adapter, host, port):
        """How a name's connection is refused; fails if it is not."""
        if adapter == "forward":
            status = self.box.raw(f"GET http://{host}:{port}/ HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n").status
            return check(status in (403, 502), f"{host}: {status}") or str(status)
        if adapter == "connect":
            client, found = self.box.tunnel(f"{host}:{port}")
            client.close()
            return check(found.status in (403, 502), f"{host}: {found.status}") or str(found.status)
        reply = self.box.ask(host)
        if not reply.addresses:
            return reply.rcode
        if adapter == "transparent":
            with self.box.dial(reply.addresses[0], port) as client:
                return client.closed()
        raise Failure(f"{host} is {reply.addresses}")


def wire(adapter, data):
    """The bytes of a request as this adapter takes them."""
    return data.replace(b"<A>", b"http://api.example.com" if adapter == "forward" else b"")


# ---- probes -----------------------------------------------------------------------------------------


def send_place(t, adapter, place):
    raw = place if isinstance(place, bytes) else place.encode()
    line = b"CONNECT %b HTTP/1.1" % raw if adapter == "connect" else b"GET http://%b/ HTTP/1.1" % raw
    return t.box.raw(line + b"\r\nHost: " + raw + b"\r\n\r\n").status


def send_address(t, _, place):
    try:
        with t.box.dial(*place, seconds=5) as client:
            client.send(hello())
            return client.closed()
    except (ConnectionResetError, BrokenPipeError):
        return "reset"
    except TimeoutError:
        return "timeout"
    except OSError:
        return "unreachable"


def send_name(t, _, name):
    return t.box.ask(name).rcode


def send_request(t, adapter, data):
    with t.http(adapter) as client:
        with contextlib.suppress(OSError):
            client.send(wire(adapter, data))
            client.socket.shutdown(socket.SHUT_WR)
        answer = client.rest()
    finals = re.findall(rb"HTTP/1\.1 [2-5]\d\d", answer.data)
    check(len(finals) <= 1, f"{len(finals)} answers: {answer.data[:300]!r}")
    return answer.status


def send_hello(t, adapter, data):
    before = t.origin443.bytes
    with t.raw(adapter, API, 443) as client:
        with contextlib.suppress(OSError):
            client.send(data)
        client.socket.settimeout(0.01)
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            if t.origin443.bytes[len(before):] == data:
                return "sent"
            try:
                return "closed" if client.socket.recv(1) == b"" else "answered"
            except ConnectionResetError:
                return "reset"
            except TimeoutError:
                pass
        return "waits"


SENDERS = {"places": send_place, "addresses": send_address, "names": send_name, "requests": send_request,
           "hellos": send_hello}
MAY_ASK = {"requests": {API}, "hellos": {API}, "names": {"metadata.wild.example.com", "own.wild.example.com",
                                                         "gateway.wild.example.com"}}


def once_only(t):
    """What passed was one request, with nothing of another in it, nor of a field that overrides."""
    time.sleep(0.002)
    heard = t.news()
    check(len(re.findall(rb" HTTP/1\.1\r\n", heard)) == 1 and b"/secret" not in heard.split(b"\r\n")[0] and
          not re.search(rb"(?i)x.(http.)?method|transfer.encoding: chunked.*content-length|proxy-", heard, re.DOTALL),
          f"upstream heard {heard[:400]!r}")


def run_probe(t, adapter, kind, probe, outcomes):
    got = SENDERS[kind](t, adapter, probe)
    shown = probe if len(probe) < 200 else (probe[:200], "…")
    check(got in outcomes, f"{shown!r}: {got}, not {outcomes}")
    if got == 200:
        once_only(t)
    if got in (200, "sent"):
        t.mark()
    else:
        t.silent(MAY_ASK.get(kind, {"metadata.wild.example.com", "own.wild.example.com", "gateway.wild.example.com"}))
    return str(got)


def run_probes(t, case, adapter):
    seen, problems = [], []
    for kind, probe, outcomes in case.probes(adapter):
        try:
            seen.append(run_probe(t, adapter, kind, probe, outcomes))
        except (Failure, OSError) as problem:
            problems.append(f"{problem}")
            t.mark()
    check(not problems, "\n".join(problems))
    return " ".join(f"{word}×{seen.count(word)}" if seen.count(word) > 1 else word for word in dict.fromkeys(seen))


@contextlib.contextmanager
def lying(t, answers):
    """The DNS server answers to these names what a function of the query says."""
    dns, honest = t.world.dns, t.world.dns.reply

    def reply(query):
        right = honest(query)
        said = answers.get(dns.asked[-1][0])
        return said(query) if said else right
    dns.reply = reply
    yield
    dns.reply = honest


def reaches(t, adapter, name):
    if adapter == "dns":
        return bool(t.box.ask(name).addresses)
    if adapter == "forward":
        return t.box.raw(f"GET http://{name}/ok HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n").status == 200
    with t.raw(adapter, name, 7) as client, contextlib.suppress(OSError):
        return client.send(b"x").exactly(1) == b"x"


def by_program(t, adapter, host="prog.example.com"):
    """Whether a connection to a host that only one program may reach is let through."""
    if adapter == "transparent":
        with contextlib.suppress(OSError), t.box.capture(host, 7) as client:
            return client.send(b"x").exactly(1) == b"x"
        return False
    if adapter == "connect":
        client, found = t.box.tunnel(f"{host}:7")
        client.close()
        return found.status == 200
    return t.box.raw(f"GET http://{host}/ok HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").status == 200


def cpu(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def served(t, adapter):
    """A good client is served, and soon."""
    started = time.monotonic()
    if adapter == "dns":
        check(t.box.ask(API).addresses, "a good question")
    else:
        with t.http(adapter) as client:
            equal(client.send(wire(adapter, get())).head().status, 200, "a good client")
    check(time.monotonic() - started < 9, "a good client waited")
