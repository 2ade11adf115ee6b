#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""E2B's interface on the wire: who may not, what is malformed, who leaves, and what a restart leaves."""

import base64
import calendar
import concurrent.futures
import contextlib
import datetime
import gzip
import hashlib
import http.client
import itertools
import json
import os
import pathlib
import re
import signal
import socket
import tarfile
import time
import urllib.parse
import zlib

from daemon import Daemon
from e2b import Served, envelope, frames
from egress_world import PUBLIC, PUBLIC_TOO, RESOLVER, World
from harness import BUILD, check, equal, main, test, wait_for
from images import archive, member

START, FILES = "process.Process/Start", "filesystem.Filesystem/"


def key_of(s, *argv):
    return s.key(*argv)["E2B_API_KEY"]


def listens(port):
    with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def plainly(answer, status):
    """E2B's error: the code is in the body, too."""
    answer.expect(status)
    equal(answer.json["code"], status, f"the code of {answer}")
    check(answer.json["message"], f"a message: {answer}")


@test
def keys(c):
    with Served(c) as s:
        key = key_of(s)
        check(key.startswith("e2b_") and len(key) == 44 and int(key[4:], 16) >= 0, f"a key like E2B's: {key}")
        box = s.create(key)
        for headers in ({}, {"X_API_KEY": "e2b_" + "0" * 40}, {"X_API_KEY": ""}, {"Authorization": "Bearer x"}):
            plainly(s.ask("GET", "/v2/sandboxes", **headers), 401)
            plainly(s.ask("GET", f"/sandboxes/{box.id}", **headers), 401)
        s.ask("GET", "/v2/sandboxes", Authorization=f"Bearer {key}").expect(200)
        # Another's sandbox is not there.
        others = key_of(s, "--label", "team=other")
        plainly(s.ask("GET", f"/sandboxes/{box.id}", X_API_KEY=others), 404)
        plainly(s.ask("DELETE", f"/sandboxes/{box.id}", X_API_KEY=others), 404)
        # The start of an id is no id, whatever a client says of ids.
        for short in (box.id[:-1], box.id[:8], box.id[4:10], "sbx_"):
            for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/timeout"), ("POST", "/connect")):
                plainly(s.ask(method, f"/sandboxes/{short}{path}", {"timeout": 60} if method == "POST" else None, X_API_KEY=key, Sandboxer_Ids="short"), 404)
        plainly(s.ask("POST", f"/v2/sandboxes/{box.id}/connect", {}, X_API_KEY=others), 404)
        equal(s.ask("GET", "/v2/sandboxes", X_API_KEY=others).expect(200).json, [], "what another key lists")
        # Who may only look gets nothing to enter with.
        reader = key_of(s, "--verb", "read")
        check("envdAccessToken" not in s.ask("GET", f"/sandboxes/{box.id}", X_API_KEY=reader).expect(200).json, "a reader's token")
        plainly(s.ask("DELETE", f"/sandboxes/{box.id}", X_API_KEY=reader), 403)


@test
def ids_have_letters_and_digits(c):
    with Served(c) as s:
        key = key_of(s)
        mine = {"X_API_KEY": key}
        box = s.create(key, metadata={"who": "me"})
        check(re.fullmatch("sbx[0-9a-hjkmnp-tv-z]{20}", box.id), f"the id is {box.id}")
        ours = f"sbx_{box.id[3:]}"
        equal([b["sandbox_id"] for b in s.d.api.get("/v1/sandboxes").expect(200).json["sandboxes"]], [ours], "its id elsewhere")
        forms = (box.id, ours, f"sbx-{box.id[3:]}")
        # Every form is accepted everywhere, and one is told.
        for form in forms:
            for path in (f"/sandboxes/{form}", f"/sandboxes/{form}-sandboxer"):  # old clients append the clientID
                equal(s.ask("GET", path, **mine).expect(200).json["sandboxID"], box.id, path)
            equal(s.ask("POST", f"/v2/sandboxes/{form}/connect", {}, **mine).expect(200).json["envdAccessToken"], box.token, f"the token by {form}")
            for name in (form, f"{form}-sandboxer"):
                box.ask("GET", "/health", **{"E2b-Sandbox-Id": name}).expect(204)
                equal(box.ask("GET", "/", **{"E2b-Sandbox-Id": name, "E2b-Sandbox-Port": "8080"}).expect(502).json["sandboxId"], box.id, "a closed port")
            equal(s.d.api.get(f"/v1/sandboxes/{form}").expect(200).json["sandbox_id"], ours, f"REST by {form}")
            s.d.api.get(f"/v1/sandboxes/{form}-sandboxer").expect(404)
        for name in (f"{box.id[:-1]}-sandboxer", f"{box.id}-", f"{box.id}.sandboxer", box.id.upper()):
            plainly(s.ask("GET", f"/sandboxes/{name}", **mine), 404)
        equal([b["sandboxID"] for b in s.ask("GET", "/v2/sandboxes", **mine).expect(200).json], [box.id], "a list")
        snapshot = s.ask("POST", f"/sandboxes/{box.id}/snapshots", {}, **mine).expect(201).json["snapshotID"]
        for form in forms:
            equal([x["snapshotID"] for x in s.ask("GET", f"/snapshots?sandboxID={form}", **mine).expect(200).json], [snapshot], f"its snapshots by {form}")
        fork, = s.ask("POST", f"/sandboxes/{box.id}/fork", {}, **mine).expect(201).json
        check(re.fullmatch("sbx[0-9a-z]{20}", fork["sandbox"]["sandboxID"]), f"a fork: {fork}")
        # A name of this shape could be taken for an id.
        for name in forms:
            s.d.api.post("/v1/sandboxes", {"name": name.replace(box.id[3:], "0" * 20)}).expect(400, code="invalid")
        s.ask("DELETE", f"/sandboxes/{ours}-sandboxer", **mine).expect(204)
        for form in forms:
            gone = box.ask("GET", "/health", **{"E2b-Sandbox-Id": form}).expect(502)
            equal(gone.json["sandboxId"], box.id, "one that is gone")


@test
def paths_that_are_not_supported(c):
    with Served(c) as s:
        key = key_of(s)
        for path in ("/api-keys", "/api-keys/x", "/access-tokens", "/admin/teams/x/sandboxes/kill", "/nodes", "/nodes/x", "/health", "/secrets", "/v2/nowhere"):
            answer = s.ask("GET", path, X_API_KEY=key)
            plainly(answer, 404)
            equal(answer.headers["Content-Type"], "application/json", path)
        s.ask("GET", "/healthz").expect(200)
        check(s.ask("GET", "/nowhere", X_API_KEY=key).expect(404).json["code"] != 404, "a path of nobody's is not E2B's")


@test
def tokens_of_sandboxes(c):
    with Served(c) as s:
        key = key_of(s)
        one, two = s.create(key), s.create(key)
        equal(one.run("echo", "x")[0], b"x\n", "its own token")
        for token in (two.token, "", key, one.token[:-1]):
            equal(one.rpc("process.Process/List", {}, **{"X-Access-Token": token}).expect(401).json["code"], "unauthenticated", "the code")
            plainly(one.ask("GET", "/files?path=x", **{"X-Access-Token": token}), 401)
        one.ask("GET", "/health", **{"X-Access-Token": ""}).expect(401)
        one.ask("GET", "/health").expect(204)
        # Ids of others and of nobody, on every path: who has no token of theirs is not told which there are.
        for sandbox in ("sbx_00000000000000000000", "no id", "sbx_", two.id[:-1]):
            for path in ("/health", "/files?path=x", "/nowhere"):
                gone, there = (one.ask("GET", path, **{"E2b-Sandbox-Id": i}) for i in (sandbox, two.id))
                equal([gone.status, gone.data], [401, there.data], f"{path} of {sandbox}")
        closed = one.ask("GET", "/", **{"E2b-Sandbox-Port": "8080"})
        equal([closed.status, closed.json], [502, {"sandboxId": one.id, "message": "The sandbox is running but port is not open", "port": 8080, "code": 502}], "a closed port")
        # The code interpreter's port has a token of its own, which is good for nothing else.
        code = {"E2b-Sandbox-Port": "49999"}
        other = s.ask("POST", f"/v2/sandboxes/{two.id}/connect", {}, X_API_KEY=key).expect(200).json["trafficAccessToken"]
        own = s.ask("POST", f"/v2/sandboxes/{one.id}/connect", {}, X_API_KEY=key).expect(200).json["trafficAccessToken"]
        for token, status in ((own, 200), (other, 403), ("", 403)):
            one.ask("GET", "/contexts", **{**code, "X-Access-Token": "", "E2B-Traffic-Access-Token": token}).expect(status)
        one.rpc("process.Process/List", {}, **{"X-Access-Token": own}).expect(401)
        one.ask("GET", "/nowhere", **code).expect(404)
        # The header means nothing on our own paths.
        one.ask("GET", "/v1/sandboxes").expect(401)
        two_gone = s.ask("DELETE", f"/sandboxes/{two.id}", X_API_KEY=key).expect(204)
        check(not two_gone.data, "nothing is said")
        plainly(s.ask("DELETE", f"/sandboxes/{two.id}", X_API_KEY=key), 404)
        two.ask("GET", "/health").expect(502)


@test
def envelopes(c):
    with Served(c) as s:
        box = s.create(key_of(s))
        good = {"process": {"cmd": "true"}}
        for raw in (b"", b"\0", envelope(good)[:-1], envelope(good) + b"x", envelope(good, length=1 << 30), envelope(good, length=0),
                    envelope(good, flags=1), envelope(good, flags=2), envelope(b"not json"), envelope(b"[]"), envelope({}), envelope({"process": {"cmd": 7}}),
                    envelope({"process": {"cmd": "x" * 5000}}), envelope({"process": {"cmd": "true", "envs": {"A=B": "c"}}})):
            with box.stream(START, None, raw=raw) as response:
                equal(response.status, 200, "a stream's status")
                (flags, message), = frames(response)
                equal([flags, message["error"]["code"]], [2, "invalid_argument"], f"{raw[:60]!r}")
        with box.stream(START, None, raw=b"x" * (20 << 20)) as response:
            equal(response.status, 413, "more than is taken")
        equal(box.rpc("process.Process/SendInput", {"process": {"pid": 77777}, "input": {"stdin": "eA=="}}).expect(404).json["code"], "not_found", "nobody")
        equal(box.rpc("process.Process/SendSignal", {"process": {"pid": 1}, "signal": "SIGNAL_SIGKILL"}).expect(404).json["code"], "not_found", "not one of ours")
        equal(box.run("echo", "fine")[0], b"fine\n", "afterwards")


@test
def streams(c):
    with Served(c) as s:
        key, alive = key_of(s), {"event": {"keepalive": {}}}
        box = s.create(key)
        with box.start("/bin/sh", "-c", "mkfifo /tmp/go; echo up; read x < /tmp/go; exit 4", Keepalive_Ping_Interval="1") as response:
            heard = frames(response)
            pid = next(heard)[1]["event"]["start"]["pid"]
            said = next(message for _, message in heard if message != alive)
            equal(said["event"]["data"], {"stdout": base64.b64encode(b"up\n").decode()}, "output")
            equal(next(heard)[1], alive, "a sign of life")
        equal([p["pid"] for p in box.rpc("process.Process/List", {}).expect(200).json["processes"]], [pid], "it goes on without its client")
        with box.stream("process.Process/Connect", {"process": {"pid": pid}}) as response:
            heard = frames(response)
            equal(next(heard)[1], {"event": {"start": {"pid": pid}}}, "the same")
            box.run("/bin/sh", "-c", "echo > /tmp/go")
            wanted = {"event": {"end": {"exitCode": 4, "exited": True, "status": "exit status 4", "error": "exit status 4"}}}
            equal([m for m in heard if m[1] != alive], [(0, wanted), (2, {})], "its end")
        # By its tag, too.
        with box.stream(START, {"process": {"cmd": "sh", "args": ["-c", "read x; echo $x"]}, "tag": "mine"}) as response:
            pid = next(frames(response))[1]["event"]["start"]["pid"]
        with box.stream("process.Process/Connect", {"process": {"tag": "mine"}}) as response:
            heard = frames(response)
            equal(next(heard)[1], {"event": {"start": {"pid": pid}}}, "the one of the tag")
            box.rpc("process.Process/SendInput", {"process": {"tag": "mine"}, "input": {"stdin": base64.b64encode(b"hi\n").decode()}}).expect(200)
            equal(next(heard)[1]["event"]["data"], {"stdout": base64.b64encode(b"hi\n").decode()}, "its output")
        with box.stream("process.Process/Connect", {"process": {"tag": "none"}}) as response:
            equal([(flags, m["error"]["code"]) for flags, m in frames(response)], [(2, "not_found")], "no such tag")
        # A deadline is the process's own.
        with box.start("sleep", "777", Connect_Timeout_Ms="300") as response:
            *_, (flags, last) = frames(response)
            equal([flags, last["error"]["code"]], [2, "deadline_exceeded"], "the deadline")
        wait_for(lambda: not box.rpc("process.Process/List", {}).json["processes"], "it is ended")
        # A sandbox that is killed ends its streams: without a last frame and a last chunk, and without a reset.
        box.run("mkdir", "w")
        code = box.headers(**{"E2b-Sandbox-Port": "49999"})
        with box.start("sleep", "777") as running, box.stream(FILES + "WatchDir", {"path": "w"}) as watching, \
                s.open("POST", "/execute", b'{"code": "print(1, flush=True)\\nimport time\\ntime.sleep(777)"}', **code) as executing:
            next(frames(running))
            next(frames(watching))
            while b"stdout" not in executing.readline():
                pass
            s.ask("DELETE", f"/sandboxes/{box.id}", X_API_KEY=key).expect(204)
            for what, response in (("a process", running), ("a watch", watching), ("code", executing)):
                try:
                    rest = response.read()
                    check(False, f"the stream of {what} has an end: {rest}")
                except http.client.IncompleteRead as e:
                    equal(e.partial, b"", f"what comes last of {what}")
        box.ask("GET", "/health").expect(502)


@test
def a_client_that_stops_reading(c):
    with Served(c) as s:
        box = s.create(key_of(s))
        body = envelope({"process": {"cmd": "yes"}})
        with socket.create_connection(("127.0.0.1", s.port)) as lazy:
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            head = "".join(f"{k}: {v}\r\n" for k, v in box.headers(**{"Content-Length": len(body)}).items())
            lazy.sendall(f"POST /{START} HTTP/1.1\r\nHost: 127.0.0.1:{s.port}\r\n{head}\r\n".encode() + body)
            wait_for(lambda: box.rpc("process.Process/List", {}).json["processes"], "it runs")
            for _ in range(5):
                equal(box.run("echo", "still")[0], b"still\n", "others are served")


@test
def uploads(c):
    with Served(c) as s:
        key = key_of(s)
        box = s.create(key)
        kind = {"Content_Type": "multipart/form-data; boundary=b"}
        part = b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
        box.ask("POST", "/files", part + b"old\r\n--b--\r\n", **kind).expect(200)
        for body in (b"", b"--b", part, part + b"new", part + b"new\r\n--b", b"--c\r\n", part.replace(b"name", b"nome") + b"\r\n--b--"):
            plainly(box.ask("POST", "/files", body, **kind), 400)
        # Parts of other names are passed over, with or without a file's name, however long.
        others = part.replace(b'"file"', b'"other"') + bytes(300000) + b'\r\n--b\r\nContent-Disposition: form-data; name="note"\r\n\r\n' + b"n" * 20000 + b"\r\n"
        equal(box.ask("POST", "/files", others + b"--b--\r\n", **kind).expect(200).json, [], "no file")
        both = box.ask("POST", "/files", others + part.replace(b'"x"', b'"y"') + b"mine\r\n" + others + b"--b--\r\n", **kind).expect(200)
        equal([f["path"] for f in both.json], ["/home/user/y"], "the one file among others")
        equal([box.ask("GET", f"/files?path={name}").expect(200).data for name in ("x", "y")], [b"old", b"mine"], "what is written")
        plainly(box.ask("POST", "/files", b"x", Content_Type="multipart/form-data"), 400)
        plainly(box.ask("POST", "/files?path=y", b"x", Content_Type="text/plain"), 400)
        plainly(box.ask("POST", "/files", b"x", Content_Type="application/octet-stream"), 400)
        packed = {"Content_Type": "application/octet-stream", "Content_Encoding": "gzip"}
        data = gzip.compress(b"packed " * 1000)
        for bad in (b"no gzip", data[:-4], data[:30], data + b"x"):
            plainly(box.ask("POST", "/files?path=x", bad, **packed), 400)
        # One that breaks off changes nothing.
        with socket.create_connection(("127.0.0.1", s.port)) as gone:
            head = "".join(f"{k}: {v}\r\n" for k, v in box.headers(**{"Content-Length": 1000, "Content-Type": "application/octet-stream"}).items())
            gone.sendall(f"POST /files?path=x HTTP/1.1\r\nHost: 127.0.0.1:{s.port}\r\n{head}\r\n".encode() + b"half")
        equal(box.ask("GET", "/files?path=x").expect(200).data, b"old", "the file as it was")
        box.ask("POST", "/files?path=x", data, **packed).expect(200)
        equal(box.ask("GET", "/files?path=x").expect(200).data, b"packed " * 1000, "unpacked")
        empty = box.ask("POST", "/files?path=e", b"", Content_Type="application/octet-stream").expect(200)
        equal(empty.json, [{"path": "/home/user/e", "name": "e", "type": "file"}], "an empty one")
        equal(box.ask("GET", "/files?path=e").expect(200).headers["Content-Length"], "0", "its length")
        # What unpacks to more than there is room for is contained.
        small = s.create(key, templateID="sandbox-canary")
        user = "&username=root"  # it is the only one in there
        full = small.ask("POST", f"/files?path=/tmp/zeros{user}", gzip.compress(bytes(100 << 20), 1), **packed)
        plainly(full, 507)
        plainly(small.ask("GET", f"/files?path=/tmp/zeros{user}"), 404)
        # So are the files that came with it.
        form = part.replace(b'"x"', b'"/tmp/new/one"') + b"1\r\n" + part.replace(b'"x"', b'"/tmp/zeros"') + bytes(100 << 20) + b"\r\n--b--\r\n"
        full = small.ask("POST", f"/files?{user}", gzip.compress(form, 1), Content_Encoding="gzip", **kind)
        check(full.status in (507, 413), f"no room: {full}")
        listed = small.rpc("filesystem.Filesystem/ListDir", {"path": "/tmp", "depth": 2}, Authorization="Basic cm9vdDo=").expect(200).json
        equal(listed.get("entries", []), [], "what is in /tmp")


@test
def a_failed_upload_stores_nothing(c):
    with Served(c) as s:
        box = s.create(key_of(s))
        kind = {"Content_Type": "multipart/form-data; boundary=b"}

        def part(name, data):
            return b'--b\r\nContent-Disposition: form-data; name="file"; filename="%b"\r\n\r\n%b\r\n' % (name, data)

        two = part(b"a", b"new") + part(b"deep/er/b", b"new")
        box.ask("POST", "/files", part(b"a", b"old") + part(b"dir/x", b"x") + b"--b--\r\n", X_Metadata_Kind="old", **kind).expect(200)
        before = box.run("sh", "-c", "cd; ls -A1R; cat a")
        for bad in (b"", b"--b", part(b"dir", b"c") + b"--b--\r\n", part(b"a/b", b"c") + b"--b--\r\n", part(b"x" * 4090, b"c") + b"--b--\r\n", part(b"", b"c") + b"--b--\r\n"):
            answer = box.ask("POST", "/files", two + bad, **kind)
            check(400 <= answer.status < 500, f"{bad[-30:]}: {answer}")
            equal(box.run("sh", "-c", "cd; ls -A1R; cat a"), before, f"after {bad[:90]}")
        made = box.ask("POST", "/files", two + b"--b--\r\n", X_Metadata_Kind="new", **kind).expect(200).json
        equal([(f["path"], f["metadata"]) for f in made], [("/home/user/a", {"kind": "new"}), ("/home/user/deep/er/b", {"kind": "new"})], "the answer")
        equal(box.run("sh", "-c", "cd; ls -A1 . deep/er; cat a deep/er/b")[0].split(), [b".:", b"a", b"deep", b"dir", b"deep/er:", b"b", b"newnew"], "what is there")


@test
def downloads(c):
    with Served(c) as s:
        box = s.create(key_of(s))
        text = b"packed " * 1000
        box.ask("POST", "/files?path=x", text, Content_Type="application/octet-stream").expect(200)
        box.ask("POST", "/files?path=e", b"", Content_Type="application/octet-stream").expect(200)
        for accept, packed in (("gzip", True), ("gzip, deflate;q=0.5", True), ("identity;q=0, *", True), ("gzip, deflate", False), ("deflate;q=1, gzip;q=0.1", False), ("*", False),
                               ("gzip;q=0", False), ("identity", False), ("br", False), ("", False)):
            got = box.ask("GET", "/files?path=x", Accept_Encoding=accept).expect(200)
            equal([got.headers.get("Content-Encoding"), got.headers["Vary"]], ["gzip" if packed else None, "Accept-Encoding"], f"for {accept}")
            equal(gzip.decompress(got.data) if packed else got.data, text, f"the file for {accept}")
            check(not packed or len(got.data) < 200, f"{len(got.data)} bytes")
        for part in ({"Range": "bytes=0-3"}, {"If_None_Match": "x"}, {"If_Modified_Since": "Sat, 29 Oct 1994 19:43:31 GMT"}):
            got = box.ask("GET", "/files?path=x", Accept_Encoding="gzip", **part).expect(200)
            equal([got.headers.get("Content-Encoding"), got.data], [None, text], f"with {part}")
        empty = box.ask("GET", "/files?path=e", Accept_Encoding="gzip").expect(200)
        equal([empty.headers["Content-Length"], empty.headers.get("Content-Encoding"), empty.data], ["0", None, b""], "an empty one")
        plainly(box.ask("GET", "/files?path=none", Accept_Encoding="gzip"), 404)
        plainly(box.ask("GET", "/files?path=x", Accept_Encoding="identity;q=0"), 400)
        plainly(box.ask("GET", "/files?path=x", Accept_Encoding="*;q=0"), 400)
        head = box.ask("HEAD", "/files?path=x", Accept_Encoding="gzip").expect(200)
        equal([head.headers["Content-Encoding"], head.data], ["gzip", b""], "a head alone")
        # Programs that unpack see the file.
        headers = [x for name, value in box.headers().items() for x in ("-H", f"{name}: {value}")]
        got = c.execute(["curl", "-sS", "--compressed", "-H", "Accept-Encoding: gzip", *headers, f"http://127.0.0.1:{s.port}/files?path=x"])
        equal([got.code, got.out], [0, text], "by curl --compressed")
        # What is long holds nobody up, nor does who does not read it.
        box.run("/bin/sh", "-c", "seq 13000000 > long; seq 100000 > short")
        with socket.create_connection(("127.0.0.1", s.port)) as lazy, s.open("GET", "/files?path=long", **box.headers(Accept_Encoding="gzip")) as long:
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            fields = "".join(f"{k}: {v}\r\n" for k, v in box.headers(**{"Accept-Encoding": "gzip"}).items())
            lazy.sendall(f"GET /files?path=long HTTP/1.1\r\nHost: 127.0.0.1:{s.port}\r\n{fields}\r\n".encode())
            long.read(1 << 16)
            for _ in range(5):
                equal(box.run("echo", "still")[0], b"still\n", "others are served")
            unpacked, digest = zlib.decompressobj(31), hashlib.sha256()
            equal(hashlib.sha256(gzip.decompress(box.ask("GET", "/files?path=short", Accept_Encoding="gzip").expect(200).data)).hexdigest(),
                  box.run("sha256sum", "/home/user/short")[0].decode().split()[0], "another meanwhile")
        with s.open("GET", "/files?path=long", **box.headers(Accept_Encoding="gzip")) as long:
            while piece := long.read(1 << 20):
                digest.update(unpacked.decompress(piece))
        check(unpacked.eof, "its end")
        equal(digest.hexdigest(), box.run("sha256sum", "/home/user/long")[0].decode().split()[0], "a long one")
        # One that breaks off is not taken for the whole.
        with s.open("GET", "/files?path=long", **box.headers(Accept_Encoding="gzip")) as long:
            long.read(1 << 16)
            s.d.api.delete(f"/v1/sandboxes/{box.id}")
            try:
                while long.read(1 << 20):
                    pass
                check(False, "it ended in good order")
            except (http.client.IncompleteRead, ConnectionError):
                pass


@test
def by_template(c):
    with Served(c) as s:
        key, others = key_of(s), key_of(s, "--label", "team=other")
        mine = {"X_API_KEY": key}

        def listed(template, who=key, **more):
            query = urllib.parse.urlencode({"template": template, **more})
            return [b["sandboxID"] for b in s.ask("GET", f"/v2/sandboxes?{query}", X_API_KEY=who).expect(200).json]

        first, other = s.create(key), s.create(key, templateID="code-interpreter-v1")
        snapshot = s.ask("POST", f"/sandboxes/{first.id}/snapshots", {"name": "one"}, **mine).expect(201).json["snapshotID"]
        made = [s.create(key, templateID=t).id for t in (snapshot, "one")]
        made.append(s.ask("POST", "/v1/sandboxes", {"snapshot": "one"}, Authorization=f"Bearer {key}").expect(201).json["sandbox_id"].replace("_", ""))
        for name in (snapshot, "one"):
            equal(listed(name, order="asc"), made, f"made from {name}")
        equal(listed(snapshot, limit=2), made[:0:-1], "a page")
        equal([listed(snapshot, others), listed("one", others)], [[], []], "to others")
        equal(listed("code-interpreter-v1"), [other.id], "of a profile")
        equal(listed("none"), [], "of nothing")
        new = s.ask("POST", "/v3/templates", {"name": "built"}, **mine).expect(202).json
        place = f"/templates/{new['templateID']}/builds/{new['buildID']}"
        s.ask("POST", f"/v2{place}", {}, **mine).expect(202)
        wait_for(lambda: s.ask("GET", f"{place}/status", **mine).expect(200).json["status"] == "ready", "it is built")
        built = s.create(key, templateID="built").id
        equal([listed("built"), listed(new["templateID"])], [[built], [built]], "of one that was built")
        s.d.stop()
        s.start()
        equal([listed("one", order="asc"), listed("built")], [made, [built]], "after a restart")
        for one in made[1:]:
            s.ask("DELETE", f"/sandboxes/{one}", **mine).expect(204)
        s.ask("DELETE", f"/templates/{snapshot}", **mine).expect(204)
        equal(listed(snapshot), made[:1], "what its snapshot has left")


@test
def images(c):
    """An image is a template as it is, under its name; whoever has no user in it gets one."""
    with Served(c) as s:
        key = key_of(s)
        mine = {"X_API_KEY": key}
        box = [member(f"bin/{a}", kind=tarfile.SYMTYPE, link="busybox") for a in ("chmod", "chown", "grep", "mkdir")]
        for name, more in (("myimg:1", [*box, member("bin/bash", b'#!/bin/sh\nexec sh "$@"\n')]), ("bare", [])):
            data = archive(c, extra=more).read_bytes()
            s.d.api.request("POST", f"/v1/images/import?name={name}", data, {"Content-Type": "application/x-tar"}).expect(201)
        one, two, other = s.create(key, templateID="myimg:1"), s.create(key, templateID="bare"), s.create(key)
        info = s.ask("GET", f"/sandboxes/{one.id}", **mine).expect(200).json
        equal([info["templateID"], info["alias"]], ["myimg:1", "myimg:1"], "what it was made from")
        equal(s.ask("GET", f"/sandboxes/{two.id}", **mine).expect(200).json["templateID"], "bare:latest", "the other")
        if c.root:  # a plain user's has one identity
            equal(one.run("/bin/bash", "-l", "-c", "id -un; pwd; cat /etc/marker")[0], b"user\n/home/user\nfrom the image\n", "what is in it")
            one.ask("POST", "/files?path=x", b"x", Content_Type="application/octet-stream").expect(200)
        shown = {t["templateID"]: t for t in s.ask("GET", "/templates", **mine).expect(200).json}
        equal([shown["myimg:1"]["aliases"], shown["myimg:1"]["public"], shown["myimg:1"]["memoryMB"]], [["myimg:1"], True, shown["base"]["memoryMB"]], "it is listed")
        for name, ref in (("myimg:1", "myimg:1"), ("bare", "bare:latest"), ("base", "base")):
            equal(s.ask("GET", f"/templates/aliases/{name}", **mine).expect(200).json, {"templateID": ref, "public": True}, f"by its name {name}")
        plainly(s.ask("GET", "/templates/aliases/myimg:2", **mine), 404)
        for name in ("myimg:2", "myimg", "none", "x" * 700):
            plainly(s.ask("POST", "/v2/sandboxes", {"templateID": name}, **mine), 404)

        def listed(template):
            return [b["sandboxID"] for b in s.ask("GET", f"/v2/sandboxes?template={template}", **mine).expect(200).json]

        equal([listed("myimg:1"), listed("bare"), listed("myimg:2")], [[one.id], [two.id], []], "by template")
        equal(set(listed("base")), {one.id, two.id, other.id}, "a profile's are also those of images")
        s.d.stop()
        s.start()
        equal([listed("myimg:1"), listed("bare")], [[one.id], [two.id]], "after a restart")


@test
def since(c):
    with Served(c) as s:
        key = key_of(s)
        boxes = [s.create(key).id for _ in range(3)]
        at = {b: s.ask("GET", f"/sandboxes/{b}", X_API_KEY=key).expect(200).json["startedAt"] for b in boxes}

        def listed(**query):
            answer = s.ask("GET", f"/v2/sandboxes?{urllib.parse.urlencode(query)}", X_API_KEY=key).expect(200)
            return [b["sandboxID"] for b in answer.json], answer.headers.get("X-Next-Token")

        for order in ("asc", "desc"):
            for box in boxes:  # a time is told without what there is of a millisecond
                wanted = [b for b in boxes if at[b] >= at[box]]
                equal(listed(startedAfter=at[box], order=order)[0], wanted[::1 if order == "asc" else -1], f"after {at[box]} in order {order}")
            equal(listed(startedAfter="2099-01-01T00:00:00Z", order=order), ([], None), "after all of them")
            equal(len(listed(startedAfter="2001-01-01T00:00:00Z", order=order)[0]), 3, "after none of them")
        first, more = listed(startedAfter=at[boxes[0]], order="asc", limit=1)
        check(first and more, "a page, and others")
        for bad in ("x", "2026", "1"):
            plainly(s.ask("GET", f"/v2/sandboxes?startedAfter={bad}", X_API_KEY=key), 400)


@test(seconds=120)
def logs(c):
    """All of what happened is found, however much that is: from a time on, backwards, by words."""
    with Served(c) as s:
        key = key_of(s)
        box, other = s.create(key), s.create(key)
        mine = {"X_API_KEY": key}
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)) as one:
            for _ in range(1100):
                one.request("POST", f"/sandboxes/{box.id}/refreshes", b'{"duration": 900}', {"X-API-Key": key, "Content-Type": "application/json"})
                answer = one.getresponse()
                equal([answer.status, answer.read()], [204, b""], "its time is extended")
        s.ask("POST", f"/sandboxes/{box.id}/pause", {}, **mine).expect(204)
        s.ask("POST", f"/sandboxes/{other.id}/pause", {}, **mine).expect(204)

        def told(**query):
            return s.ask("GET", f"/v2/sandboxes/{box.id}/logs?{urllib.parse.urlencode(query)}", **mine).expect(200).json["logs"]

        def ms(entry):
            whole, _, part = entry["timestamp"].rstrip("Z").partition(".")
            return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) * 1000 + int(part.ljust(3, "0")[:3] or 0)

        # Page by page, in both directions, all of it comes.
        def walked(direction):
            seen = page = told(direction=direction, limit=300)
            while len(page) == 300:
                last = ms(page[-1])  # all of that millisecond comes again
                page = told(direction=direction, limit=300, cursor=last)
                check({ms(e) for e in page} != {last}, "a page is more than a millisecond")
                seen = [e for e in seen if ms(e) != last] + page
            return seen

        forward = walked("forward")
        check(len(forward) > 1100, f"{len(forward)} events are seen")
        equal([ms(e) for e in forward], sorted(ms(e) for e in forward), "their order")
        equal(walked("backward"), forward[::-1], "backwards")
        equal(told(direction="backward", limit=3), forward[:-4:-1], "the last of them")
        equal(told(limit=2), forward[:2], "the first of them")
        equal(len(told()), 100, "how many are usual")
        late = forward[1050]
        equal(told(cursor=ms(late), limit=1000)[-1], forward[-1], "from a cursor on")
        check(all(ms(e) >= ms(late) for e in told(cursor=ms(late))), "nothing from before it")
        paused = [e for e in forward if "paus" in e["message"]]
        check(paused, f"that it was paused: {forward[-3:]}")
        equal(told(search="paus"), paused, "by a word of one behind the first thousand")
        equal(told(search="paus", direction="backward"), paused[::-1], "the same backwards")
        equal([told(search="no such word"), told(level="error"), told(cursor=2 ** 53, limit=5), told(direction="backward", cursor=1)], [[], [], [], []], "nothing")
        old = s.ask("GET", f"/sandboxes/{box.id}/logs?start={ms(paused[0])}&limit=1000", **mine).expect(200).json
        check(paused[0] in old["logEntries"] and len(old["logEntries"]) < 1000, "the older path, from its start on")
        equal([line["timestamp"] for line in old["logs"]], [e["timestamp"] for e in old["logEntries"]], "its lines")
        for bad in ("limit=1001", "cursor=x", "cursor=-1"):
            plainly(s.ask("GET", f"/v2/sandboxes/{box.id}/logs?{bad}", **mine), 400)


@test
def network(c):
    """What a client says of the network is what programs inside meet."""
    names = {"api.example.com": [PUBLIC], "other.example.com": [PUBLIC_TOO]}
    with World() as w:
        w.http(PUBLIC, 80)
        w.http(PUBLIC_TOO, 80)
        w.dns.names.update(names)
        d = Daemon(c, config=f"egress: {{workers: 1, resolvers: ['{RESOLVER}']}}")
        c.write("daemon/profiles/base.yaml", (BUILD / "profiles/base.yaml").read_bytes())
        spawn = d.spawn
        d.spawn = lambda *args, **options: w.inside.run(lambda: spawn(*args, **options))
        with d:
            key = d.api.post("/v1/tokens", {"name": "e2b", "e2b": True}).expect(201).json["token"]

            def ask(method, path, body=None):
                return d.api.request(method, path, body if body is None else json.dumps(body).encode(), {"X-API-KEY": key})

            def create(**request):
                return ask("POST", "/v2/sandboxes", {"templateID": "base", **request}).expect(201).json["sandboxID"]

            def reached(box):
                return [name for name in names if d.api.run(box, ["curl", "-sS", "-f", "-m", "5", f"http://{name}/"]).expect(200).json["exit_code"] == 0]

            def told(box):
                info = ask("GET", f"/sandboxes/{box}").expect(200).json
                return info["allowInternetAccess"], info["network"]["allowOut"], info["network"]["denyOut"]

            def update(box, **network):
                ask("PUT", f"/sandboxes/{box}/network", network).expect(204)

            everything = ["0.0.0.0/0", "::/0"]
            both, one, none = list(names), ["api.example.com"], []
            box = create(network={"allowOut": one})
            equal([reached(box), told(box)], [one, (True, one, [])], "a name that is allowed")
            update(box, allowOut=["*.example.com"], denyOut=everything)
            equal([reached(box), told(box)], [both, (True, ["*.example.com"], everything)], "more of them")
            update(box, allow_internet_access=False)
            equal([reached(box), told(box)], [none, (False, [], everything)], "none any more")
            update(box, denyOut=[PUBLIC_TOO])
            equal([reached(box), told(box)], [one, (True, [], [PUBLIC_TOO])], "all but one")
            update(box)
            equal([reached(box), told(box)[0]], [none, False], "what its profile says")
            box = create(allow_internet_access=False)
            equal([reached(box), told(box)[0]], [none, False], "one without a network")
            plainly(ask("PUT", f"/sandboxes/{box}/network", {"allowOut": one}), 409)
            equal(reached(create(allow_internet_access=False, network={"allowOut": one})), one, "nothing but what is allowed")
            create(network={"allowOut": one, "allowPublicTraffic": False, "httpsPorts": []})
            for bad in ({"allowPublicTraffic": True}, {"httpsPorts": [443]}, {"rules": {"x": [{}]}}, {"maskRequestHost": "x"}, {"egressProxy": {"address": "x"}}):
                plainly(ask("POST", "/v2/sandboxes", {"templateID": "base", "network": bad}), 501)
                plainly(ask("PUT", f"/sandboxes/{create(network={'allowOut': one})}/network", bad), 501)


@test
def what_is_declared_too_large(c):
    """A length that is too large is refused before a byte of it comes."""
    with Served(c) as s:
        key = key_of(s)
        box = s.create(key)
        for path, headers in (("/v2/sandboxes", {"X-API-KEY": key}), (f"/sandboxes/{box.id}/timeout", {"X-API-KEY": key}), ("/v3/templates", {"X-API-KEY": key}),
                              (f"/{START}", box.headers()), ("/filesystem.Filesystem/Stat", box.headers()), ("/execute", box.headers(**{"E2b-Sandbox-Port": "49999"}))):
            with socket.create_connection(("127.0.0.1", s.port), 60) as client:
                fields = "".join(f"{k}: {v}\r\n" for k, v in {**headers, "Content-Length": 1 << 30}.items())
                client.sendall(f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{s.port}\r\n{fields}\r\n".encode())
                equal(client.recv(12), b"HTTP/1.1 413", f"the answer of {path}")
        with open(f"/proc/{s.d.plane}/status", encoding="ascii") as f:
            peak = next(int(line.split()[1]) for line in f if line.startswith("VmHWM"))
        check(peak < 200 << 10, f"the daemon took {peak} kB")


@test
def composing(c):
    with Served(c) as s:
        key = key_of(s)
        box, other = s.create(key), s.create(key)
        for name in ("a", "b c", "-d"):
            box.ask("POST", f"/files?path={name.replace(' ', '%20')}", name.encode(), Content_Type="application/octet-stream").expect(200)
        ask = {"source_paths": ["a", "/home/user/b c", "~/-d"], "destination": "new/whole"}
        plainly(box.ask("POST", "/files/compose", ask, **{"X-Access-Token": other.token}), 401)
        for body, status in (({}, 400), ({**ask, "source_paths": []}, 400), ({**ask, "source_paths": ["a", "none"]}, 404), ({**ask, "destination": ""}, 400),
                             ({**ask, "destination": "/proc/none"}, 400), ({**ask, "username": "nobody-here"}, 401), ({**ask, "source_paths": ["x" * 5000]}, 400)):
            plainly(box.ask("POST", "/files/compose", body), status)
        equal(box.ask("POST", "/files/compose", ask).expect(200).json, {"path": "/home/user/new/whole", "name": "whole", "type": "file"}, "what is made")
        equal(box.ask("GET", "/files?path=new/whole").expect(200).data, b"ab c-d", "what is in it")
        box.ask("GET", "/files?path=a").expect(404)


def as_user(name):
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:".encode()).decode()}


def said_by(response):
    """Standard output of a program whose stream this is."""
    events = [message.get("event", {}) for _, message in frames(response)]
    return b"".join(base64.b64decode(e.get("data", {}).get("stdout", "")) for e in events)


@test
def users_that_are_not_there(c):
    with Served(c) as s:
        box = s.create(key_of(s))
        nobody = as_user("nobody-here")
        for path in ("x", "/tmp/x"):
            for method, body in (("GET", None), ("POST", b"x")):
                plainly(box.ask(method, f"/files?path={path}&username=nobody-here", body, Content_Type="application/octet-stream"), 401)
            for call in ("Stat", "ListDir", "MakeDir", "Remove", "CreateWatcher"):
                equal(box.rpc(FILES + call, {"path": path}, **nobody).expect(401).json["code"], "unauthenticated", f"{call} of {path}")
            equal(box.rpc(FILES + "Move", {"source": path, "destination": "/tmp/y"}, **nobody).expect(401).json["code"], "unauthenticated", "Move")
            with box.stream(FILES + "WatchDir", {"path": path}, **nobody) as response:
                equal([(flags, m["error"]["code"]) for flags, m in frames(response)], [(2, "unauthenticated")], "WatchDir")
        plainly(box.ask("GET", "/files?path=none"), 404)
        equal(box.rpc(FILES + "Stat", {"path": "none"}).expect(404).json["code"], "not_found", "a file that is not there")


@test(only="root", because="a plain user's sandbox has one identity")
def homes(c):
    with Served(c) as s:
        box = s.create(key_of(s))
        with box.start("sh", "-c", "echo app:x:1234:1234::/tmp/apphome:/bin/sh >> /etc/passwd", **as_user("root")) as response:
            said_by(response)
        app, raw = as_user("app"), {"Content_Type": "application/octet-stream"}
        equal(box.rpc(FILES + "MakeDir", {"path": "sub"}, **app).expect(200).json["entry"]["path"], "/tmp/apphome/sub", "a directory")
        for cwd, wanted in ((None, b"/tmp/apphome"), ("sub", b"/tmp/apphome/sub"), ("~/sub", b"/tmp/apphome/sub"), ("/tmp", b"/tmp")):
            process = {"cmd": "sh", "args": ["-c", "echo $PWD $HOME"], **({"cwd": cwd} if cwd else {})}
            with box.stream(START, {"process": process}, **app) as response:
                equal(said_by(response), wanted + b" /tmp/apphome\n", f"where it runs, and its home, for {cwd}")
        equal(box.ask("POST", "/files?path=f&username=app", b"one", **raw).expect(200).json[0]["path"], "/tmp/apphome/f", "a file")
        form = b'--b\r\nContent-Disposition: form-data; name="file"; filename="sub/g"\r\n\r\ntwo\r\n--b--\r\n'
        equal(box.ask("POST", "/files?username=app", form, Content_Type="multipart/form-data; boundary=b").expect(200).json[0]["path"], "/tmp/apphome/sub/g", "a form's file")
        equal(box.ask("GET", "/files?path=~/sub/g&username=app").expect(200).data, b"two", "what is in it")
        equal(box.rpc(FILES + "Stat", {"path": "~"}, **app).expect(200).json["entry"]["path"], "/tmp/apphome", "the home itself")
        equal([e["path"] for e in box.rpc(FILES + "ListDir", {"path": "sub"}, **app).expect(200).json["entries"]], ["/tmp/apphome/sub/g"], "a list")
        equal(box.rpc(FILES + "Move", {"source": "f", "destination": "/tmp/apphome/moved"}, **app).expect(200).json["entry"]["path"], "/tmp/apphome/moved", "a move")
        made = box.ask("POST", "/files/compose", {"source_paths": ["moved", "/tmp/apphome/sub/g"], "destination": "/tmp/apphome/whole", "username": "app"}).expect(200)
        equal(box.ask("GET", "/files?path=whole&username=app").expect(200).data, b"onetwo", f"composed: {made}")
        with box.stream(FILES + "WatchDir", {"path": "sub"}, **app) as response:
            equal(next(frames(response))[1], {"start": {}}, "a watch")
        box.rpc(FILES + "CreateWatcher", {"path": "sub"}, **app).expect(200)
        # Others are where they were.
        equal(box.run("pwd")[0], b"/home/user\n", "the usual user")
        equal(box.ask("POST", "/files?path=f&username=root", b"x", **raw).expect(200).json[0]["path"], "/root/f", "root")


@test
def entries_of_links(c):
    with Served(c) as s:
        box = s.create(key_of(s))
        box.run("sh", "-c", "mkdir d1; echo x > real; ln -s ../real d1/up; ln -s d1/up chain; ln -s nowhere dangling; ln -s round round; ln -s ./d1/../d1 to-dir; ln -s /dev/null odd")
        file, directory, neither = "FILE_TYPE_FILE", "FILE_TYPE_DIRECTORY", "FILE_TYPE_UNSPECIFIED"
        for path, target, kind in (("d1/up", "/home/user/real", file), ("chain", "/home/user/real", file), ("to-dir", "/home/user/d1", directory),
                                   ("to-dir/up", "/home/user/real", file), ("dangling", None, neither), ("round", None, neither), ("odd", "/dev/null", neither)):
            entry = box.rpc(FILES + "Stat", {"path": path}).expect(200).json["entry"]
            equal([entry["type"], entry["path"], entry.get("symlinkTarget"), entry["permissions"][0]], [kind, f"/home/user/{path}", target, "L"], path)
        listed = box.rpc(FILES + "ListDir", {"path": "."}).expect(200).json["entries"]
        equal({e["name"]: e["type"] for e in listed if e["name"] in ("real", "d1", "chain", "to-dir", "dangling", "round")},
              {"real": file, "d1": directory, "chain": file, "to-dir": directory, "dangling": neither, "round": neither}, "the types of a list")
        moved = box.rpc(FILES + "Move", {"source": "chain", "destination": "moved"}).expect(200).json["entry"]
        equal([moved["type"], moved["symlinkTarget"]], [file, "/home/user/real"], "a link that was moved")
        box.run("mv", "moved", "chain")
        # What is listed through a link has the path that was asked for.
        listed = box.rpc(FILES + "ListDir", {"path": "to-dir"}).expect(200).json["entries"]
        equal([(e["path"], e["symlinkTarget"]) for e in listed], [("/home/user/to-dir/up", "/home/user/real")], "through a link")
        equal(box.rpc(FILES + "ListDir", {"path": "chain"}).expect(400).json["code"], "invalid_argument", "a link to a file")
        equal(box.rpc(FILES + "ListDir", {"path": "dangling"}).expect(404).json["code"], "not_found", "a link to nothing")


@test
def lists_are_sorted_and_depth_first(c):
    with Served(c) as s:
        box = s.create(key_of(s))
        box.run("sh", "-c", "mkdir -p t/b/y t/b/x/deep t/a-b t/.z t/c; touch t/b.txt t/a t/b/y/2 t/b/y/10 t/b/w t/é t/c/last; ln -s b t/link; mkdir t/c/shut; touch t/c/shut/in; chmod 0 t/c/shut")
        whole = [".z", "a", "a-b", "b", "b/w", "b/x", "b/x/deep", "b/y", "b/y/10", "b/y/2", "b.txt", "c", "c/last", "c/shut", "link", "é"]
        for depth in (0, 1, 2, 3, 9):
            listed = box.rpc(FILES + "ListDir", {"path": "t", "depth": depth}).expect(200).json["entries"]
            equal([e["path"] for e in listed], [f"/home/user/t/{p}" for p in whole if p.count("/") < max(depth, 1)], f"depth {depth}")
        # A root, and more than one reading of a directory returns.
        equal([e["path"] for e in box.rpc(FILES + "ListDir", {"path": "/", "depth": 1}).expect(200).json["entries"] if e["path"] in ("/dev", "/home", "/proc", "/tmp")],
              ["/dev", "/home", "/proc", "/tmp"], "the root")
        box.run("sh", "-c", "mkdir -p many/sub; cd many; for i in $(seq 3000); do : > n$i; : > sub/m$i; done")
        listed = [e["path"].removeprefix("/home/user/many/") for e in box.rpc(FILES + "ListDir", {"path": "many", "depth": 2}).expect(200).json["entries"]]
        names = sorted(f"{i}" for i in range(1, 3001))
        equal(listed, [f"n{i}" for i in names] + ["sub"] + [f"sub/m{i}" for i in names], "many")


@test
def moves_that_fail(c):
    with Served(c) as s:
        box = s.create(key_of(s))
        box.run("sh", "-c", "mkdir -p a/b; echo x > file")
        for source, destination, status in (("none", "new/er/x", 404), ("a", "a/b/in/itself", 400), ("file", "file/x", 400)):
            box.rpc(FILES + "Move", {"source": source, "destination": destination}).expect(status)
        equal(box.run("sh", "-c", "find a new file 2>/dev/null | sort")[0], b"a\na/b\nfile\n", "what is there")
        equal(box.rpc(FILES + "Move", {"source": "file", "destination": "new/er/x"}).expect(200).json["entry"]["path"], "/home/user/new/er/x", "one that works")


@test
def metadata_is_seen_inside(c):
    with Served(c) as s:
        box = s.create(key_of(s))
        raw = {"Content_Type": "application/octet-stream"}
        show = "import os; print(sorted((n, os.getxattr('/home/user/f', n)) for n in os.listxattr('/home/user/f') if n.startswith('user.')))"
        box.ask("POST", "/files?path=f", b"x", **raw, X_Metadata_Author="me", X_Metadata_Kind="a b").expect(200)
        equal(box.run("python3", "-c", show)[0].strip(), b"[('user.e2b.author', b'me'), ('user.e2b.kind', b'a b')]", "its attributes")
        box.ask("POST", "/files?path=f", b"x", **raw, X_Metadata_Kind="new").expect(200)
        equal(box.run("python3", "-c", show)[0].strip(), b"[('user.e2b.kind', b'new')]", "the next write's replace them")


@test
def times(c):
    with Served(c) as s:
        mine = {"X_API_KEY": key_of(s)}

        def left(box):
            """Seconds from its start to its end."""
            shown = s.ask("GET", f"/sandboxes/{box}", **mine).expect(200).json
            start, end = (datetime.datetime.fromisoformat(shown[k].replace("Z", "+00:00")) for k in ("startedAt", "endAt"))
            return (end - start).total_seconds()

        made = {version: s.ask("POST", f"{version}/sandboxes", {"templateID": "base"}, **mine).expect(201).json["sandboxID"] for version in ("", "/v2")}
        for version, wanted in (("", 15), ("/v2", 300)):
            check(abs(left(made[version]) - wanted) < 5, f"{version}: {left(made[version])} s")
        listed = s.ask("GET", "/sandboxes", **mine).expect(200).json
        equal({b["sandboxID"]: b["state"] for b in listed}, {box: "running" for box in made.values()}, "the older list")
        box = made["/v2"]
        s.ask("POST", f"/sandboxes/{box}/refreshes", {"duration": 1000}, **mine).expect(204)
        check(1000 <= left(box) < 1100, f"extended: {left(box)} s")
        before = left(box)
        s.ask("POST", f"/sandboxes/{box}/refreshes", {"duration": 10}, **mine).expect(204)
        equal(left(box), before, "it is not shortened")
        s.ask("POST", f"/sandboxes/{box}/timeout", {"timeout": 60}, **mine).expect(204)
        check(left(box) < 200, f"set to less: {left(box)} s")
        # More than a create may ask for is refused in the same way.
        for body, path in (({"templateID": "base", "timeout": 31 * 86400}, "/v2/sandboxes"), ({"timeout": 31 * 86400}, f"/sandboxes/{box}/timeout")):
            answer = s.ask("POST", path, body, **mine)
            plainly(answer, 400)
            check("is more than the" in answer.json["message"], f"{answer}")
        check(left(box) < 200, f"as it was: {left(box)} s")


@test
def a_timeout_of_zero_is_now(c):
    with Served(c) as s:
        mine = {"X_API_KEY": key_of(s)}
        killed, paused = (s.ask("POST", "/v2/sandboxes", {"templateID": "base", "autoPause": auto}, **mine).expect(201).json["sandboxID"] for auto in (False, True))
        for box in (killed, paused):
            s.ask("POST", f"/sandboxes/{box}/timeout", {"timeout": 0}, **mine).expect(204)
        wait_for(lambda: s.ask("GET", f"/sandboxes/{killed}", **mine).status == 404, "one is killed")
        wait_for(lambda: s.ask("GET", f"/sandboxes/{paused}", **mine).expect(200).json["state"] == "paused", "the other is paused")
        s.ask("POST", f"/v2/sandboxes/{paused}/connect", {"timeout": 60}, **mine).expect(201)


STUBBORN = """import time
print('up', flush=True)
while True:
    try:
        time.sleep(1000)
    except KeyboardInterrupt:
        pass
"""

# Ten hundredths of a processor, used by processes that end unseen; the kernel itself uses next to nothing.
STORM = """import os, signal, threading, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
WORK = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"
def storm():
    while True:
        os.posix_spawn("/bin/sh", ["sh", "-c", WORK], {})
        time.sleep(1)
threading.Thread(target=storm, daemon=True).start()
print('up', flush=True)"""


@test(seconds=180)
def code_kernels_are_use_while_they_run_code(c):
    """Nobody is attached: the clients have left, and code that ignores interrupts continues. Processor time that code uses after
    its cell has ended is use, too, where there is a control group that counts it."""
    with Served(c) as s:
        base = (BUILD / "profiles/code-interpreter-v1.yaml").read_text()
        idle = re.sub("idle_reap: .*", "idle_reap: 4s", base).replace("id: profile.code-interpreter-v1", "id: profile.idle")
        check("idle_reap: 4s" in idle and "profile.idle" in idle, idle)
        c.write("daemon/profiles/idle.yaml", idle.encode())
        s.d.stop()
        s.start()
        key = key_of(s)
        busy, waiting, storm = (s.create(key, templateID="idle") for _ in range(3))
        there = lambda: {b["sandboxID"] for b in s.ask("GET", "/sandboxes", X_API_KEY=key).expect(200).json}
        for box, code in ((busy, STUBBORN), (waiting, "print('up', flush=True)"), (storm, STORM)):
            with s.open("POST", "/execute", json.dumps({"code": code}).encode(), **box.headers(**{"E2b-Sandbox-Port": "49999"})) as answer:
                while b"up" not in answer.readline():
                    pass
        wait_for(lambda: waiting.id not in there(), "the one whose kernel waits is reaped", seconds=60)
        for life in ("second", "third"):
            other = s.create(key, templateID="idle").id
            wait_for(lambda: other not in there(), f"a {life} one is reaped", seconds=60)
        equal(there() | {storm.id}, {busy.id, storm.id}, "those that are used")
        check(storm.id in there() or not c.root, "processes that end unseen are no use")
        why = lambda: s.ask("GET", f"/sandboxes/{waiting.id}", X_API_KEY=key).expect(404).json["message"]
        wait_for(lambda: "was destroyed" in why(), "it is removed")
        check("it was idle for 4s" in why(), why())


@test
def links(c):
    with Served(c) as s:
        one, two = s.create(key_of(s)), s.create(key_of(s))

        raw = {"Content_Type": "application/octet-stream"}
        later, before = int(time.time()) + 600, int(time.time()) - 600
        s.ask("POST", link(one, "f", "write", later), b"one", **raw).expect(200)
        s.ask("POST", link(two, "f", "write"), b"two", **raw).expect(200)
        equal([s.ask("GET", link(b, "f", "read")).expect(200).data for b in (one, two)], [b"one", b"two"], "each its own")
        equal(s.ask("GET", link(one, "f", "read", user="user")).expect(200).data, b"one", "with a user")
        for bad in (link(one, "f", "write"), link(one, "f", "read", before), link(one, "f", "read", "x"), link(one, "f", "read", later).replace(str(later), str(later + 1)),
                    link(one, "f", "read") + "&username=root", link(one, "g", "read").replace("path=g", "path=f"), "/files?path=f", "/files?path=f&signature=v1_"):
            plainly(s.ask("GET", bad), 401)
        equal(s.ask("GET", link(one, "f", "read", before)).json["message"], "signature is already expired", "why")
        for bad in (link(one, "f", "read", before), link(one, "none", "read"), "/files?path=f"):
            equal(sorted(s.ask("GET", bad).json), ["code", "message"], f"all of an error: {bad}")
        # With the header, it must be that sandbox's.
        plainly(s.ask("GET", link(one, "f", "read"), **{"E2b-Sandbox-Id": two.id}), 401)


@test
def links_that_name_no_sandbox_are_compared_within_a_limit(c):
    """Whoever sends them need not be known: what is malformed or expired is not compared, and a flood of others is refused."""
    with Served(c, config="limits: {link_checks: 40}") as s:
        one, *_ = [s.create(key_of(s)) for _ in range(3)]
        good = link(one, "f", "read")
        s.ask("POST", link(one, "f", "write"), b"one", Content_Type="application/octet-stream").expect(200)
        for bad in ("v1_", "v1_" + "A" * 42, "v1_" + "A" * 44, "v2_" + "A" * 43, "v1_" + "A" * 42 + "-"):
            equal({s.ask("GET", f"/files?path=f&signature={bad}").status for _ in range(30)}, {401}, f"answers to {bad}")
        equal({s.ask("GET", f"/files?path=f&signature=v1_{'A' * 43}&signature_expiration=1").status for _ in range(30)}, {401}, "answers to what is expired")
        wait_for(lambda: s.ask("GET", good).status == 200, "the link")
        equal({s.ask("GET", f"/files?path=f&signature=v1_{'A' * 43}").status for _ in range(100)}, {401, 429}, "answers to forged ones")
        wait_for(lambda: s.ask("GET", good).status == 200, "the link, when they have ended")
    with Served(c, config="limits: {link_checks: 4}") as s:
        boxes = [s.create(key_of(s)) for _ in range(3)]
        got = s.ask("GET", link(boxes[0], "f", "read"))
        check(got.status == 503 and "E2b-Sandbox-Id" in got.json["message"], f"a link that names none of three: {got}")
        equal(s.ask("GET", link(boxes[0], "f", "read"), **{"E2b-Sandbox-Id": boxes[0].id}).status, 404, "one that names its sandbox")


@test
def kept_watchers(c):
    with Served(c) as s:
        key = key_of(s)
        one, two = s.create(key), s.create(key)
        service = "filesystem.Filesystem/"
        watcher = one.rpc(service + "CreateWatcher", {"path": "/tmp", "recursive": True}).expect(200).json["watcherId"]
        one.run("/bin/sh", "-c", "mkdir -p /tmp/d/e; echo x > /tmp/d/e/f")
        seen = []

        def came():
            seen.extend((v["type"], v["name"]) for v in one.rpc(service + "GetWatcherEvents", {"watcherId": watcher}).expect(200).json["events"])
            return ("EVENT_TYPE_CREATE", "d/e/f") in seen
        wait_for(came, "events below a directory made later")
        for call, box in (("GetWatcherEvents", two), ("RemoveWatcher", two)):
            box.rpc(service + call, {"watcherId": watcher}).expect(404)
        one.rpc(service + "RemoveWatcher", {"watcherId": watcher}).expect(200)
        one.rpc(service + "GetWatcherEvents", {"watcherId": watcher}).expect(404)
        # With what is there, if that is asked for.
        watcher = one.rpc(service + "CreateWatcher", {"path": "/tmp/d", "recursive": True, "includeEntry": True}).expect(200).json["watcherId"]
        one.ask("POST", "/files?path=/tmp/d/e/g", b"12345", Content_Type="application/octet-stream", X_Metadata_Kind="k").expect(200)
        one.run("/bin/sh", "-c", "cd /tmp/d; ln -s e/g link; rm e/f")
        seen = []

        def all_came():
            seen.extend(one.rpc(service + "GetWatcherEvents", {"watcherId": watcher}).expect(200).json["events"])
            return any(v["name"] == "e/f" for v in seen)
        wait_for(all_came, "events with entries")
        told = [(v["type"].removeprefix("EVENT_TYPE_"), v["name"], v.get("entry", {}).get("path"), v.get("entry", {}).get("size"), v.get("entry", {}).get("symlinkTarget")) for v in seen]
        equal(told, [("CREATE", "e/g", "/tmp/d/e/g", "5", None), ("CHMOD", "e/g", "/tmp/d/e/g", "5", None), ("WRITE", "e/g", "/tmp/d/e/g", "5", None), ("CREATE", "link", "/tmp/d/link", "3", "/tmp/d/e/g"), ("REMOVE", "e/f", None, None, None)], "entries")
        equal([seen[0]["entry"]["metadata"], seen[0]["entry"]["name"]], [{"kind": "k"}, "g"], "all of it")
        one.rpc(service + "RemoveWatcher", {"watcherId": watcher}).expect(200)
        equal(one.rpc(service + "CreateWatcher", {"path": "/none"}).expect(404).json["code"], "not_found", "no such directory")
        for _ in range(16):  # the kernel has few for a user, whom other tests share
            one.rpc(service + "CreateWatcher", {"path": "/tmp"}).expect(200)
        equal(one.rpc(service + "CreateWatcher", {"path": "/tmp"}).expect(429).json["code"], "resource_exhausted", "one too many")


@test
def watches(c):
    with Served(c) as s:
        box = s.create(key_of(s))
        box.run("mkdir", "w")
        with box.stream(FILES + "WatchDir", {"path": "w", "includeEntry": True}, Keepalive_Ping_Interval="1") as response:
            heard = frames(response)
            equal(next(heard)[1], {"start": {}}, "it stands")
            equal(next(heard)[1], {"keepalive": {}}, "a sign of life")
            box.ask("POST", "/files?path=w/f", b"123", Content_Type="application/octet-stream").expect(200)
            told = [m["filesystem"] for m in itertools.islice((m for _, m in heard if "filesystem" in m), 3)]
            equal([(v["type"], v["name"], v["entry"]["path"], v["entry"]["size"]) for v in told],
                  [(f"EVENT_TYPE_{kind}", "f", "/home/user/w/f", "3") for kind in ("CREATE", "CHMOD", "WRITE")], "a new file")
            equal(next(m for _, m in heard), {"keepalive": {}}, "another sign, and nothing else")
            box.ask("POST", "/files?path=w/f", b"1234", Content_Type="application/octet-stream").expect(200)
            equal(next(m["filesystem"]["type"] for _, m in heard if "filesystem" in m), "EVENT_TYPE_WRITE", "an overwrite")
            equal(next(m for _, m in heard), {"keepalive": {}}, "a third sign, and nothing else")


def link(box, path, operation, expires=None, user=""):
    """As uploadUrl() and downloadUrl() make them."""
    text = f"{path}:{operation}:{user}:{box.token}" + (f":{expires}" if expires else "")
    signature = "v1_" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
    return f"/files?path={path}&signature={signature.replace('+', '%2B').replace('/', '%2F')}" + (f"&signature_expiration={expires}" if expires else "") + (f"&username={user}" if user else "")


@test
def paused(c):
    with Served(c) as s:
        key = key_of(s)
        box = s.create(key)
        box.ask("POST", "/files?path=f", b"kept", Content_Type="application/octet-stream").expect(200)

        def pause():
            s.ask("POST", f"/sandboxes/{box.id}/pause", {}, X_API_KEY=key).expect(204)

        pause()
        plainly(s.ask("POST", f"/sandboxes/{box.id}/pause", {}, X_API_KEY=key), 409)
        # Nothing of it answers, whatever path or port.
        for method, path, headers in (("GET", "/health", {}), ("GET", "/files?path=f", {}), ("POST", "/process.Process/List", {}), ("POST", f"/{START}", {}),
                                      ("POST", "/filesystem.Filesystem/Stat", {}), ("GET", "/nowhere", {}), ("GET", "/", {"E2b-Sandbox-Port": "8080"}), ("GET", "/contexts", {"E2b-Sandbox-Port": "49999"})):
            gone = box.ask(method, path, {} if method == "POST" else None, **headers)
            equal([gone.status, gone.json["message"]], [502, "The sandbox was not found"], f"{method} {path}")
        s.ask("GET", link(box, "f", "read")).expect(502)
        plainly(s.ask("GET", link(box, "f", "read") + "x"), 401)
        for path in ("timeout", "refreshes"):
            plainly(s.ask("POST", f"/sandboxes/{box.id}/{path}", {"timeout": 5, "duration": 5}, X_API_KEY=key), 404)
        plainly(s.ask("PUT", f"/sandboxes/{box.id}/network", {}, X_API_KEY=key), 404)
        s.d.stop()
        s.start()
        equal(s.ask("GET", f"/sandboxes/{box.id}", X_API_KEY=key).expect(200).json["state"], "paused", "after a restart")
        s.ask("POST", f"/v2/sandboxes/{box.id}/connect", {"timeout": 60}, X_API_KEY=key).expect(201)
        s.ask("POST", f"/v2/sandboxes/{box.id}/connect", {"timeout": 60}, X_API_KEY=key).expect(200)
        equal(box.ask("GET", "/files?path=f").expect(200).data, b"kept", "what it wrote")
        pause()
        s.ask("POST", f"/sandboxes/{box.id}/resume", {"timeout": 60, "autoPause": False}, X_API_KEY=key).expect(201)
        pause()
        s.ask("DELETE", f"/sandboxes/{box.id}", X_API_KEY=key).expect(204)


@test
def forks(c):
    """Variables are a part of a sandbox; of each fork it is told whether it was made."""
    with Served(c, config="limits: {sandboxes_max: 3, sandboxes_per_owner: 3}\npool: {total_max: 0}") as s:
        key = key_of(s)
        box = s.create(key, envVars={"COLOUR": "blue"})
        made = s.ask("POST", f"/sandboxes/{box.id}/fork", {"count": 4}, X_API_KEY=key).expect(201).json
        equal([sorted(x) for x in made], [["sandbox"]] * 2 + [["error"]] * 2, "those that were made, and the others")
        for one in made[:2]:
            answer = s.d.api.run(one["sandbox"]["sandboxID"], ["sh", "-c", "echo $COLOUR"]).expect(200).json
            equal(answer["stdout"], "blue\n", "its variables")
        equal(len(s.d.list()), 3, "what there is")


@test
def two_hundred_sandboxes_at_once_with_one_key(c):
    """With the limits that nobody configured: a key for an SDK has them, whoever made it."""
    with Served(c) as s:
        key = key_of(s)

        def create(_):
            return s.ask("POST", "/sandboxes", {"templateID": "base", "timeout": 600}, X_API_KEY=key).expect(201).json["sandboxID"]
        with concurrent.futures.ThreadPoolExecutor(200) as pool:
            equal(len(set(pool.map(create, range(200)))), 200, "sandboxes")
        equal(len(s.d.list()), 200, "sandboxes that are alive")


@test
def what_belongs_to_others(c):
    with Served(c) as s:
        key, others, reader = key_of(s), key_of(s, "--label", "team=other"), key_of(s, "--verb", "read")
        box = s.create(key)
        snapshot = s.ask("POST", f"/sandboxes/{box.id}/snapshots", {"name": "mine"}, X_API_KEY=key).expect(201).json["snapshotID"]
        rows = [("POST", f"/sandboxes/{box.id}/{what}", {}) for what in ("pause", "connect", "resume", "snapshots", "fork", "timeout", "refreshes")]
        rows += [("POST", f"/v2/sandboxes/{box.id}/connect", {}), ("DELETE", f"/templates/{snapshot}", None), ("GET", f"/sandboxes/{box.id}/metrics", None),
                 ("GET", f"/sandboxes/{box.id}/logs", None), ("GET", f"/v2/sandboxes/{box.id}/logs", None)]
        for method, path, body in rows:
            for headers in ({}, {"X_API_KEY": "e2b_" + "0" * 40}):
                plainly(s.ask(method, path, body, **headers), 401)
            plainly(s.ask(method, path, body, X_API_KEY=others), 404)
            if method != "GET":
                plainly(s.ask(method, path, body, X_API_KEY=reader), 403)
        equal(s.ask("GET", "/snapshots", X_API_KEY=others).expect(200).json, [], "snapshots of others")
        for template in (snapshot, "mine", "../base", "snap_", "profile.", "x" * 128):
            plainly(s.ask("POST", "/v2/sandboxes", {"templateID": template}, X_API_KEY=others), 404)
        for body in ({"count": 0}, {"count": 101}, {"count": "2"}, {"timeout": -1}):
            plainly(s.ask("POST", f"/sandboxes/{box.id}/fork", body, X_API_KEY=key), 400)
        plainly(s.ask("POST", f"/sandboxes/{box.id}/snapshots", {"name": "x" * 64}, X_API_KEY=key), 400)
        plainly(s.ask("GET", "/snapshots?limit=1000", X_API_KEY=key), 400)
        equal(s.ask("GET", "/snapshots?nextToken=nobody", X_API_KEY=key).expect(200).json, [], "a place that is not there")
        s.ask("DELETE", f"/templates/{snapshot}", X_API_KEY=key).expect(204)


@test
def sessions_of_code(c):
    with Served(c) as s:
        key = key_of(s)
        bare, box = s.create(key, envVars={"PATH": "/nowhere"}), s.create(key)
        port = {"E2b-Sandbox-Port": "49999"}
        for language, program in (("python", "python3"), ("Python", "python3"), ("javascript", "node"), ("js", "node"), ("TS", "node"), ("bash", "bash")):
            none = bare.ask("POST", "/execute", {"code": "1", "language": language}, **port)
            plainly(none, 501)
            check(program in none.json["message"], f"what is missing: {none}")
        for body, status in (({"code": "1", "language": "r"}, 501), ({}, 400), ({"code": 1}, 400), ({"code": "1", "context_id": "nobody"}, 404), ({"code": "1", "context_id": "x" * 99}, 400),
                             ({"code": "1", "language": "bash", "env_vars": {"A;touch /tmp/x": "1"}}, 400)):
            plainly(box.ask("POST", "/execute", body, **port), status)
        # What code writes cannot be taken for what the session says.
        forged = r"printf 'run_00000000000000000000 end\n\036\n\036-run_x\n'; printf '\036-run_x\n\036' >&2; echo still"
        said = [json.loads(line) for line in box.ask("POST", "/execute", {"code": forged, "language": "bash"}, **port).expect(200).data.splitlines()]
        text = "".join(m["text"] for m in said if m["type"] == "stdout")
        check(text.endswith("still\n"), f"the end of it: {said}")
        stamps = [m["timestamp"] for m in said if m["type"] in ("stdout", "stderr")]
        check(stamps and all(re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]{8}\.\d+Z", t) for t in stamps), f"when it was written: {stamps}")
        # What is no message is not passed on: a client reads JSON.
        broken = ("import gc\nkernel = next(o for o in gc.get_objects() if isinstance(o, dict) and 'answers' in o and 'say' in o)\n"
                  "for text in ('not JSON', '{', '[]', '{\"type\":NaN}', '{\"type\":\"result\"}{}'): kernel['say'](text)\nprint('fine')")
        said = [json.loads(line) for line in box.ask("POST", "/execute", {"code": broken}, **port).expect(200).data.splitlines()]
        equal([m.get("text") for m in said], [None, "fine\n"], "the rest")


@test
def builds(c):
    with Served(c) as s:
        key, others, reader, maker = key_of(s), key_of(s, "--label", "team=other"), key_of(s, "--verb", "read"), key_of(s, "--verb", "create")
        mine = {"X_API_KEY": key}
        for body in ({}, {"name": ""}, {"name": "x" * 64}, {"name": "../up"}, {"name": "a b"}, {"name": 7}):
            plainly(s.ask("POST", "/v3/templates", body, **mine), 400)
        plainly(s.ask("POST", "/v3/templates", {"name": "base"}, **mine), 409)
        plainly(s.ask("POST", "/v3/templates", {"name": "t", "tags": ["v1"]}, **mine), 501)
        for who, status in ((reader, 403), (maker, 403), ("e2b_" + "0" * 40, 401)):
            plainly(s.ask("POST", "/v3/templates", {"name": "t"}, X_API_KEY=who), status)
        made = s.ask("POST", "/v3/templates", {"name": "t"}, **mine).expect(202).json
        place, build = f"/templates/{made['templateID']}", made["buildID"]
        begin, status = f"/v2{place}/builds/{build}", f"{place}/builds/{build}/status"
        # Nobody else sees it.
        for method, path, body in (("GET", f"{place}/files/abc", None), ("POST", begin, {}), ("GET", status, None)):
            plainly(s.ask(method, path, body), 401)
            plainly(s.ask(method, path, body, X_API_KEY=others), 404)
            plainly(s.ask(method, path.replace(build, "bld_x").replace("tpl_", "tpl_x"), body, **mine), 404)
        plainly(s.ask("GET", f"{place}/files/{'x' * 128}", **mine), 400)
        # A link is good for the one file.
        link = s.ask("GET", f"{place}/files/abc", **mine).expect(201).json
        equal(link["present"], False, "not yet")
        path = link["url"].partition(str(s.port))[2]
        for bad in (path[:-1], path.replace("abc", "abd"), path.partition("?")[0], path.replace(build, "bld_x"), path.replace("token=", "token=0")):
            plainly(s.ask("PUT", bad, b"x"), 401)
        s.ask("PUT", path, b"no archive").expect(200)
        equal(s.ask("GET", f"{place}/files/abc", **mine).expect(201).json["present"], True, "there")
        for body in ({"steps": [{}]}, {"steps": [{"type": 1}]}, {"steps": {}}, {"steps": [{"type": "RUN"}] * 257}, {"fromImage": 1}, {"startCmd": "x" * 5000}):
            plainly(s.ask("POST", begin, body, **mine), 400)

        def over():
            now = s.ask("GET", status, **mine).expect(200).json
            return now if now["status"] in ("ready", "error") else None

        def fails(step, **request):
            nonlocal begin, status
            made = s.ask("POST", "/v3/templates", {"name": "t"}, **mine).expect(202).json
            place = f"/templates/{made['templateID']}"
            begin, status = f"/v2{place}/builds/{made['buildID']}", f"{place}/builds/{made['buildID']}/status"
            s.ask("POST", begin, request, **mine).expect(202)
            now = wait_for(over, "it is over")
            equal([now["status"], now["reason"]["step"]], ["error", step], f"{now}")
            plainly(s.ask("POST", begin, request, **mine), 409)

        s.ask("POST", begin, {"steps": [{"type": "COPY", "args": ["a", "b"], "filesHash": "abc"}]}, **mine).expect(202)
        equal(wait_for(over, "it is over")["reason"]["step"], "1", "what is no archive")
        plainly(s.ask("PUT", path, b"late"), 409)
        fails("base", fromTemplate="none")
        # A reason that is cut within a character is this build's alone; those after it go on, and are kept.
        fails("base", fromTemplate="a" + "é" * 60)
        check("not found" in s.ask("GET", status, **mine).expect(200).json["reason"]["message"], "why it failed")
        fails("base", fromImage="none")
        fails("1", steps=[{"type": "COPY", "args": ["a", "b"], "filesHash": "never"}])
        fails("1", steps=[{"type": "DANCE", "args": ["a"]}])
        fails("2", steps=[{"type": "ENV", "args": ["A", "b"]}, {"type": "ENV", "args": ["A=B", "c"]}])
        fails("1", steps=[{"type": "RUN", "args": ["true", "nobody-here"]}])
        plainly(s.ask("DELETE", "/templates/t", **mine), 404)
        # One that is built stays, also across a restart.
        made = s.ask("POST", "/v3/templates", {"name": "kept"}, **mine).expect(202).json
        begin, status = (f"{v}/templates/{made['templateID']}/builds/{made['buildID']}" for v in ("/v2", ""))
        status += "/status"
        s.ask("POST", begin, {"steps": [{"type": "ENV", "args": ["A", "b c"]}, {"type": "RUN", "args": ["echo $A > made"]}]}, **mine).expect(202)
        equal(wait_for(over, "it is over")["status"], "ready", "a good one")
        s.d.stop()
        s.start()
        equal(s.ask("GET", "/templates/aliases/kept", **mine).expect(200).json["templateID"], made["templateID"], "its name")
        check(made["templateID"] in {t["templateID"] for t in s.ask("GET", "/templates", **mine).expect(200).json}, "it is listed")
        plainly(s.ask("GET", "/templates/aliases/kept", X_API_KEY=others), 404)
        plainly(s.ask("POST", "/v2/sandboxes", {"templateID": "kept"}, X_API_KEY=others), 404)
        plainly(s.ask("DELETE", "/templates/kept", X_API_KEY=others), 404)
        equal(s.ask("GET", "/snapshots", **mine).expect(200).json, [], "it is no snapshot to its clients")
        box = s.create(key, templateID="kept")
        equal(box.run("/bin/sh", "-c", "cat made; echo $A")[0], b"b c\nb c\n", "what is in it")
        s.ask("DELETE", f"/sandboxes/{box.id}", **mine).expect(204)
        s.ask("DELETE", "/templates/kept", **mine).expect(204)
        wait_for(lambda: not s.d.api.get("/v1/sandboxes").expect(200).json["sandboxes"], "no sandbox is left")
        equal(s.d.api.get("/v1/snapshots").expect(200).json["snapshots"], [], "no snapshot is left")


@test
def a_body_that_fills_the_call(c):
    """There is a length that leaves no room for anything of ours: it is refused, as longer ones are."""
    with Served(c) as s:
        key = key_of(s)
        body = b'{"name": "t", "other": [' + b"0," * 390000 + b"0]}"

        def asked(blanks):
            return s.ask("POST", "/v3/templates", body + b" " * blanks, X_API_KEY=key, Content_Type="application/json")

        fits, over = 0, 1 << 20
        asked(fits).expect(202)
        while over - fits > 1:
            middle = (fits + over) // 2
            answer = asked(middle)
            if answer.status == 202:
                fits = middle
            else:
                plainly(answer, 413)
                over = middle
        check(fits, "one that fits by little")


@test(seconds=90)
def builds_that_a_death_interrupts(c):
    with Served(c) as s:
        mine = {"X_API_KEY": key_of(s)}

        def begin(name, **request):
            made = s.ask("POST", "/v3/templates", {"name": name}, **mine).expect(202).json
            place = f"/templates/{made['templateID']}/builds/{made['buildID']}"
            if request:
                with contextlib.suppress(http.client.RemoteDisconnected, ConnectionError):  # it may die that soon
                    s.ask("POST", f"/v2{place}", request, **mine).expect(202)
            return lambda: s.ask("GET", f"{place}/status", **mine).expect(200).json

        def failed(status, what):
            now = status()
            equal(now["status"], "error", f"{what}: {now}")
            check("the daemon stopped" in now["reason"]["message"], f"{what}: {now}")

        def left(templates, what):
            equal(sorted(t["names"][0] for t in s.ask("GET", "/templates", **mine).expect(200).json if not t["public"]), templates, f"{what}: templates")
            wait_for(lambda: not s.d.list(), f"{what}: no sandbox is left")
            wait_for(lambda: len(s.d.api.get("/v1/snapshots").expect(200).json["snapshots"]) == len(templates), f"{what}: no snapshot is left")

        waiting = begin("waits")
        running = begin("runs", steps=[{"type": "RUN", "args": ["echo begun; sleep 777"]}])
        wait_for(lambda: "begun" in running()["logs"], "a step runs")
        s.d.kill()
        s.start()
        failed(waiting, "one that waited")
        failed(running, "one that ran")
        left([], "in a step")
        s.d.stop()
        s.start()
        failed(running, "after another restart")
        # At its end: before and after the template is on record, new and again.
        for point, good in (("build.snapshot", False), ("build.recorded", True), ("build.snapshot", True), ("build.recorded", True)):
            had = [t["buildID"] for t in s.ask("GET", "/templates", **mine).expect(200).json if not t["public"]]
            s.d.stop()
            s.start(SANDBOXER_DIE_AT=f"{point}:1")
            status = begin("t", steps=[{"type": "RUN", "args": ["echo made > made"]}])
            s.d.wait()
            s.start()
            left(["t"] if good else [], point)
            if point == "build.snapshot":
                failed(status, point)
                equal([t["buildID"] for t in s.ask("GET", "/templates", **mine).expect(200).json if not t["public"]], had, "what there was before")
            else:
                equal(status()["status"], "ready", point)
        box = s.create(mine["X_API_KEY"], templateID="t")
        equal(box.run("cat", "made")[0], b"made\n", "what was built")


@test
def a_build_that_comes_at_the_end(c):
    """What a daemon that ends is asked for last does not replace what it knew of builds."""
    with Served(c) as s:
        mine = {"X_API_KEY": key_of(s)}
        made = s.ask("POST", "/v3/templates", {"name": "t"}, **mine).expect(202).json
        late = http.client.HTTPConnection("127.0.0.1", s.port, timeout=20)
        with contextlib.closing(late):
            late.putrequest("POST", "/v3/templates")
            for name, value in (("X-API-Key", mine["X_API_KEY"]), ("Content-Length", "13"), ("Expect", "100-continue")):
                late.putheader(name, value)
            late.endheaders()
            equal(late.sock.recv(4096)[:12], b"HTTP/1.1 100", "it takes the body")
            s.d.process.send_signal(signal.SIGTERM)
            wait_for(lambda: not listens(s.port), "no others are let in")
            late.send(b'{"name": "u"}')
            answer = late.getresponse()
            equal([answer.status, json.loads(answer.read())["code"]], [503, 503], "the answer")
        equal(s.d.wait(), 0, "its end")
        s.start()
        now = s.ask("GET", f"/templates/{made['templateID']}/builds/{made['buildID']}/status", **mine).expect(200).json
        check("the daemon stopped" in now["reason"]["message"], f"what is known of the first: {now}")


@test
def limits_and_restarts(c):
    with Served(c, config="limits: {sandboxes_per_owner: 1}") as s:
        key = key_of(s)
        box = s.create(key, envVars={"A": "b"}, metadata={"userId": "x"})
        full = s.ask("POST", "/sandboxes", {"templateID": "base"}, X_API_KEY=key)
        plainly(full, 429)
        equal(full.headers["Retry-After"], "1", "when to come again")
        for body in ({}, {"templateID": ""}, {"templateID": "base", "timeout": 0}, {"templateID": "base", "metadata": {"a": 1}}, {"templateID": "base", "timeout": 10**12}):
            plainly(s.ask("POST", "/v2/sandboxes", body, X_API_KEY=key), 400)
        for body in ({"autoResume": {"enabled": True}}, {"volumeMounts": [{"name": "v", "path": "/v"}]}, {"network": {"rules": {"x": [{}]}}}, {"mcp": {"x": {}}}):
            plainly(s.ask("POST", "/v2/sandboxes", {"templateID": "base", **body}, X_API_KEY=key), 501)
        with box.start("sleep", "777") as response:
            pid = next(frames(response))[1]["event"]["start"]["pid"]
        s.d.stop()
        s.start()
        equal(box.run("/bin/sh", "-c", "echo $A")[0], b"b\n", "token and variables after a restart")
        equal([p["pid"] for p in box.rpc("process.Process/List", {}).expect(200).json["processes"]], [pid], "its processes")
        equal(s.ask("GET", f"/sandboxes/{box.id}", X_API_KEY=key).expect(200).json["metadata"], {"userId": "x"}, "its metadata")
        check(json.dumps(box.token) not in s.d.log_path.read_text(), "the token in the log")


@test
def disk_use_is_reported_by_every_driver_that_limits_it(c):
    for driver in ("auto", "memory"):
        with Served(c, driver=driver, name=driver) as s:
            key = key_of(s)
            box, other = s.create(key), s.create(key)

            def used(of=box):
                return s.ask("GET", f"/sandboxes/{of.id}/metrics", X_API_KEY=key).expect(200).json[-1]["diskUsed"]

            storage = s.d.api.get("/v1/inspect/host").expect(200).json["storage_driver"]
            print(f"# {driver}: {storage}")
            check(not c.root or driver == "memory" or storage == "btrfs" or not pathlib.Path("/sys/fs/btrfs").exists(), f"root's own is {storage}")
            few = max(used(), used(other))
            check(few < 1 << 20, f"{storage}: {few} bytes are used of an empty disk")
            box.run("sh", "-c", "head -c 8000000 /dev/urandom >/tmp/weight")
            wait_for(lambda: 8000000 <= used() < 9 << 20, f"{storage}: what was written is reported")
            check(used(other) < 1 << 20, f"{storage}: {used(other)} bytes, which another sandbox wrote")
            snapshot = s.ask("POST", f"/sandboxes/{box.id}/snapshots", {}, X_API_KEY=key).expect(201).json["snapshotID"]
            copy = s.create(key, templateID=snapshot)
            check(used(copy) < 1 << 20, f"{storage}: {used(copy)} bytes, which the snapshot holds")
            box.run("sh", "-c", "rm /tmp/weight")
            os.sync()  # a sandbox cannot
            wait_for(lambda: used() < 1 << 20, f"{storage}: what was removed is not reported")


main()
