# SPDX-License-Identifier: Apache-2.0
"""Clients of MCP: one of our own that says whatever a test wants, and those of others.

    with Lines(c, d) as m:
        m.begin()
        box = m.tool("sandbox_create")["sandbox_id"]
"""

import contextlib
import json
import os
import queue
import subprocess
import threading

from harness import Failure, check, equal

ANSWER_SECONDS = 60
VERSION = "2025-11-25"
NEW = "2026-07-28"
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
META = {"io.modelcontextprotocol/protocolVersion": NEW, "io.modelcontextprotocol/clientCapabilities": {}}

# What all vendors of models take in a schema; each property has one type.
KEYWORDS = {
    "string": {"enum", "minLength", "maxLength", "pattern"},
    "integer": {"minimum", "maximum"},
    "number": {"minimum", "maximum"},
    "boolean": set(),
    "array": {"items", "minItems", "maxItems"},
    "object": {"properties", "required", "additionalProperties", "minProperties", "maxProperties"},
}
NAME_MAX = 60  # of Cursor, for the names of the server and the tool together


class Lines:
    """`sandboxer mcp` with a test at its other end."""

    def __init__(self, c, d, argv=(), **env):
        self.c, self.argv, self.number, self.notes = c, argv, 0, []
        self.env = {"SANDBOXER_SOCKET": str(d.socket), "SANDBOXER_STATE": str(d.state), "SANDBOXER_NO_DAEMON": "1", **env}

    def __enter__(self):
        self.process = self.c.start([self.c.program(), "mcp", *self.argv], env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.listen()
        return self

    def __exit__(self, *_):
        self.close()

    def listen(self):
        self.heard = queue.Queue()
        threading.Thread(target=self.hear, daemon=True).start()

    def close(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        return self.process.wait(20)

    def hear(self):
        for line in self.process.stdout:
            self.heard.put(json.loads(line))
        self.heard.put(None)

    def write(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, **message):
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def next(self):
        try:
            message = self.heard.get(timeout=ANSWER_SECONDS)
        except queue.Empty:
            raise Failure(f"no message within {ANSWER_SECONDS} s") from None
        check(message is not None, "the server has ended")
        return message

    def start(self, method, **params):
        self.number += 1
        self.send(id=self.number, method=method, params=params)
        return self.number

    def answer(self, number):
        while True:
            message = self.next()
            if message.get("id") == number:
                return message
            self.notes.append(message)

    def ask(self, method, **params):
        return self.answer(self.start(method, **params))

    def begin(self, version=VERSION, **capabilities):
        answer = self.ask("initialize", protocolVersion=version, capabilities=capabilities,
                          clientInfo={"name": "test", "version": "1"})
        self.send(method="notifications/initialized")
        return answer["result"]

    def call(self, name, **arguments):
        """The result of a tool, whatever it says."""
        answer = self.ask("tools/call", name=name, arguments=arguments)
        check("result" in answer, f"{name}: {answer}")
        return answer["result"]

    def tool(self, name, **arguments):
        """What a tool answers that did what it should; both forms say the same."""
        result = self.call(name, **arguments)
        check(not result.get("isError"), f"{name}: {result}")
        equal(json.loads(result["content"][0]["text"]), result["structuredContent"], "the text")
        return result["structuredContent"]

    def refused(self, name, says, **arguments):
        """By the tool, which tells the model, or by the policy, which is an error of the protocol."""
        answer = self.ask("tools/call", name=name, arguments=arguments)
        result, error = answer.get("result", {}), answer.get("error", {})
        text = result["content"][0]["text"] if result.get("isError") else error.get("message", "") if error.get("data", {}).get("kind") else ""
        check(says in text, f"{name} {arguments}: {answer}")


class Web:
    """/mcp on the unix socket."""

    def __init__(self, d):
        self.d, self.session, self.version, self.number = d, None, None, 0

    def headers(self, **more):
        mine = {**ACCEPT}
        if self.session:
            mine["Mcp-Session-Id"] = self.session
        if self.version:
            mine["MCP-Protocol-Version"] = self.version
        return {**mine, **{k.replace("_", "-"): v for k, v in more.items()}}

    def post(self, message, **headers):
        wanted = {k: v for k, v in self.headers(**headers).items() if v is not None}
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        return self.d.api.request("POST", "/mcp", data, wanted)

    def ask(self, method, /, headers=(), **params):
        self.number += 1
        return self.post({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}, **dict(headers))

    def begin(self, version=VERSION):
        answer = self.ask("initialize", protocolVersion=version, capabilities={}, clientInfo={"name": "t", "version": "1"}).expect(200)
        self.session, self.version = answer.headers["Mcp-Session-Id"], answer.json["result"]["protocolVersion"]
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}).expect(202)
        return answer.json["result"]


class Http:
    """A session on HTTP with the calls that Lines has."""

    def __init__(self, d):
        self.web = Web(d)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.web.session:
            self.web.d.api.request("DELETE", "/mcp", None, self.web.headers())

    def begin(self):
        return self.web.begin()

    def ask(self, method, **params):
        return self.web.ask(method, **params).json

    def tool(self, name, **arguments):
        return self.ask("tools/call", name=name, arguments=arguments)["result"]["structuredContent"]


class Stateless:
    """A client of the newest revision on HTTP: every request stands alone."""

    def __init__(self, d, holder=None):
        self.web, self.holder = Web(d), holder

    def ask(self, method, meta=(), **params):
        headers = {"MCP_Protocol_Version": NEW, "Mcp_Method": method}
        if "name" in params or "uri" in params:
            headers["Mcp_Name"] = params.get("name") or params["uri"]
        params["_meta"] = {**META, **dict(meta)}
        if not self.holder:
            return self.web.ask(method, headers, **params).json
        return self.holder.request("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params},
                                   Accept="application/json, text/event-stream", Content_Type="application/json", **headers).expect(200).json

    def tool(self, name, **arguments):
        return self.ask("tools/call", name=name, arguments=arguments)["result"]["structuredContent"]


TRANSPORTS = (Lines, lambda c, d: Http(d))


def events(data):
    """Of an event stream: (id, message) each; the message of one without data is None."""
    found = []
    for block in data.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) if ": " in line else (line.rstrip(":"), "") for line in block.splitlines() if not line.startswith(":"))
        if "data" in fields:
            found.append((fields.get("id"), json.loads(fields["data"]) if fields["data"] else None))
    return found


def script(c, place, name, text, argv, program="node", **env):
    """Runs a program of JavaScript with the packages of a place: what it printed, as JSON lines."""
    file = c.write(name, text)
    with contextlib.suppress(FileExistsError):
        os.symlink(place / "node_modules", c.dir / "node_modules")
    result = c.execute([program, file, *argv], env={"PATH": os.environ["PATH"], **env}, seconds=120)
    check(result.code == 0, f"{name}: {result}")
    return [json.loads(line) for line in result.text.splitlines() if line.startswith(("{", "["))]


def check_schema(schema, path):
    kind = schema.get("type")
    check(isinstance(kind, str) and kind in KEYWORDS, f"{path}: its type is {kind!r}")
    unknown = schema.keys() - KEYWORDS[kind] - {"type", "description", "default"}
    check(not unknown, f"{path}: {sorted(unknown)}")
    if "enum" in schema:
        check(schema["enum"] and all(isinstance(v, str) and v for v in schema["enum"]), f"{path}: enum {schema['enum']}")
    if kind == "array":
        check_schema(schema["items"], f"{path}[]")
    if kind == "object" and "properties" in schema:
        check(schema["additionalProperties"] is False, f"{path}: it is open")
        required = set(schema.get("required", ()))
        check(required <= schema["properties"].keys(), f"{path}: {required} are required")
        for name, inner in schema["properties"].items():
            check_schema(inner, f"{path}.{name}")
    elif kind == "object":
        equal(schema["additionalProperties"], {"type": "string"}, f"the values of {path}")


def check_tool_schemas(tools):
    for tool in tools:
        check(len("sandboxer" + tool["name"]) < NAME_MAX, f"{tool['name']}: the name is long")
        for part in ("inputSchema", "outputSchema"):
            equal(tool[part]["type"], "object", f"the {part} of {tool['name']}")
            check_schema(tool[part], f"{tool['name']}.{part}")
        for name, schema in tool["inputSchema"]["properties"].items():
            check(schema.get("description"), f"{tool['name']}.{name} is not described")
