#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""The privileged supervisor: a program that hangs, and a supervisor that hangs, hold up nothing else."""

import contextlib
import fcntl
import os
import shutil
import signal
import threading

from daemon import Daemon
from harness import check, equal, main, test, wait_for

DEADLINE = "2"  # seconds, of SANDBOXER_TEST_DEADLINE


@contextlib.contextmanager
def own_programs(c):
    """A copy of all programs that this test may replace."""
    usual, copies = c.programs, c.mkdir(c.dir / "bin")
    for path in c.programs.iterdir():
        if path.is_file() and path.name.startswith("sandboxer") and os.access(path, os.X_OK):
            shutil.copy(path, copies / path.name)
    c.programs = copies
    try:
        yield copies
    finally:
        c.programs = usual


class Waiting:
    """A request in a thread of its own."""

    def __init__(self, request):
        self.answer = None
        self.thread = threading.Thread(target=self.run, args=(request,))
        self.thread.start()

    def run(self, request):
        self.answer = request()

    def join(self):
        self.thread.join(60)
        check(self.answer is not None, "no answer came")
        return self.answer


def snapshot(d, box):
    return d.api.post(f"/v1/sandboxes/{box}/snapshot", {})


def serves_others(d, box):
    """Everything that needs no new program of the supervisor."""
    d.api.get("/healthz").expect(200)
    equal(d.get(box)["state"] in ("ready", "active"), True, "the state of another sandbox")
    d.works(box)
    d.list()


@contextlib.contextmanager
def write_lease(path):
    """As a program that owns the file can take one: who opens it waits."""
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    fd = os.open(path, os.O_RDONLY)

    def taken():
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            return True
        return False
    wait_for(taken, "the program is not in use")
    try:
        yield
    finally:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        os.close(fd)


@test
def a_program_whose_file_is_leased_holds_up_only_its_request(c):
    with own_programs(c) as programs, Daemon(c).start(SANDBOXER_TEST_DEADLINE=DEADLINE) as d:
        box, other = d.create(), d.create()
        with write_lease(programs / "sandboxer-layers"):
            waiting = Waiting(lambda: snapshot(d, box))
            for _ in range(3):
                serves_others(d, other)
            d.destroy(d.create())
            check(waiting.answer is None, "the snapshot did not wait")
            answer = waiting.join().expect(504, code="timeout")
            check("sandboxer-layers" in answer.json["detail"], f"the error names no program: {answer}")
        wait_for(lambda: len(d.parts("sandboxerd")) == 1, "the process that waited is gone")
        snapshot(d, box).expect(201)


@test
def a_program_that_never_answers_holds_up_only_its_request(c):
    with own_programs(c) as programs, Daemon(c).start(SANDBOXER_TEST_DEADLINE=DEADLINE) as d:
        box, other = d.create(), d.create()
        kept = (programs / "sandboxer-layers").rename(programs / "kept")
        (programs / "sandboxer-layers").write_text("#!/bin/sh\nexec cat <&3 >/dev/null\n")
        (programs / "sandboxer-layers").chmod(0o755)
        waiting = Waiting(lambda: snapshot(d, box))
        serves_others(d, other)
        answer = waiting.join().expect(504, code="timeout")
        check("sandboxer-layers" in answer.json["detail"], f"the error names no program: {answer}")
        kept.rename(programs / "sandboxer-layers")
        snapshot(d, box).expect(201)


@test
def a_program_that_cannot_be_started_is_named(c):
    with own_programs(c) as programs, Daemon(c) as d:
        box = d.create()
        kept = (programs / "sandboxer-layers").rename(programs / "kept")
        answer = snapshot(d, box)
        check(answer.status >= 400 and "sandboxer-layers" in answer.json["detail"], f"{answer}")
        serves_others(d, box)
        kept.rename(programs / "sandboxer-layers")


@test
def keepers_of_layers_distrust_a_control_plane_without_rights(c):
    """A keeper has rights to read everything: it reads no directory because the control plane shows it."""
    with own_programs(c) as programs, Daemon(c) as d:
        box, said = d.create(), c.write("said", "", 0o666)
        (programs / "sandboxer-layers").rename(programs / "kept")
        (programs / "sandboxer-layers").write_text(f'#!/bin/sh\necho "$@" > {said}\nexec {programs}/kept "$@"\n')
        (programs / "sandboxer-layers").chmod(0o755)
        snapshot(d, box).expect(201)
        equal(said.read_text().split(), ["--peer", "untrusted"] if c.root else [], "what the keeper is told of its peer")


@test
def a_supervisor_that_does_not_answer_is_said_so(c):
    with Daemon(c).start(SANDBOXER_TEST_DEADLINE=DEADLINE) as d:
        box = d.create()
        os.kill(d.process.pid, signal.SIGSTOP)
        try:
            waiting = Waiting(lambda: snapshot(d, box))
            serves_others(d, box)
            answer = waiting.join().expect(504, code="timeout")
            check("monitor" in answer.json["detail"], f"{answer}")
            answer = snapshot(d, box).expect(503, code="busy")
            check("monitor does not answer" in answer.json["detail"], f"{answer}")
            serves_others(d, box)
            d.destroy(d.create())  # launchers run already
        finally:
            os.kill(d.process.pid, signal.SIGCONT)
        wait_for(lambda: snapshot(d, box).status == 201, "the supervisor answers again")


def state_of(process):
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as f:
        return f.read().rpartition(")")[2].split()[0]


@test
def a_signal_before_it_listens_is_not_lost(c):
    """The control plane may serve by then: the signal neither kills the supervisor nor is it forgotten."""
    for sent in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        d = Daemon(c, name=sent.name.lower())
        starting = Waiting(lambda d=d: d.spawn(SANDBOXER_STOP_AT="daemon.split:1"))
        wait_for(lambda d=d: d.process and state_of(d.process) == "T", "it is split")
        os.kill(d.process.pid, sent)
        os.kill(d.process.pid, signal.SIGCONT)
        serves = starting.join()
        if sent == signal.SIGHUP:
            check(serves, f"a daemon that is to read its configuration again does not serve\n{d.tail()}")
            d.stop()
        else:
            equal(d.wait(), 0, f"the exit status after {sent.name}\n{d.tail()}\nstatus")
            check("daemon.stopping" in d.log_path.read_text(), f"{sent.name} was not passed on\n{d.tail()}")


main()
