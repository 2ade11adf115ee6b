# SPDX-License-Identifier: Apache-2.0
"""Agents in sandboxes: a daemon with a profile for them, recipes of the test's own, and agents that are small scripts."""

from client import Client
from daemon import Daemon
from workspaces import ROOM

PROFILE = """\
id: profile.agent-dev
version: 1
workspace: {{mode: mirror, access: rw}}
workdir: /workspace
ttl: {{default: 2h, max: 24h}}
resources: {{cpu: 1, memory_mb: {memory}, pids: 256, disk_mb: {disk}}}
writable_system: true
caps: [CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETUID, SETGID, KILL]
{more}
"""

# It edits one file, makes another, and prints what it has.
EDITOR = """\
#!/bin/sh
echo "here $PWD $*"
echo edited >a.txt
echo made >made.txt
"""


class Agents:
    """A daemon, its command line, and a workspace `host` with a.txt and b.txt."""

    def __init__(self, c, config="", memory=256, disk=64, more="", paused="7d"):
        self.c = c
        self.daemon = Daemon(c, config=f"{ROOM}{config}", paused=paused)
        c.write("daemon/profiles/agent-dev.yaml", PROFILE.format(memory=memory, disk=disk, more=more))
        c.mkdir(c.dir / "agents")
        c.mkdir(c.dir / "bin")
        self.host = c.mkdir(c.dir / "work")
        for name in ("a", "b"):
            c.write(f"work/{name}.txt", f"host {name}\n")
        self.home = c.mkdir(c.dir / "home")
        self.env = {"SANDBOXER_AGENTS": str(c.dir / "agents"), "HOME": str(self.home),
                    "PATH": f"{c.dir}/bin:{c.environment['PATH']}"}
        self.cli = Client(self.daemon, **self.env)

    def recipe(self, name, text):
        return self.c.write(f"agents/{name}.yaml", text)

    def script(self, name, text=EDITOR):
        return self.c.write(f"bin/{name}", text, 0o755)

    def __call__(self, *argv, **options):
        return self.cli("agent", *argv, cwd=self.host, **options)

    def read(self, name):
        return (self.host / name).read_text()

    def boxes(self):
        return {row["sandbox_id"]: row["state"] for row in self.cli.json("list")["sandboxes"]}

    def __enter__(self):
        self.daemon.__enter__()
        return self

    def __exit__(self, *problem):
        self.daemon.__exit__(*problem)
