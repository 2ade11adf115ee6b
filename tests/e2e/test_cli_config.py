#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""config init, show and check; and the profiles that are listed."""

import os

from client import Client
from daemon import Daemon
from harness import check, equal, main, test


def own(c, **more):
    return {"SANDBOXER_STATE": str(c.dir / "state"), "SANDBOXER_SOCKET": str(c.dir / "sock"), "XDG_CONFIG_HOME": str(c.dir / "xdg"), **more}


@test
def a_configuration_is_begun_with_comments(c):
    env = own(c)
    file = c.dir / "new/sandboxer.yaml"
    equal(c.cli("config", "init", file, env=env).expect(0).text, f"{file} written; every line is a comment with the default", "init")
    text = file.read_text()
    check(all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines()), "a line is no comment")
    for words in ("#listen:", "#idle_exit: 600", "#ttl:", "#  grace:"):
        check(words in text, f"no {words!r} in the file")
    c.cli("config", "check", file, env=env).expect(0, out=f"{file}: valid; a daemon could start\n".encode())
    file.write_text("idle_exit: 5m\n")
    c.cli("config", "init", file, env=env).expect(4, out=b"", says="exists, and is not overwritten")
    equal(file.read_text(), "idle_exit: 5m\n", "the file that was there")
    if not c.root:  # root's usual place is the machine's
        c.cli("config", "init", env=env).expect(0)
        check((c.dir / "xdg/sandboxer/sandboxer.yaml").exists(), "no file at the usual place")
    check(not os.path.exists(c.dir / "state"), "a check makes a state directory")


@test
def values_are_shown_with_their_source(c):
    file = c.write("some.yaml", "idle_exit: 5m\nlog: {level: debug}\n")
    text = c.cli("config", "show", file, env=own(c)).expect(0).text
    lines = text.splitlines()
    for line in (f"idle_exit: 300  # from {file}", f'  level: "debug"  # from {file}', f'state: "{c.dir}/state"  # from SANDBOXER_STATE',
                 '  format: "plain"'):
        check(line in lines, f"no {line!r} in {text}")
    file = c.write("again.yaml", text)  # what is shown is a configuration itself
    c.cli("config", "check", file, env=own(c)).expect(0)


@test
def mistakes_are_found_by_the_daemons_own_checks(c):
    for text, words in (("nonsense: 1\n", "line 1: nonsense"), ("idle_exit: soon\n", "idle_exit"), ("listen: 0.0.0.0:1\n", "other machines can reach")):
        file = c.write("bad.yaml", text)
        for verb in ("check", "show"):
            c.cli("config", verb, file, env=own(c)).expect(2, out=b"", says=words)
    c.cli("config", "check", c.dir / "none.yaml", env=own(c)).expect(2, out=b"", says="none.yaml")


@test
def profiles_that_cannot_be_served_are_hidden(c):
    with Daemon(c) as d:
        cli = Client(d)
        c.write("daemon/profiles/remote.yaml", "id: profile.remote\nversion: 1\nextension: ext.none\n")
        cli("profiles", "reload")
        listed = cli("profiles", "list").expect(0, says="cannot be served here; 'sandboxer profiles list --all'")
        check("profile.remote" not in listed.text and "profile.pooled" in listed.text, f"the list: {listed.text}")
        check("profile.remote" in cli("profiles", "list", "--all").expect(0, err=b"").text, "--all")
        check("profile.remote" in [p["id"] for p in cli.json("profiles", "list")["profiles"]], "-o json")


main()
