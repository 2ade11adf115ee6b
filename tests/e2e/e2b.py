# SPDX-License-Identifier: Apache-2.0
"""A daemon as E2B's clients find it, and a client of our own that says whatever a test wants.

    with Served(c) as s:
        box = s.create()
        box.rpc("process.Process/List", {}).expect(200)
"""

import base64
import contextlib
import http.client
import json
import struct

from daemon import Answer, Daemon
from harness import BUILD, check
from tcp import free_port

ANSWER_SECONDS = 60


class Served:
    """A daemon on TCP with the profile that E2B's clients ask for, and what they read of it."""

    option = "--e2b"

    def __init__(self, c, config="", driver="memory", name="daemon"):  # a driver that takes no file of a gigabyte for each of many tests
        self.c, self.port = c, free_port()
        self.d = Daemon(c, name, config=config, driver=driver)
        for profile in ("base.yaml", "code-interpreter-v1.yaml"):
            c.write(f"{self.d.dir.name}/profiles/{profile}", (BUILD / "profiles" / profile).read_bytes())
        self.start()

    def start(self, **env):
        self.d.start(args=("--listen", f"127.0.0.1:{self.port}"), **env)

    def __enter__(self):
        self.d.__enter__()
        return self

    def __exit__(self, *how):
        return self.d.__exit__(*how)

    def key(self, *argv):
        """What `sandboxer token create` prints for its clients, as a shell would take it."""
        env = {"SANDBOXER_SOCKET": str(self.d.socket), "SANDBOXER_STATE": str(self.d.state)}
        made = self.c.execute([self.c.program(), "token", "create", self.option, *argv], env=env)
        check(made.code == 0, f"{made}")
        lines = dict(line.removeprefix("export ").split("=", 1) for line in made.text.splitlines())
        return {name: value.strip("'") for name, value in lines.items()}

    @contextlib.contextmanager
    def open(self, method, path, body=None, **headers):
        """Sends; the answer is still to be read."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_SECONDS)
        with contextlib.closing(connection):
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            response = connection.getresponse()
            yield response
            response.close()

    def ask(self, method, path, body=None, **headers):
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        with self.open(method, path, data, **headers) as response:
            return Answer(response.status, response.headers, response.read())

    def create(self, key, **request):
        made = self.ask("POST", "/v2/sandboxes", {"templateID": "base", **request}, X_API_KEY=key).expect(201).json
        return Box(self, made["sandboxID"], made.get("envdAccessToken"))


def envelope(message, flags=0, length=None):
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack(">BI", flags, len(data) if length is None else length) + data


def frames(response):
    """What a stream says, as it comes: (flags, message)."""
    while head := response.read(5):
        flags, n = struct.unpack(">BI", head)
        yield flags, json.loads(response.read(n))


class Box:
    """A sandbox, by what E2B's clients know of it."""

    def __init__(self, served, sandbox, token):
        self.served, self.id, self.token = served, sandbox, token

    def headers(self, **more):
        return {"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": "49983", "X-Access-Token": self.token, **more}

    def ask(self, method, path, body=None, **headers):
        return self.served.ask(method, path, body, **self.headers(**headers))

    def rpc(self, method, request, **headers):
        return self.ask("POST", f"/{method}", request, Content_Type="application/json", **headers)

    def stream(self, method, request, raw=None, **headers):
        return self.served.open("POST", f"/{method}", envelope(request) if raw is None else raw,
                                **self.headers(Content_Type="application/connect+json", **headers))

    def start(self, *argv, **headers):
        return self.stream("process.Process/Start", {"process": {"cmd": argv[0], "args": list(argv[1:])}}, **headers)

    def run(self, *argv):
        """Standard output, and how it ended."""
        out, end = b"", None
        with self.start(*argv) as response:
            for flags, message in frames(response):
                event = message.get("event", {})
                out += base64.b64decode(event.get("data", {}).get("stdout", ""))
                end = event.get("end", end)
        check(end is not None, f"{argv} has no end")
        return out, end
