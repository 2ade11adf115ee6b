#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Limits hold, say so when they do, and never leave a tree behind."""

import os
from pathlib import Path

from daemon import Daemon
from harness import Skip, check, equal, main, test

HOG = "import sys\nx = bytearray(256 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nprint('had it all')"
FORKS = """
import os, time
n = 0
try:
    while n < 500:
        if os.fork() == 0:
            time.sleep(1000)
        n += 1
except OSError as e:
    print(n, e.errno)
"""
# One process that nobody waits for, in a session of its own, deaf to SIGTERM; then the same again.
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
first = os.getpid()
for generation in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.getpid() == first:
    print('up', flush=True)
time.sleep(1000)
"""


def python(c, script, *flags, **options):
    return c.run(*flags, "--", "/usr/bin/python3", "-c", script, **options)


# ---- memory ----


@test(only="root", because="no delegated control group")
def a_memory_hog_is_killed_and_named(c):
    python(c, HOG, "--memory", "64M").expect(137, out=b"", says=r"sandboxer: killed: out of memory \(limit 64M\)")


@test(only="root", because="no delegated control group")
def memory_below_the_limit_is_given(c):
    python(c, HOG, "--memory", "1G").expect(0, out=b"had it all\n")


@test(only="root", because="no delegated control group")
def files_in_memory_count_too(c):
    """/tmp, /dev/shm and the writable layer are memory: filling them must not get around the limit."""
    for place in ("/tmp", "/dev/shm", "/root", "/run"):
        result = c.sh(f"test -w {place} || exit 7; head -c 512M /dev/zero > {place}/big; exit $?", "--memory", "64M")
        check(result.code != 0, f"512M fit into {place} under --memory 64M\n{result}")


@test(only="plain", because="root's limits are enforced")
def a_limit_that_cannot_be_enforced_is_noted_once(c):
    result = python(c, HOG, "--memory", "64M").expect(0, out=b"had it all\n", says=r"sandboxer: note: .*not enforced")
    equal(result.notes.count("not enforced"), 1, "number of notes")
    c.run("--cpu", "0.5", "--", "true").expect(0, says=r"sandboxer: note: .*not enforced")


@test
def strict_refuses_what_it_cannot_enforce(c):
    for flags in (("--memory", "256M"), ("--cpu", "0.5")):
        c.run("--strict", *flags, "--", "true").expect(0 if c.root else 125,
                                                       says=() if c.root else "^sandboxer: ")


# ---- processes ----


@test
def processes_are_counted(c):
    result = python(c, FORKS, "--pids", "30", "--timeout", "30s").expect(0)
    made, errno = map(int, result.text.split())
    check(5 <= made <= 30, f"{made} processes under --pids 30")
    equal(errno, 11, "errno of the fork that was one too many")


@test
def a_fork_bomb_is_contained_and_ends(c):
    c.sh("bomb() { bomb | bomb & }; bomb; sleep 1000", "--pids", "60", "--timeout", "3s").expect((124, 2, 254))


@test
def two_sandboxes_have_a_count_each(c):
    first = c.start(["/bin/sh", "-c", 'exec "$0" run --pids 30 -- /usr/bin/python3 -c "$1"', c.program(),
                     FORKS + "\nprint('full', flush=True)\ntime.sleep(1000)"])
    equal(len(first.stdout.readline().split()), 2, "words of the first")
    made = int(python(c, FORKS, "--pids", "30").expect(0).text.split()[0])
    check(made >= 5, f"the second got only {made}")
    first.terminate()
    first.wait(20)


# ---- cpu ----


@test(only="root", because="no delegated control group")
def processor_time_is_rationed(c):
    script = ("import os, time\nfor _ in range(3): os.fork()\nend = time.monotonic() + 3\n"
              "while time.monotonic() < end: pass\nt = os.times()\nprint(t.user + t.system)")
    used = sum(map(float, python(c, script, "--cpu", "0.5").expect(0).text.split()))
    check(used < 0.5 * 3 * 1.8, f"{used:.2f} s of processor time in 3 s at --cpu 0.5")


# ---- disk ----


@test
def the_writable_layer_has_a_size(c):
    for place in ("/root", "/tmp"):
        result = c.sh(f"head -c 64M /dev/zero > {place}/big; echo $?; wc -c < {place}/big", "--disk", "8M").expect(
            0, says="No space left")
        status, size = map(int, result.text.split())
        check(status != 0 and size <= 8 << 20, f"{size} bytes in {place} under --disk 8M")


@test
def many_small_files_do_not_pass_the_size_either(c):
    script = ("i=0; while [ $i -lt 20000 ]; do echo xxxxxxxx > ~/f$i || exit 3; i=$((i+1)); done 2>/dev/null; echo all")
    c.sh(script, "--disk", "1M").expect(3, out=b"")


# ---- time ----


@test
def a_timeout_is_124(c):
    c.run("--timeout", "300ms", "--", "sleep", "1000").expect(124)


@test
def a_timeout_asks_first(c):
    script = "trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.01; done"
    c.sh(script, "--timeout", "4s").expect(124, out=b"up\nasked\n")


@test
def a_timeout_asks_the_whole_tree(c):
    script = ("(trap 'echo child asked; exit' TERM; echo up; while :; do sleep 0.01; done) & "
              "trap '' TERM; while :; do sleep 0.01; done")
    result = c.sh(script, "--timeout", "4s").expect(124)
    check(b"child asked" in result.out, str(result))


@test
def a_timeout_kills_who_does_not_listen(c):
    python(c, STUBBORN, "--timeout", "4s").expect(124, out=b"up\n")


@test
def a_run_within_its_time_has_its_own_status(c):
    c.sh("exit 9", "--timeout", "1h").expect(9)


@test
def the_time_does_not_run_on_a_stopped_clock(c):
    """SIGSTOP inside does not stop the timeout."""
    c.sh("kill -STOP $$", "--timeout", "1s").expect(124)


@test
def a_stubborn_tree_dies_with_its_sandbox(c):
    process = c.start([c.program(), "run", "--", "/usr/bin/python3", "-c", STUBBORN + "\n"])
    equal(process.stdout.readline(), b"up\n", "first line")
    process.kill()
    process.wait(20)  # the harness checks that the rest is gone


@test
def time_limits_are_not_shared(c):
    slow = c.start([c.program(), "run", "--timeout", "1s", "--", "sleep", "1000"])
    quick = c.start([c.program(), "run", "--", "sh", "-c", "read x; echo alive"])
    equal(slow.wait(20), 124, "status of the first")
    quick.stdin.write(b"\n")
    quick.stdin.flush()
    equal(quick.stdout.read(), b"alive\n", "the second")
    equal(quick.wait(20), 0, "status of the second")


# ---- huge pages ----

# Of the machine's pool, by every call that takes them. A transparent huge page (madvise) is memory like any other, and counted so.
HUGE = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
def refused(r):
    return errno.errorcode[ctypes.get_errno()] if r in (-1, 2 ** 64 - 1) else 'has them'
print(refused(libc.mmap(None, ctypes.c_size_t(2 << 20), 3, 0x40022, -1, ctypes.c_long(0))))
print(refused(libc.memfd_create(b'x', 4)))
print(refused(libc.shmget(0, ctypes.c_size_t(2 << 20), 0o5600)))
"""
UNIFIED = "/sys/fs/cgroup/unified" if os.path.exists("/sys/fs/cgroup/unified/cgroup.procs") else "/sys/fs/cgroup"


def huge_group(pid):
    """The group that limits a process's huge pages, and the top of its hierarchy."""
    lines = dict(line.split(":", 2)[1:] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines())
    if "hugetlb" in lines:
        return Path("/sys/fs/cgroup/hugetlb" + lines["hugetlb"]), Path("/sys/fs/cgroup/hugetlb")
    if "hugetlb" not in Path(UNIFIED, "cgroup.controllers").read_text().split():
        raise Skip("this kernel has no hugetlb controller, or does not show it")
    return Path(UNIFIED + lines[""]), Path(UNIFIED)


@test
def huge_pages_are_refused(c):
    equal(python(c, HUGE).expect(0).text.split(), ["ENOMEM", "EPERM", "EPERM"], "mmap, memfd_create and shmget of huge pages")


@test(only="root", because="only root's sandboxes are sure to have groups")
def huge_pages_are_limited_to_none(c):
    with Daemon(c) as d:
        box = d.create()
        d.api.post(f"/v1/sandboxes/{box}/processes", {"argv": ["sleep", "600"], "background": True}).expect(201)
        procs = [Path(at, "cgroup.procs") for at, _, _ in os.walk("/sys/fs/cgroup") if os.path.basename(at) == box]
        pid = next(pid for file in procs for pid in file.read_text().split())
        group, top = huge_group(pid)
        limits = {}
        while group != top:
            limits.update({str(f): f.read_text().strip() for f in group.glob("hugetlb.*") if f.name.endswith((".max", ".limit_in_bytes"))})
            group = group.parent
        sizes = {os.path.basename(f) for f in limits}
        check(sizes, f"no limit of huge pages above process {pid}: {limits}")
        for name in sizes:
            check("0" in [v for f, v in limits.items() if os.path.basename(f) == name], f"{name} is 0 in no group: {limits}")


main()
