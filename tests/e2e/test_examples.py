#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""The files in examples/: scripts run, agents too, with a model of the test's, and the others are valid."""

import contextlib
import http.server
import json
import os
import re
import threading

from daemon import Daemon
from e2b import Served
from harness import REPO, check, equal, main, test
from npm import modules

EXAMPLES = REPO / "examples"
INSTALL_SECONDS = 170
ONLY = {"only": "root", "because": "the frameworks are the same for everybody", "seconds": 300}
COMMAND = "echo 6 times 7 is $((6 * 7))"


def run_example(c, d, name):
    env = {"PATH": f"{c.programs}:/usr/bin:/bin", "SANDBOXER_SOCKET": str(d.socket), "SANDBOXER_STATE": str(c.dir / "state"),
           "SANDBOXER_NO_DAEMON": "1"}
    text = (EXAMPLES / name).read_text()
    c.write(name, text)  # the checkout may be closed to the caller
    program = text.splitlines()[0].rpartition("/")[2].rpartition(" ")[2]
    return c.execute([f"/usr/bin/{program}", str(c.dir / name)], cwd=c.dir, env=env)


def next_call(tools, results):
    """The tool that the model calls after these results, with its arguments; None: it answers."""
    if "run_command" in tools:
        return None if results else ("run_command", {"command": COMMAND})
    box = re.search(r"sbx_\w+", results[0])[0] if results else ""
    steps = [("sandbox_create", {}), ("sandbox_exec", {"sandbox_id": box, "command": COMMAND}), ("sandbox_destroy", {"sandbox_id": box})]
    return steps[len(results)] if len(results) < len(steps) else None


class Model(http.server.BaseHTTPRequestHandler):
    """The chat API of OpenAI, as far as agents use it: calls tools in order, then answers with the line that they found."""

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        tools = {tool["function"]["name"] for tool in request["tools"]}
        results = [json.dumps(m["content"]) for m in request["messages"] if m["role"] == "tool"]
        call = next_call(tools, results)
        if call:
            message = {"role": "assistant", "content": None, "tool_calls": [
                {"id": f"call_{len(results)}", "type": "function", "function": {"name": call[0], "arguments": json.dumps(call[1])}}]}
        else:
            found = re.search(r"6 times 7 is \d+", " ".join(results))
            message = {"role": "assistant", "content": f"The sandbox says: {found[0] if found else results}"}
        body = json.dumps({"id": f"chat_{len(results)}", "object": "chat.completion", "created": 1, "model": request["model"],
                           "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if call else "stop"}],
                           "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def model():
    """The variables with which agents find it."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield {"OPENAI_BASE_URL": f"http://127.0.0.1:{server.server_port}/v1", "OPENAI_API_KEY": "none"}
        server.shutdown()


def packages(name):
    """Those that the example tells its reader to install."""
    return tuple(re.search(r"npm install (.*)", (EXAMPLES / name).read_text())[1].split())


def run_agent(c, name, **env):
    place = modules(packages(name), INSTALL_SECONDS)
    (c.dir / "node_modules").unlink(missing_ok=True)
    (c.dir / "node_modules").symlink_to(place / "node_modules")
    c.write(name, (EXAMPLES / name).read_text())
    return c.execute(["node", str(c.dir / name)], cwd=c.dir, seconds=60,
                     env={"PATH": f"{c.programs}:{os.environ['PATH']}", "HOME": str(c.home), "SANDBOXER_NO_DAEMON": "1", **env}).expect(0).out.decode()


@test(**ONLY)
def agents_with_the_sdk_run(c):
    with Served(c) as s, model() as llm:
        for name in ("e2b-agent.mjs", "langchain-agent.mjs"):
            equal(run_agent(c, name, **llm, **s.key()), "The sandbox says: 6 times 7 is 42\n", name)
        equal(s.d.api.get("/v1/sandboxes").expect(200).json["sandboxes"], [], "sandboxes that are left")


@test(**ONLY)
def agents_with_mcp_run(c):
    with Daemon(c) as d, model() as llm:
        here = {"SANDBOXER_SOCKET": str(d.socket), "SANDBOXER_STATE": str(d.state)}
        equal(run_agent(c, "mcp-agent.mjs", **here), "sandbox_create is offered: true\nexit code 0, output: 6 times 7 is 42\n", "mcp-agent.mjs")
        equal(run_agent(c, "openai-agents.mjs", **here, **llm), "The sandbox says: 6 times 7 is 42\n", "openai-agents.mjs")
        equal(d.api.get("/v1/sandboxes").expect(200).json["sandboxes"], [], "sandboxes that are left")


@test
def every_example_is_listed_and_tested(c):
    names = sorted(os.listdir(EXAMPLES))
    listed = (EXAMPLES / "README.md").read_text()
    equal([n for n in names if n != "README.md" and f"]({n})" not in listed], [], "examples that the index does not list")
    equal([n for n in names if not n.endswith((".md", ".sh", ".py", ".mjs", ".yaml", ".json"))], [], "examples of no known kind")


@test
def scripts_run(c):
    with Daemon(c) as d:
        review = run_example(c, d, "review-script.sh")
        equal((review.code, review.out.decode()), (0, "running as root\nexit status 3\n"), "review-script.sh")
        forks = run_example(c, d, "parallel-forks.sh").expect(0)
        equal(forks.out.decode().split(), ["value=1", "value=2", "value=3", "value=0"], "parallel-forks.sh")
        loop = run_example(c, d, "agent-loop.py").expect(0)
        equal(loop.out.decode(), "exit code 0, output: 6 times 7 is 42\nfile: 6 times 7 is 42\ndestroyed\n", "agent-loop.py")
        curl = run_example(c, d, "curl.sh").expect(0)
        equal(curl.out.decode(), "exit code 3\n6 times 7 is 42\ndestroyed\n", "curl.sh")
        equal(d.api.get("/v1/sandboxes").expect(200).json["sandboxes"], [], "sandboxes that are left")


@test
def documents_are_valid(c):
    with Daemon(c) as d:
        for verb, name in (("egress", "egress-policy.yaml"), ("profiles", "profile.yaml")):
            c.write(name, (EXAMPLES / name).read_text())
            word = "check" if verb == "egress" else "validate"
            c.execute([f"{c.programs}/sandboxer", verb, word, name], cwd=c.dir,
                      env={"SANDBOXER_SOCKET": str(d.socket), "PATH": "/usr/bin:/bin"}).expect(0)
    servers = json.loads((EXAMPLES / "mcp-client.json").read_text())["mcpServers"]
    check(servers["sandboxer"]["args"] == ["mcp"], "the entry of an MCP client")


main()
