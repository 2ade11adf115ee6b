# SPDX-License-Identifier: Apache-2.0
"""Cells of the table of attacks: HTTP and abuse (cases 36 to 50)."""

import contextlib
import re
import threading
import time

from egress_box import question
from egress_cases import API, get, hello, post, request
from egress_trial import POLICY, cell, cpu, send_request, served, wire
from egress_world import PUBLIC
from harness import check, equal


@cell(41, "connect", "forward", "transparent")
def pipelined(t, adapter):
    denied = request("DELETE <A>/ok HTTP/1.1")
    firsts = {"GET": get(), "POST": post("Content-Length: 5", body=b"hello"), "HEAD": request("HEAD <A>/ok HTTP/1.1"),
              "chunked": post("Transfer-Encoding: chunked", body=b"5\r\nhello\r\n0\r\n\r\n"), "204": get(path="/204")}
    for name, first in firsts.items():
        t.mark()
        t.web.script = [b"HTTP/1.1 204 No Content\r\n\r\n"] if name == "204" else []
        with t.http(adapter) as client:
            found = client.send(wire(adapter, first + denied + get())).rest()
        codes = [int(code) for code in re.findall(rb"HTTP/1\.1 (\d+)", found.data)]
        equal(codes, [204 if name == "204" else 200, 403], f"answers to {name} and a denied one")
        check(b"DELETE" not in t.news() and t.news().count(b" HTTP/1.1\r\n") == 1, f"upstream: {t.news()!r}")
    t.mark()
    with t.http(adapter) as client:
        client.send(wire(adapter, get() + get() + get()))
        for _ in range(3):
            equal(client.head().status, 200, "each of three")
            client.exactly(6)
    return "200 403"


@cell(43, "connect", "transparent")
def connect_inside(t, adapter):
    with t.http(adapter) as client:
        status = client.send(f"CONNECT {API}:443 HTTP/1.1\r\nHost: {API}:443\r\n\r\n").rest().status
    check(status in (400, 403), f"CONNECT inside: {status}")
    t.silent({API})
    return f"CONNECT: {status}"


@cell(46, "connect", "forward", "transparent")
def upgrades(t, adapter):
    for said in (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\nraw",
                 b"HTTP/1.1 101 Switching Protocols\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"):
        t.web.script = [said]
        t.mark()
        with t.http(adapter) as client:
            client.send(wire(adapter, get()))
            found = client.rest()
        equal(found.status, 502, "an unasked 101")
        check(b"raw" not in found.data and t.news().count(b" HTTP/1.1\r\n") == 1, "no tunnel")
    t.mark()
    if adapter == "forward":  # where nothing is inspected, either
        name = "up.wild.example.com"
        t.world.dns.names[name] = [PUBLIC]
        t.web.script = [b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nraw"]
        found = t.box.raw(f"GET http://{name}/ HTTP/1.1\r\nHost: {name}\r\nConnection: Upgrade\r\n"
                          "Upgrade: websocket\r\n\r\n")
        check(found.status in (400, 403, 502) and b"Upgrade" not in t.news(), f"{found.data!r} {t.news()!r}")
    return "101: 502"


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@cell(47, "connect", "forward", "transparent")
def interim_answers(t, adapter):
    for said, codes in (
            ([b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", OK], [103, 200]),
            ([b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 2, OK], [100, 103, 103, 200]),
            ([b"HTTP/1.1 100 Continue\r\n\r\n" * 64, OK], [502]),
            ([OK, b"HTTP/1.1 100 Continue\r\n\r\n"], [200])):
        t.web.script = [said]
        with t.http(adapter) as client:
            client.send(wire(adapter, post("Expect: 100-continue", "Content-Length: 5", "Connection: close", body=b"hello")))
            found = client.rest()
        got = [int(code) for code in re.findall(rb"HTTP/1\.1 (\d+)", found.data)]
        check(got == codes or codes == [502] and got[-1] == 502, f"{said!r}: {got}, not {codes}")
    sent = threading.Event()
    t.web.script = [[OK, b"HTTP/1.1 100 Continue\r\n\r\n", sent], OK.replace(b"ok", b"2.")]
    with t.http(adapter) as client:
        client.send(wire(adapter, get()))
        check(client.head().status == 200 and client.exactly(2) == b"ok", "the first")
        check(sent.wait(10), "not all of it was taken")
        client.send(wire(adapter, get()))
        check(client.head().status == 200 and client.exactly(2) == b"2.", "what came between is nobody's answer")
    return "to the right request"


BAD_ANSWERS = {
    "CL+TE": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two CL": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
    "bad CL": b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok",
    "bad TE": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "fold": b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 2\r\n\r\nok",
    "NUL": b"HTTP/1.1 200 OK\r\nA: b\0c\r\nContent-Length: 2\r\n\r\nok",
    "no HTTP": b"SSH-2.0-x\r\n\r\n",
    "status": b"HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/2": b"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
}
EXTRA = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL"
ODD_ANSWERS = {  # (request, answer): a good one with more behind it, that the next request must not get
    "extra": (get(), OK + EXTRA),
    "HEAD with a body": (request("HEAD <A>/ok HTTP/1.1"), b"HTTP/1.1 200 OK\r\nContent-Length: 70\r\n\r\n" + EXTRA),
    "204 with a body": (get(), b"HTTP/1.1 204 No Content\r\nContent-Length: 70\r\n\r\n" + EXTRA),
    "304 with a body": (get(), b"HTTP/1.1 304 Not Modified\r\nContent-Length: 70\r\n\r\n" + EXTRA),
    "chunked and more": (get(), b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" + EXTRA),
}


@cell(48, "connect", "forward", "transparent")
def odd_answers(t, adapter):
    for name, said in BAD_ANSWERS.items():
        t.web.script = [said]
        with t.http(adapter) as client:
            equal(client.send(wire(adapter, get())).rest().status, 502, name)
    for name, (asked, said) in ODD_ANSWERS.items():
        for together in (True, False):
            sent = threading.Event()
            t.web.script = [[said, sent] if together else [said[:-len(EXTRA)], EXTRA, sent]]
            with t.http(adapter) as client:
                client.send(wire(adapter, asked))
                client.head()
                check(sent.wait(10), "not all of the answer was taken")
                with contextlib.suppress(OSError):
                    client.send(wire(adapter, get("Connection: close")))
                found = client.rest()
            check(b"EVIL" not in found.data, f"{name}: handed on: {found.data!r}")
    t.web.script = [[b"HTTP/1.1 200 OK\r\n\r\nunframed", None]]
    with t.http(adapter) as client:
        found = client.send(wire(adapter, get())).rest()
    check(found.body == b"unframed" or b"unframed" in found.body, f"until the end: {found.data!r}")
    t.web.script = [[b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", None]]
    with t.http(adapter) as client:
        found = client.send(wire(adapter, get())).rest()
    check(b"Content-Length: 100" in found.head, "what is cut off can be told from what is whole")
    return "502, never reused"


@cell(49, "connect", "forward", "transparent")
def hop_by_hop(t, adapter):
    """What a Connection field names is dropped, but never what frames or routes the request."""
    for fields in (("Connection: host, x-secret, close", "X-Secret: one"), ("Connection: close, content-length",),
                   ("Connection: close", "Proxy-Authorization: Basic c2VjcmV0", "Proxy-Connection: keep-alive",
                    "Keep-Alive: timeout=5", "TE: trailers", "Trailer: x"),
                   ("Connection: close, authorization", "Authorization: Bearer c2VjcmV0")):
        t.mark()
        with t.http(adapter) as client:
            found = client.send(wire(adapter, post(*fields, "Content-Length: 5", body=b"hello"))).rest()
        check(found.status in (200, 400), f"{fields}: {found.status}")
        if found.status == 200:
            heard = t.news()
            check(not re.search(rb"(?i)x-secret|proxy-|keep-alive|c2VjcmV0|\nte:|trailer", heard), f"upstream: {heard!r}")
            check(heard.count(b"Host: api.example.com\r\n") == 1 and heard.lower().count(b"content-length: 5\r\n") == 1
                  and heard.endswith(b"hello"), f"upstream: {heard!r}")
    t.mark()
    with t.http(adapter) as client:
        chain = [f"Via: 1.1 proxy{i}" for i in range(60)] + [f"X-Forwarded-For: 10.0.0.{i}" for i in range(30)]
        status = client.send(wire(adapter, get(*chain, "Connection: close"))).rest().status
    check(status in (200, 400, 431), f"a long chain: {status}")
    return "stripped"


def start_slow(t):
    """Heads and hellos that grow by a byte now and then, and never end."""
    t.slow = {"connect": [t.box.open().send(b"CONNECT api.exa"), t.raw("connect", API, 443).send(hello()[:9]),
                          t.raw("connect", API, 80).send(b"GET /")],
              "forward": [t.box.open().send(b"GET http://api"), t.box.open().send(b"G")],
              "transparent": [t.box.capture(API, 80).send(b"GET /x"), t.box.capture(API, 443).send(hello()[:9])],
              "dns": [t.box.dial("127.0.0.1", 53).send(b"\0")]}
    t.started = time.monotonic()


def drip(t):
    for client in (client for clients in t.slow.values() for client in clients):
        with contextlib.suppress(OSError):
            client.send(b"x")


def slow_ended(t, adapter):
    """They were ended: all the time is counted, not the time since the last byte."""
    for client in t.slow.get(adapter, []):
        client.socket.settimeout(max(0.1, t.started + 15 - time.monotonic()))
        found = client.rest()
        check(found.status in (0, 408), f"a slow client hears {found.data[:100]!r}")
        client.close()


def endless_path(t, adapter):
    """A path of 1 GiB: we are cut off while most of it is still ours. What the kernel's buffers hold counts as sent."""
    sent = 0
    with t.http(adapter) as client:
        with contextlib.suppress(ConnectionError):
            client.send(wire(adapter, b"GET <A>/"))
            while sent < 1 << 30:
                sent += client.socket.send(b"x" * 65536)
        found = client.rest()
    check(found.status in (0, 414, 431), f"a path of 1 GiB: {found.status}")
    check(sent < 8 << 20, f"{sent >> 20} MiB of a path were taken")


@cell(50, "connect", "forward", "transparent")
def abuse(t, adapter):
    slow_ended(t, adapter)
    for data, statuses in ((get("X: " + "x" * 17000), (431,)), (get("X: " + "x" * 65536), (431,)),
                           (get(*(f"X{i}: y" for i in range(900))), (431,)), (get(*("X: y",) * 10000), (431,)),
                           (get(path="/" + "x" * 15000), (414, 431)), (get(path="/" + "x" * (1 << 20)), (414, 431))):
        got = send_request(t, adapter, data)
        check(got in statuses, f"{data[:60]!r}…: {got}, not {statuses}")
    endless_path(t, adapter)
    t.silent({API})
    with contextlib.ExitStack() as crowd:
        for _ in range(100):
            crowd.enter_context(t.box.open() if adapter != "transparent" else t.http(adapter)).send(b"GET")
            crowd.enter_context(t.http(adapter))
        deaf = crowd.enter_context(t.http(adapter))
        t.web.script = [b"HTTP/1.1 200 OK\r\nContent-Length: 8000000\r\n\r\n" + b"x" * 8000000]
        deaf.send(wire(adapter, get()))
        slow = crowd.enter_context(t.http(adapter)).send(wire(adapter, post("Content-Length: 50", body=b"h")))
        time.sleep(0.1)
        t.web.script = []
        before = cpu(t.box.process.pid)
        time.sleep(0.3)
        check(cpu(t.box.process.pid) - before < 0.15, "it spins")
        served(t, adapter)
        slow.close()
    served(t, adapter)
    return "431, of a path of 1 GiB less than 8 MiB are taken, others served"


@cell(50, "dns")
def dns_abuse(t, adapter):
    slow_ended(t, adapter)
    with contextlib.ExitStack() as crowd:
        for _ in range(40):
            with contextlib.suppress(OSError):
                crowd.enter_context(t.box.dial("127.0.0.1", 53)).send(b"\0")
        for data in (b"", b"x", question(API)[:14], question(API) + b"x" * 3000, b"\xc0\x0c" * 30, b"\xff" * 512):
            t.box.send_query(data, seconds=0.02)
        served(t, adapter)
    count = len(t.world.dns.asked)
    seen = [t.box.ask(f"n{i}.wild.example.com").rcode for i in range(160)]
    asked = len({name for name, _ in t.world.dns.asked[count:]})
    check("SERVFAIL" in seen and asked < len(seen), f"{asked} of {len(seen)} names were looked up")
    t.box.set_policy(POLICY)
    return f"{asked} of 160 names"
