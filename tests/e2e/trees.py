# SPDX-License-Identifier: Apache-2.0
"""Files of every kind in sandboxes, to be told apart to the last attribute; and what the storage has on disk."""

import json
import os
import socket
import struct

from harness import equal

# Something of everything that a file can be, below one directory.
MAKE = r"""
import os, socket, sys
top = sys.argv[1]
os.makedirs(top + "/deep/er", exist_ok=True)
os.chdir(top)
open("plain", "w").write("plain\n" * 1000)
os.chmod("plain", 0o751)
os.link("plain", "deep/linked")
os.symlink("../plain", "deep/link")
os.symlink("/nowhere/at/all", "dangling")
os.mkfifo("fifo", 0o640)
s = socket.socket(socket.AF_UNIX); s.bind("socket")
with open("sparse", "wb") as f:
    f.seek(3 << 20); f.write(b"x" * 5000); f.seek(9 << 20); f.write(b"end"); f.truncate(12 << 20)
open("empty", "w")
os.mkdir("closed"); open("closed/in", "w").write("in"); os.chmod("closed", 0o500)
os.mkdir("sticky"); os.chmod("sticky", 0o1777)
open(b"name\xff\n", "w").write("odd")
for name in ("plain", "deep"):
    try:
        os.setxattr(name, "user.note", b"\x00\xffvalue")
    except OSError:
        pass
try:
    os.chown("empty", 1000, 1000)
except OSError:
    pass
for path in ("plain", "empty", "fifo", "sticky", "deep/er", "deep"):
    os.utime(path, ns=(1_000_000_001, 2_000_000_003))
os.utime("dangling", ns=(5, 7), follow_symlinks=False)
"""

# What can be told of all of it: a line each.
LOOK = r"""
import hashlib, json, os, stat, sys
seen, out = {}, []
def holes(path, size):
    found, at = [], 0
    fd = os.open(path, os.O_RDONLY)
    try:
        while at < size:
            try: data = os.lseek(fd, at, os.SEEK_DATA)
            except OSError: break
            at = os.lseek(fd, data, os.SEEK_HOLE)
            found.append([data // 4096, -(-at // 4096)])
    finally: os.close(fd)
    return found
def look(path):
    st = os.lstat(path)
    kind = stat.S_IFMT(st.st_mode)
    line = [repr(os.fsencode(path)), oct(st.st_mode), st.st_uid, st.st_gid, st.st_mtime_ns]
    if kind == stat.S_IFLNK: line.append(os.readlink(path))
    if kind == stat.S_IFREG:
        line += [st.st_size, hashlib.sha256(open(path, "rb").read()).hexdigest(), holes(path, st.st_size)]
        names = seen.setdefault(st.st_ino, [])  # those that are the same file, once all are known
        names.append(repr(os.fsencode(path)))
        line.append(names)
    if kind in (stat.S_IFREG, stat.S_IFDIR):
        line.append(sorted((n, repr(os.getxattr(path, n))) for n in os.listxattr(path)))
    out.append(line)
    if kind == stat.S_IFDIR:
        for name in sorted(os.listdir(path)): look(os.path.join(path, name))
for top in sys.argv[1:]: look(top)
print(json.dumps(out))
"""


def run(d, box, argv, **options):
    answer = d.api.run(box, argv, **options).expect(200).json
    equal((answer["exit_code"], answer["stderr"]), (0, ""), f"{argv[:2]}")
    return answer["stdout"]


def make(d, box, top):
    run(d, box, ["python3", "-c", MAKE, top])


def look(d, box, *tops):
    return json.loads(run(d, box, ["python3", "-c", LOOK, *tops]))


def same(before, after, what):
    equal(len(before), len(after), f"{what}: files")
    for a, b in zip(before, after):
        equal(a, b, what)


def layers(d):
    path = d.state / "storage/layers"
    return sorted(os.listdir(path)) if path.exists() else []


def boxes(d):
    path = d.state / "storage/boxes"
    return sorted(os.listdir(path)) if path.exists() else []


def snapshot(d, box, **request):
    return d.api.post(f"/v1/sandboxes/{box}/snapshot", request).expect(201).json


def supervisor(d, box):
    """The pid of the process that listens for it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.connect(str(d.state / "daemon/run" / box / "control"))
        return struct.unpack("iII", s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]


def unfinished(d):
    return sorted(os.listdir(d.state / "storage/tmp"))
