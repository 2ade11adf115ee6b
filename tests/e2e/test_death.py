#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Death of any part: everything is gone soon, and who survives tells the truth. The harness checks after
each test that nothing is left."""

import contextlib
import os
import random
import signal
import time

from harness import check, descendants, equal, main, test, wait_for

TREE = "setsid sleep 1000 & (sleep 1000 &) ; echo up; sleep 1000"


def up(c, script=TREE, **options):
    process = c.start_sh(script, **options)
    equal(process.stdout.readline(), b"up\n", "first line")
    return process


def kill_all(pids, number=signal.SIGKILL):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def named(process, part):
    return [pid for pid, name in descendants(process.pid).items() if part in name]


def status(process):
    code = process.wait(20)
    return code if code >= 0 else 128 - code


@test
def the_cli_is_killed(c):
    process = up(c)
    below = set(descendants(process.pid))
    check(len(below) >= 3, f"only {len(below)} processes below the CLI")
    process.kill()
    process.wait(20)
    wait_for(lambda: not below & set(descendants()), "the tree is gone", 10)


@test
def the_launcher_is_killed(c):
    process = up(c)
    launchers = named(process, "sandboxer-launc") or named(process, "launch")
    if not launchers:
        launchers = [pid for pid in descendants(process.pid) if os.stat(f"/proc/{pid}").st_uid == c.uid][:1]
    kill_all(launchers)
    check(status(process) != 0, "exit status 0 after the launcher was killed")


@test
def each_process_of_ours_is_killed_in_turn(c):
    """Whatever dies, the CLI ends with an honest status and nothing stays."""
    ours = named(up(c), "sandboxer")
    check(len(ours) >= 2, f"{len(ours)} processes of ours below the CLI, not launcher and PID 1")
    for turn in range(len(ours)):
        process = up(c)
        kill_all(sorted(named(process, "sandboxer"))[turn:turn + 1])
        check(status(process) not in (0, 124), f"status {process.returncode} after one of ours was killed")


@test
def the_sandbox_is_killed_from_outside(c):
    process = up(c)
    kill_all(pid for pid, name in descendants(process.pid).items() if name in ("sleep", "sh"))
    equal(status(process), 137, "exit status")


def ends_by(c, number, send):
    process = up(c, start_new_session=True)
    # Between two commands dash takes a SIGINT for itself and forgets it.
    wait_for(lambda: list(descendants(process.pid).values()).count("sleep") == 3, "all of it runs")
    send(process.pid, number)
    equal(status(process), 128 + number, "exit status")


@test
def sigterm_to_the_cli_ends_the_run(c):
    ends_by(c, signal.SIGTERM, os.kill)


@test
def sigint_to_the_cli_ends_the_run(c):
    ends_by(c, signal.SIGINT, os.kill)


@test
def sighup_to_the_cli_ends_the_run(c):
    ends_by(c, signal.SIGHUP, os.kill)


@test
def sigquit_to_the_cli_ends_the_run(c):
    ends_by(c, signal.SIGQUIT, os.kill)


@test
def control_c_on_the_callers_terminal_ends_the_run(c):
    """The whole foreground group gets it: our own helpers too, and they must still clean up."""
    ends_by(c, signal.SIGINT, os.killpg)


@test
def a_hangup_of_the_callers_terminal_ends_the_run(c):
    ends_by(c, signal.SIGHUP, os.killpg)


@test
def sigterm_to_the_whole_group_ends_the_run(c):
    ends_by(c, signal.SIGTERM, os.killpg)


@test
def the_whole_group_is_killed(c):
    process = up(c, start_new_session=True)
    os.killpg(process.pid, signal.SIGKILL)
    status(process)


@test
def a_signal_reaches_the_program(c):
    process = up(c, "trap 'echo told; exit 7' TERM; echo up; while :; do sleep 0.02; done")
    process.send_signal(signal.SIGTERM)
    check(status(process) in (7, 128 + signal.SIGTERM), f"exit status {process.returncode}")
    check(b"told" in process.stdout.read(), "the program was not told")


@test
def signals_that_mean_nothing_change_nothing(c):
    process = up(c, "echo up; read x; echo $x")
    for number in (signal.SIGWINCH, signal.SIGCONT, signal.SIGURG, signal.SIGCHLD):
        process.send_signal(number)
    out, _ = process.communicate(b"fine\n", timeout=20)
    equal((process.returncode, out), (0, b"fine\n"), "the run")


@test
def the_cli_is_stopped_and_continued(c):
    process = up(c, "echo up; read x; echo $x")
    process.send_signal(signal.SIGSTOP)
    process.stdin.write(b"later\n")
    process.stdin.flush()
    process.send_signal(signal.SIGCONT)
    equal(process.stdout.read(), b"later\n", "answer")
    equal(status(process), 0, "exit status")


@test
def death_at_any_moment_of_the_start(c):
    moments = random.Random(7)
    for _ in range(40):
        process = c.start_sh(TREE)
        time.sleep(moments.uniform(0, 0.012))  # any moment will do: that is the test
        process.kill()
        process.wait(20)


@test
def a_signal_at_any_moment_of_the_start(c):
    moments = random.Random(8)
    for _ in range(40):
        process = c.start_sh(TREE)
        time.sleep(moments.uniform(0, 0.012))
        process.terminate()
        equal(status(process), 128 + signal.SIGTERM, "exit status")


@test
def a_child_dies_at_any_moment_of_the_start(c):
    moments = random.Random(9)
    for _ in range(40):
        process = c.start_sh("read x")
        time.sleep(moments.uniform(0, 0.012))
        kill_all(list(descendants(process.pid))[:1])
        process.stdin.close()
        check(status(process) in (0, 1, 125, 137), f"exit status {process.returncode}")
        process.stdin = None


@test
def the_callers_parent_dies(c):
    """An orphaned CLI goes on: only its own death ends the run."""
    fifo = c.dir / "fifo"
    os.mkfifo(fifo)
    c.own(fifo)
    parent = c.start(["/bin/sh", "-c", '"$0" run -- sh -c "echo up; read x; echo \\$x" <"$1" & echo $!; wait',
                      c.program(), fifo])
    with open(fifo, "wb") as say:
        lines = {parent.stdout.readline(), parent.stdout.readline()}
        check(b"up\n" in lines, f"{lines}")
        parent.kill()
        parent.wait(20)
        say.write(b"orphan\n")
    equal(parent.stdout.readline().strip() in (b"orphan", b""), True, "answer")


main()
