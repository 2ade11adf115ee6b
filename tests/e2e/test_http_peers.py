#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Our parser of requests beside those of nginx and haproxy: what it takes they take, as the same requests with the same
bodies. It may be stricter; it is never looser. And what our proxy sends on is well-formed, whatever it was given.
FUZZ_SECONDS says for how long others are made up beyond the written ones; SEED repeats a run."""

import itertools
import os
import random
import re
import socket
import time
from pathlib import Path

from egress_world import PUBLIC, World
from harness import Failure, Skip, check, diagnose, equal, main, test
from http_peers import Peers, Reader
from http_streams import answers, bad, fine, mutated

SECONDS = int(os.environ.get("FUZZ_SECONDS", "0"))
SEED = int(os.environ.get("SEED", "1"))
MADE_UP = 400  # streams that we take and a peer is asked about, in a short run
CORPORA = Path(__file__).resolve().parent.parent / "fuzz"
# Shows where the request before it ended.
SENTINEL = b"GET /sentinel HTTP/1.1\r\nHost: api.example.com\r\nConnection: close\r\n\r\n"

# What a peer refuses though it is well-formed, each with the reason.
POLICIES = {
    "nginx": (
        ("no forward proxy: no CONNECT", lambda q: q["method"] == "CONNECT"),
        ("TRACE is not served", lambda q: q["method"] == "TRACE"),
        ("methods are capital letters, _ and -", lambda q: not re.fullmatch(r"[A-Z_-]+", q["method"])),
        ("no asterisk form", lambda q: q["target"] == "*"),
        ("no _ in the host of an absolute target", lambda q: re.match(r"[a-z]+://[^/?]*_", q["target"])),
        ("paths are decoded at once: for us domain/policy/path.c refuses the same", lambda q: q["odd_path"]),
    ),
    "haproxy": (
        ("the target's host is that of Host: for us relays/forward.c refuses the same", lambda q: q["two_hosts"]),
        ("a WebSocket is asked for with a key: for us nothing is upgraded", lambda q: q["upgrade"]),
    ),
}


def served(data):
    return data.replace(b"<A>", b"")


def seeds():
    found = [served(data) for data in fine()]
    for name in ("http_h1", "http_llhttp"):
        found += [path.read_bytes() for path in sorted((CORPORA / name / "corpus").iterdir())]
    return found


def expected(q):
    """A request of ours as an origin behind a peer gets it."""
    path = q["path"] if q["path"] or q["target"] == "*" or q["method"] == "CONNECT" else "/"
    path = "/" + path if path.startswith("?") else path or q["target"]
    return q["method"], path, q["body"]


def arrived(seen):
    method, target, size = seen
    rest = re.fullmatch(r"[a-z]+://[^/?]*(.*)", target)
    path = (rest[1] or "/") if rest and method != "CONNECT" else target
    return method, "/" + path if path.startswith("?") else path, size


def excused(peer, ours):
    """How many of our requests come before the first that the peer refuses by policy, and why. The letters of `close` in
    Connection, in whatever word, are an end for nginx."""
    for number, q in enumerate(ours):
        for why, test_of in POLICIES[peer.name]:
            if test_of(q):
                return number, why
        if peer.name == "nginx" and q["like_close"]:
            return number + 1, None
    return len(ours), None


def compare(peer, stream, ours):
    """Fails if we take what the peer does not, or another way."""
    count, why = excused(peer, ours["requests"])
    if count == 0:
        return why
    statuses, seen = peer.ask(stream, count)
    wanted = [expected(q) for q in ours["requests"][:count]]
    check([arrived(s) for s in seen[:count]] == wanted and statuses[:count] == [200] * count,
          f"{stream!r}\n  we read: {wanted} {ours['end']}\n  {peer.name}: {statuses} {seen}")
    return why


def compare_all(peers, reader, streams, report):
    """Streams that we take nothing of need no second opinion. Goes on after a difference: they come in families."""
    problems = []
    for stream in streams:
        ours = reader.read(stream)
        for peer in peers.running if ours["requests"] else ():
            try:
                why = compare(peer, stream, ours)
                report[peer.name, why] = report.get((peer.name, why), 0) + 1
            except Failure as problem:
                problems.append(str(problem))
        if len(problems) > 20:
            break
    check(not problems, "\n".join(problems))


def made_up(reader, choice):
    """Streams that we take something of, no two alike; an end by time or by number."""
    known, deadline, from_these = set(), time.monotonic() + SECONDS, seeds()
    for data in mutated(choice, from_these):
        stream = served(data) + SENTINEL
        if SECONDS and time.monotonic() > deadline or not SECONDS and len(known) >= MADE_UP:
            return
        if hash(stream) not in known and len(stream) < 60000 and reader.read(stream)["requests"]:
            known.add(hash(stream))
            yield stream


@test(only="plain", because="parsers need no rights", seconds=SECONDS + 120)
def what_we_take_nginx_and_haproxy_take_alike(c):
    report = {}
    with Peers(c) as peers, Reader() as reader:
        if not peers.running:
            raise Skip("neither nginx nor haproxy is installed")
        compare_all(peers, reader, [stream + SENTINEL for stream in seeds()], report)
        compare_all(peers, reader, made_up(reader, random.Random(SEED)), report)
        diagnose(f"SEED={SEED}")
        for (name, why), count in sorted(report.items(), key=str):
            diagnose(f"{name}: {count} streams {f'not asked: {why}' if why else 'alike'}")
        for name in peers.missing:
            diagnose(f"{name} is not installed: not asked")


@test(only="plain", because="parsers need no rights")
def written_streams_are_read_as_they_should(c):
    cases = bad()
    with Reader() as reader:
        loose = [title for title, data in cases if reader.read(served(data) + SENTINEL)["requests"]]
        check(not loose, f"{len(loose)} of {len(cases)} are taken:\n" + "\n".join(loose))
        for data in fine():
            got = reader.read(served(data) + SENTINEL)
            check(got["end"] == "closed" and len(got["requests"]) >= 1, f"{data!r}: {got}")
    diagnose(f"{len(cases)} malformed streams refused")


def made_up_answers(reader, choice):
    known, deadline = set(), time.monotonic() + SECONDS
    for data in itertools.chain(answers(), mutated(choice, answers())):
        if SECONDS and time.monotonic() > deadline or not SECONDS and len(known) >= MADE_UP // 4:
            return
        ours = reader.read(data)
        # Interim answers but 100 are final for some, whose clients would wait for them.
        if data not in known and ours["taken"] and not re.match(rb"HTTP/1\.[01] 1(?!00 )", data):
            known.add(data)
            yield data, ours


@test(only="plain", because="parsers need no rights", seconds=SECONDS + 120)
def answers_are_read_alike_too(c):
    problems, count = [], 0
    with Peers(c) as peers, Reader("answers") as reader:
        if not peers.running:
            raise Skip("neither nginx nor haproxy is installed")
        for data, ours in made_up_answers(reader, random.Random(SEED)):
            count += 1
            for peer in peers.running:
                got = peer.relay(data)
                if got != (ours["status"], ours["body"]):
                    problems.append(f"{data!r}: we read {ours}, {peer.name} {got}")
            if len(problems) > 20:
                break
    check(not problems, "\n".join(problems))
    diagnose(f"{count} answers alike")


# ---- what our proxy sends on ------------------------------------------------------------------------

API = "api.example.com"
POLICY = f"""
version: 1
network_policies:
  a:
    endpoints: [{{host: {API}, port: 80, protocol: rest, rules: [{{allow: {{method: "*", path: "/**"}}}}]}}]
    binaries: [{{path: /**}}]
"""
PREFIX = {"forward": b"http://api.example.com", "connect": b""}  # of a path
FIRST_LINE = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+ (/[!-~]*|\*) HTTP/1\.1")
FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+): ?((?:[!-~\x80-\xff][\t -~\x80-\xff]*)?)")
CHUNK = re.compile(rb"([1-9a-fA-F][0-9a-fA-F]*)\r\n")


def take_head(data):
    """The fields of a head, and what follows; (None, b"") if it is not all there. Raises ValueError if any part of it is
    not in the plainest of forms."""
    head, end, rest = data.partition(b"\r\n\r\n")
    if not end:
        return None, b""
    first, *lines = head.split(b"\r\n")
    fields = [FIELD.fullmatch(line) for line in lines]
    if not FIRST_LINE.fullmatch(first) or not all(fields):
        raise ValueError("not a plain head")
    named = [(f[1].lower(), f[2].rstrip()) for f in fields]
    if [value for name, value in named if name == b"host"] != [API.encode()]:
        raise ValueError("not our host")
    return named, rest


def take_chunks(rest):
    """What follows chunks in the plainest of forms; None if they are not all there."""
    while rest:
        if rest.startswith(b"0\r\n\r\n"):
            return rest[5:]
        size = CHUNK.match(rest)
        if not size:
            if b"\r\n" in rest[:20] and not b"0\r\n\r\n".startswith(rest):
                raise ValueError("not a plain chunk")
            return None
        end = size.end() + int(size[1], 16)
        if len(rest) >= end + 2 and rest[end:end + 2] != b"\r\n":
            raise ValueError("a chunk without an end")
        rest = rest[end + 2:]
    return None


def whole(data):
    """How many requests stand in these bytes; the last may be a part of one. A ValueError: they are not well-formed."""
    count = 0
    while data:
        named, rest = take_head(data)
        if named is None:
            return count
        framing = [(name, value) for name, value in named if name in (b"content-length", b"transfer-encoding")]
        if len(framing) > 1 or any(name in (b"content_length", b"transfer_encoding") for name, _ in named):
            raise ValueError("framed twice")
        name, value = framing[0] if framing else (b"content-length", b"0")
        if name == b"content-length":
            if not re.fullmatch(rb"0|[1-9][0-9]{0,17}", value):
                raise ValueError("no plain length")
            if len(rest) < int(value):
                return count
            data = rest[int(value):]
        else:
            if value != b"chunked":
                raise ValueError("no plain coding")
            data = take_chunks(rest)
            if data is None:
                return count
        count += 1
    return count


def answer_each(connection, hear):
    """An origin that says 200 to every whole request, and nothing to what it does not understand."""
    pending, said = b"", 0
    while data := hear():
        pending += data
        try:
            count = whole(pending)
        except ValueError:
            return
        while said < count:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            said += 1


class Forwarding:
    """The proxy with an origin behind it."""

    def __init__(self, w, c):
        w.dns.names[API] = [PUBLIC]
        self.origin = w.origin(PUBLIC, 80, answer_each)
        self.proxy = w.proxy(c, POLICY)

    def send(self, data, way="forward"):
        """How many requests the origin heard of it, which are well-formed. Ways: as a proxy's requests, or as those of a
        server at the end of a tunnel."""
        before = [len(heard) for heard in self.origin.heard]
        with self.open(way) as client:
            try:
                client.send(data.replace(b"<A>", PREFIX[way]) + SENTINEL.replace(b"GET ", b"GET " + PREFIX[way]))
                client.socket.shutdown(socket.SHUT_WR)
            except OSError:  # it answered and closed before it had read all
                pass
            client.rest()
        before += [0] * (len(self.origin.heard) - len(before))
        news = [heard[at:] for heard, at in zip(list(self.origin.heard), before) if heard[at:]]
        try:
            return sum(whole(heard) for heard in news)
        except ValueError as problem:
            raise Failure(f"{data!r}\n  {problem}: the origin heard {news}") from None

    def open(self, way):
        if way == "forward":
            return self.proxy.open()
        client, found = self.proxy.tunnel(f"{API}:80")
        equal(found.status, 200, "status of a tunnel")
        return client


@test(only="root", because="the origin is in a network namespace, which takes root to make")
def nothing_malformed_is_sent_on(c):
    count, passed, choice = 0, 0, random.Random(SEED)
    with World() as w, Reader() as reader:
        f = Forwarding(w, c)
        for way in PREFIX:
            loose = [title for title, data in bad() if f.send(data, way)]
            check(not loose, f"got through by {way}: {loose}")
            for data in fine():
                wanted = len(reader.read(served(data) + SENTINEL)["requests"])
                equal(f.send(data, way), wanted, f"requests of {data!r} that arrive by {way}")
        for data in itertools.islice(mutated(choice, fine()), MADE_UP):
            stream = served(data) + SENTINEL
            got = f.send(data)
            check(got <= len(reader.read(stream)["requests"]), f"{data!r}: {got} requests got through")
            count, passed = count + 1, passed + got
    diagnose(f"of {len(bad())} malformed streams 0 reach the origin; of {count} made up {passed} requests did, well-formed")


main()
