#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""The files in examples/: scripts run, the others are valid."""

import json
import os

from daemon import Daemon
from harness import REPO, check, equal, main, test

EXAMPLES = REPO / "examples"


def run_example(c, d, name):
    env = {"PATH": f"{c.programs}:/usr/bin:/bin", "SANDBOXER_SOCKET": str(d.socket), "SANDBOXER_STATE": str(c.dir / "state"),
           "SANDBOXER_NO_DAEMON": "1"}
    text = (EXAMPLES / name).read_text()
    c.write(name, text)  # the checkout may be closed to the caller
    program = text.splitlines()[0].rpartition("/")[2].rpartition(" ")[2]
    return c.execute([f"/usr/bin/{program}", str(c.dir / name)], cwd=c.dir, env=env)


@test
def every_example_is_listed_and_tested(c):
    names = sorted(os.listdir(EXAMPLES))
    listed = (EXAMPLES / "README.md").read_text()
    equal([n for n in names if n != "README.md" and f"]({n})" not in listed], [], "examples that the index does not list")
    equal([n for n in names if not n.endswith((".md", ".sh", ".py", ".yaml", ".json"))], [], "examples of no known kind")


@test
def scripts_run(c):
    with Daemon(c) as d:
        review = run_example(c, d, "review-script.sh")
        equal((review.code, review.out.decode()), (0, "running as root\nexit status 3\n"), "review-script.sh")
        forks = run_example(c, d, "parallel-forks.sh").expect(0)
        equal(forks.out.decode().split(), ["value=1", "value=2", "value=3", "value=0"], "parallel-forks.sh")
        loop = run_example(c, d, "agent-loop.py").expect(0)
        equal(loop.out.decode(), "exit code 0, output: 6 times 7 is 42\nfile: 6 times 7 is 42\ndestroyed\n", "agent-loop.py")
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
