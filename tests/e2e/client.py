# SPDX-License-Identifier: Apache-2.0
"""The command line as a client of a test's own daemon.

    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create("--label", "a=b")
        cli("exec", box, "--", "true").expect(0)

It never starts a daemon by itself; a test that wants that calls c.cli().
"""

import contextlib
import json

import socket
import struct

from harness import check, equal


class Client:
    def __init__(self, d, **env):
        self.c = d.c
        self.env = {"SANDBOXER_SOCKET": str(d.socket), "SANDBOXER_STATE": str(d.state),
                    "SANDBOXER_NO_DAEMON": "1", **env}

    def __call__(self, *argv, **options):
        return self.c.cli(*argv, env={**self.env, **options.pop("env", {})}, **options)

    def start(self, *argv, **options):
        """Does not wait for its end."""
        return self.c.start([self.c.program(), *argv], env={**self.env, **options.pop("env", {})}, **options)

    def json(self, *argv, code=0):
        """What it prints with -o json."""
        return json.loads(self(*argv, "-o", "json").expect(code).out)

    def lines(self, *argv):
        """What it prints, a line each."""
        return self(*argv).expect(0).text.splitlines()

    def create(self, *options):
        box = self("create", "-q", *options).expect(0).text
        check(box.startswith("sbx_"), f"create -q prints {box!r}")
        return box

    def sh(self, box, script, *flags, **options):
        return self("exec", *flags, box, "--", "/bin/sh", "-c", script, **options)

    def spawn(self, box, script):
        """Starts it in the background: its number."""
        return self("exec", "-d", box, "--", "/bin/sh", "-c", script).expect(0).text

    def state(self, box):
        return self.json("get", box)["state"]


def listener(path):
    """Who listens on a unix socket: its pid; None if nobody does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        with contextlib.suppress(OSError):
            s.connect(str(path))
            return struct.unpack("iII", s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    return None


def same(got, want, what):
    """Two readings of the same thing: programs' output as JSON and as YAML, the API's and the CLI's."""
    equal(json.dumps(got, sort_keys=True), json.dumps(want, sort_keys=True), what)


