# SPDX-License-Identifier: Apache-2.0
"""The end-to-end harness: tests drive the built programs as a person would, and print TAP.

    from harness import main, test

    @test
    def streams_are_separate(c):
        c.sh("echo out; echo err >&2").expect(0, out=b"out\\n", err=b"err\\n")

    main()

Every test runs twice, as root and as a plain user (uid 1000, no groups, no subordinate ids); `c` is that
caller. After each test nothing of it may be left: no process, mount, control group or file. Arguments of
a test program select tests by a part of their name; `--as root` or `--as plain` selects the caller.
BUILD names the build directory.
"""

import contextlib
import ctypes
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BUILD", REPO / "build")).resolve()
PROGRAMS = ("sandboxer", "sandboxer-launch", "sandboxer-init", "sandboxerd", "sandboxer-egress", "sandboxer-seal",
            "sandboxer-step", "sandboxer-layers", "sandboxer-fetch")
PLAIN = 1000
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
RUN_SECONDS = 60        # no run may take longer, unless its test says so
TEST_SECONDS = 180      # nor a whole test
GONE_SECONDS = 15       # until everything of a finished test is gone
CLONE_NEWNS, MS_REC, MS_SLAVE, MS_SHARED, MNT_DETACH = 0x20000, 0x4000, 1 << 19, 1 << 20, 2
PR_SET_CHILD_SUBREAPER = 36


class Failure(AssertionError):
    """What a test expected and did not get."""


class Skip(Exception):
    """Why this machine cannot run a test."""


def check(condition, message):
    if not condition:
        raise Failure(message)


def equal(got, want, what):
    check(got == want, f"{what} is {got!r}, not {want!r}")


def wait_for(condition, what, seconds=20):
    """The first true value of condition(); fails after a deadline that only a defect reaches."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        check(time.monotonic() < deadline, f"not within {seconds} s: {what}")
        time.sleep(0.005)


# ---- runs -------------------------------------------------------------------------------------------


class Result:
    """A finished run."""

    def __init__(self, argv, code, out, err):
        self.argv, self.code, self.out, self.err = argv, code, out, err

    @property
    def text(self):
        return self.out.decode(errors="replace").strip()

    @property
    def notes(self):
        return self.err.decode(errors="replace")

    def expect(self, code=0, out=None, err=None, says=()):
        """Exit status, exact streams, and words that stderr must contain."""
        codes = (code,) if isinstance(code, int) else code
        check(self.code in codes, f"exit status is {self.code}, not {code}\n{self}")
        check(out is None or self.out == out, f"stdout is {self.out[:400]!r}, not {out!r}\n{self}")
        check(err is None or self.err == err, f"stderr is {self.err[:400]!r}, not {err!r}\n{self}")
        for words in (says,) if isinstance(says, str) else says:
            check(re.search(words, self.notes, re.MULTILINE), f"stderr does not say {words!r}\n{self}")
        return self

    def __str__(self):
        def short(data):
            return data[-1500:].decode(errors="replace").rstrip()
        return (f"argv: {' '.join(map(str, self.argv))[:600]}\nstatus: {self.code}\n"
                f"stdout: {short(self.out)}\nstderr: {short(self.err)}")


class Caller:
    """Who runs the programs. `dir` is scratch of the running test, owned by the caller."""

    def __init__(self, name, uid, programs, base):
        self.name, self.uid, self.programs = name, uid, programs
        self.base = base / name
        self.home, self.tmp = self.base / "home", self.base / "tmp"
        self.started = []
        for directory in (self.base, self.home, self.tmp):
            self.mkdir(directory)
        self.dir = None

    @property
    def root(self):
        return self.uid == 0

    def mkdir(self, path):
        path.mkdir(parents=True, exist_ok=True)
        return self.own(path)

    def own(self, path):
        if os.getuid() == 0:
            os.chown(path, self.uid, self.uid, follow_symlinks=False)
        return path

    def write(self, name, data=b"", mode=0o644):
        """A file in the test's scratch directory."""
        path = self.dir / name
        if not path.parent.exists():
            self.mkdir(path.parent)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        path.chmod(mode)
        return self.own(path)

    def own_link(self, path, target):
        os.symlink(target, path)
        return self.own(path)

    @property
    def environment(self):
        # glibc fills memory that is freed or not yet initialized, so that a use of it shows.
        return {"PATH": PATH, "HOME": str(self.home), "TMPDIR": str(self.tmp), "LANG": "C.UTF-8", "MALLOC_PERTURB_": "181"}

    def identity(self):
        """The arguments of Popen that make the child this caller."""
        if os.getuid() == self.uid:
            return {}
        return {"user": self.uid, "group": self.uid, "extra_groups": []}

    def program(self, name="sandboxer"):
        return str(self.programs / name)

    def start(self, argv, env=None, **options):
        """Starts a program as this caller; the test's end kills what still runs."""
        for stream in ("stdin", "stdout", "stderr"):
            options.setdefault(stream, subprocess.PIPE)
        process = subprocess.Popen([str(a) for a in argv], env={**self.environment, **(env or {})},
                                   cwd=options.pop("cwd", self.dir), **self.identity(), **options)
        self.started.append(process)
        return process

    def execute(self, argv, stdin=b"", env=None, seconds=RUN_SECONDS, **options):
        process = self.start(argv, env, **options)
        try:
            out, err = process.communicate(stdin, timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = b"", b""
            with contextlib.suppress(subprocess.TimeoutExpired):
                out, err = process.communicate(timeout=5)
            raise Failure(f"still running after {seconds} s\n{Result(argv, None, out, err)}") from None
        return Result(argv, process.returncode if process.returncode >= 0 else 128 - process.returncode,
                      out or b"", err or b"")

    def cli(self, *argv, **options):
        return self.execute([self.program(), *argv], **options)

    def run(self, *argv, **options):
        return self.cli("run", *argv, **options)

    def sh(self, script, *flags, **options):
        return self.run(*flags, "--", "/bin/sh", "-c", script, **options)

    def start_sh(self, script, *flags, **options):
        return self.start([self.program(), "run", *flags, "--", "/bin/sh", "-c", script], **options)

    def end_started(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    with contextlib.suppress(OSError):
                        stream.close()
        self.started.clear()


# ---- what a test may not leave behind ---------------------------------------------------------------


def has_threads(pid):
    """Whether others than the first live: a process whose first thread has ended holds its files as long as they do."""
    try:
        return len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False


def processes():
    """pid -> (parent, name), zombies not counted. Written for speed: every test asks several times."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb", buffering=0) as file:
                line = file.read()
        except OSError:
            continue
        start, end = line.find(b"("), line.rfind(b")")
        state, parent = line[end + 2:].split(None, 2)[:2]
        if state not in b"ZX" or has_threads(entry):
            found[int(entry)] = (int(parent), line[start + 1:end].decode(errors="replace"))
    return found


def descendants(of=None, table=None):
    """pid -> name of every living process below `of` (default: this one). Orphans come to us, because we
    are a subreaper: whatever a test started is found here, however often it forked."""
    found, todo, children = {}, [of or os.getpid()], {}
    for pid, (parent, name) in (table or processes()).items():
        children.setdefault(parent, []).append((pid, name))
    while todo:
        below = children.pop(todo.pop(), ())
        found.update(below)
        todo += [pid for pid, _ in below]
    return found


def program_of(pid):
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/exe")
    return ""


def strays(known, table):
    """Programs of ours that became children of init since `known`: they escaped even the subreaper. Those of another
    build are somebody else's, who works on the same machine; a PID 1 runs from memory and is taken for ours."""
    ours = (str(BUILD), "/memfd:sandboxer")
    return {f"{name} ({pid})" for pid, (ppid, name) in table.items()
            if ppid == 1 and name.startswith("sandboxer") and pid not in known and program_of(pid).startswith(ours)}


# What benchmarks and other tests of ours make, perhaps at the same time.
NOT_OURS = ("sandboxer-bench", "sandboxer-test", "sandboxer-fake", "sandboxer-rig")


def describe(thing):
    """Lines on a process that stays: what it waits for, whose child it is and where it was put."""
    pid = thing.rpartition("(")[2].rstrip(")")
    if not thing.startswith("process: ") or not pid.isdigit():
        return []
    lines = [f"--- {thing}"]
    for name, wanted in (("status", ("State", "PPid", "NSpid", "Uid", "SigBlk", "SigPnd", "ShdPnd")), ("wchan", ()), ("cgroup", ())):
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{pid}/{name}").read_text(errors="replace")
            lines += [line for line in text.splitlines() if not wanted or line.partition(":")[0] in wanted]
    return lines


def reap():
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def mounts():
    return set(Path("/proc/self/mountinfo").read_text().splitlines())


def members(path):
    with contextlib.suppress(OSError):
        return set(map(int, Path(path, "cgroup.procs").read_text().split()))
    return set()


def members_below(path):
    """Of a group and all its descendants."""
    return set().union(*(members(at) for at, _, _ in os.walk(path)))


def control_groups(caller, ours=None):
    """The caller's, anywhere. The common parent that holds them may stay; what is in it may not. A group with
    processes that are not ours, in it or below it, belongs to live sandboxes of another test."""
    ours, found = set(descendants() if ours is None else ours), set()
    for at, directories, _ in os.walk("/sys/fs/cgroup"):
        for path in (os.path.join(at, name) for name in directories if "sandboxer" in os.path.join(at, name)):
            with contextlib.suppress(OSError):
                if os.stat(path).st_uid == caller.uid and not members_below(path) - ours:
                    found.add(path)
    return {path for path in found if os.path.basename(path) != "sandboxer" and not any(name in path for name in NOT_OURS)}


def files(caller):
    """In the caller's home and temporary directory, and wherever we might keep state. The state directory
    itself may stay; what is in it may not, but for the one lock file of a machine, which its first sandbox makes."""
    roots = [caller.home, caller.tmp]
    for place in ("/run", "/var/lib", "/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue"):
        with contextlib.suppress(OSError):
            roots += [Path(place, name) for name in os.listdir(place)
                      if name.startswith(("sandboxer", ".sandboxer")) and not name.startswith(NOT_OURS)]
    found = {str(root) for root in roots if root.name != "sandboxer"}
    for root in roots:
        for at, directories, names in os.walk(root):
            found.update(os.path.join(at, name) for name in directories + names)
    return found - {str(caller.home / part) for part in (".local", ".local/share", ".local/share/sandboxer")} - {"/run/sandboxer/id-ranges"}


class Footprint:
    """What was there before; left() says what is there now and was not."""

    def __init__(self, caller):
        self.caller = caller
        self.known = set(processes())
        self.before = self.take()

    def take(self):
        table = processes()
        ours = descendants(table=table)
        return {
            "process": {f"{name} ({pid})" for pid, name in ours.items()} | strays(self.known, table),
            "mount": mounts(),
            "control group": control_groups(self.caller, ours),
            "file": files(self.caller),
        }

    def left(self):
        reap()
        now = self.take()
        return {f"{kind}: {thing}" for kind in now for thing in now[kind] - self.before[kind]}

    def check(self):
        """Fails if something stays. What comes and goes meanwhile belongs to somebody else's run."""
        staying = self.left()
        deadline = time.monotonic() + GONE_SECONDS  # however long one look takes, there is a second one
        while staying:
            if time.monotonic() > deadline:
                details = [line for thing in sorted(staying) for line in describe(thing)]
                self.sweep()
                raise Failure("left behind:\n" + "\n".join(sorted(staying)[:20] + details[:60]))
            time.sleep(0.01)
            staying &= self.left()

    def sweep(self):
        """Ends what a failed test left, so that the next one starts clean."""
        for pid in set(descendants()) - self.known:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 5
        while set(descendants()) - self.known and time.monotonic() < deadline:
            reap()
            time.sleep(0.01)
        for line in mounts() - self.before["mount"]:
            ctypes.CDLL(None).umount2(line.split()[4].encode(), MNT_DETACH)
        for path in sorted(control_groups(self.caller) - self.before["control group"], reverse=True):
            with contextlib.suppress(OSError):
                os.rmdir(path)


# ---- the machine ------------------------------------------------------------------------------------


def others_may_enter(path):
    return all(p.stat().st_mode & stat.S_IXOTH for p in [path, *path.parents])


def programs_for_all(base):
    """The directory of the programs; a copy, if the plain caller cannot reach the build directory."""
    missing = [name for name in PROGRAMS if not (BUILD / name).exists()]
    if missing:
        print(f"Bail out! {BUILD / missing[0]} does not exist; build first, or set BUILD")
        sys.exit(1)
    if others_may_enter(BUILD):
        return BUILD
    copies = base / "bin"
    copies.mkdir()
    for name in PROGRAMS:
        shutil.copy(BUILD / name, copies / name)
        (copies / name).chmod(0o755)
    shutil.copytree(BUILD / "profiles", copies / "profiles")
    return copies


def isolate():
    """A mount namespace of our own, shared within as on any machine with systemd: what leaks out of a
    sandbox shows, and what others mount meanwhile does not."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if os.getuid() == 0:
        for result in (libc.unshare(CLONE_NEWNS), libc.mount(b"none", b"/", None, MS_REC | MS_SLAVE, None),
                       libc.mount(b"none", b"/", None, MS_REC | MS_SHARED, None)):
            check(result == 0, f"own mount namespace: {os.strerror(ctypes.get_errno())}")


# ---- tests ------------------------------------------------------------------------------------------

tests = []


def test(function=None, *, only=None, because="", seconds=TEST_SECONDS):
    """Registers a test. only="root" or "plain": the other half is skipped, `because`."""
    def register(f):
        tests.append((f, only, because, seconds))
        return f
    return register(function) if function else register


def title(function):
    return function.__name__.replace("_", " ")


def too_long(*_):
    raise Failure("the test is still running at its deadline")


def diagnose(message):
    for line in str(message).splitlines():
        print(f"# {line}")


def run_one(number, function, caller, seconds):
    name = f"{number} - {caller.name}: {title(function)}"
    caller.dir = caller.mkdir(caller.base / f"test{number}")
    footprint = Footprint(caller)
    problem, skipped = None, None
    signal.alarm(seconds)
    try:
        function(caller)
    except Skip as why:
        skipped = why
    except Failure as failure:
        problem = str(failure)
    except subprocess.TimeoutExpired as late:
        problem = f"does not end within {late.timeout} s: {' '.join(late.cmd)[:600]}"
    except Exception:  # a broken test must not hide the others
        problem = traceback.format_exc()
    signal.alarm(0)
    try:
        caller.end_started()
        footprint.check()
    except Failure as failure:
        problem = f"{problem}\n{failure}" if problem else str(failure)
    shutil.rmtree(caller.dir, ignore_errors=True)
    if skipped and not problem:
        print(f"ok {name} # SKIP {skipped}", flush=True)
        return True
    print(f"{'not ok' if problem else 'ok'} {name}", flush=True)
    if problem:
        diagnose(problem)
    return not problem


def callers(base, programs, wanted):
    found = [Caller("root", 0, programs, base)] if os.getuid() == 0 else []
    found.append(Caller("plain", PLAIN if os.getuid() == 0 else os.getuid(), programs, base))
    return [c for c in found if wanted in (None, c.name)]


def main():
    arguments = sys.argv[1:]
    wanted = arguments.pop(arguments.index("--as") + 1) if "--as" in arguments else None
    words = [a for a in arguments if a != "--as"]
    signal.signal(signal.SIGALRM, too_long)
    isolate()
    number = failed = 0
    with tempfile.TemporaryDirectory(prefix="e2e-", ignore_cleanup_errors=True) as name:
        base = Path(name)
        base.chmod(0o755)
        for caller in callers(base, programs_for_all(base), wanted):
            for function, only, because, seconds in tests:
                if words and not any(word in function.__name__ or word in title(function) for word in words):
                    continue
                number += 1
                if only not in (None, caller.name):
                    print(f"ok {number} - {caller.name}: {title(function)} # SKIP {because}", flush=True)
                elif not run_one(number, function, caller, seconds):
                    failed += 1
    print(f"1..{number}", flush=True)
    sys.exit(1 if failed else 0)
