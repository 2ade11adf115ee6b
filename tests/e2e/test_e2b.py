#!/usr/bin/env python3
# parallel
"""E2B's own clients, as npm has them, against the daemon: nothing in them is changed.

Every method that is called is listed with what came of it.
"""

import os

from daemon import Daemon
from e2b_story import STORY
from harness import BUILD, check, equal, main, test
from mcp import script
from npm import modules
from tcp import free_port

NEWEST, OLDER = ("e2b@2.51.0",), ("e2b@2.50.0",)
CLI = ("@e2b/cli@2.19.0",)
INSTALL_SECONDS = 170
SLOW = {"seconds": 400}
ROOT = {**SLOW, "only": "root", "because": "it is the same client"}


class Served:
    """A daemon on TCP with the profile that E2B's clients ask for, and what they read of it."""

    def __init__(self, c):
        self.c, self.port = c, free_port()
        self.d = Daemon(c)
        c.write("daemon/profiles/base.yaml", (BUILD / "profiles/base.yaml").read_bytes())
        self.d.start(args=("--listen", f"127.0.0.1:{self.port}"))

    def __enter__(self):
        self.d.__enter__()
        return self

    def __exit__(self, *how):
        return self.d.__exit__(*how)

    def key(self, *argv):
        """What `sandboxer token create --e2b` prints, as a shell would take it."""
        env = {"SANDBOXER_SOCKET": str(self.d.socket), "SANDBOXER_STATE": str(self.d.state)}
        made = self.c.execute([self.c.program(), "token", "create", "--e2b", *argv], env=env)
        check(made.code == 0, f"{made}")
        lines = dict(line.removeprefix("export ").split("=", 1) for line in made.text.splitlines())
        return {name: value.strip("'") for name, value in lines.items()}


def tell(said):
    for line in said:
        print(f"# {line['how']}: {line['step']}{': ' + line['why'] if line.get('why') else ''}")
    bad = [line["step"] for line in said if line["how"] == "fail"]
    check(not bad, f"{len(bad)} of {len(said)} failed: {bad}")


def play(c, packages, *without):
    place = modules(packages, INSTALL_SECONDS)
    with Served(c) as s:
        said = script(c, place, "story.mjs", STORY, [*without, *(() if c.root else ("root",))], HOME=str(c.home), **s.key())
        check(len(said) > 45, f"only {len(said)} steps were taken")
        tell(said)
        equal(s.d.api.get("/v1/sandboxes").expect(200).json["sandboxes"], [], "what is left")


@test(**SLOW)
def the_newest_sdk(c):
    play(c, NEWEST)


@test(**ROOT)
def an_older_sdk(c):
    play(c, OLDER, "big", "v2")


@test(**ROOT)
def the_command_line(c):
    place = modules(CLI, INSTALL_SECONDS)
    with Served(c) as s:
        key = s.key()
        box = s.d.create(profile="profile.base", labels={"made": "here"})
        env = {"PATH": os.environ["PATH"], "HOME": str(c.home), **key}

        def e2b(*argv):
            done = c.execute([place / "node_modules/.bin/e2b", *argv], env=env, seconds=60)
            check(done.code == 0, f"e2b {argv}: {done}")
            print(f"# pass: e2b {' '.join(argv)}")
            return done.text + done.notes

        check(box in e2b("sandbox", "list"), "list")
        check(box in e2b("sandbox", "list", "--format", "json"), "list as JSON")
        check("running" in e2b("sandbox", "info", box).lower(), "info")
        check("from inside" in e2b("sandbox", "exec", box, "echo from inside"), "exec")
        e2b("sandbox", "metrics", box)
        check("sandbox.ready" in e2b("sandbox", "logs", box), "logs")
        check("base" in e2b("template", "list"), "templates")
        e2b("sandbox", "kill", box)
        check(box not in e2b("sandbox", "list"), "it is killed")


main()
