#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""E2B's own clients, as npm has them, against the daemon: nothing in them is changed.

Every method that is called is listed with what came of it.
"""

import os

from daemon import DRIVER
from e2b import Served
from e2b_story import BUILD, CODE, DETAILS, STORY, import_base
from harness import check, equal, main, test, wait_for
from mcp import script
from npm import modules, tell

NEWEST, OLDER, OLDEST = ("e2b@2.51.0",), ("e2b@2.50.0",), ("e2b@2.34.0",)
CLI, INTERPRETER = ("@e2b/cli@2.19.0",), ("@e2b/code-interpreter@2.8.0",)
INSTALL_SECONDS = 170
SLOW = {"seconds": 400}
ROOT = {**SLOW, "only": "root", "because": "it is the same client"}


def play(c, packages, *without, driver="memory"):
    place = modules(packages, INSTALL_SECONDS)
    with Served(c, driver=driver) as s:
        said = script(c, place, "story.mjs", STORY, [*without, *(() if c.root else ("root",))], HOME=str(c.home), **s.key())
        check(len(said) > 45, f"only {len(said)} steps were taken")
        tell(said)
        equal(s.d.api.get("/v1/sandboxes").expect(200).json["sandboxes"], [], "what is left")


@test(**SLOW)
def the_newest_sdk(c):
    play(c, NEWEST, driver=DRIVER)


@test(**ROOT)
def an_older_sdk(c):
    play(c, OLDER, "big")


@test(**SLOW)
def what_sdks_depend_on(c):
    """Kills, links, lists and watches, with the newest SDK and one that takes entries of links as they are."""
    for packages in (NEWEST, OLDEST):
        place = modules(packages, INSTALL_SECONDS)
        with Served(c, name=packages[0].replace("@", "-")) as s:
            (c.dir / "node_modules").unlink(missing_ok=True)
            said = script(c, place, "details.mjs", DETAILS, [], HOME=str(c.home), **s.key())
            check(len(said) == 7, f"only {len(said)} steps were taken")
            tell(said)


@test(**SLOW)
def the_code_interpreter(c):
    place = modules(INTERPRETER, INSTALL_SECONDS)
    with Served(c) as s:
        said = script(c, place, "code.mjs", CODE, [], HOME=str(c.home), **s.key())
        check(len(said) > 10, f"only {len(said)} steps were taken")
        tell(said)


@test(**ROOT)
def building_templates(c):
    place = modules(NEWEST, INSTALL_SECONDS)
    with Served(c) as s:
        said = script(c, place, "build.mjs", BUILD, [import_base(c, s)], HOME=str(c.home), **s.key())
        check(len(said) > 8, f"only {len(said)} steps were taken")
        tell(said)
        equal(s.d.api.get("/v1/snapshots").expect(200).json["snapshots"], [], "snapshots that are left")
        wait_for(lambda: not s.d.api.get("/v1/sandboxes").expect(200).json["sandboxes"], "no sandbox is left")


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

        box = box.replace("_", "")  # as these clients know it
        check(box in e2b("sandbox", "list"), "list")
        check(box in e2b("sandbox", "list", "--format", "json"), "list as JSON")
        check("running" in e2b("sandbox", "info", box).lower(), "info")
        check("from inside" in e2b("sandbox", "exec", box, "echo from inside"), "exec")
        e2b("sandbox", "metrics", box)
        check("sandbox.ready" in e2b("sandbox", "logs", box), "logs")
        check("base" in e2b("template", "list"), "templates")
        e2b("sandbox", "kill", box)
        check(box not in e2b("sandbox", "list"), "it is killed")

        # Templates by Dockerfile, and what is made of them.
        def refused(*argv, says):
            done = c.execute([place / "node_modules/.bin/e2b", *argv], env=env, seconds=60)
            check(done.code == 1 and says in done.text + done.notes, f"e2b {argv}: {done}")
            print(f"# pass: e2b {' '.join(map(str, argv))}: refused, since {says}")

        where = c.mkdir(c.dir / "dockerfile")

        def dockerfile(text):
            c.write("dockerfile/Dockerfile", text)
            return ("template", "create", "by-cli", "-p", str(where))

        c.write("dockerfile/note.txt", "a note\n")
        e2b(*dockerfile("FROM e2bdev/base\nENV COLOUR=green\nWORKDIR /home/user/app\nCOPY note.txt note.txt\nRUN cat note.txt > made && echo $COLOUR >> made\n"))
        check("by-cli" in e2b("template", "list"), "it is listed")
        box = e2b("sandbox", "create", "by-cli", "--detach").split()[-1]
        equal(e2b("sandbox", "exec", box, "cat /home/user/app/made").split(), ["a", "note", "green"], "what was built")
        snapshot = next(w for w in e2b("sandbox", "snapshot", "create", box).split() if w.startswith("snap_"))
        check(snapshot in e2b("sandbox", "snapshot", "list"), "snapshots")
        e2b("sandbox", "snapshot", "delete", snapshot)
        e2b("sandbox", "pause", box)
        check(box in e2b("sandbox", "list", "--state", "paused"), "it is paused")
        e2b("sandbox", "resume", box)
        e2b("sandbox", "kill", "--all")
        refused("template", "publish", "by-cli", "--yes", says="publishing templates is not supported")
        refused("template", "unpublish", "by-cli", "--yes", says="publishing templates is not supported")
        e2b("template", "delete", "by-cli", "--yes")
        refused(*dockerfile("FROM e2bdev/base\nRUN exit 3\n"), says="exit status 3")
        refused(*dockerfile("FROM no-such:1\n"), says="there is no no-such:1 here")
        check("by-cli" not in e2b("template", "list"), "nothing is left of what failed")


main()
