# SPDX-License-Identifier: Apache-2.0
"""Cells of the table of attacks: tunnels, TLS, who asks and new policies (cases 24 to 35)."""

import contextlib
import json
import re
import socket
import time

from egress_cases import API, REFUSED, get, hello, post
from egress_trial import POLICY, by_program, cell, wire
from harness import check, equal, wait_for


@cell(26, "connect", "transparent")
def hellos_in_time(t, adapter):
    good = hello()
    with t.raw(adapter, API, 443) as client:
        t.mark()
        time.sleep(0.15)
        for byte in good:
            client.send(bytes([byte]))
        wait_for(lambda: t.news() == good, "the hello, late and in pieces of a byte")
    bad = hello("other.example.com")
    with t.raw(adapter, API, 443) as client:
        t.mark()
        for at in range(0, len(bad), 7):
            with contextlib.suppress(OSError):
                client.send(bad[at:at + 7])
        check(client.closed() in REFUSED, "a foreign hello in pieces")
        t.silent({API})
    return "late and in pieces the same"


@cell(27, "connect", "transparent")
def foreign_protocols(t, adapter):
    seen = []
    for data in (b"SSH-2.0-OpenSSH_9.2\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", hello("insp.example.com"),
                 b"GET /ok HTTP/1.1\r\nHost: insp.example.com:443\r\n\r\n", b"\0\0\0\x08\x04\xd2\x16\x2f",
                 b"\x05\x01\x00", b"*1\r\n$4\r\nPING\r\n"):
        with t.raw(adapter, "insp.example.com", 80) as client:
            with contextlib.suppress(OSError):
                client.send(data)
                client.socket.shutdown(socket.SHUT_WR)
            status = client.rest().status
            check(status in (0, 400, 403, 505), f"{data[:20]!r}: {status}")
            seen.append("closed" if status == 0 else str(status))
    t.silent({"insp.example.com"})
    return " ".join(dict.fromkeys(seen))


@cell(27, "forward")
def plain_to_443(t, _):
    found = t.box.raw(b"GET http://insp.example.com:443/ok HTTP/1.1\r\nHost: insp.example.com:443\r\n\r\n")
    equal(found.status, 403, "status")
    t.silent({"insp.example.com"})
    return "403"


@cell(31, "connect")
def verdict_first(t, _):
    for authority, status in (("evil.example:443", 403), ("down.wild.example.com:443", 502), ("[x]:1", 400)):
        found = t.box.raw(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n")
        equal(found.status, status, authority)
        check(found.data.startswith(b"HTTP/1.1 %d " % status) and found.data.count(b"HTTP/1.1") == 1, "its first bytes")
    t.silent({"down.wild.example.com"})
    with t.raw("connect", API, 443) as client:
        client.send(hello("other.example.com"))
        equal(client.closed() in REFUSED, True, "a refusal inside the tunnel says nothing in HTTP")
    return "403 502 400 first"


BEHIND = b"GET http://api.example.com/ok HTTP/1.1\r\nHost: api.example.com\r\n\r\n"


def connect_behind(t):
    """A CONNECT behind another request is decided like the first of a connection (RFC 9110, 9.3.6)."""
    with t.box.open() as client:
        client.send(wire("forward", get()))
        equal(client.head().status, 200, "the request before")
        client.exactly(6)
        t.mark()
        client.send(b"CONNECT raw.example.com:7 HTTP/1.1\r\nHost: raw.example.com:7\r\n\r\n" + BEHIND)
        equal(client.head().status, 200, "CONNECT behind it")
        equal(client.exactly(len(BEHIND)), BEHIND, "what is behind that is the tunnel's")
    with t.box.open() as client:
        client.send(wire("forward", get()))
        client.head()
        client.exactly(6)
        t.mark()
        found = client.send(b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n" + BEHIND).rest()
        equal((found.status, len(re.findall(rb"HTTP/1\.1 \d", found.data))), (403, 1), "a refused one")
    t.silent()


@cell(32, "connect")
def behind_a_refusal(t, _):
    connect_behind(t)
    for authority in ("evil.example:443", "api.example.com:25", "[x]:1"):
        found = t.box.raw(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode() + BEHIND)
        equal(len(re.findall(rb"HTTP/1\.1 \d", found.data)), 1, f"answers behind {authority}")
    t.silent()
    return "closed"


@cell(33, "connect")
def connect_with_a_body(t, _):
    good = f"CONNECT {API}:443 HTTP/1.1\r\nHost: {API}:443\r\n".encode()
    for more in (b"Content-Length: 5\r\n\r\nhello", b"Content-Length: 0\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"):
        found = t.box.raw(good + more + BEHIND)
        check(found.status == 400, f"{more!r}: {found.status}")
    t.silent()
    return "400"


@cell(34, "connect", "forward", "transparent")
def owner_of_each(t, adapter):
    """Each connection's own holder decides, not the one before; who is not known is refused."""
    said = []
    for program in ("/usr/bin/curl", "/usr/bin/nc", "/usr/bin/curl", None):
        t.box.program = program
        said.append(by_program(t, adapter))
    t.box.program = "/usr/bin/curl"
    equal(said, [True, False, True, False], "curl, nc, curl, unknown")
    check(all(inode and uid == t.c.uid for inode, uid in t.box.asked_who), f"asked about: {t.box.asked_who}")
    return "asked each time"


def without(*hosts):
    """The policy with nothing for these hosts."""
    policy = json.loads(json.dumps(POLICY))
    for entry in policy["network_policies"].values():
        entry["endpoints"] = [e for e in entry["endpoints"] if e["host"] not in hosts]
    policy["network_policies"] = {k: v for k, v in policy["network_policies"].items() if v["endpoints"]}
    return policy


@cell(35, "connect", "transparent")
def reload_ends_tunnels(t, adapter):
    with t.raw(adapter, "raw.example.com", 7) as client, t.http(adapter) as half:
        equal(client.send(b"one").exactly(3), b"one", "before")
        half.send(post("Content-Length: 10", body=b"hello").replace(b"<A>", b""))
        wait_for(lambda: b"POST /ok" in t.news(), "half a request upstream")
        t.mark()
        t.box.set_policy(without("raw.example.com", API))
        for each in (client, half):
            with contextlib.suppress(OSError):
                each.send(b"there")
        check(client.closed() in REFUSED, "the tunnel")
        check(half.rest().status in (0, 403), "the half request")
    time.sleep(0.02)
    t.silent()
    t.box.set_policy(POLICY)
    return "reset"


@cell(35, "forward")
def reload_ends_requests(t, adapter):
    with t.http(adapter) as half, t.http(adapter) as kept:
        half.send(wire(adapter, post("Content-Length: 10", body=b"hello")))
        kept.send(wire(adapter, get()))
        equal(kept.head().status, 200, "before")
        kept.exactly(6)
        wait_for(lambda: b"POST /ok" in t.news(), "half a request upstream")
        t.mark()
        t.box.set_policy(without(API))
        with contextlib.suppress(OSError):
            half.send(b"there")
        check(half.rest().status in (0, 403), "the half request")
        with contextlib.suppress(OSError):
            kept.send(wire(adapter, get()))
        check(kept.rest().status in (0, 403), "the next request")
    time.sleep(0.02)
    t.silent()
    t.box.set_policy(POLICY)
    return "closed, 403"


@cell(35, "dns")
def reload_ends_names(t, _):
    check(t.box.ask("raw.example.com").addresses, "before")
    t.mark()
    t.box.set_policy(without("raw.example.com"))
    equal(t.box.ask("raw.example.com").rcode, "NXDOMAIN", "after")
    t.silent()
    t.box.set_policy(POLICY)
    return "NXDOMAIN"
