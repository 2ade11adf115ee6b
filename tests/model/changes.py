# SPDX-License-Identifier: Apache-2.0
"""Runs in a sandbox: changes of files that are the same for the same seed, so that what must be there can be made again.

    changes.py write SEED TOP      changes TOP/files until there is TOP/stop; each one is on disk before its number is in
                                   TOP/journal. Begun again after its end, it goes on behind the journal's last number.
    changes.py compare SEED TOP    makes everything that the journal tells again, and compares: prints how many changes.
                                   With a fourth word it says where there are holes exactly

Any change can be made twice in a row and leaves what it leaves once. So one that was under way when everybody died is
made again, first of all."""

import errno
import hashlib
import os
import random
import shutil
import stat
import sys
import time

DIRS = ("", "a/", "a/b/", "c/")
FILES = 4  # names in each; a layer below is copied without many of its holes, and all must fit into a sandbox
AGAIN = "again"  # in the journal: here the writer was started again
UNIT = 4096  # of holes
LARGE = 10  # times: most of these are copied ahead of a capture (src/engine/layers/ahead.c)
COPIED = (1 << 20) // UNIT


def changes(seed):
    r = random.Random(seed)
    kinds = ("write", "write", "large", "patch", "patch", "hole", "shrink", "mode", "owner", "note", "rename", "rename", "link", "remove", "remove",
             "symlink", "fifo", "directory", "renew", "clear")
    while True:
        yield (r.choice(kinds), *(r.choice(DIRS) + f"f{r.randrange(FILES)}" for _ in range(2)), r.randrange(1, 60000),
               r.getrandbits(32))


def fill(seed, n):
    return (hashlib.sha256(str(seed).encode()).digest() * (n // 32 + 1))[:n]


def parents(path):
    while (path := os.path.dirname(path)):
        yield path


def is_file(path):
    return os.path.lexists(path) and stat.S_ISREG(os.lstat(path).st_mode)


def perhaps(call, *args, **options):
    """What one identity alone, or this file system, may not do: neither here nor when it is made again. A full disk is none of that."""
    try:
        call(*args, **options)
    except OSError as failed:
        if failed.errno in (errno.ENOSPC, errno.EDQUOT):
            raise


# Each takes the path, another one, a number and the seed.

def whole(at, times=1):
    def write(path, _, n, seed):
        if os.path.lexists(path) and not is_file(path):
            os.unlink(path)
        with open(path, "wb") as f:
            f.seek(at * (n % 4 + 1))
            f.write(fill(seed, n * times))
    return write


def patch(path, _, n, seed):
    if is_file(path):
        with open(path, "r+b") as f:
            f.seek(seed % (1 << 19))
            f.write(fill(seed, n))


def shrink(path, _, n, seed):
    if is_file(path):
        os.truncate(path, n)
        os.truncate(path, n + seed % (1 << 18))


def on_files(call):
    return lambda path, to, n, seed: call(path, to, n, seed) if is_file(path) else None


def rename(path, to, n, seed):
    if os.path.lexists(path) and not (os.path.lexists(to) and number(path) == number(to)):  # the kernel thinks so, too
        os.rename(path, to)


def link(path, to, n, seed):
    if path != to:
        remove(to)
        os.link(path, to)


def remove(path, *_):
    if os.path.lexists(path):
        os.unlink(path)


def symlink(path, to, n, seed):
    remove(path)
    os.symlink(f"../{seed}", path)


def fifo(path, *_):
    remove(path)
    os.mkfifo(path, 0o640)


def clear(path, *_):
    shutil.rmtree(os.path.dirname(path))


def renew(path, to, n, seed):
    """Of a directory that is in a layer below, nothing shows through."""
    clear(path)
    os.makedirs(os.path.dirname(path))
    whole(0)(path, to, n, seed)


DO = {
    "write": whole(0), "large": whole(0, LARGE), "hole": whole(1 << 20), "patch": patch, "shrink": shrink, "rename": rename, "remove": remove, "fifo": fifo,
    "symlink": symlink,
    "mode": on_files(lambda path, to, n, seed: os.chmod(path, 0o600 | seed & 0o177)),
    "owner": on_files(lambda path, to, n, seed: perhaps(os.chown, path, seed % 1000, seed % 1000 + 1)),
    "note": on_files(lambda path, to, n, seed: perhaps(os.setxattr, path, "user.note", fill(seed, n % 200 + 1))),
    "link": on_files(link),
    "directory": lambda path, to, n, seed: os.chmod(os.path.dirname(path), 0o700 | seed & 0o77),
    "renew": renew, "clear": clear,
}
NO_PARENT = ("directory", "renew", "clear")  # they are about it, and the top has none
RENEWED = ("remove", "symlink", "fifo", "directory", "renew", "clear")  # other names of the file have nothing to do with it


def sync(path):
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.fsync(fd)
    os.close(fd)


def apply(top, change, forced=True):
    what, path, to, n, seed = change
    if what in NO_PARENT and "/" not in path:
        return
    for p in (path, to):
        os.makedirs(os.path.dirname(f"{top}/{p}"), exist_ok=True)
    DO[what](f"{top}/{path}", f"{top}/{to}", n, seed)
    made = f"{top}/{to if what == 'rename' else path}"
    if is_file(made):
        os.utime(made, ns=(seed, seed * 1000003))
        if forced:
            sync(made)
    for d in {*parents(path), *parents(to)}:
        if os.path.isdir(f"{top}/{d}"):
            os.utime(f"{top}/{d}", ns=(seed, seed * 1000033))
    if forced:
        for d in {"", *parents(path), *parents(to)}:
            if os.path.isdir(f"{top}/{d}"):
                sync(f"{top}/{d}")


def number(path):
    """The same for names of one file, and of no other: every change gives what it makes a time of its own. Inode numbers do not
    tell: on btrfs those of two layers may be the same, and Linux 6.1 shows another one for a new name of what was just copied up."""
    st = os.lstat(path)
    return (st.st_nlink, st.st_size, st.st_mtime_ns, st.st_ctime_ns) if st.st_nlink > 1 else path


def apply_again(top, change):
    """What was under way as everybody died. In a layer below, a file's other names do not hear of it any more."""
    what, path, to = change[:3]
    known = path if os.path.lexists(f"{top}/{path}") or what != "rename" else to
    others = [] if what in RENEWED or not is_file(f"{top}/{known}") else [
        p for p in walk(top) if is_file(f"{top}/{p}") and number(f"{top}/{p}") == number(f"{top}/{known}")]
    apply(top, change)
    made = to if what == "rename" else path
    for p in others:
        if p not in (path, to):
            os.unlink(f"{top}/{p}")
            os.link(f"{top}/{made}", f"{top}/{p}")


def walk(top):
    """Every path below it, the directories first."""
    for at, dirs, files in os.walk(top):
        for name in sorted(dirs + files):
            yield os.path.relpath(os.path.join(at, name), top)


def data(fd, size):
    """(from, to) of what is no hole."""
    at = 0
    while at < size:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
        except OSError:
            return
        at = os.lseek(fd, start, os.SEEK_HOLE)
        yield start, at


def separate(top):
    """Names of one file become files of their own. Where it is in a layer below, overlayfs does that to whichever is written to."""
    for path in list(walk(top)):
        path = f"{top}/{path}"
        if path.endswith("~"):
            os.unlink(path)
        elif is_file(path) and os.lstat(path).st_nlink > 1:
            st = os.lstat(path)
            with open(path, "rb") as a, open(path + "~", "wb") as b:
                for start, end in data(a.fileno(), st.st_size):
                    b.seek(start)
                    b.write(os.pread(a.fileno(), end - start, start))
                b.truncate(st.st_size)
                for name in os.listxattr(path):
                    os.setxattr(b.fileno(), name, os.getxattr(path, name))
            perhaps(os.chown, path + "~", st.st_uid, st.st_gid)
            os.chmod(path + "~", st.st_mode & 0o7777)
            os.utime(path + "~", ns=(st.st_mtime_ns, st.st_mtime_ns))
            os.rename(path + "~", path)
    for path in walk(top):
        if os.path.isdir(f"{top}/{path}") and not os.path.islink(f"{top}/{path}"):
            os.utime(f"{top}/{path}", ns=(1, 1))


# --- writing ---

def journal(top):
    with open(f"{top}/journal") as f:
        lines = f.read().split("\n")[:-1]
    numbers = [int(line) for line in lines if line != AGAIN]
    assert numbers == list(range(1, len(numbers) + 1)), "the journal has a gap"
    return lines, len(numbers)


def write(seed, top):
    os.makedirs(top + "/files", exist_ok=True)
    again = os.path.exists(top + "/journal")
    done = journal(top)[1] if again else 0
    with open(top + "/journal", "ab", buffering=0) as log:
        def note(text):
            log.write(f"{text}\n".encode())
            os.fsync(log.fileno())
        for i, change in enumerate(changes(seed)):
            if os.path.exists(top + "/stop"):
                return
            if again and i == done:
                apply_again(top + "/files", change)
                note(i + 1)
                separate(top + "/files")
                os.sync()
                note(AGAIN)
            elif i >= done:
                time.sleep(0.005)  # all of them are made again to compare
                apply(top + "/files", change)
                note(i + 1)


# --- comparing ---

def holes(path, size):
    fd = os.open(path, os.O_RDONLY)
    try:
        return [(a // UNIT, -(-b // UNIT)) for a, b in data(fd, size)]
    finally:
        os.close(fd)


def has_holes(was, must):
    """At least those that there must be: of the same content, which is compared as well. overlayfs, when a file of a layer
    below is written to, fills holes within 1 MiB behind data. xfs shows zeros of large folios as data while they are cached,
    so `must`, which was just written, may have fewer holes."""
    def inside(inner, outer, more):
        return all(any(a <= x and y <= b + more for a, b in outer) for x, y in inner)
    wide = []
    for a, b in must:
        if wide and a <= wide[-1][1] + COPIED:
            wide[-1] = (wide[-1][0], b)
        else:
            wide.append((a, b))
    return inside(was, wide, COPIED)


def look(top):
    """By path: (what can be told of it, its time, whether that is a directory's, names of the same file, where it has data)"""
    found, names = {}, {}
    for path in walk(top):
        full, st = f"{top}/{path}", os.lstat(f"{top}/{path}")
        kind = stat.S_IFMT(st.st_mode)
        told, full_of = [oct(st.st_mode), st.st_uid, st.st_gid], []
        if kind == stat.S_IFLNK:
            told.append(os.readlink(full))
        elif kind == stat.S_IFREG:
            with open(full, "rb") as f:
                told += [st.st_size, hashlib.sha256(f.read()).hexdigest()]
            full_of = holes(full, st.st_size)
            names.setdefault(number(full), set()).add(path)
        if kind in (stat.S_IFREG, stat.S_IFDIR):
            told.append(sorted((a, os.getxattr(full, a).hex()) for a in os.listxattr(full)))
        # times of links and FIFOs are those of their making
        time_ns = st.st_mtime_ns if kind in (stat.S_IFREG, stat.S_IFDIR) else 0
        found[path] = (told, time_ns, kind == stat.S_IFDIR,
                       names[number(full)] if kind == stat.S_IFREG else {path}, full_of)
    return found


def loose(change, *trees):
    """What the one change that was under way may have changed, and directories whose time it may have."""
    what, path, to = change[:3]
    base = {os.path.dirname(path)} if what in NO_PARENT and "/" in path else {path, to}
    free = {p for tree in trees for p in tree if any(p == b or p.startswith(b + "/") for b in base)} | base
    free |= {name for tree in trees for p in free if p in tree for name in tree[p][3]}
    above = {d for p in (path, to, *base) for d in (p, *parents(p))}
    return free | {d for d in above if any(d not in tree for tree in trees)}, above


def compare(seed, top, exact=""):
    lines, n = journal(top)
    exact = exact and AGAIN not in lines
    again, stream = "/tmp/again", changes(seed)
    shutil.rmtree(again, ignore_errors=True)
    os.makedirs(again)
    for line in lines:
        if line == AGAIN:
            separate(again)
        else:
            apply(again, next(stream), forced=False)
    was, must = look(top + "/files"), look(again)
    free, moved = loose(next(stream), was, must)
    for path in sorted({*was, *must} - free):
        a, b = was.get(path), must.get(path)
        if a and b and path in moved and a[2] and b[2]:
            a, b = a[:1] + (0,) + a[2:], b[:1] + (0,) + b[2:]
        if a and b:
            if not exact and has_holes(a[4], b[4]):
                a = a[:4] + b[4:]
            a, b = a[:3] + (a[3] - free,) + a[4:], b[:3] + (b[3] - free,) + b[4:]
        assert a == b, f"after {n} changes {path} is {a}, not {b}; then came {next(changes_from(seed, n))}"
    shutil.rmtree(again)
    print(n)


def changes_from(seed, n):
    for i, change in enumerate(changes(seed)):
        if i >= n:
            yield change


if __name__ == "__main__":
    {"write": write, "compare": compare}[sys.argv[1]](int(sys.argv[2]), *sys.argv[3:])
