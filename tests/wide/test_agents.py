#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Agents of npm in sandboxes, as far as they go without their vendors: installed once, their version, their terminal, and
the first request to a model on this machine."""

import contextlib
import http.server
import json
import shutil
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))

from agents import Agents  # noqa: E402
from harness import Skip, check, equal, main, test  # noqa: E402
from terminal import Terminal  # noqa: E402

AGENT_SECONDS = 420
FETCH_SECONDS = 120

# The package, the variables and options that point it at a model here, and the path of its first request.
AGENTS = {
    "claude": ({"ANTHROPIC_BASE_URL": "http://127.0.0.1:{port}"}, "ANTHROPIC_API_KEY", ["-p", "hello"], "/v1/messages"),
    "codex": ({}, "OPENAI_API_KEY", ["exec", "--skip-git-repo-check", "-c", 'model_provider="here"', "-c",
                                     'model_providers.here={{name="here",base_url="http://127.0.0.1:{port}/v1",env_key="OPENAI_API_KEY",wire_api="responses"}}', "hello"], "/v1/responses"),
    "gemini": ({"GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:{port}"}, "GEMINI_API_KEY", ["-p", "hello"], "/v1beta/models/"),
    "opencode": ({"OPENCODE_CONFIG_CONTENT": json.dumps({"model": "anthropic/claude-sonnet-4-5", "provider": {"anthropic": {"options": {
        "baseURL": "http://127.0.0.1:{port}/v1"}}}}).replace("{", "{{").replace("}", "}}").replace("{{port}}", "{port}")}, "ANTHROPIC_API_KEY", ["run", "hello"], "/v1/messages"),
}


def npm_registry():
    if not shutil.which("npm"):
        raise Skip("npm is not installed")
    return subprocess.run(["npm", "config", "get", "registry"], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL).stdout.strip().rstrip("/")


class Here(http.server.BaseHTTPRequestHandler):
    """Forwards what npm asks for to its registry, and answers a model's requests with an error that no agent repeats."""
    protocol_version = "HTTP/1.1"
    upstream = None
    heard = []

    def answer(self, status, body, kind="application/json"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        with contextlib.suppress(OSError):  # a client that goes away is no event
            self.end_headers()
            self.wfile.write(body)

    def do_GET(self):  # pylint: disable=invalid-name
        request = urllib.request.Request(self.upstream + self.path, headers={"Accept": self.headers.get("Accept", "*/*")})
        try:
            with urllib.request.urlopen(request, timeout=FETCH_SECONDS) as got:
                self.answer(got.status, got.read(), got.headers.get("Content-Type", ""))
        except urllib.error.HTTPError as e:
            self.answer(e.code, b"{}")
        except OSError:
            self.answer(502, b"{}")

    def do_POST(self):  # pylint: disable=invalid-name
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.heard.append((self.path.split("?")[0], {k.lower(): v for k, v in self.headers.items()}))
        self.answer(400, b'{"type":"error","error":{"type":"invalid_request_error","message":"no model lives here"}}')

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


@contextlib.contextmanager
def served(upstream):
    handler = type("Handler", (Here,), {"upstream": upstream, "heard": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1], handler.heard
    finally:
        server.shutdown()
        server.server_close()


def play(c, name):
    variables, key, words, path = AGENTS[name]
    with served(npm_registry()) as (port, heard), \
            Agents(c, config=f"egress: {{local: ['127.0.0.1:{port}']}}\nstorage: {{driver: plain}}\n", memory=2048, disk=2048,
                   more=f"env: {{npm_config_registry: 'http://127.0.0.1:{port}/'}}") as a:
        grant = ("--allow", f"127.0.0.1:{port}")
        env = {k: v.format(port=port) for k, v in variables.items()}
        got = a(name, "--install", *grant, "--", "--version", seconds=AGENT_SECONDS)
        if got.code == 125 and ("E404" in got.notes or "E502" in got.notes or "ETARGET" in got.notes):
            raise Skip(f"the registry of this machine does not have {name}")
        got.expect(0)
        check(any(character.isdigit() for character in got.text), f"no version: {got}")
        got = a(name, "--pass-key", *grant, "--", *[word.format(port=port) for word in words], env={**env, key: "sk-test-0123456789"}, seconds=AGENT_SECONDS)
        first = [headers for where, headers in heard if where.startswith(path)]
        check(first, f"no request to {path}, but to {[where for where, _ in heard]}: {got}")
        check(any("sk-test-0123456789" in value for value in first[0].values()), f"the key is not in {sorted(first[0])}")
        with Terminal(c, name, str(a.host), *grant, "--pass-key", verb=("agent",), size=(40, 120), env={**a.cli.env, **env, key: "sk-test-0123456789"}) as t:
            t.expect(b"in the sandbox", seconds=AGENT_SECONDS)
            t.expect(b"\x1b[", seconds=AGENT_SECONDS)  # it draws
        for box in a.boxes():
            a.cli("destroy", "--discard", box).expect(0)
        for snapshot in a.cli.json("snapshots", "list")["snapshots"]:
            a.cli("snapshots", "delete", snapshot["snapshot_id"]).expect(0)
        equal(a.read("a.txt"), "host a\n", "the workspace")


@test(seconds=AGENT_SECONDS)
def claude_code_works(c):
    play(c, "claude")


@test(seconds=AGENT_SECONDS)
def codex_works(c):
    play(c, "codex")


@test(seconds=AGENT_SECONDS)
def gemini_works(c):
    play(c, "gemini")


@test(seconds=AGENT_SECONDS)
def opencode_works(c):
    play(c, "opencode")


main()
