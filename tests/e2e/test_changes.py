#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""run --untrusted: the manifest has every path that the program changed, wherever it did."""

import base64
import hashlib
import json
import os
import re
from pathlib import Path

from harness import check, equal, main, test, wait_for
from images import directory


def changes(c, text, *options, code=0):
    """What the manifest of a run of that program says."""
    job = c.write("job.sh", "#!/bin/sh\n" + text)
    c.cli("run", *options, "--block", "critical", "--untrusted", job, "--output", c.dir / "out",
          env={"SANDBOXER_STATE": str(c.dir / "state")}).expect(code)
    manifest = json.loads((c.dir / "out.manifest.json").read_text())
    said = json.loads(base64.b64decode(manifest["payload"]))
    equal([f["path"] for f in said["changes"]], sorted(f["path"] for f in said["changes"]), "the order")
    return {f["path"]: f for f in said["changes"]}


def told(said):
    return {path: one["change"] for path, one in said.items()}


@test
def a_program_that_writes_nothing_changed_nothing(c):
    c.write("in/same", "same")
    equal(changes(c, "cat same /etc/hosts > /dev/null; ls / /usr > /dev/null\n", "--input", c.dir / "in"), {}, "changes")


@test
def every_place_that_can_be_written_is_looked_at(c):
    places = ("tmp", "var/tmp", "dev/shm", "run", "var/lib", "etc", "tmp/output")
    said = changes(c, "".join(f"echo {p} > /{p}/new\n" for p in places))
    equal(told(said), {f"{p}/new": "added" for p in places}, "the changes")
    for place in places:
        equal(said[f"{place}/new"]["sha256"], hashlib.sha256(f"{place}\n".encode()).hexdigest(), f"hash of {place}")


@test
def what_only_the_host_had_is_new(c):
    """The sandbox's root is made up: what is not in it was not there, whatever this machine has."""
    theirs = next(f"etc/{name}" for name in ("bash.bashrc", "fstab", "debian_version", "crontab") if os.path.exists(f"/etc/{name}"))
    equal(told(changes(c, f"[ -e /{theirs} ] && exit 1; echo x >> /{theirs}; mkdir -p /etc/default/x\n")),
          {theirs: "added", "etc/default": "added", "etc/default/x": "added"}, "the changes")


@test
def what_the_sandbox_began_with_is_compared(c):
    c.write("in/edited", "a")
    c.write("in/gone", "a")
    c.write("in/mode", "a")
    said = changes(c, "echo x >> edited; rm gone; chmod 755 mode; echo x >> /etc/hosts; rm /etc/hostname\n"
                   "chmod 700 /var/lib; chmod 1770 /tmp\n", "--input", c.dir / "in")
    equal(told(said), {"tmp/output/edited": "changed", "tmp/output/gone": "deleted", "tmp/output/mode": "changed",
                       "etc/hosts": "changed", "etc/hostname": "deleted", "var/lib": "changed", "tmp": "changed"},
          "the changes")
    equal(said["var/lib"]["mode"], "0700", "the mode")


@test
def kinds_are_told(c):
    said = changes(c, """cd /tmp
mkfifo pipe; ln -s /etc/passwd link; printf '#!/bin/sh\\n' > script; cp /bin/true elf; mkdir dir
echo x > one; ln one two; truncate -s 900G holes; echo x > suid; chmod 4755 suid; echo x > closed; chmod 0 closed
touch -d 2001-01-01 one
""", "--cap", "FSETID")
    equal({p: (f["kind"], f.get("content")) for p, f in said.items()}, {
        "tmp/pipe": ("other", None), "tmp/link": ("link", None), "tmp/script": ("file", "script"),
        "tmp/elf": ("file", "elf"), "tmp/dir": ("directory", None), "tmp/one": ("file", "data"),
        "tmp/two": ("file", "data"), "tmp/holes": ("file", None), "tmp/suid": ("file", "data"),
        "tmp/closed": ("file", "data")}, "the kinds")
    equal(said["tmp/link"]["target"], "/etc/passwd", "the target")
    equal((said["tmp/one"]["links"], said["tmp/two"]["links"]), (2, 2), "hard links")
    equal((said["tmp/holes"]["size"], "sha256" in said["tmp/holes"]), (900 << 30, False), "a file of holes")
    equal((said["tmp/suid"]["mode"], said["tmp/closed"]["mode"]), ("4755", "0000"), "modes")
    equal(said["tmp/closed"]["sha256"], said["tmp/one"]["sha256"], "what a mode keeps others from reading")


@test
def an_image_is_an_overlay(c):
    image = directory(c)
    for name in ("kept", "changed", "gone", "back", "mode"):
        c.write(f"image/srv/{name}", name)
        c.write(f"image/srv/dir/{name}", name)
        c.write(f"image/srv/lost/{name}", name)
    said = changes(c, """cd /srv
echo x >> changed; rm gone; rm back; echo back > back; chmod 600 mode; echo new > new
rm -r lost; rm -r dir; mkdir dir; echo other > dir/kept
cat kept > /dev/null; : > /tmp/t; : > /run/r; : > /dev/shm/s
""", "--image", image)
    equal(told(said), {
        "srv/changed": "changed", "srv/gone": "deleted", "srv/back": "changed", "srv/mode": "changed",
        "srv/new": "added", "srv/lost": "deleted", "srv/dir": "changed", "srv/dir/kept": "changed",
        "tmp/t": "added", "run/r": "added", "dev/shm/s": "added"}, "the changes")
    check(said["srv/dir"].get("replaces") is True, "a directory that was made anew does not say so")
    equal(said["srv/new"]["sha256"], hashlib.sha256(b"new\n").hexdigest(), "a hash")


@test
def the_system_is_an_overlay(c):
    """Where the caller's owners are mapped; a plain user's program cannot write there."""
    text = "echo x > /usr/local/new; rm /usr/bin/yes; chmod 700 /usr/bin/env;\n:\n"
    said = told(changes(c, text))
    if c.root:
        equal((said["usr/local/new"], said["usr/bin/yes"], said["usr/bin/env"]), ("added", "deleted", "changed"),
              "the changes")
    check(os.path.exists("/usr/bin/yes"), "the host's own file is gone")
    check("usr/bin" not in said and "usr" not in said, "a directory counts as changed for what is in it")


@test
def what_cannot_be_read_does_not_leave(c):
    """More files than can be listed: nothing is signed that is not known."""
    job = c.write("deep.sh", "#!/bin/sh\ncd /tmp; i=0\nwhile [ $i -lt 200 ]; do mkdir d && cd d; i=$((i + 1)); done\n")
    c.cli("run", "--block", "critical", "--untrusted", job, "--output", c.dir / "out",
          env={"SANDBOXER_STATE": str(c.dir / "state")}).expect(125, says="the sandbox's files")
    equal(list(c.dir.glob("out*")), [], "what is left")


def is_over(pid):
    """Also if nobody has asked yet how it ended."""
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


@test
def the_reader_ends_with_its_caller(c):
    job = c.write("slow.sh", "#!/bin/sh\necho started; sleep 100\n")
    process = c.start([c.program(), "run", "--untrusted", job, "--output", c.dir / "out"],
                      env={"SANDBOXER_STATE": str(c.dir / "state")})
    equal(process.stdout.readline(), b"started\n", "the program's output")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    readers = [p for p in children if b"changes" in Path(f"/proc/{p}/cmdline").read_bytes().split(b"\0")]
    equal(len(readers), 1, "the number of readers")
    status = Path(f"/proc/{readers[0]}/status").read_text()
    capabilities = re.search(r"CapPrm:\s*(\w+)", status).group(1)
    equal(int(capabilities, 16), 1 << 2, "its capabilities: to read, in the sandbox's namespace")
    check("NoNewPrivs:\t1" in status, "it could gain privileges")
    process.kill()
    process.wait()
    wait_for(lambda: is_over(readers[0]), "the end of the reader")


main()
