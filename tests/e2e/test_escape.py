#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Runs tests/attacks inside the sandbox, where every attack must be held, and once where nothing confines
them, where they must be seen to succeed."""

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

from harness import BUILD, REPO, Skip, check, equal, main, test
from terminal import Terminal

NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")
HOST_DIRECTORIES = ("/", "/root", "/home", "/var", "/etc", "/tmp", "/run", "/dev", "/dev/shm", "/dev/pts", "/opt", "/work")
SYSTEM_FILES = ("/usr", "/usr/bin", "/usr/bin/env", "/etc/services", "/etc/ld.so.cache", "/etc/ssl/certs")
SECRET = "canary-5f2d9c1e7b"
IPC_CREAT, IPC_RMID = 0o1000, 0


def attacker(c):
    """A directory with the program and a file to attack; mounted read-only at /attacks."""
    built = BUILD / "sandboxer-attacks"
    directory = c.mkdir(c.dir / "attacks")
    if built.exists():
        shutil.copy(built, directory / "escape")
    else:
        sources = sorted((REPO / "tests/attacks").glob("*.c"))
        subprocess.run(["cc", "-static", "-O1", "-D_GNU_SOURCE", f"-I{REPO}/tests", "-o", directory / "escape", *sources],
                       check=True)
    (directory / "escape").chmod(0o755)
    c.write("attacks/victim", "unharmed\n", 0o666)
    return directory


@contextlib.contextmanager
def bait(c):
    """Things of the host for the attacks to find, and the facts that name them."""
    libc = ctypes.CDLL(None, use_errno=True)
    key = 0x5A000000 + os.getpid()
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind(f"\0e2e-escape-{os.getpid()}")
        abstract.listen()
        path = c.dir / "socket"
        named = stack.enter_context(socket.socket(socket.AF_UNIX))
        named.bind(str(path))
        named.listen()
        path.chmod(0o777)
        segment = libc.shmget(key, 4096, IPC_CREAT | 0o666)
        stack.callback(libc.shmctl, segment, IPC_RMID, None)
        root = os.stat("/")
        facts = {
            "ESCAPE_CONFINED": "1",
            "ESCAPE_PORT": str(port.getsockname()[1]),
            "ESCAPE_ABSTRACT": abstract.getsockname()[1:].decode(),
            "ESCAPE_UNIX_PATH": str(path),
            "ESCAPE_SHM_KEY": str(key),
            "ESCAPE_HOST_FILE": str(c.write("hostfile", "of the host\n")),
            "ESCAPE_HOST_DIRS": ",".join(f"{d}={os.stat(d).st_dev}:{os.stat(d).st_ino}"
                                         for d in HOST_DIRECTORIES if os.path.isdir(d)),
            "ESCAPE_ROOT_DEVICE": f"{os.major(root.st_dev)}:{os.minor(root.st_dev)}",
            "ESCAPE_HOSTNAME": socket.gethostname(),
            "ESCAPE_SECRET": SECRET[::-1],
            **{f"ESCAPE_NS_{ns}": str(os.stat(f"/proc/self/ns/{ns}").st_ino) for ns in NAMESPACES},
        }
        facts["ESCAPE_BOOT_ID"] = Path("/proc/sys/kernel/random/boot_id").read_text().strip()[::-1]
        facts["ESCAPE_SYSTEM_FILES"] = ",".join(f"{f}={os.stat(f).st_dev}:{os.stat(f).st_ino}"
                                                for f in SYSTEM_FILES if os.path.exists(f))
        if Path("/etc/machine-id").exists():
            facts["ESCAPE_MACHINE_ID"] = Path("/etc/machine-id").read_text().strip()[::-1]
        yield facts


def dirty():
    """A caller with a blocked and an ignored signal, as some shells and supervisors leave behind."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)


@contextlib.contextmanager
def streams():
    """Pipes and descriptors of the caller; a directory and a file are there to be leaked."""
    with contextlib.ExitStack() as stack:
        pipes = [os.pipe() for _ in range(3)]
        for fd in (fd for pair in pipes for fd in pair):
            stack.callback(_close, fd)
        extra = [os.open("/", os.O_RDONLY), os.open("/etc/hostname", os.O_RDONLY)]
        for fd in extra:
            stack.callback(_close, fd)
        yield pipes, extra


def _close(fd):
    with contextlib.suppress(OSError):
        os.close(fd)


def attack(c, before):
    """Runs the attacks with `before` as the way in; the lines of TAP they print."""
    directory = attacker(c)
    with bait(c) as facts, streams() as (pipes, extra):
        (inp, inp_w), (out_r, out), (err_r, err) = pipes
        facts["ESCAPE_STDIO"] = ",".join(str(os.fstat(fd).st_ino) for fd in (inp, out, err))
        process = c.start(before(directory, facts), stdin=inp, stdout=out, stderr=err, pass_fds=extra, preexec_fn=dirty,
                          env={"SECRET_CANARY": SECRET}, start_new_session=True)
        for fd in (inp, out, err, inp_w):
            _close(fd)
        with open(out_r, "rb", closefd=False) as stream:
            lines = stream.read().decode(errors="replace").splitlines()
        with open(err_r, "rb", closefd=False) as stream:
            notes = stream.read().decode(errors="replace")
        process.wait(30)
    equal((directory / "victim").read_text(), "unharmed\n", "the file to attack")
    check(lines and lines[-1].startswith("1.."), f"the attacks did not finish\n{notes}\n" + "\n".join(lines[-5:]))
    return lines


def inside(c, *flags):
    def way_in(directory, facts):
        argv = [c.program(), "run", "--mount", f"{directory}:/attacks", "--env", "ESCAPE_READ_ONLY=/attacks/victim", *flags]
        if "apart" not in flags:
            del facts["ESCAPE_SYSTEM_FILES"]
        for name, value in facts.items():
            argv += ["--env", f"{name}={value}"]
        # An argument that only the outside may see; the sandbox needs no more than the command.
        return [*argv, "--mount", f"{c.write(SECRET)}:/innocent", "--", "/attacks/escape"]
    return way_in


def all_held(c, *flags):
    lines = attack(c, inside(c, *flags))
    through = [line for line in lines if line.startswith("not ok")]
    skipped = [line for line in lines if "# SKIP" in line]
    for line in skipped:
        print(f"# {line}")
    print(f"# {len(lines) - 1} attacks, {len(through)} through, {len(skipped)} not applicable")
    check(not through, "\n".join(through))


@test
def attacks_of_root_inside_are_held(c):
    all_held(c)


@test
def attacks_of_a_user_inside_are_held(c):
    all_held(c, "--user", "1000")


@test
def attacks_under_limits_are_held(c):
    all_held(c, "--memory", "256M", "--pids", "64", "--cpu", "1", "--disk", "16M", "--hostname", "box", "-q")


@test
def attacks_on_what_is_shared_with_others_are_held(c):
    all_held(c, "--system", "apart", "--side-channels", "guarded")


@test
def attacks_under_the_strict_table_are_held(c):
    all_held(c, "--kernel", "strict")


@test
def attacks_on_the_terminal_are_held(c):
    with Terminal(c, "-q", "--mount", f"{attacker(c)}:/attacks", "--env", "ESCAPE_CONFINED=1", "--", "/attacks/escape",
                  "terminal", "console", "descriptor") as t:
        t.expect(b"1..")
        t.end()
        check(b"not ok" not in t.before and b"SKIP" not in t.before, t.before.decode(errors="replace"))


@test(only="root", because="needs the privileges that the attacks are after")
def unconfined_the_attacks_succeed(c):
    if not shutil.which("setpriv"):
        raise Skip("setpriv is not installed")
    lines = attack(c, rehearsal)
    listed = subprocess.run([c.dir / "attacks/escape", "--list"], capture_output=True, text=True, check=True).stdout
    must = {name for name in listed.splitlines() if not name.startswith("-")}
    seen = {name for name in must for line in lines if line.startswith("not ok") and f"- {name}:" in line}
    print(f"# {len(seen)} of {len(listed.splitlines())} attacks seen to succeed, {len(must)} must be")
    # What the host does not have cannot be seen to be read; a minimal Debian has no machine-id.
    lacking = {name for name in must for line in lines if f"- {name} # SKIP the host has no" in line}
    check(must == seen | lacking, "vacuous here:\n" + "\n".join(sorted(must - seen - lacking)))


def rehearsal(directory, facts):
    """A pid, mount and uts namespace of its own, so that nothing done there outlives it, and otherwise
    root with everything. The shell stays pid 1; /tmp is the attacks' own."""
    script = ('mount --bind "$1" /tmp && cd /tmp && setpriv --inh-caps=+chown --ambient-caps=+chown --groups 4 '
              '/tmp/attacks/escape; exit 0')
    facts.update(ESCAPE_REHEARSAL="1", ESCAPE_READ_ONLY="/tmp/attacks/victim", ESCAPE_HOST_FILE="/tmp/hostfile",
                 ESCAPE_UNIX_PATH="/tmp/socket", SECRET_CANARY=SECRET)
    return ["env", *(f"{k}={v}" for k, v in facts.items()), "timeout", "-k", "5", "120", "unshare", "--pid", "--fork",
            "--kill-child", "--mount", "--uts", "--propagation", "private", "--mount-proc", "/bin/bash", "-c", script, SECRET,
            str(directory.parent)]


main()
