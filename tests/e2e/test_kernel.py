#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""What a profile or --kernel opens of the kernel, how far, and what ordinary programs keep without it."""

import errno
from pathlib import Path

from daemon import PROFILE, PROFILES, Daemon
from harness import check, equal, main, test

HERE = Path(__file__).resolve().parent
FILTERS = "nested-seccomp", "socket-filters"
AT_MOST = 256  # of each kind
ALL_OPEN = [word for name in FILTERS for word in ("--kernel", name)]
PAGES = """
import ctypes, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open('/bin/sh', os.O_RDONLY)
libc.mmap.restype = ctypes.c_void_p
at = libc.mmap(None, 4096, 1, 2, fd, 0)
try:
    os.preadv(fd, [bytearray(16)], 0, os.RWF_NOWAIT)
    told = 0
except OSError as e:
    told = e.errno
r = libc.mincore(ctypes.c_void_p(at), 4096, ctypes.create_string_buffer(1))
print(r and ctypes.get_errno(), told)
"""
COUNT = """
import os
n = 0
try:
    while n < 40:
        os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY)
        n += 1
except OSError:
    pass
print(n)
"""
# Programs that use what the tables are narrow about: locks, splices, shared memory, clones of files, terminals.
EVERYDAY = r"""
set -e
cd /tmp
python3 - <<'END'
import fcntl, multiprocessing, os, socket, sqlite3, subprocess, tempfile, threading
f = tempfile.TemporaryFile()
fcntl.lockf(f, fcntl.LOCK_EX); fcntl.flock(f, fcntl.LOCK_EX); fcntl.fcntl(f, fcntl.F_GETFL)
db = sqlite3.connect('/tmp/x.db'); db.execute('pragma journal_mode=wal'); db.execute('create table t(a)'); db.commit()
s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname()); c.close()
socket.getaddrinfo('localhost', 80)
multiprocessing.Pool(2).map(abs, [1, 2])
subprocess.run(['true'], check=True)
END
printf a >one; cp one two; sync; cat one two | tee three >/dev/null; sed -i s/a/b/ one; grep -q b one; tar cf t.tar one two; tar xOf t.tar >/dev/null
test "$(printf 'x\n' | script -qec cat /dev/null 2>/dev/null | head -c1)" = x || test ! -x /usr/bin/script
perl -e 'print 1' >/dev/null; awk 'BEGIN { print 1 }' >/dev/null; find / -maxdepth 1 >/dev/null; df / >/dev/null; stty -a </dev/null 2>/dev/null || true
! command -v git >/dev/null || (git init -q r && cd r && echo >f && git add f && git -c user.email=a@b -c user.name=a commit -qm m)
! command -v node >/dev/null || node -e 'const s=require("net").createServer().listen(0,()=>s.close()); require("fs").copyFileSync("one","five")'
! command -v gcc >/dev/null || (echo 'int main(void){return 0;}' >m.c && gcc m.c -o m && ./m)
echo fine
"""


def load(c, what, *flags):
    """Runs filters.py inside: the numbers that it prints."""
    return [int(n) for n in c.run("--mount", f"{HERE / 'filters.py'}:/filters.py", *flags, "--",
                                  "/usr/bin/python3", "/filters.py", what).expect().text.split()]


def out(d, box, code):
    """What a script of Python's prints in a sandbox of the daemon's."""
    return d.api.run(box, ["/usr/bin/python3", "-c", code]).expect(200).json["stdout"]


@test
def filters_of_a_programs_own_are_refused(c):
    equal(load(c, "one"), [errno.EINVAL, errno.EPERM], "seccomp, socket")
    equal(load(c, "one", "--kernel", "strict"), [errno.EINVAL, errno.EPERM], "seccomp, socket, strict table")
    equal(load(c, "one", "--kernel", "nested-seccomp"), [0, errno.EPERM], "only one of them")


@test
def filters_are_allowed_up_to_a_number(c):
    for flags in ((), ("--kernel", "strict")):
        equal(load(c, "one", *ALL_OPEN, *flags), [0, 0], "seccomp, socket")
        loaded, refusal, again = load(c, "many", *ALL_OPEN, *flags)
        # Fifty processes were at it, each of which may be on its way when they are counted.
        check(AT_MOST <= loaded <= AT_MOST + 50 and refusal == errno.ENOMEM, f"{loaded} filters, then {refusal}")
        equal(again, 30, "filters after those of processes that ended")
        equal(load(c, "sockets", *ALL_OPEN, *flags), [AT_MOST, errno.ENOMEM], "filters of sockets, and the refusal")


@test
def pages_in_memory_are_told_only_if_allowed(c):
    equal(c.run("--", "/usr/bin/python3", "-c", PAGES).expect().text, f"{errno.ENOSYS} {errno.EOPNOTSUPP}", "refusals")
    equal(c.run("--kernel", "page-cache", "--", "/usr/bin/python3", "-c", PAGES).expect().text, "0 0", "answers")


@test
def everyday_programs_do_not_notice(c):
    for flags in ((), ("--kernel", "strict"), ALL_OPEN):
        equal(c.sh(EVERYDAY, *flags).expect().text.splitlines()[-1], "fine", f"with {flags}")


@test
def a_word_that_is_unknown_is_named(c):
    c.run("--kernel", "bpf", "--", "true").expect(125, says=["--kernel: 'bpf' is unknown"])


@test
def a_profile_opens_what_it_names_in_prepared_sandboxes_too(c):
    d = Daemon(c)
    more = "kernel: {allow: [nested-seccomp, page-cache]}\n"
    for name, pool in (("open", 0), ("open-pooled", 1)):
        recipe = PROFILE.format(id=f"profile.{name}", **{**PROFILES["profile.pooled"], "pool": pool})
        c.write(f"daemon/profiles/{name}.yaml", recipe.replace("disk_mb: 32", "disk_mb: 32, terminals: 2") + more)
    with d:
        for profile, filters, pages, terminals in (("open", 0, 0, 2), ("open-pooled", 0, 0, 2),
                                                   ("pooled", errno.EINVAL, errno.ENOSYS, 16)):
            box = d.create(profile=f"profile.{profile}")
            script = (HERE / "filters.py").read_text()
            code = f"import sys; sys.argv[1:] = ['one']\n{script}"
            equal(out(d, box, code).split()[0], str(filters), f"{profile}: seccomp")
            equal(out(d, box, PAGES).split()[0], str(pages), f"{profile}: mincore")
            equal(out(d, box, COUNT).strip(), str(terminals), f"{profile}: terminals")


main()
