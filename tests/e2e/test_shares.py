#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Connections, requests in flight and memory have shares per caller: one caller at its limit delays nobody else."""

import contextlib
import json
import os
import socket
import subprocess
import threading

from harness import PLAIN, check, equal, main, test, wait_for
from tcp import OTHERS, flood, serving, stopped, users_token


def at_port(data, port):
    """The same request to the address that is connected to."""
    return data.replace(b"Host: localhost\r\n", b"Host: 127.0.0.1:%d\r\n" % port)


def plug(port, data=b""):
    s = socket.create_connection(("127.0.0.1", port), timeout=30)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        s.sendall(at_port(data, port))
    return s


def first_line(s):
    """The status of what is answered; None if the connection ends without an answer."""
    with contextlib.suppress(ConnectionResetError):
        got = s.recv(65536)
        return int(got.split(b" ", 2)[1]) if got.startswith(b"HTTP/1.1 ") else None


def head(method, path, *fields, token=None):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *fields]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def metric(d, name):
    for line in d.api.get("/metrics").data.decode().splitlines():
        if line.startswith(name + " "):
            return float(line.split(" ")[1])
    raise AssertionError(f"there is no metric {name}")


def closing(sockets):
    for s in sockets:
        s.close()


STALLED = {
    "nothing": b"",
    "half a head": b"GET /v1/sandboxes HTTP/1.1\r\nHost: loc",
    "a body that never comes": head("POST", "/v1/sandboxes", "Content-Length: 60000"),
    "a body in chunks that never come": head("POST", "/v1/sandboxes", "Transfer-Encoding: chunked"),
    "a body to a path that is open": head("POST", "/healthz", "Content-Length: 60000"),
    "more requests than are read": head("GET", "/openapi.json") * 20,
    "a wrong token": head("POST", "/v1/sandboxes", "Content-Length: 60000", token="sbt_wrong"),
}


@test
def unauthenticated_clients_exhaust_nothing(c):
    """However they stall: callers with a token, and administrators, are served at once."""
    with serving(c, "limits: {connections: 64, connections_unauthenticated: 16}") as (d, port, token):
        good, _ = token()
        for what, data in STALLED.items():
            stalled = [plug(port, data) for _ in range(200)]
            for _ in range(10):
                equal(good.get("/v1/sandboxes").status, 200, f"a token's request beside {what}")
                equal(d.api.get("/v1/sandboxes").status, 200, f"an administrator's request beside {what}")
            stalled += [plug(port, data) for _ in range(50)]
            equal(good.get("/v1/sandboxes").status, 200, f"a token's request after {what}")
            check(metric(d, "sandboxer_connections_unauthenticated") <= 16, f"connections of {what}")
            closing(stalled)


@test
def a_request_that_came_is_read_before_its_place_is_taken(c):
    """The daemon finds a crowd of new clients, and behind it the request of one whom it had accepted before them."""
    with serving(c, "limits: {connections: 64, connections_unauthenticated: 16}") as (d, port, token):
        good, _ = token()
        for what in ("nothing", "half a head", "a wrong token"):
            mine = plug(port)
            wait_for(lambda: metric(d, "sandboxer_connections_unauthenticated") == 1, "it is accepted")
            with stopped(d):
                crowd = flood(port, 40, at_port(STALLED[what], port))
                mine.sendall(at_port(head("GET", "/v1/sandboxes", token=good.token), port))
            equal(first_line(mine), 200, f"the answer to a token's request behind {what}")
            closing([mine, *crowd])
            wait_for(lambda: metric(d, "sandboxer_connections_unauthenticated") == 0, "they are gone")


@test
def fresh_connections_are_served_beside_a_flood(c):
    """It is paced: no more clients come for one request than its address has places."""
    with serving(c, "limits: {connections: 256, connections_unauthenticated: 256}") as (d, port, token):
        good, _ = token()
        pace, over, crowd = threading.Semaphore(0), threading.Event(), []

        def come(data):
            while not over.is_set():
                pace.acquire()
                crowd.append(plug(port, data))
                if len(crowd) > 400:
                    crowd.pop(0).close()
        threads = [threading.Thread(target=come, args=(STALLED[what],)) for what in ("nothing", "half a head") * 2]
        for t in threads:
            t.start()
        try:
            for i in range(200):
                while pace.acquire(blocking=False):
                    pass
                pace.release(60)
                equal(good.get("/v1/sandboxes").status, 200, f"the answer to request {i}")
        finally:
            over.set()
            pace.release(len(threads))
            for t in threads:
                t.join()
            closing(crowd)
        check(len(crowd) > 128, f"the flood was {len(crowd)} connections")


@test
def an_authenticated_connection_counts_as_its_owners(c):
    """All clients of this machine have one address: it limits those without a token alone."""
    with serving(c, "limits: {connections: 256, connections_unauthenticated: 16}") as (d, port, token):
        good, _ = token()
        streams = [plug(port, head("GET", "/v1/events", "Accept: text/event-stream", token=good.token)) for _ in range(40)]
        for s in streams:
            equal(first_line(s), 200, "an event stream")
        equal(good.get("/v1/sandboxes").status, 200, "one more request")
        closing(streams)


@test(only="root", because="another user is needed")
def event_streams_of_one_owner_leave_others_alone(c):
    with serving(c, OTHERS + "limits: {connections: 64}") as (d, port, token):
        a, b = users_token(c, d, port), token()[0]
        answers, streams = [], []
        for _ in range(100):
            streams.append(plug(port, head("GET", "/v1/events", "Accept: text/event-stream", token=a.token)))
            answers.append(first_line(streams[-1]))
        equal((answers.count(200), answers.count(429)), (14, 86), "streams of one token: 7/8 of a quarter of 64")
        refused = a.get("/v1/sandboxes").expect(429, code="quota")
        check("limits.connections_per_owner" in refused.json["detail"], f"{refused}")
        equal(refused.headers["Retry-After"], "1", "when to come again")
        for _ in range(20):
            b.get("/v1/sandboxes").expect(200)
            d.api.get("/v1/sandboxes").expect(200)
        d.works(d.create())
        closing(streams)
        wait_for(lambda: a.get("/v1/sandboxes").status == 200, "its share is free again")
        check(any(e["type"] == "limit.reached" for e in d.api.get("/v1/events?limit=1000").json["events"]), "no event tells an operator")
        check(metric(d, 'sandboxer_limit_refused_total{limit="connections"}') >= 86, "refusals are counted")


@test
def event_streams_of_one_token_of_an_administrator_leave_others_alone(c):
    with serving(c, "limits: {connections: 64, requests_in_flight: 32}") as (d, port, token):
        hog, second, other = (token()[0] for _ in range(3))
        streams = []
        for api in (hog, second):  # each of them is an account of its own
            new = [plug(port, head("GET", "/v1/events", "Accept: text/event-stream", token=api.token)) for _ in range(40)]
            answers = [first_line(s) for s in new]
            equal((answers.count(200), answers.count(429)), (14, 26), "streams of one token: 7/8 of a quarter of 64")
            api.get("/v1/sandboxes").expect(429, code="quota")
            streams += new
        for _ in range(20):
            other.get("/v1/sandboxes").expect(200)
            d.api.get("/v1/sandboxes").expect(200)
        closing(streams)
        wait_for(lambda: hog.get("/v1/sandboxes").status == 200, "its share is free again")
        uploads = [plug(port, head("POST", "/v1/sandboxes", "Content-Length: 60000", token=hog.token)) for _ in range(12)]
        refused = wait_for(lambda: (x := hog.get("/v1/sandboxes")).status == 429 and x, "its requests are used up")
        check("limits.requests_per_owner" in refused.json["detail"], f"{refused}")
        other.get("/v1/sandboxes").expect(200)
        closing(uploads)


@test(only="root", because="another user is needed")
def unix_connections_of_one_user_leave_administrators_alone(c):
    with serving(c, OTHERS + "limits: {connections: 64}") as (d, port, token):
        os.chmod(d.dir, 0o755)
        hog = subprocess.Popen(["python3", "-c", f"""
import socket, sys
all = []
for i in range(300):
    s = socket.socket(socket.AF_UNIX)
    s.connect({str(d.socket)!r})
    try: s.sendall(b"GET /v1/events HTTP/1.1\\r\\nHost: localhost\\r\\nAccept: text/event-stream\\r\\n\\r\\n")
    except OSError: pass
    all.append(s)
print("full", flush=True)
sys.stdin.read()
"""], user=PLAIN, group=PLAIN, extra_groups=[], cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            equal(hog.stdout.readline(), b"full\n", "the other user's program")
            for _ in range(20):
                d.api.get("/v1/sandboxes").expect(200)
            d.works(d.create())
            check(metric(d, "sandboxer_connections") <= 20, "connections")
        finally:
            hog.stdin.close()
            hog.wait()


@test(only="root", because="another user is needed")
def stalled_uploads_take_an_owners_share_and_end(c):
    with serving(c, OTHERS + "limits: {requests_in_flight: 32, body_timeout: 2s}") as (d, port, token):
        a, b = users_token(c, d, port), token()[0]
        box = a.post("/v1/sandboxes").expect(201).json["sandbox_id"]
        uploads, answers = [], []
        for i in range(32):
            uploads.append(plug(port, head("PUT", f"/v1/sandboxes/{box}/files?path=/tmp/{i}", "Content-Length: 1000000",
                                           token=a.token) + b"x"))
        refused = wait_for(lambda: (x := a.get("/v1/sandboxes")).status == 429 and x, "the share is used up")
        check("limits.requests_per_owner" in refused.json["detail"], f"{refused}")
        for _ in range(10):
            b.get("/v1/sandboxes").expect(200)
            d.api.get("/v1/sandboxes").expect(200)

        def trickle():  # a byte now and then does not hold the slot
            for s in uploads:
                with contextlib.suppress(OSError):
                    s.send(b"x")
            return a.get("/v1/sandboxes").status == 200
        wait_for(trickle, "uploads that bring too little end")
        for s in uploads:
            answers.append(first_line(s))
        check(set(answers) <= {408, 429, None} and 408 in answers, f"{answers}")
        a.delete(f"/v1/sandboxes/{box}").expect(202, 204, 200)
        closing(uploads)


@test(only="root", because="another user is needed")
def bodies_in_memory_have_a_share(c):
    """Requests that last, too: their bodies are collected before anything is known of them."""
    with serving(c, OTHERS + "limits: {buffered_bytes: 16M}") as (d, port, token):
        a, b = users_token(c, d, port), token()[0]
        box = a.post("/v1/sandboxes").expect(201).json["sandbox_id"]
        part = b'{"argv":["' + b"x" * (1 << 20)
        stalled = []
        for _ in range(40):
            s = plug(port, head("POST", f"/v1/sandboxes/{box}/processes", "Content-Length: 1500000", token=a.token) + part)
            stalled.append(s)
            check(metric(d, "sandboxer_buffered_bytes") <= 4 << 20, "bytes of one owner")
        equal(first_line(stalled[-1]), 503, "one too many")
        full = json.dumps({"argv": ["true"], "env": {"X": "y" * 100_000}}).encode()
        theirs = b.post("/v1/sandboxes").expect(201).json["sandbox_id"]
        b.post(f"/v1/sandboxes/{theirs}/processes", json.loads(full)).expect(200)
        d.api.get("/v1/sandboxes").expect(200)
        closing(stalled)
        wait_for(lambda: metric(d, "sandboxer_buffered_bytes") == 0, "they are freed")
        a.post(f"/v1/sandboxes/{box}/processes", {"argv": ["true"]}).expect(200)


@test
def a_body_without_a_file_has_a_quarter_of_a_mebibyte(c):
    with serving(c) as (d, port, token):
        good, _ = token()
        big = json.dumps({"text": "x" * (300 << 10)}).encode()
        for path in ("/v1/peers", "/v1/tokens", "/v1/expire"):
            with plug(port, head("POST", path, f"Content-Length: {len(big)}", token=good.token)) as s:
                equal(first_line(s), 413, path)
        box = good.post("/v1/sandboxes").expect(201).json["sandbox_id"]
        long = good.post(f"/v1/sandboxes/{box}/processes", {"argv": ["sh", "-c", "true", *["x" * 100_000] * 4]}).expect(200)
        equal(long.lines[-1]["exit_code"], 0, "how a program with long arguments ends")


@test
def a_client_that_never_reads_its_answers_is_cut(c):
    with serving(c, "limits: {buffered_bytes: 1M}") as (d, port, token):
        good, _ = token()
        box = good.post("/v1/sandboxes").expect(201).json["sandbox_id"]
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect(("127.0.0.1", port))
        s.sendall(at_port(head("POST", f"/v1/sandboxes/{box}/processes", "Accept: application/x-ndjson", "Content-Length: 40",
                               token=good.token), port) + b'{"argv":["head","-c","64M","/dev/zero"]}')
        equal(good.get("/v1/sandboxes").status, 200, "another request")
        d.works(box)
        check(metric(d, "sandboxer_buffered_bytes") <= 1 << 20, "bytes in memory")
        s.close()


main()
