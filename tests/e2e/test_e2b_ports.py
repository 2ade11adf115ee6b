#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Servers inside, reached as E2B's clients reach them: by headers, through the daemon."""

import base64
import contextlib
import hashlib
import json
import socket

from e2b import Served
from harness import check, equal, main, test, wait_for

# What it was asked, as JSON; /hash: of the body; /keep: an answer that claims to keep the connection, and more behind it;
# /cut: half of one; /nonsense: none at all; with Upgrade: an echo, or as WebSocket
# has it, its message in capitals.
SERVER = r"""
import base64, hashlib, json, socket, threading

def head(c):
    data = b""
    while b"\r\n\r\n" not in data:
        piece = c.recv(65536)
        if not piece:
            return None, b""
        data += piece
    top, _, rest = data.partition(b"\r\n\r\n")
    return top.decode().split("\r\n"), rest

def body(c, fields, rest):
    if "transfer-encoding" in fields:
        while not rest.endswith(b"0\r\n\r\n"):
            rest += c.recv(65536)
        out = b""
        while True:
            size, _, rest = rest.partition(b"\r\n")
            n = int(size, 16)
            if not n:
                return out
            out, rest = out + rest[:n], rest[n + 2:]
    n = int(fields.get("content-length", 0))
    while len(rest) < n:
        rest += c.recv(65536)
    return rest

def answer(c, data, more="", status="200 OK"):
    c.sendall(f"HTTP/1.1 {status}\r\nContent-Length: {len(data)}\r\n{more}\r\n".encode() + data)

def serve(c):
    lines, rest = head(c)
    if not lines:
        return
    method, path, _ = lines[0].split(" ")
    fields = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:])}
    if fields.get("upgrade") == "websocket":
        key = base64.b64encode(hashlib.sha1((fields["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
        c.sendall(f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {key}\r\n\r\n".encode())
        while len(rest) < 6 or len(rest) < 6 + (rest[1] & 127):
            rest += c.recv(65536)
        text = bytes(b ^ rest[2 + i % 4] for i, b in enumerate(rest[6:6 + (rest[1] & 127)]))
        c.sendall(bytes([0x81, len(text)]) + text.upper())
    elif "upgrade" in fields:
        c.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\nX-Inner: yes\r\n\r\nfirst")
        while data := c.recv(65536):
            c.sendall(data)
    elif path == "/hash":
        answer(c, hashlib.sha256(body(c, fields, rest)).hexdigest().encode())
    elif path == "/keep":
        answer(c, b"one", "Connection: keep-alive\r\n")
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo")
        open("/tmp/heard", "wb").write(c.recv(65536))
    elif path == "/cut":
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    elif path == "/nonsense":
        c.sendall(b"HELLO\r\n\r\n")
    elif path == "/early":
        c.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        answer(c, b"", status="204 No Content") if method == "POST" else answer(c, b"late")
    elif path == "/chunks":
        c.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"5\r\nhello\r\n" * 20000 + b"0\r\n\r\n")
    else:
        answer(c, b"" if method == "HEAD" else json.dumps([method, path, fields]).encode(), "Set-Cookie: a=b\r\n")
    c.close()

s = socket.create_server(("127.0.0.1", 8080), backlog=64)
while True:
    threading.Thread(target=serve, args=(s.accept()[0],)).start()
"""
PORT = {"E2b-Sandbox-Port": "8080"}
DOMAIN = "sandboxes.test"


def served(s):
    """A sandbox with the server in it, and its key."""
    key = s.key()["E2B_API_KEY"]
    box = s.create(key)
    box.run("sh", "-c", "cat > /tmp/server.py <<'END'\n" + SERVER + "\nEND")
    s.d.api.post(f"/v1/sandboxes/{box.id}/processes", {"argv": ["python3", "/tmp/server.py"], "background": True}).expect(201)
    wait_for(lambda: s.d.api.get(f"/v1/sandboxes/{box.id}/ports/8080").json["open"], "the server inside listens")
    return box, key


@test
def requests_go_in_and_answers_come_back(c):
    with Served(c) as s:
        box, key = served(s)
        got = box.ask("GET", "/a?b=c%20d", Authorization="Bearer theirs", Cookie="x=y", **PORT).expect(200)
        method, path, fields = got.json
        equal([method, path], ["GET", "/a?b=c%20d"], "what the server was asked")
        equal([fields.get("authorization"), fields.get("cookie"), fields["connection"]], ["Bearer theirs", "x=y", "close"], "what it heard")
        leaked = [k for k in fields if k.startswith(("e2b-", "x-access")) or box.token in fields[k]]
        equal(leaked, [], "what is said to us alone")
        equal(got.headers["Set-Cookie"], "a=b", "a field of the answer")
        for token in (f"Bearer sbt_{'0' * 40}", f"Bearer e2b_{'0' * 40}", f"bearer  e2b_{'0' * 40}", f"e2b_{'0' * 40}", f"Token sbp_{'0' * 40}"):
            _, _, fields = box.ask("GET", "/", **{**PORT, "Authorization": token, "X-API-Key": f"e2b_{'0' * 40}"}).expect(200).json
            check("0000" not in json.dumps(fields), f"{token} went inside: {fields}")
        _, _, fields = box.ask("GET", "/", **{**PORT, "Authorization": f"Bearer sbt_{'0' * 40}"}).expect(200).json
        check("authorization" not in fields, "a token of ours goes nowhere")
        box.ask("HEAD", "/", **PORT).expect(200)
        data = bytes(range(256)) * 20000
        want = hashlib.sha256(data).hexdigest().encode()
        equal(box.ask("POST", "/hash", data, **PORT).expect(200).data, want, "a body with its length")
        with s.open("PUT", "/hash", iter([data[i:i + 70000] for i in range(0, len(data), 70000)]), **box.headers(**PORT)) as r:
            equal(r.read(), want, "a body in chunks")
        equal(box.ask("GET", "/chunks", **PORT).expect(200).data, b"hello" * 20000, "an answer in chunks")
        equal(box.ask("GET", "/early", **PORT).expect(200).data, b"late", "an answer behind an interim one")
        box.ask("POST", "/early", b"x", **PORT).expect(204)


# What our own interface would not take, and servers inside may well do.
ODD = ("/a//b", "//", "/@scope%2Fname", "/a/./b", "/a/../b", "/..", "/a%5Cb", "/%ff", "/%00", "/100%", "/a" * 40, "/x?y=%ff&%", "/v1%2Fx", "/./v1/sandboxes")


def raw(port, target, host=None, **headers):
    """One request whose target no client has tidied up: its status, and its answer's body."""
    with socket.create_connection(("127.0.0.1", port), 60) as client:
        fields = "".join(f"{k}: {v}\r\n" for k, v in headers.items())
        client.sendall(f"GET {target} HTTP/1.1\r\nHost: {host or f'127.0.0.1:{port}'}\r\nConnection: close\r\n{fields}\r\n".encode())
        data = b""
        while piece := client.recv(65536):
            data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


@test
def paths_are_those_of_the_server_inside(c):
    with Served(c, config=f"domain: {{name: {DOMAIN}}}\n") as s:
        box, key = served(s)
        gone, other = s.create(key), s.create(key)
        s.ask("DELETE", f"/sandboxes/{gone.id}", X_API_KEY=key).expect(204)
        nobody = "sbx_00000000000000000000"
        for target in (*ODD, "/daytona/x", "/daytona/sandbox", "/daytona/preview/x/1/y", "/mcp", "/sandboxes", "/healthz"):
            for host, headers in ((None, box.headers(**PORT)), (f"8080-{box.id}.{DOMAIN}", {"X-Access-Token": box.token})):
                status, body = raw(s.port, target, host, **headers)
                check(status == 200, f"{target}: {status} {body!r}")
                equal(json.loads(body)[1], target, "what the server was asked for")
            # The holder of its token is told that a sandbox is gone, on every path and for every port.
            for port in ("8080", "49983", "49999", "x"):
                status, body = raw(s.port, target, **gone.headers(**{"E2b-Sandbox-Port": port}))
                equal([status, json.loads(body)["message"]], [502, "The sandbox was not found"], f"{target} at {port} of one that is gone")
            status, _ = raw(s.port, target, f"8080-{gone.id}.{DOMAIN}", **{"X-Access-Token": gone.token})
            equal(status, 502, f"{target} of one that is gone, by name")
        # Everybody else gets one answer for a sandbox that exists, one that is gone and one that never was.
        for target in ("/a//b", "/", "/health", "/files?path=x", "/execute"):
            for token in ({}, {"X-Access-Token": box.token}):
                for port in ("8080", "49983", "49999", "x"):
                    answers = [raw(s.port, target, **{"E2b-Sandbox-Id": i, "E2b-Sandbox-Port": port, **token}) for i in (other.id, gone.id, nobody)]
                    equal([answers[0][0], *answers[1:]], [403 if port in ("8080", "x") else 401, answers[0], answers[0]], f"{target} at {port} with {token}")
                answers = [raw(s.port, target, f"8080-{i}.{DOMAIN}", **token) for i in (other.id, gone.id, nobody)]
                equal([answers[0][0], *answers[1:]], [403, answers[0], answers[0]], f"{target} by name with {token}")
        # What only we answer for has paths as we like them, and tells no secrets without a token.
        for port in ("49983", "49999"):
            equal(raw(s.port, "/a//b", **box.headers(**{"E2b-Sandbox-Port": port}))[0], 400, f"a path at {port}")
        for target in ODD:
            equal(raw(s.port, target, **{**box.headers(**PORT), "X-Access-Token": "no"})[0], 403, f"{target} without a token")
        # Our own interface is nobody else's.
        for target in ("/v1/sandboxes", "/%76%31/sandboxes"):
            equal(raw(s.port, target, **box.headers(**PORT))[0], 401, target)
        equal(raw(s.port, "/v1//sandboxes", **box.headers(**PORT))[0], 400, "a path of ours that is none")
        for target in ("/a\tb", "/a\x01b", "/a\x7fb"):
            equal(raw(s.port, target, **box.headers(**PORT))[0], 400, "a control character")
        s.ask("POST", f"/sandboxes/{box.id}/pause", {}, X_API_KEY=key).expect(204)
        for target in ("/a//b", "/daytona/x", "/"):
            equal(raw(s.port, target, **box.headers(**PORT))[0], 502, f"{target} of one that is paused")


@test
def who_may_not_gets_nothing(c):
    with Served(c) as s:
        box, key = served(s)
        other = s.create(key)
        for token in ("", other.token, key):
            refused = box.ask("GET", "/", **{**PORT, "X-Access-Token": token}).expect(403)
            check(refused.json["code"] == 403 and "E2B-Traffic-Access-Token" in refused.json["message"], f"{refused}")
        equal(other.ask("GET", "/", **PORT).expect(502).json["sandboxId"], other.id, "whose port is closed")
        for port in ("0", "65536", "x"):
            box.ask("GET", "/", **{"E2b-Sandbox-Port": port}).expect(400)
        traffic = s.ask("POST", f"/v2/sandboxes/{box.id}/connect", {}, X_API_KEY=key).expect(200).json["trafficAccessToken"]
        box.ask("GET", "/", **{**PORT, "X-Access-Token": "", "E2B-Traffic-Access-Token": traffic}).expect(200)


@test
def a_server_that_lies_hurts_nobody(c):
    with Served(c) as s:
        box, key = served(s)
        # Of a connection that a client uses again, what runs inside hears one request and answers one.
        with socket.create_connection(("127.0.0.1", s.port), 60) as client:
            def ask(path, **headers):
                head = "".join(f"{k}: {v}\r\n" for k, v in headers.items())
                client.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{s.port}\r\n{head}\r\n".encode())
                data = b""
                while b"\r\n\r\n" not in data:
                    data += client.recv(65536)
                top, _, rest = data.partition(b"\r\n\r\n")
                n = int(next(line for line in top.split(b"\r\n") if line.lower().startswith(b"content-length")).split(b":")[1])
                while len(rest) < n:
                    rest += client.recv(65536)
                return rest
            equal(ask("/keep", **box.headers(**PORT)), b"one", "the answer")
            equal(json.loads(ask("/v2/sandboxes", **{"X-API-KEY": key}))[0]["sandboxID"], box.id, "the next answer is ours")
        wait_for(lambda: box.run("cat", "/tmp/heard")[1]["exitCode"] == 0, "the server is done")
        equal(box.run("cat", "/tmp/heard")[0], b"", "what the server hears of the next request")
        box.ask("GET", "/nonsense", **PORT).expect(502)
        with socket.create_connection(("127.0.0.1", s.port), 60) as client:
            head = "".join(f"{k}: {v}\r\n" for k, v in box.headers(**PORT).items())
            client.sendall(f"GET /cut HTTP/1.1\r\nHost: 127.0.0.1:{s.port}\r\n{head}\r\n".encode())
            data = b""
            with contextlib.suppress(ConnectionResetError):
                while piece := client.recv(65536):
                    data += piece
            check(data.endswith(b"half"), "half of an answer is not made a whole one")


@test
def another_protocol_becomes_bytes(c):
    with Served(c) as s:
        box, _ = served(s)
        head = "".join(f"{k}: {v}\r\n" for k, v in box.headers(**PORT).items())
        with socket.create_connection(("127.0.0.1", s.port), 60) as client:
            client.sendall(f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{s.port}\r\nConnection: Upgrade\r\nUpgrade: echo\r\n{head}\r\n".encode())
            data = b""
            while not data.endswith(b"first"):
                piece = client.recv(65536)
                check(piece, f"the connection ended with {data!r}")
                data += piece
            check(data.startswith(b"HTTP/1.1 101 ") and b"X-Inner: yes" in data, f"the answer is {data!r}")
            blob = bytes(range(256)) * 4096
            client.sendall(blob)
            got = b""
            while len(got) < len(blob):
                got += client.recv(1 << 20)
            check(got == blob, "what comes back is what was sent")


@test
def a_websocket(c):
    with Served(c) as s:
        box, _ = served(s)
        key = base64.b64encode(b"sixteen bytes it").decode()
        want = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
        head = "".join(f"{k}: {v}\r\n" for k, v in box.headers(**PORT).items())
        with socket.create_connection(("127.0.0.1", s.port), 60) as client:
            client.sendall(f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{s.port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                           f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n{head}\r\n".encode())
            mask, text = b"abcd", b"hello"
            client.sendall(bytes([0x81, 0x80 | len(text)]) + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(text)))
            data = b""
            while not data.endswith(b"HELLO"):
                piece = client.recv(65536)
                check(piece, f"the connection ended with {data!r}")
                data += piece
            top, _, frame = data.partition(b"\r\n\r\n")
            fields = {k.lower(): v for k, v in (line.split(": ", 1) for line in top.decode().split("\r\n")[1:])}
            equal([top.split(b" ")[1], fields["sec-websocket-accept"], fields["upgrade"]], [b"101", want, "websocket"], "the handshake")
            equal(frame, b"\x81\x05HELLO", "the answer")


main()
