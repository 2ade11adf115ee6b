# SPDX-License-Identifier: Apache-2.0
"""A daemon on TCP, and its interface as the holder of a token has it.

    with serving(c) as (d, port, token):
        reader, _ = token("read")
        reader.get("/v1/sandboxes").expect(200)
"""

import contextlib
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import threading

from client import Client
from daemon import Answer, Daemon
from harness import PLAIN

EVERYTHING = ["read", "create", "exec", "files", "extend", "destroy", "admin"]
OTHERS = "socket: {mode: \"0666\"}\n"  # of a configuration: other users may connect
taken = []  # names of ports, held until the end


def free_port():
    """A port to listen on later. The kernel hands out others, and no test program gets it while this one runs: a name
    says whose it is."""
    while True:
        port, name = random.randrange(20000, 30000), socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError), socket.socket() as s:
            name.bind(f"\0sandboxer-test-port-{port}")
            s.bind(("127.0.0.1", port))
            taken.append(name)
            return port
        name.close()


class Tcp:
    """The interface on TCP, as the holder of a token."""

    def __init__(self, port, token=None):
        self.port, self.token = port, token
        self.tries = 1  # connections of which all but the last may be closed before their request has arrived

    def request(self, method, path, body=None, **headers):
        for _ in range(1, self.tries):
            with contextlib.suppress(ConnectionError):
                return self.request_once(method, path, body, **headers)
        return self.request_once(method, path, body, **headers)

    def request_once(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        if self.token:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        with contextlib.closing(connection):
            connection.putrequest(method, path, skip_host="Host" in headers)
            data = b"" if body is None else json.dumps(body).encode()
            for name, value in {**headers, "Content-Length": len(data)}.items():
                connection.putheader(name.replace("_", "-"), value)
            connection.endheaders(data)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())

    def open(self, method, path, body=None, headers=()):
        """Sends; the response is still to be read: (connection, response)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request(method, path, body, {"Authorization": f"Bearer {self.token}", **dict(headers)})
        return connection, connection.getresponse()

    def get(self, path, **headers):
        return self.request("GET", path, **headers)

    def post(self, path, body=None, **headers):
        return self.request("POST", path, body or {}, **headers)

    def delete(self, path, **headers):
        return self.request("DELETE", path, **headers)


@contextlib.contextmanager
def stopped(d):
    """The control plane stops, as if it were busy: whatever is sent waits for it, in this order."""
    os.kill(d.plane, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(d.plane, signal.SIGCONT)


def flood(port, n, data=b"", threads=4):
    """So many connections, each of which has sent this and nothing more."""
    crowd = []

    def come():
        for _ in range(n // threads):
            crowd.append(socket.create_connection(("127.0.0.1", port), timeout=30))
            crowd[-1].sendall(data)
    comers = [threading.Thread(target=come) for _ in range(threads)]
    for t in comers:
        t.start()
    for t in comers:
        t.join()
    return crowd


@contextlib.contextmanager
def serving(c, config=""):
    """A daemon on TCP, and how to have a token of it."""
    d, port = Daemon(c, config=config), free_port()
    d.start(args=("--listen", f"127.0.0.1:{port}"))

    def token(*verbs, **request):
        made = d.api.post("/v1/tokens", {"name": "t", "verbs": list(verbs) or EVERYTHING, **request}).expect(201).json
        return Tcp(port, made["token"]), made["id"]
    with d:
        yield d, port, token


def users_token(c, d, port, uid=PLAIN):
    """The interface on TCP as another user, who is no administrator."""
    os.chmod(d.dir, 0o755)
    made = subprocess.run([c.program(), "token", "create", "-q", "mine"], user=uid, group=uid, extra_groups=[], cwd="/",
                          env={**c.environment, **Client(d).env}, capture_output=True, check=True)
    return Tcp(port, made.stdout.decode().strip())
