#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""-t: a terminal inside, and the caller's terminal as it was afterwards."""

import contextlib
import os
import signal
import subprocess

from harness import check, descendants, equal, main, test, wait_for
from terminal import Terminal


SH = ("--", "/bin/sh", "-c")


@test
def all_three_streams_are_a_terminal(c):
    with Terminal(c, *SH, "test -t 0 && test -t 1 && test -t 2 && tty && echo TERM is $TERM") as t:
        t.expect(b"/dev/pts/")
        t.expect(b"TERM is vt100")
        equal(t.end(), 0, "exit status")


@test
def without_t_there_is_none(c):
    c.sh("test -t 0 || test -t 1 || tty").expect(1, out=b"not a tty\n")
    c.sh("exec 3</dev/tty").expect((1, 2))


@test
def it_is_the_controlling_terminal(c):
    with Terminal(c, *SH, "echo through > /dev/tty; ps -o tty= -p $$") as t:
        t.expect(b"through")
        t.expect(b"pts/")
        equal(t.end(), 0, "exit status")


@test
def the_size_is_the_callers(c):
    with Terminal(c, *SH, "stty size", size=(37, 111)) as t:
        t.expect(b"37 111")
        equal(t.end(), 0, "exit status")


@test
def a_new_size_arrives_with_its_signal(c):
    with Terminal(c, *SH, "trap 'stty size' WINCH; echo up; while :; do sleep 0.02; done") as t:
        t.expect(b"up")
        t.resize(50, 132)
        os.kill(t.process.pid, signal.SIGWINCH)  # as the kernel does for the foreground group
        t.expect(b"50 132")


@test
def control_c_interrupts_the_program(c):
    with Terminal(c, *SH, "echo up; exec sleep 1000") as t:
        t.expect(b"up")
        t.send(b"\x03")
        equal(t.end(), 128 + signal.SIGINT, "exit status")
        check(t.restored(), "the terminal is not as it was")


@test
def control_c_is_the_programs_to_handle(c):
    with Terminal(c, *SH, "trap 'echo caught; exit 7' INT; echo up; while :; do sleep 0.02; done") as t:
        t.expect(b"up")
        t.send(b"\x03")
        t.expect(b"caught")
        equal(t.end(), 7, "exit status")


@test
def control_d_is_the_end_of_input(c):
    with Terminal(c, *SH, "echo up; exec cat") as t:
        t.expect(b"up")
        t.send(b"line\n")
        t.expect(b"line\r\nline")
        t.send(b"\x04")
        equal(t.end(), 0, "exit status")


@test
def a_shell_has_job_control(c):
    with Terminal(c, "--", "/bin/bash", "--norc", "--noprofile", "-i") as t:
        t.send(b"sleep 1000\n")
        t.expect(b"sleep 1000")
        wait_for(lambda: _foreground(t), "sleep runs in the foreground")
        t.send(b"\x1a")
        t.expect(b"Stopped")
        # Not a plain `kill`: now and then bash forgets to continue a job that it has just seen stop.
        t.send(b"kill -KILL %1; wait %1; echo jobs$((40+2))\n")
        t.expect(b"jobs42")
        check(b"no job control" not in t.seen, t.seen.decode(errors="replace"))
        t.send(b"exec sh -c 'exit 6'\n")  # nor an `exit`: it may still believe in the stopped job
        equal(t.end(), 6, "exit status")


def _foreground(t):
    t.read(0.02)
    return "sleep" in descendants(t.process.pid).values()


@test
def output_is_translated_once(c):
    """One carriage return per line: both terminals adding theirs would give two."""
    with Terminal(c, *SH, "echo one; echo two") as t:
        t.expect(b"two\r\n")
        t.end()
        t.read(0.2)
        equal((t.before, t.seen), (b"one\r\n", b""), "output before and after")


@test
def the_terminal_is_restored_after_the_end(c):
    with Terminal(c, *SH, "stty raw -echo; exit 3") as t:
        equal(t.end(), 3, "exit status")
        check(t.restored(), "the terminal is not as it was")


@test
def the_terminal_is_restored_after_a_signal(c):
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        with Terminal(c, *SH, "echo up; exec sleep 1000") as t:
            t.expect(b"up")
            check(not t.restored(), "the caller's terminal was never set to raw")
            os.kill(t.process.pid, number)
            equal(t.end(), 128 + number, "exit status")
            check(t.restored(), f"the terminal is not as it was after signal {number}")


@test
def the_terminal_is_restored_when_the_launcher_dies(c):
    with Terminal(c, *SH, "echo up; exec sleep 1000") as t:
        t.expect(b"up")
        below = descendants(t.process.pid)
        check(below, "the CLI has no children")
        for pid in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        check(t.end() != 0, "exit status is 0")
        check(t.restored(), "the terminal is not as it was")


@test
def the_terminal_is_restored_after_a_failed_start(c):
    with Terminal(c, "--", "/no/such/program") as t:
        equal(t.end(), 127, "exit status")
        check(t.restored(), "the terminal is not as it was")


@test
def a_hangup_ends_the_run(c):
    with Terminal(c, *SH, "echo up; exec sleep 1000") as t:
        t.expect(b"up")
        os.close(t.outer)
        try:
            t.process.wait(20)
        finally:
            t.outer = os.open("/dev/null", os.O_RDONLY)


@test
def a_timeout_works_on_a_terminal(c):
    with Terminal(c, "--timeout", "500ms", "--", "sleep", "1000") as t:
        equal(t.end(), 124, "exit status")
        check(t.restored(), "the terminal is not as it was")


@test
def t_without_a_terminal_is_said_clearly_or_works(c):
    result = c.run("-t", "--", "echo", "hi")
    check(result.code == 0 and b"hi" in result.out or result.code == 125 and "sandboxer: " in result.notes,
          str(result))


@test
def much_output_on_a_terminal(c):
    with Terminal(c, *SH, "yes 0123456789 | head -n 100000; echo the end") as t:
        t.expect(b"the end", seconds=60)
        equal(t.end(), 0, "exit status")


main()
