#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""The daemon as a thing: status, start, stop, restart, reload, logs, listen, and its end when nobody uses it."""

import contextlib
import json
import os
import re
import signal
import socket

from client import Client, listener
from daemon import Daemon
from harness import Skip, check, equal, main, processes, test, wait_for
from tcp import free_port

CANARY = "id: profile.sandbox-canary\nversion: 1\n"


class OnDemand:
    """A state directory, socket and configuration of the test's own, for a daemon that verbs start."""

    def __init__(self, c, config=""):
        self.c = c
        self.socket, self.state = c.dir / "sock", c.dir / "state"
        c.write("profiles/canary.yaml", CANARY)
        c.write("xdg/sandboxer/sandboxer.yaml", config)
        self.env = {"SANDBOXER_STATE": str(self.state), "SANDBOXER_SOCKET": str(self.socket), "XDG_CONFIG_HOME": str(c.dir / "xdg"),
                    "SANDBOXER_PROFILES": str(c.dir / "profiles")}

    def __call__(self, *argv, **options):
        return self.c.cli(*argv, env={**self.env, **options.pop("env", {})}, **options)

    def json(self, *argv, code=0):
        return json.loads(self(*argv, "-o", "json").expect(code).out)

    def pid(self):
        return listener(self.socket)

    def stop(self):
        pid = self.pid()
        if pid:
            os.kill(pid, signal.SIGTERM)
            wait_for(lambda: pid not in processes(), "the daemon ends")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pid = self.pid()
        if pid:
            self("destroy", "--all", "--yes")
        self.stop()


@test
def it_is_started_shown_and_ended(c):
    with OnDemand(c) as d:
        d("daemon", "status").expect(3, out=b"", says="no daemon listens on ")
        equal(d.json("daemon", "status", code=3), {"running": False}, "status without a daemon")
        d("daemon", "stop").expect(3, says="no daemon listens")
        d("daemon", "reload").expect(3, says="no daemon listens")
        check(d.pid() is None, "a status starts a daemon")
        started = d("daemon", "start").expect(0).text
        pid = d.pid()
        equal(started, f"started (process {pid}, {d.socket})", "what start says")
        equal(d("daemon", "start").expect(0).text, f"a daemon runs already (process {pid}, {d.socket})", "a second start")
        shown = d.json("daemon", "status")
        equal((shown["running"], shown["supervisor_pid"], shown["started_by"], shown["state"], shown["socket"], shown["listeners"]),
              (True, pid, "demand", str(d.state), str(d.socket), [f"unix:{d.socket}"]), "status")
        equal((shown["sandboxes"], shown["log"], shown["idle_exit_s"]), (0, str(d.state / "sandboxerd.log"), 600), "status")
        check(shown["pid"] != pid and shown["pid"] in processes(), f"the control plane: {shown}")
        equal((d.state / "sandboxerd.log").stat().st_mode & 0o777, 0o600, "mode of the log")
        text = d("daemon", "status").expect(0).text
        for words in (f"PROCESS:            {pid}", "STARTED BY:         the command line, on demand", "ENDS UNUSED AFTER:  10m", str(d.socket)):
            check(words in text, f"no {words!r} in {text}")
        equal(d("daemon", "status", "-q").expect(0).text, str(pid), "status -q")
        box = d("create", "-q").expect(0).text
        equal(d("daemon", "stop").expect(0).text, "the daemon has ended; 1 sandbox continues without it", "what stop says")
        check(pid not in processes() and not d.socket.exists(), "the daemon is still there")
        d("daemon", "start").expect(0)
        d("exec", box, "--", "true").expect(0)
        again = d.pid()
        said = d("daemon", "restart").expect(0).text
        check(d.pid() != again and said.startswith(f"started again (process {d.pid()}"), f"restart: {said}")
        equal(d.json("daemon", "status")["sandboxes"], 1, "sandboxes after a restart")
        d("exec", box, "--", "true").expect(0)


@test
def a_daemon_that_cannot_start_gives_its_reason(c):
    with OnDemand(c) as d:
        c.write("state/daemon", "in the way")
        d("daemon", "start").expect(125, out=b"", says="sandboxerd: .*daemon is not a directory")
        os.unlink(d.state / "daemon")
        d("daemon", "start").expect(0)
        pid = d.pid()
        c.write("xdg/sandboxer/sandboxer.yaml", "nonsense: 1\n")
        if not c.root:
            d("daemon", "restart").expect(125, says="the daemon was not ended.*nonsense")
            equal(d.pid(), pid, "the daemon")


@test
def other_daemons_are_left_alone(c):
    with Daemon(c) as hand:
        cli = Client(hand)
        shown = json.loads(cli("daemon", "status", "-o", "json").expect(0).out)
        equal((shown["started_by"], shown["supervisor_pid"]), ("hand", hand.process.pid), "status")
        check("idle_exit_s" not in shown, f"it would end by itself: {shown}")
        cli("daemon", "restart").expect(4, says=("started by hand", "daemon stop"))
        cli("daemon", "listen").expect(4, says="started by hand")
        cli("daemon", "logs").expect(4, says="logs to the stderr")
        for server in (f"unix:{hand.socket}", "http://127.0.0.1:1"):
            for verb in ("start", "stop", "restart", "listen"):
                cli("daemon", verb, "--server", server).expect(2, says="only that of this machine")
        check(hand.process.poll() is None, "the daemon was ended")
        if c.root:  # a user who may connect, and is neither root nor the daemon's
            os.chmod(hand.socket, 0o666)
            os.chmod(c.dir, 0o755)
            user = ["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", c.program(), "daemon"]
            for verb in ("status", "stop", "reload"):
                c.execute([*user, verb], env=cli.env).expect(5, says="admin")
            os.chmod(hand.socket, 0o600)
            c.execute([*user, "status"], env=cli.env).expect(5, says="Permission denied")
        status = json.loads(cli("daemon", "status", "-o", "json").expect(0).out)
        equal(status["supervisor_pid"], hand.process.pid, "the daemon")
        cli("daemon", "stop").expect(0)
        hand.process.wait(timeout=60)
        hand.start()


@test
def a_daemon_that_hangs_is_reported_and_killed(c):
    with OnDemand(c) as d:
        box = d("create", "-q").expect(0).text
        shown = d.json("daemon", "status")
        os.kill(shown["pid"], signal.SIGSTOP)
        d("daemon", "status").expect(6, says="does not answer within 5 s.*stop --force")
        d("daemon", "stop").expect(6, says="does not answer")
        d("daemon", "stop", "--force").expect(0)
        wait_for(lambda: shown["pid"] not in processes(), "the control plane ends")
        d("exec", box, "--", "true").expect(0)


@test
def systemd_ends_what_it_started(c):
    """The daemon has the variable that systemd sets; systemctl is a script that only notes how it was called."""
    d = Daemon(c)
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind(str(c.dir / "notify"))
    os.chmod(c.dir / "notify", 0o666)
    d.start(NOTIFY_SOCKET=str(c.dir / "notify"))
    c.write("bin/systemctl", f"#!/bin/sh\necho \"$@\" >>{c.dir}/called\n", 0o755)
    with d, notify:
        cli = Client(d, PATH=f"{c.dir}/bin:{os.environ.get('PATH', '/usr/bin:/bin')}")
        equal(cli.json("daemon", "status")["started_by"], "systemd", "status")
        cli("daemon", "stop").expect(0)
        cli("daemon", "restart").expect(0)
        called = (c.dir / "called").read_text().splitlines()
        check(called[0].startswith("stop ") and ".socket" in called[0] and called[1].startswith("restart "), f"systemctl: {called}")
        cli("daemon", "logs").expect(4, says="journalctl -u")
        config = "/etc/sandboxer/sandboxer.yaml" if c.root else f"{c.dir}/xdg/sandboxer/sandboxer.yaml"
        refused = cli("daemon", "listen", "127.0.0.1:7701", env={"XDG_CONFIG_HOME": str(c.dir / "xdg")}).expect(2, out=b"")
        steps = refused.notes.splitlines()[-2:]
        equal(steps[0], f"sandboxer: 1. write this line into {config}:  listen: 127.0.0.1:7701", "the first step")
        check(re.fullmatch(r"sandboxer: 2\. then run:  systemctl (--user )?restart \S+\.service", steps[1]), f"the second step: {steps}")
        port = free_port()
        d.stop()
        d.start(args=("--listen", f"127.0.0.1:{port}"), NOTIFY_SOCKET=str(c.dir / "notify"))
        cli("daemon", "listen", f"127.0.0.1:{port}").expect(0, err=b"")
        c.write("bin/systemctl", "#!/bin/sh\nexit 3\n", 0o755)
        cli("daemon", "stop").expect(125, says="systemctl stop .* failed")
        check(d.process.poll() is None, "the daemon was ended")
        for name in ("called", "notify"):
            os.unlink(c.dir / name)


@test
def a_reload_tells_what_changed(c):
    with Daemon(c) as d:
        cli = Client(d)
        for verb in (("profiles", "reload"), ("daemon", "reload")):
            c.write("daemon/profiles/mine.yaml", "id: profile.mine\nversion: 1\n")
            check("added: profile.mine@1" in cli(*verb).expect(0).text, f"{verb}: a new profile is not named")
            c.write("daemon/profiles/mine.yaml", "id: profile.mine\nversion: 1\nworkdir: /tmp\n")
            said = cli(*verb).expect(0).text
            check("changed: profile.mine@1" in said and "added" not in said, f"{verb}: {said}")
            equal(cli.json(*verb)["changed"], [], "changes without a change")
            c.write("daemon/profiles/mine.yaml", "id: profile.mine\nversion: 1\nnonsense: 1\n")
            cli(*verb).expect(1, says="mine.yaml: .*nonsense")
            equal(len(cli.json(*verb, code=1)["problems"]), 1, "problems")
            os.unlink(c.dir / "daemon/profiles/mine.yaml")
            check("removed: profile.mine@1" in cli(*verb).expect(0).text, f"{verb}: a profile that is gone is not named")
        d.process.send_signal(signal.SIGHUP)
        wait_for(lambda: cli("list").code == 0, "SIGHUP ends nothing")


@test
def the_log_is_shown_and_bounded(c):
    with OnDemand(c, "log: {level: debug}\n") as d:
        d("daemon", "logs").expect(3, says="sandboxerd.log: No such file")
        old = b"".join(b"line %07d of an earlier daemon\n" % n for n in range(300000))
        path = c.write("state/sandboxerd.log", old, 0o600)
        os.chmod(d.state, 0o700)
        d("daemon", "start").expect(0)
        wait_for(lambda: path.stat().st_size < 1 << 20, "the log is emptied")
        older = (d.state / "sandboxerd.log.1").read_bytes()
        check(older.startswith(old[:100]) and len(older) >= len(old), "the older part is lost")
        equal((d.state / "sandboxerd.log.1").stat().st_mode & 0o777, 0o600, "mode of the older part")
        d("daemon", "stop").expect(0)
        d("daemon", "start").expect(0)
        lines = d("daemon", "logs", "-n", "100000").expect(0).text.splitlines()
        check(any("daemon.ready" in line for line in lines), f"the log: {lines[-5:]}")
        equal(d("daemon", "logs", "-n", "2").expect(0).text.splitlines(), lines[-2:], "the last two lines")
        with following(d) as follower:
            box = d("create", "-q").expect(0).text
            seen = b""
            while box.encode() not in seen:
                piece = os.read(follower.stdout.fileno(), 65536)
                check(piece, "the log ends")
                seen += piece


@contextlib.contextmanager
def following(d):
    process = d.c.start([d.c.program(), "daemon", "logs", "-f", "-n", "0"], env=d.env)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@test
def it_starts_in_order_to_listen(c):
    with OnDemand(c) as d:
        port = free_port()
        d("daemon", "listen", f"127.0.0.1:{port}").expect(0, err=b"")
        check(f"http://127.0.0.1:{port}" in d.json("daemon", "status")["listeners"], "listeners")


@test
def it_listens_when_told(c):
    with OnDemand(c) as d:
        port = free_port()
        box = d("create", "-q").expect(0).text
        said = d("daemon", "listen", f"127.0.0.1:{port}").expect(0).text
        check(f"listening on http://127.0.0.1:{port}" in said and "token create --e2b)" in said and "token create --daytona)" in said, said)
        check('eval "$(' not in said, f"a failure would be hidden: {said}")
        shown = d.json("daemon", "status")
        check(f"http://127.0.0.1:{port}" in shown["listeners"] and "idle_exit_s" not in shown, f"status: {shown}")
        check(f"E2B_API_URL='http://127.0.0.1:{port}'" in d("token", "create", "--e2b").expect(0).text, "what to export")
        token = d("token", "create", "-q", "ci").expect(0).text
        there = {"SANDBOXER_URL": f"http://127.0.0.1:{port}", "SANDBOXER_TOKEN": token}
        equal(d("list", "-q", env=there).expect(0).text, box, "sandboxes over TCP")
        d("daemon", "status", env=there).expect(5)
        d("daemon", "stop", env=there).expect(2, says="SANDBOXER_URL")
        d("daemon", "restart").expect(0)
        check(f"http://127.0.0.1:{port}" in d.json("daemon", "status")["listeners"], "a restart forgets the address")
        pid = d.pid()
        d("daemon", "listen", "0.0.0.0:7700").expect(2, says=("other machines can reach", "listen_unencrypted"))
        d("daemon", "listen", "banana").expect(2, says="must be an address and a port")
        equal(d.pid(), pid, "the daemon")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            d("daemon", "listen", f"127.0.0.1:{taken.getsockname()[1]}").expect(125, says="listening on|in use")
        check(f"http://127.0.0.1:{port}" in d.json("daemon", "status")["listeners"], "the daemon before is not back")


# ---- the end of a daemon that is not used ---------------------------------------------------------------


def used(d, sandboxes=None):
    """How often the daemon noted that it is used."""
    log = (d.state / "sandboxerd.log").read_text()
    return log.count("daemon.in_use" if sandboxes is None else f"daemon.in_use sandboxes={sandboxes}")


def stays(d, pid, why):
    before = used(d)
    wait_for(lambda: used(d) > before + 6, f"it notes that it is used ({why})")
    check(pid in processes(), f"it ends although there is {why}")


@test
def it_ends_when_nobody_uses_it(c):
    if c.root:
        raise Skip("root's daemon reads the machine's own configuration only")
    with OnDemand(c, "idle_exit: 400ms\nlog: {level: debug}\n") as d:
        d("daemon", "start").expect(0)
        pid = d.pid()
        box = d("create", "-q").expect(0).text
        stays(d, pid, "a sandbox")
        d("pause", box).expect(0)
        stays(d, pid, "a paused sandbox, which has a deadline")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
            s.connect(str(d.socket))
            d("destroy", box).expect(0)
            stays(d, pid, "a client")
        wait_for(lambda: pid not in processes(), "it ends")
        equal((d.socket.exists(), [p.name for p in c.dir.glob("sock*")]), (False, []), "what it leaves")
        check("daemon.unused" in d("daemon", "logs").expect(0).text, "the log does not say why")
        equal(d("list", "-q").expect(0).text, "", "the next verb")


@test
def every_request_finds_a_daemon_while_one_ends(c):
    if c.root:
        raise Skip("root's daemon reads the machine's own configuration only")
    with OnDemand(c, "idle_exit: 100ms\nlog: {level: debug}\n") as d:
        log = d.state / "sandboxerd.log"
        d("list", "-q").expect(0, out=b"")
        for n in range(1, 16):
            wait_for(lambda: log.read_text().count("daemon.refusing" if n % 2 else "daemon.unused") >= n // 2, "it ends")
            d("list", "-q").expect(0, out=b"")
        check(log.read_text().count("daemon.ready") > 4, "it ended too rarely")


@test
def it_ends_with_its_state_directory(c):
    with OnDemand(c) as d:
        box = d("create", "-q").expect(0).text
        d("exec", "-d", box, "--", "sleep", "1000").expect(0)
        pid = d.pid()
        c.execute(["sh", "-c", f"rm -rf {d.state}/daemon"]).expect(0)
        wait_for(lambda: pid not in processes(), "it ends", seconds=60)


main()
