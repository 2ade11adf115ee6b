#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""What newcomers lost, or were told wrongly, as far as no other test has it.

Others have: sockets in the place of files (test_socket, test_start), conflicts at the end of a sandbox (test_workspace,
model/test_integrity), memory that ran out (test_oom), idle sandboxes (test_ttl), arguments that were ignored or told
wrongly (test_cli_refusals, test_workspace), the host's loopback (test_egress_run), starts of ids (test_cli_sandboxes).
"""

import os
import pathlib
import stat

from client import Client
from daemon import Daemon
from harness import Skip, check, equal, main, test, wait_for
from mcp import Lines

DISK = 32 << 20  # of the harness's profiles
ROOT = pathlib.Path(__file__).parents[2]


@test
def a_full_disk_is_an_error_and_the_sandbox_lives(c):
    """On the storage that is chosen without a word: a copy in, and a program's writes, beyond the limit."""
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        cli.sh(box, "echo kept > /root/kept").expect(0)
        c.write("big", os.urandom(2 * DISK))
        cli("cp", c.dir / "big", f"{box}:/root/big").expect(6, says="the sandbox's disk limit is 32M")
        cli.sh(box, "rm -f /root/big").expect(0)
        wrote = cli.sh(box, f"head -c {2 * DISK} /dev/urandom > /root/x")
        check(wrote.code == 1 and any(why in wrote.notes for why in ("No space left", "quota exceeded")), f"{wrote}")
        cli.sh(box, "cat /root/kept; rm /root/x").expect(0, out=b"kept\n")
        cli.sh(box, "echo alive").expect(0, out=b"alive\n")
        check(cli.state(box) in ("ready", "active"), cli.state(box))
        equal(cli.json("get", box).get("oom_kills", 0), 0, "kills")


@test(only="root", because="a plain user's socket is elsewhere")
def the_directory_of_sockets_is_open_whoever_makes_it(c):
    """/run/sandboxer, in a /run of the test's own."""
    script = f"umask 077; mount -t tmpfs none /run && {c.program()} run -- true && stat -c %a /run/sandboxer"
    said = c.execute(["unshare", "-m", "--propagation", "private", "sh", "-c", script], env={"SANDBOXER_NO_DAEMON": "1"})
    equal((said.code, said.text), (0, "755"), f"its mode after a run: {said}")


@test(only="plain", because="root's sandboxes have all identities")
def another_user_inside_is_refused_with_a_remedy_that_exists(c):
    with Daemon(c) as d:
        cli = Client(d)
        said = cli.sh(cli.create(), "id -u", "-u", "1000")
        if said.code == 0:
            raise Skip("this user has subordinate ids")
        said.expect(125, says="sandboxer run --user 1000:1000")
        equal(c.cli("run", "--user", "1000:1000", "--", "id", "-u", env={"SANDBOXER_NO_DAEMON": "1"}).expect(0).text, "1000", "what was advised")


@test
def a_hostname_is_the_one_that_help_promises(c):
    told = c.cli("run", "--help").expect(0).text
    check("default: sbx-ID; 'run' without a daemon: sandbox" in " ".join(told.split()), told)
    equal(c.cli("run", "--", "uname", "-n", env={"SANDBOXER_NO_DAEMON": "1", "SANDBOXER_SOCKET": str(c.dir / "none")}).expect(0).text, "sandbox", "without a daemon")
    with Daemon(c) as d:
        name = Client(d)("run", "--", "uname", "-n").expect(0).text
        check(name.startswith("sbx-") or name == "sandbox", f"with a daemon: {name}")


@test
def a_life_that_is_too_long_is_told_in_its_units(c):
    with Daemon(c) as d:
        said = Client(d)("create", "--ttl", "100d").expect(2, says="100d is more than the 1h")
        check("8640000" not in said.notes, f"{said}")


@test
def a_registry_that_is_not_allowed_is_told_by_its_setting(c):
    with Daemon(c) as d:
        Client(d)("image", "pull", "localhost:5000/x").expect((1, 2, 4, 5), says="images.registries")


@test
def followers_of_a_lost_daemon_say_so(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        number = cli.spawn(box, "echo up; sleep 1000")
        wait_for(lambda: "up" in cli("logs", box, "-p", number).expect(0).text, "its first line")
        following = [cli.start("logs", "-f", box, "-p", number), cli.start("events", "-f", "--since", "1h")]
        for process in following:
            check(process.stdout.readline(), "nothing is followed")
        d.kill()
        for process, verb in zip(following, ("logs", "events")):
            process.wait(20)
            said = process.stderr.read().decode()
            check(process.returncode not in (0, None), f"{verb} ends with {process.returncode}")
            check(f"sandboxer: {verb}: the connection to the daemon was lost" in said, f"{verb}: {said}")
        d.start()


@test(only="plain", because="root has a directory for sockets")
def a_home_that_is_the_root_is_no_mistake(c):
    said = c.cli("list", env={"HOME": "/", "SANDBOXER_NO_DAEMON": "1"})
    check("//" not in said.notes and "must be an absolute path" not in said.notes, f"{said}")


@test
def ssh_is_told_the_daemon_that_was_chosen(c):
    with Daemon(c) as d:
        told = Client(d)("ssh-config").expect(0).text
        for line in ("ProxyCommand", "KnownHostsCommand"):
            row = next(x for x in told.splitlines() if x.strip().startswith(line))
            check(f"SANDBOXER_SOCKET={d.socket}" in row and f"SANDBOXER_STATE={d.state}" in row, row)


@test
def all_mistakes_of_a_profile_are_told(c):
    with Daemon(c) as d:
        file = c.write("p.yaml", "id: profile.x\nversion: 1\nttl: {default: banana}\nresources: {cpu: many}\nnope: 1\n")
        said = Client(d)("profiles", "validate", file)
        check(said.code == 1, f"{said}")
        for word in ("ttl.default", "resources.cpu", "nope"):
            check(word in said.text + said.notes, f"{word} is not named: {said}")


@test
def a_peer_that_ended_is_not_shown_with_sandboxes(c):
    with Daemon(c) as d:
        cli = Client(d)
        with Lines(c, d) as m:
            m.begin()
            m.tool("sandbox_create")
            rows = cli.json("peers", "list")["peers"]
            equal([row["sandboxes"] for row in rows], [1], f"while it is there: {rows}")
        wait_for(lambda: not d.list(), "its sandbox is gone with it", 40)
        rows = cli.json("peers", "list")["peers"]
        equal([row for row in rows if row.get("sandboxes")], [], "peers with sandboxes when there is none")


@test
def the_default_policy_for_tools_can_be_used_as_it_advises(c):
    """Every path in its comments is one that something reads."""
    text = (ROOT / "policies/default.yaml").read_text()
    check("trust.bundle" in text and "/etc/sandboxer/policies/" not in text, "the advice")
    bundle = c.write("bundle.yaml", text)
    if not c.root:
        os.chmod(bundle, stat.S_IRUSR | stat.S_IWUSR)
    with Daemon(c, config=f"trust: {{bundle: {bundle}}}") as d:
        Client(d)("trust", "validate", bundle).expect(0)
        d.create()


main()
