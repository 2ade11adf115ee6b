#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Fault injection: whichever step of the set-up fails, the run says so, ends, and leaves nothing."""

import os
import shutil

from harness import Failure, Skip, check, main, test

# What the set-up calls, and up to which call each is made to fail.
CALLS = {
    "clone3": 4, "clone": 4, "fork": 2, "mount": 12, "move_mount": 12, "open_tree": 10, "fsopen": 6, "fsconfig": 8,
    "fsmount": 6, "mount_setattr": 10, "pivot_root": 1, "umount2": 3, "mkdirat": 10, "mkdir": 6, "setns": 2,
    "unshare": 3, "sethostname": 1, "memfd_create": 2, "execveat": 2, "seccomp": 2, "prctl": 12, "capset": 3,
    "socketpair": 4, "openat2": 6, "socket": 3, "sendmsg": 6, "recvmsg": 6, "pipe2": 4, "dup3": 3, "fchown": 2,
    "setresuid": 2, "setresgid": 2, "setgroups": 2, "close_range": 2, "symlinkat": 4, "bind": 2, "listen": 2,
    "pidfd_open": 2, "epoll_create1": 2, "signalfd4": 2, "prlimit64": 3, "chdir": 2, "fchdir": 2,
}
ERRORS = ("EPERM", "ENOMEM")
# Opens and writes are many and mostly not ours to lose (the workload makes some): every one up to here.
PLENTIFUL = {"write": 30, "openat": 30, "read": 20, "poll": 6, "epoll_wait": 6, "close": 0}
# A write that fails in the CLI may be of the output itself: then there is no message to see.
SPEECHLESS = ("write", "sendmsg", "writev", "poll", "epoll_wait")
RUN = ("run", "--hostname", "box", "--", "/bin/echo", "fine")


def steps(c):
    result = c.execute([c.program("sandboxer-launch"), "--list-steps"])
    return result.text.split("\n") if result.code == 0 and result.text else None


@test
def every_named_step_fails_well(c):
    names = steps(c)
    if not names:
        raise Skip("this build has no test hooks (-Dtest_hooks=true)")
    problems = []
    for name in names:
        try:
            c.run("--", "true", env={"SANDBOXER_TEST_FAIL_STEP": name}).expect(
                125, out=b"", says=("^sandboxer: ", name))
        except Failure as problem:
            problems.append(f"step {name}: {problem}")
    check(not problems, "\n".join(problems))
    print(f"# {len(names)} steps")


@test
def an_unknown_step_changes_nothing(c):
    c.run("--", "echo", "fine", env={"SANDBOXER_TEST_FAIL_STEP": "no-such-step"}).expect((0, 125))


@test
def steps_fail_well_with_every_option(c):
    """The same with mounts, limits and a working directory, where other code unwinds."""
    names = steps(c)
    if not names:
        raise Skip("this build has no test hooks (-Dtest_hooks=true)")
    c.write("lent/file")
    flags = ("--mount", f"{c.dir}/lent:/lent:rw", "--memory", "256M", "--pids", "50", "--disk", "32M",
             "--workdir", "/tmp", "-q")
    problems = []
    for name in names:
        try:
            c.run(*flags, "--", "true", env={"SANDBOXER_TEST_FAIL_STEP": name}).expect((0, 125))
        except Failure as problem:
            problems.append(f"step {name}: {problem}")
    check(not problems, "\n".join(problems))


def strace():
    path = shutil.which("strace")
    if not path:
        raise Skip("strace is not installed")
    return path


def injected(c, call, error, when):
    """One run with the when-th `call` of each process failing."""
    log = c.dir / "trace"
    result = c.execute([strace(), "-f", "-qq", "-o", log, "-e", f"trace={call}", "-e", "signal=none", "-e",
                        f"inject={call}:error={error}:when={when}", c.program(), *RUN], seconds=30)
    hit = log.exists() and b"(INJECTED)" in log.read_bytes()
    return result, hit


def judge(result, call):
    """Right output and success, or 125 with a message; the workload itself may be what was hit."""
    if result.code == 0:
        return result.out == b"fine\n" or call in SPEECHLESS
    if result.code in (1, 126, 127) and b"echo" in result.err:
        return True
    if result.code == 125:
        return "sandboxer: " in result.notes or call in SPEECHLESS
    return call in SPEECHLESS and result.code in (1, 2)


def inject_all(c, calls, errors):
    problems, runs, hits = [], 0, 0
    if os.environ.get("STEPS_CALLS"):
        calls = {call: n for call, n in calls.items() if call in os.environ["STEPS_CALLS"].split(",")}
    for call, upto in calls.items():
        for error in errors:
            for when in range(1, upto + 1):
                try:
                    result, hit = injected(c, call, error, when)
                except Failure as hang:
                    problems.append(f"{call} {error} when={when}: {hang}")
                    continue
                runs, hits = runs + 1, hits + hit
                if not judge(result, call):
                    problems.append(f"{call} {error} when={when}:\n{result}")
                if not hit:
                    break  # there is no such call any more
    print(f"# {runs} runs, {hits} with a failed call")
    check(hits or os.environ.get("STEPS_CALLS"), "no call was ever hit")
    check(not problems, f"{len(problems)} of {runs} runs:\n" + "\n".join(problems))


@test(seconds=900)
def any_system_call_may_fail(c):
    inject_all(c, CALLS, ERRORS)


@test(seconds=900)
def even_the_common_ones_may_fail(c):
    inject_all(c, PLENTIFUL, ("EIO", "EINTR"))


@test(seconds=300)
def descriptors_may_run_out(c):
    for limit in (*range(3, 24), 32, 64):
        result = c.execute(["/bin/sh", "-c", f'ulimit -n {limit}; exec "$0" "$@"', c.program(), *RUN], seconds=30)
        check(result.code == 0 and result.out == b"fine\n" or result.code in (125, 126, 127) and result.err,
              f"with {limit} descriptors:\n{result}")


@test(seconds=300)
def memory_may_run_out(c):
    for kilobytes in (1000, 2000, 4000, 8000, 16000, 64000):
        result = c.execute(["/bin/sh", "-c", f'ulimit -v {kilobytes}; exec "$0" "$@"', c.program(), *RUN], seconds=30)
        check(result.code == 0 and result.out == b"fine\n" or result.code in (125, 126, 127, 134, 137, 139),
              f"with {kilobytes} KB:\n{result}")


main()
