#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Programs in a sandbox, by the command line: exec, shell, ps, attach, kill, logs."""

import hashlib
import json
import os
import signal

from client import Client
from daemon import Daemon
from harness import check, equal, main, test, wait_for
from terminal import Terminal

STDIN_BYTES = 100 << 20


@test
def a_program_has_its_streams_and_status(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        cli.sh(box, "echo out; echo err >&2; exit 7").expect(7, out=b"out\n", err=b"err\n")
        cli.sh(box, "kill -TERM $$").expect(143)
        cli.sh(box, "cat").expect(0, out=b"", err=b"")
        cli.sh(box, "cat", "-i", stdin=b"in").expect(0, out=b"in")
        cli("exec", box, "echo", "no", "dashes").expect(0, out=b"no dashes\n")


@test
def a_program_gets_what_was_asked_for(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        cli.sh(box, 'echo "$A-$B"; pwd; id -u', "--env", "A=1", "-e", "B=x y", "--workdir", "/tmp").expect(0, out=b"1-x y\n/tmp\n0\n")
        if c.root:
            cli.sh(box, "id -u", "--user", "1000").expect(0, out=b"1000\n")
        cli.sh(box, "sleep 1000", "--timeout", "200ms").expect(124, err=b"sandboxer: timed out after 200 ms\n")
        cli.sh(box, "true", "--user", "nobody-here").expect((125, 126, 127), says="nobody-here")
        cli.sh(box, "true", "--workdir", "/nowhere").expect((125, 126, 127), says="/nowhere")
        for flags in ((), ("-d",)):
            cli("exec", *flags, box, "--", "no-such-program").expect(
                127, err=f"sandboxer: exec: {box}: step program: no-such-program: No such file or directory (not_found)\n".encode())
        cli("exec", box, "--", "/etc/passwd").expect(126)
        cli("exec", "sbx_nothing", "--", "true").expect(125, says="sbx_nothing")
        cli("exec", box).expect(125, says="give a command")
        cli("exec", "-d", "-i", box, "--", "true").expect(125, says="--detach excludes")


def run_served(d, *argv):
    """`run`, which asks the daemon only where nothing forbids it."""
    return d.c.cli("run", *argv, env={"SANDBOXER_SOCKET": str(d.socket), "SANDBOXER_STATE": str(d.state)})


def same_without_daemon(d, *argv):
    """A run says and returns the same, whoever serves it."""
    served, alone = run_served(d, "--", *argv), d.c.run("--memory", "64M", "--", *argv)
    equal((served.code, served.out, served.err), (alone.code, alone.out, alone.err), f"the run of {argv} by the daemon")
    return served


@test
def an_untrusted_run_is_not_served(c):
    job, d = c.write("job.sh", "#!/bin/sh\necho x > x\n"), Daemon(c)
    c.write("daemon/profiles/profile.run.yaml", "id: profile.run\nversion: 2\nresources: {memory_mb: 64, pids: 64, disk_mb: 32}\n")
    with d:
        run_served(d, "--untrusted", job, "--output", c.dir / "out").expect(0)
        equal(d.list("?state=all"), [], "what the daemon has run of it")
        equal((c.dir / "out/x").read_text(), "x\n", "the output")
        run_served(d, "--", "true").expect(0)
        equal(len(d.list("?state=all")), 1, "runs by the daemon")


HOG = "b = bytearray(256 << 20); print('had it all')"


@test(only="root", because="no delegated control group")
def a_run_out_of_memory_is_named_by_the_daemon_too(c):
    d = Daemon(c)
    c.write("daemon/profiles/profile.run.yaml", "id: profile.run\nversion: 2\nresources: {memory_mb: 64, pids: 64, disk_mb: 32}\n")
    with d:
        same_without_daemon(d, "/usr/bin/python3", "-c", HOG).expect(137, err=b"sandboxer: killed: out of memory (limit 64M)\n")
        same_without_daemon(d, "/bin/sh", "-c", f'/usr/bin/python3 -c "{HOG}" 2>/dev/null; exit 3').expect(
            3, says=r"note: 1 process was killed: out of memory \(limit 64M\)")
        same_without_daemon(d, "/bin/sh", "-c", "exit 4").expect(4, err=b"")
        check(d.list("?state=all")[0]["profile"] == "profile.run", "the daemon did not serve it")


@test
def a_run_says_the_same_whoever_serves_it(c):
    with Daemon(c) as d:
        for argv, code in ((("no-such-program",), 127), (("/etc/passwd",), 126), (("/bin/sh", "-c", "kill -9 $$"), 137)):
            served, alone = run_served(d, "--", *argv), c.run("--", *argv)
            equal((served.code, served.err), (alone.code, alone.err), f"the run of {argv} by the daemon")
            equal(served.code, code, f"the status of {argv}")
        for result in (run_served(d, "--timeout", "200ms", "--", "sleep", "1000"), c.run("--timeout", "200ms", "--", "sleep", "1000")):
            result.expect(124, err=b"sandboxer: timed out after 200 ms\n")
        run_served(d, "--timeout", "9s", "--", "/bin/sh", "-c", "exit 124").expect(124, err=b"")


@test
def a_hundred_megabytes_go_through(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        data = c.write("data", os.urandom(1 << 20) * (STDIN_BYTES >> 20))
        with open(data, "rb") as source:
            running = cli.start("exec", "-i", box, "--", "cat", stdin=source)
            got = hashlib.sha256()
            while piece := running.stdout.read(1 << 20):
                got.update(piece)
        equal(running.wait(60), 0, "exit status")
        with open(data, "rb") as source:
            equal(got.hexdigest(), hashlib.sha256(source.read()).hexdigest(), "hash of what came back")


@test
def a_program_ends_with_its_client(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
            running = cli.start("exec", box, "--", "/bin/sh", "-c", "echo up; sleep 1111 & wait")
            equal(running.stdout.readline(), b"up\n", "its first line")
            running.send_signal(number)
            running.wait(20)
            wait_for(lambda: b"sleep 1111" not in cli.sh(box, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").out,
                     f"everything of it ends after {number!r}")


@test
def a_lost_daemon_is_125(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        running = cli.start("exec", box, "--", "/bin/sh", "-c", "echo up; sleep 1111")
        equal(running.stdout.readline(), b"up\n", "its first line")
        d.kill()
        equal(running.wait(20), 125, "exit status")
        check(b"sandboxer: exec: " in running.stderr.read(), "nothing is said")
        cli("list").expect(125, says="no daemon listens")
        d.start()
        cli.sh(box, "echo back").expect(0, out=b"back\n")


@test
def twenty_at_once_are_not_mixed_up(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        running = [cli.start("exec", "-i", box, "--", "/bin/sh", "-c", f"read x; echo {n} $x; exit {n}") for n in range(20)]
        for n, process in reversed(list(enumerate(running))):
            out, err = process.communicate(f"line {n}\n".encode(), timeout=60)
            equal((out, err, process.returncode), (f"{n} line {n}\n".encode(), b"", n), f"program {n}")


# ---- terminals ----------------------------------------------------------------------------------------


def on_terminal(cli, *verb, size=(24, 80)):
    return Terminal(cli.c, verb=verb, env=cli.env, size=size)


@test
def a_shell_on_a_terminal(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        with on_terminal(cli, "shell", box, size=(30, 100)) as t:
            t.expect(b"# ")
            t.send(b"stty size; tty; echo mark$((1+1))\r")
            t.expect(b"mark2")
            check(b"30 100" in t.before, f"stty says {t.before!r}")
            check(b"/dev/pts/" in t.before, f"tty says {t.before!r}")
            t.resize(50, 132)
            t.process.send_signal(signal.SIGWINCH)
            t.send(b"sleep 0.1; stty size; echo mark$((2+1))\r")
            t.expect(b"mark3")
            check(b"50 132" in t.before, f"stty says {t.before!r}")
            t.send(b"exit 9\r")
            equal(t.end(), 9, "exit status")
            check(t.restored(), "the terminal is not as it was")


@test
def a_shell_reads_commands_from_a_pipe(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        cli("shell", box, stdin=b"echo one\nexit 4\n").expect(4, out=b"one\n")
        cli("shell", box, "/bin/sh", stdin=b"echo $0\n").expect(0, out=b"/bin/sh\n")


@test
def exec_t_gives_a_terminal(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        with on_terminal(cli, "exec", "-it", box, "--", "/bin/sh", "-c", "test -t 0 && test -t 1 && test -t 2 && echo all; exit 5") as t:
            t.expect(b"all")
            equal(t.end(), 5, "exit status")
        with on_terminal(cli, "exec", "-it", box, "--", "/bin/sh", "-c", "trap 'exit 6' INT; echo up; while :; do sleep 0.02; done") as t:
            t.expect(b"up")
            t.send(b"\x03")
            equal(t.end(), 6, "exit status after ^C")
            check(t.restored(), "the terminal is not as it was")
        cli("exec", "-t", box, "--", "/bin/sh", "-c", "tty").expect(0)


# ---- in the background --------------------------------------------------------------------------------


@test
def background_processes_are_listed(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        n = cli.spawn(box, "sleep 1000")
        cli.sh(box, "true").expect(0)
        row = cli.json("ps", box)["processes"][0]
        equal((str(row["process"]), row["state"]), (n, "running"), "ps")
        equal(cli.state(box), "active", "state")
        check("sleep 1000" in cli("ps", box).expect(0).text, "ps does not show the command")
        cli("kill", box, "4711").expect(3, says="process")
        cli("kill", box, n).expect(0)
        wait_for(lambda: cli.state(box) == "ready", "nothing runs any more")


@test
def logs_and_attach_show_what_was_written(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        n = cli.spawn(box, "mkfifo /tmp/go; echo one; echo two >&2; read x < /tmp/go; echo $x; exit 3")
        wait_for(lambda: cli("logs", box).err == b"two\n", "logs show it")
        following = cli.start("logs", "-f", box)
        attached = cli.start("attach", box, n)
        equal((following.stdout.readline(), following.stderr.readline()), (b"one\n", b"two\n"), "logs -f")
        equal(attached.stdout.readline(), b"one\n", "attach")
        cli.sh(box, "echo three > /tmp/go").expect(0)
        equal(following.stdout.readline(), b"three\n", "logs -f, live")
        equal(attached.communicate(timeout=20), (b"three\n", b"two\n"), "attach, live")
        equal(attached.returncode, 3, "attach's exit status")
        following.kill()
        equal(cli("attach", "--no-replay", box, n).expect(3).out, b"", "attach after the end, without what is kept")
        equal(cli("logs", box, "--tail", "1").expect(0).out, b"three\n", "logs --tail")
        kinds = [(e["stream"], e["line"]) for e in map(json.loads, cli.lines("logs", box, "-o", "json"))]
        equal(sorted(kinds), [("stderr", "two"), ("stdout", "one"), ("stdout", "three")], "logs as json")
        row = cli.json("ps", box)["processes"][0]
        equal((row["state"], row["exit_code"]), ("exited", 3), "ps")


@test
def signals_reach_a_background_process(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        n = cli.spawn(box, "trap 'exit 5' USR1; echo up; while :; do sleep 0.05; done")
        wait_for(lambda: b"up" in cli("logs", box, "--process", n).out, "it is up")
        cli("kill", "-s", "USR1", "--scope", "process", box, n).expect(0)
        found = wait_for(lambda: [p for p in cli.json("ps", box)["processes"] if p["state"] == "exited"], "it ends")
        equal(found[0]["exit_code"], 5, "exit status")
        n = cli.spawn(box, "setsid sleep 2222 & sleep 2222")
        cli("kill", "-s", "KILL", box, n).expect(0)
        wait_for(lambda: b"sleep 2222" not in cli.sh(box, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").out, "the whole tree ends")
        cli("kill", "-s", "NOSUCH", box, n).expect(2, says="NOSUCH")


@test
def logs_show_no_escapes_on_a_terminal(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        cli.spawn(box, "printf 'x\\033]0;owned\\007y\\n'")
        wait_for(lambda: b"y" in cli("logs", box).out, "it is written")
        with on_terminal(cli, "logs", box) as t:
            t.expect(b"y")
            check(b"\x1b" not in t.before, f"the terminal gets {t.before!r}")
        check(b"\x1b]0;owned" in cli("logs", "--raw", box).out, "--raw is not raw")


@test
def what_has_ended_can_be_forgotten(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        ended, runs = cli.spawn(box, "echo said"), cli.spawn(box, "exec sleep 1000")
        wait_for(lambda: [p["state"] for p in cli.json("ps", box)["processes"]] == ["exited", "running"], "the first one ends")
        cli("ps", box, "--forget", runs).expect(4, says="has not ended")
        equal(cli.lines("ps", "-q", box, "--forget", ended), [runs], "what is left")
        equal(cli.lines("ps", "-q", box), [runs], "what is left")
        cli("ps", box, "--forget", ended).expect(3)
        cli("attach", box, ended).expect((3, 125))
        equal(cli("logs", box).expect(0).out, b"", "the logs")
        d.kill()
        d.start()
        equal(cli.lines("ps", "-q", box), [runs], "what is left after a restart")


main()
