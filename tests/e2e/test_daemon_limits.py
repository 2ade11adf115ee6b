#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Clients that are slow, silent, broken or too many cost themselves, not the daemon."""

import contextlib
import json
import os
import resource
import shutil
import socket

from daemon import Cut, Daemon, Stream
from harness import Skip, check, descendants, equal, main, test, wait_for

MANY = 10_000


def plug(d, data=b""):
    """A connection on which only `data` has been sent."""
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.connect(str(d.socket))  # waits for its turn, which a socket with a timeout does not
    s.settimeout(30)
    if data:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            s.sendall(data)
    return s


def read_all(s):
    got = b""
    with contextlib.suppress(ConnectionResetError):
        while part := s.recv(65536):
            got += part
    return got


def raw(d, data):
    """What is answered to these bytes, until the daemon closes."""
    with plug(d, data) as s:
        return read_all(s)


def status(answer):
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else None


def post(body, *fields, close=True):
    head = [b"POST /v1/sandboxes HTTP/1.1", b"Host: localhost", *fields]
    if close:
        head.append(b"Connection: close")
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def well(d):
    """It serves others as if nothing were."""
    equal(d.api.get("/v1/sandboxes").status, 200, "status of a good request")


@test
def slow_clients_do_not_hold_up_others(c):
    with Daemon(c) as d:
        slow = [plug(d, b"GET /v1/sandboxes HTTP/1.1\r\nHost: loc") for _ in range(300)]
        slow += [plug(d, post(b'{"labels"', b"Content-Length: 1000")) for _ in range(100)]
        for s in slow:
            s.sendall(b"a")
        well(d)
        d.works(d.create())
        for s in slow:
            s.close()
        well(d)


@test
def more_connections_than_are_allowed_make_room_for_new_ones(c):
    with Daemon(c, config="limits: {connections: 64}") as d:
        idle = [plug(d, b"GET / HT") for _ in range(200)]
        well(d)
        for s in idle:
            s.close()


HEADS = {  # what is wrong -> (bytes, statuses)
    "a head without end": (b"GET / HTTP/1.1\r\n" + b"X: " + b"a" * (64 << 10), (431,)),
    "too many fields": (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: a\r\n" * 200 + b"\r\n", (431,)),
    "too long a target": (b"GET /" + b"a" * (16 << 10) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", (414, 431)),
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", (400,)),
    "another version": (b"GET / HTTP/3.7\r\nHost: localhost\r\n\r\n", (400, 505)),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", (400,)),
    "NUL in a field": (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n", (400,)),
    "two lengths": (post(b"{}", b"Content-Length: 2", b"Content-Length: 3"), (400,)),
    "length and chunks": (post(b"2\r\n{}\r\n0\r\n\r\n", b"Content-Length: 2", b"Transfer-Encoding: chunked"), (400,)),
    "a negative length": (post(b"{}", b"Content-Length: -2"), (400,)),
    "a huge length": (post(b"{}", b"Content-Length: 99999999999999999999"), (400, 413)),
    "a body that is too big": (post(b"", b"Content-Length: 100000000"), (413,)),
    "an unknown coding": (post(b"{}", b"Transfer-Encoding: gzip"), (400, 501)),
    "no hex for a chunk": (post(b"xyz\r\n{}\r\n0\r\n\r\n", b"Transfer-Encoding: chunked"), (400,)),
    "a chunk without its end": (post(b"2\r\n{}xx0\r\n\r\n", b"Transfer-Encoding: chunked"), (400,)),
    "a chunk of a huge size": (post(b"ffffffffffffffffff\r\n{}", b"Transfer-Encoding: chunked"), (400, 413)),
    "a space before the colon": (b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n", (400,)),
    "a folded field": (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n", (400,)),
}


@test
def requests_that_are_no_http_are_refused(c):
    with Daemon(c) as d:
        for what, (data, statuses) in HEADS.items():
            answer = raw(d, data)
            check(status(answer) in statuses, f"{what}: {answer[:300]!r}")
        well(d)
        equal(d.list(), [], "sandboxes made by broken requests")


BODIES = {
    "bad UTF-8": b'{"labels":{"a":"\xff\xfe"}}',
    "half a surrogate": rb'{"labels":{"a":"\ud800"}}',
    "NUL": b'{"labels":{"a":"\0"}}',
    "an unknown field": b'{"nonsense":1}',
    "a field twice": b'{"ttl":"1m","ttl":"2m"}',
    "no object": b'[1,2,3]',
    "no JSON": b"ttl: 1m",
    "a comma too much": b'{"ttl":"1m",}',
    "nothing that ends": b'{"ttl":',
    "deep nesting": b'{"labels":' + b"[" * 100_000,
    "a wrong kind": b'{"ttl":[]}',
    "a number that is none": b'{"capabilities":{"memory_mb":1e999}}',
    "too much time": b'{"ttl":"1000d"}',
    "an unknown profile": b'{"profile":"profile.none"}',
    "a profile that is a path": b'{"profile":"../../etc/passwd"}',
    "text behind the end": b'{} {}',
}


@test
def bodies_that_make_no_sense_are_refused(c):
    with Daemon(c) as d:
        for what, body in BODIES.items():
            answer = d.api.post("/v1/sandboxes", body)
            check(answer.status in (400, 404, 413), f"{what}: {answer}")
            check(answer.code and answer.json["detail"], f"{what}: no reason: {answer}")
        equal(d.list(), [], "sandboxes made by broken requests")


@test
def a_body_beyond_the_limit_is_refused_whole_or_in_chunks(c):
    with Daemon(c, config="limits: {body_bytes: 64K}") as d:
        body = json.dumps({"labels": {"a": "b" * (100 << 10)}}).encode()
        equal(d.api.post("/v1/sandboxes", body).status, 413, "status")
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in (body[i:i + 4096] for i in range(0, len(body), 4096)))
        equal(status(raw(d, post(chunks + b"0\r\n\r\n", b"Transfer-Encoding: chunked"))), 413, "status in chunks")
        well(d)


@test
def a_client_that_does_not_read_holds_up_nobody(c):
    """Its program waits, others do not; and when it goes, the program goes too."""
    with Daemon(c) as d:
        box = d.create()
        program = Stream(d.api, box, ["cat", "/dev/zero"])
        d.works(box)
        well(d)
        program.close()
        wait_for(lambda: "cat" not in descendants().values(), "the program ends")
        d.works(box)


@test
def half_requests_that_vanish_leave_nothing(c):
    with Daemon(c) as d:
        box = d.create()
        before = len(os.listdir(f"/proc/{d.plane}/fd"))
        for cut in (b"G", b"GET /v1/sandboxes HTTP/1.1\r\n", post(b'{"la', b"Content-Length: 100", close=False)):
            for _ in range(50):
                plug(d, cut).close()
        d.works(box)
        wait_for(lambda: len(os.listdir(f"/proc/{d.plane}/fd")) <= before + 8, "descriptors are closed again")


@test
def ten_thousand_idle_connections(c):
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] < MANY + 2000:
        raise Skip(f"no more than {before[1]} descriptors are allowed here")
    try:
        with Daemon(c, config=f"limits: {{connections: {MANY + 1000}}}") as d:
            resource.setrlimit(resource.RLIMIT_NOFILE, (MANY + 2000, before[1]))
            idle = [plug(d) for _ in range(MANY)]
            wait_for(lambda: len(os.listdir(f"/proc/{d.plane}/fd")) > MANY, "all of them are taken")
            well(d)
            d.works(d.create())
            for s in idle:
                s.close()
            wait_for(lambda: len(os.listdir(f"/proc/{d.plane}/fd")) < 200, "all of them are closed")
            well(d)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@test
def a_daemon_out_of_descriptors_comes_back(c):
    limit = shutil.which("prlimit")
    if not limit:
        raise Skip("prlimit is not installed")
    d = Daemon(c).start(prefix=(limit, "--nofile=256:256"))
    box = d.create()
    idle = [plug(d) for _ in range(600)]
    wait_for(lambda: len(os.listdir(f"/proc/{d.plane}/fd")) >= 250, "it has no descriptors any more")
    for _ in range(3):  # it may answer or not, but it lives
        with contextlib.suppress(Cut):
            with plug(d, b"GET /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n") as s:
                s.settimeout(1)
                with contextlib.suppress(TimeoutError):
                    read_all(s)
    check(d.alive, f"the daemon died\n{d.tail()}")
    for s in idle:
        s.close()
    wait_for(lambda: answers(d), "it serves again")
    d.works(box)
    d.works(d.create())
    d.clear()


def answers(d):
    try:
        return d.api.get("/v1/sandboxes").status == 200
    except Cut:
        return False


main()
