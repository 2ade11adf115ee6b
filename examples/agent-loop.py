#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The loop of an agent over REST, on the daemon's unix socket: create, write a file, run it, read the result, keep a
snapshot, destroy. Needs Python's standard library alone. The socket is $SANDBOXER_SOCKET, or the default one."""
import http.client
import json
import os
import socket


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def default_socket():
    if os.geteuid() == 0:
        return "/run/sandboxer/sandboxer.sock"
    return os.path.join(os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{os.geteuid()}"), "sandboxer.sock")


def call(method, path, body=None, raw=None):
    connection = UnixConnection(os.environ.get("SANDBOXER_SOCKET") or default_socket())
    headers = {"Content-Type": "application/octet-stream" if raw is not None else "application/json",
               "Accept": "application/json"}  # wait for the end of a program, instead of a stream of events
    connection.request(method, path, raw if raw is not None else json.dumps(body) if body is not None else None, headers)
    answer = connection.getresponse()
    data = answer.read()
    if answer.status >= 400:
        problem = json.loads(data)
        raise SystemExit(f"{method} {path}: {problem['code']}: {problem['detail']}")
    return data


def run(sandbox, *argv):
    """The exit code and the standard output of a program."""
    end = json.loads(call("POST", f"/v1/sandboxes/{sandbox}/processes", {"argv": argv}))
    return end["exit_code"], end["stdout"]


sandbox = json.loads(call("POST", "/v1/sandboxes", {"labels": {"example": "agent-loop"}}))["sandbox_id"]
try:
    call("PUT", f"/v1/sandboxes/{sandbox}/files?path=/tmp/program.sh", raw=b"echo 6 times 7 is $((6 * 7)) | tee /tmp/result\n")
    print("exit code %d, output: %s" % run(sandbox, "sh", "/tmp/program.sh"), end="")
    print("file:", call("GET", f"/v1/sandboxes/{sandbox}/files?path=/tmp/result").decode(), end="")
    snapshot = json.loads(call("POST", f"/v1/sandboxes/{sandbox}/snapshot", {}))["snapshot_id"]
    call("DELETE", f"/v1/snapshots/{snapshot}")
finally:
    call("DELETE", f"/v1/sandboxes/{sandbox}")
print("destroyed")
