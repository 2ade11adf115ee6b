#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Files of the host inside a sandbox: what one sandbox can tell from them about the host and about others, and what
it can tell from clocks and identifiers of the machine."""

import json
import os
import re
import subprocess
from pathlib import Path

from daemon import PROFILE, PROFILES, Daemon
from harness import Skip, check, equal, main, test
from images import directory

# Reports the names of what is opened in the directories and files that it is given, until it reads a line.
WATCH = r"""
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.inotify_init1(os.O_NONBLOCK)
places = {libc.inotify_add_watch(fd, p.encode(), 0x20): p for p in sys.argv[1:] if os.path.exists(p)}
assert -1 not in places
print("watching", flush=True)
sys.stdin.readline()
try:
    data = os.read(fd, 1 << 20)
except BlockingIOError:
    data = b""
while data:
    wd, mask, cookie, n = struct.unpack_from("iIII", data)
    print(os.path.join(places.get(wd, "?"), data[16:16 + n].rstrip(b"\0").decode()).rstrip("/"))
    data = data[16 + n:]
"""

LOCK = r"""
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
try:
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("locked", flush=True)
except BlockingIOError:
    print("busy", flush=True)
sys.stdin.readline()
"""

PROGRAM = "/usr/bin/true"
WATCHED = ("/usr/bin", "/usr/lib/locale", "/etc/services", "/etc/ssl/certs", "/etc/ld.so.cache", "/etc/alternatives")


def begin(c, program, *argv, flags=(), word):
    process = c.start([c.program(), "run", *flags, "--", "/usr/bin/python3", "-c", program, *argv],
                      env={"SANDBOXER_NO_DAEMON": "1"})
    line = process.stdout.readline().decode().strip()
    if line != word:
        process.kill()
        raise AssertionError(f"it says {line!r}, not {word!r}: {process.stderr.read()[-800:]!r}")
    return process


def finish(process):
    out, err = process.communicate(b"\n", timeout=60)
    equal(process.returncode, 0, f"status ({err[-800:]!r})")
    return out.decode().split()


def opened_by_others(c, how):
    """What a sandbox learns of files that the host and another sandbox open."""
    watcher = begin(c, WATCH, *WATCHED, flags=["--system", how], word="watching")
    for path in (PROGRAM, "/etc/services"):
        Path(path).read_bytes()
    c.run("--system", how, "--", PROGRAM).expect(0)
    return finish(watcher)


@test
def a_watch_sees_nothing_that_others_open(c):
    equal(opened_by_others(c, "apart"), [], "what was seen")


@test
def a_watch_on_shared_files_sees_what_others_open(c):
    seen = opened_by_others(c, "shared")
    check(PROGRAM in seen and "/etc/services" in seen, f"a watch that must work saw {sorted(set(seen))[:20]}")


@test
def a_lock_concerns_the_own_sandbox_alone(c):
    for how, word in (("apart", "locked"), ("shared", "busy")):
        first = begin(c, LOCK, PROGRAM, flags=["--system", how], word="locked")
        finish(begin(c, LOCK, PROGRAM, flags=["--system", how], word=word))
        finish(first)


@test
def sandboxes_of_one_image_see_nothing_of_each_other(c):
    image = c.mkdir(c.dir / "image")
    for name in ("lib", "lib64"):  # the programs are the host's, the data the image's
        c.own_link(image / name, f"usr/{name}")
    c.write("image/data/file", "of the image\n")
    flags = ["--image", image, "--mount", "/usr:/usr"]
    watcher = begin(c, WATCH, "/data", flags=flags, word="watching")
    c.run(*flags, "--", "/usr/bin/cat", "/data/file").expect(0, out=b"of the image\n")
    (image / "data/file").read_bytes()
    equal(finish(watcher), [], "what was seen")
    watcher = begin(c, WATCH, "/data", flags=["--mount", f"{image}/data:/data"], word="watching")
    (image / "data/file").read_bytes()
    equal(finish(watcher), ["/data/file"], "what a watch on a mount sees, which is granted")


@test
def writable_system_directories_are_apart_in_etc_too(c):
    shown = c.sh("cat /proc/self/mountinfo", "--writable", "--system", "apart").expect(0).text
    places = {line.split()[4]: line for line in shown.splitlines()}
    for path in ("/usr", "/etc/ssl/certs"):
        check(path not in places or " - overlay " in places[path], f"{path}: {places.get(path)}")


@test
def system_directories_look_as_they_do_when_shared(c):
    script = ("ls -lnR /usr/bin /usr/sbin /etc/ssl /etc/alternatives /etc/ld.so.cache | grep -v '^total'; "
              "stat -c '%n %u %g %a %s %Y' /usr /usr/lib /usr/bin/env /etc/services; "
              "touch /usr/x /etc/ssl/certs/x 2>&1; cat /etc/services | cksum; python3 -c 'import ssl, json; print(1)'")
    shared, apart = (c.sh(script, "--system", how).expect(0).text.splitlines() for how in ("shared", "apart"))
    check(len(shared) > 100, "it shows something")
    equal(sorted(set(shared) ^ set(apart)), [], "the difference")


def with_mounts_below_usr(c, *argv):
    """Runs it on a host with a file system and a file of their own below /usr: in a mount namespace of the test's."""
    place = "/usr/local/share/man" if os.path.isdir("/usr/local/share/man") else "/usr/local/lib"
    script = (f"mount -t tmpfs none {place} && mkdir {place}/d && echo inside > {place}/d/f && echo single > {place}/f && "
              f"mount --bind {place}/f /usr/lib/os-release && exec setpriv --reuid {c.uid} --regid {c.uid} --clear-groups \"$@\"")
    done = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh", *map(str, argv)],
                          env={**c.environment, "SANDBOXER_NO_DAEMON": "1"}, capture_output=True, text=True, timeout=60)
    return place, done


@test
def mounts_below_system_directories_are_there(c):
    if os.getuid() != 0:
        raise Skip("only root mounts")
    place, done = with_mounts_below_usr(c, "true")
    look = f"cat {place}/d/f /usr/lib/os-release; grep -c '{place} .* - overlay' /proc/self/mountinfo; ls -A /"
    for how in ("apart", "shared"):
        _, done = with_mounts_below_usr(c, c.program(), "run", "--system", how, "--", "sh", "-c", look)
        if how == "apart" and not c.root:
            # The mounts are locked for a plain user's launcher: it cannot look below them, and says what does without.
            check(done.returncode == 125 and "--system shared" in done.stderr, f"{done}")
            continue
        equal(done.stdout.split()[:3], ["inside", "single", "1" if how == "apart" else "0"], f"what is there ({done.stderr})")
        check(".host" not in done.stdout, f"nothing of ours is left: {done}")


# A daemon in the background; a sandbox of it that must come up; what its /usr is.
SERVED = """
export SANDBOXER_STATE={dir}/state SANDBOXER_SOCKET={dir}/sock SANDBOXER_PROFILES={dir}/profiles
{bin}d --foreground --config {dir}/config.yaml 2> {dir}/log & daemon=$!
until [ -S {dir}/sock ]; do kill -0 $daemon || exit 9; sleep 0.02; done
box=$({bin} create -q --profile {profile}) && {bin} exec $box -- sh -c 'cat {place}/d/f; grep " /usr " /proc/self/mountinfo'
status=$?
[ -z "$box" ] || {bin} destroy -q $box
kill $daemon; wait $daemon
exit $status
"""


@test(only="plain", because="root's launcher can look below every mount")
def a_daemon_of_one_user_shares_where_no_overlay_can_be_made(c):
    if os.getuid() != 0:
        raise Skip("only root mounts")
    d = Daemon(c)  # for its directory; it is started below
    c.write("daemon/profiles/apart.yaml", PROFILE.format(id="profile.apart", **PROFILES["profile.sandbox-canary"])
            + "isolation: {system: apart}\n")
    place, _ = with_mounts_below_usr(c, "true")
    for profile, works in (("profile.sandbox-canary", True), ("profile.apart", False)):
        script = SERVED.format(dir=d.dir, bin=c.program(), profile=profile, place=place)
        _, done = with_mounts_below_usr(c, "sh", "-c", script)
        equal(done.returncode == 0, works, f"{profile} works ({done.stdout}{done.stderr})\nit")
        if works:
            check(done.stdout.startswith("inside\n") and "overlay" not in done.stdout, done.stdout)
        else:
            check("isolation.system: shared" in done.stderr, done.stderr)


def kind_of_usr(d, **request):
    box = d.create(**request)
    answer = d.api.run(box, ["sh", "-c", "cat /proc/self/mountinfo /proc/uptime"]).expect(200).json
    d.destroy(box)
    usr = next(line for line in answer["stdout"].splitlines() if " /usr " in line)
    return usr.partition(" - ")[2].split()[0], float(answer["stdout"].splitlines()[-1].split()[0])


@test
def a_profile_decides_and_prepared_sandboxes_obey(c):
    d = Daemon(c)
    recipe = PROFILE.format(id="profile.shared", **{**PROFILES["profile.pooled"], "pool": 1})
    c.write("daemon/profiles/shared.yaml", recipe + "isolation: {system: shared}\n")
    with d:
        for profile in ("profile.sandbox-canary", "profile.pooled"):
            equal(kind_of_usr(d, profile=profile)[0], "overlay", profile)
        check(kind_of_usr(d, profile="profile.shared")[0] != "overlay", "shared is not an overlay")


@test
def a_daemon_that_others_can_reach_guards_side_channels(c):
    if not os.path.exists("/proc/self/timens_offsets"):
        raise Skip("this kernel has no time namespaces")
    host = float(Path("/proc/uptime").read_text().split()[0])
    if host < 300:
        raise Skip("the machine was just started")
    with Daemon(c, config="socket: {mode: '0666'}") as d:
        kind, uptime = kind_of_usr(d)
        equal(kind, "overlay", "/usr")
        check(uptime < 120, f"the clock began with the sandbox: {uptime}")


@test
def clock_and_boot_are_the_sandboxs_own(c):
    host = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    read = "cat /proc/sys/kernel/random/boot_id"
    ids = {c.sh(read).expect(0).text for _ in range(2)}
    check(len(ids) == 2 and host not in ids, f"{ids}")
    check(all(re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", i) for i in ids), f"{ids}")
    c.sh("echo x > /proc/sys/kernel/random/boot_id; ls -A / | grep boot_id").expect(1)
    if os.path.exists("/proc/self/timens_offsets"):
        script = "import time; t = time.monotonic(); time.sleep(0.05); print(t < 60 and time.monotonic() - t >= 0.05)"
        equal(c.run("--side-channels", "guarded", "--", "python3", "-c", script).expect(0).text, "True", "its clock")
        c.run("--side-channels", "guarded", "--timeout", "1s", "--", "sleep", "60").expect((124, 143, 137))


@test
def speculation_is_disabled_for_good(c):
    status = Path("/proc/self/status").read_text()
    if "thread vulnerable" not in status and "conditional enabled" not in status:
        raise Skip("this processor, or the kernel for it, has no control for a process")
    inside = c.sh("cat /proc/self/status", "--side-channels", "guarded").expect(0).text
    check("thread vulnerable" not in inside and "conditional enabled" not in inside, inside)


@test
def mountinfo_names_no_device_or_path_of_the_host(c):
    device = next(line for line in Path("/proc/self/mountinfo").read_text().splitlines() if line.split()[4] == "/")
    source = device.partition(" - ")[2].split()[1]
    for flags in (["--system", "apart"], ["--system", "apart", "--writable"], ["--image", directory(c)]):
        shown = c.run(*flags, "--", "/bin/cat", "/proc/self/mountinfo").expect(0).text
        check(str(c.dir) not in shown and str(c.base) not in shown, f"{flags}: a path of the host in\n{shown}")
        check(source == "none" or not re.search(rf" {re.escape(source)} ", shown), f"{flags}: {source} in\n{shown}")


@test
def doctor_reports_side_channels(c):
    """What it says of each is what the kernel says of this process."""
    rows = {row["check"]: row for row in json.loads(c.cli("doctor", "-o", "json").out)["checks"]}
    closed, _, opened = rows["side channels"]["found"].removeprefix("can be closed: ").partition("; cannot: ")
    closed, opened = closed.split(", "), opened.split(", ") if opened else []
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    for name, field in (("store bypass", "Speculation_Store_Bypass"), ("indirect branch", "SpeculationIndirectBranch")):
        said = status.get(field, "unknown")
        if said not in ("not vulnerable", "not affected", "unsupported", "unknown"):
            equal(name in opened, said in ("vulnerable", "always enabled"), f"{name} is said to be open, where the kernel says {said}; that")
            equal(name in closed, name not in opened, f"{name} is said to be closed, where the kernel says {said}; that")
    has_clock = os.path.exists("/proc/self/timens_offsets")
    equal(("clock" in closed, "clock" in opened), (has_clock, not has_clock), "time namespaces")
    smt = Path("/sys/devices/system/cpu/smt/active")
    if smt.exists() and smt.read_text().strip() == "0":
        check("cores" not in closed + opened, "cores have one thread each, and still something is said of them")
    else:
        check("cores" in closed + opened, "nothing is said of core scheduling")
    equal(rows["side channels"]["state"], "warn" if opened else "ok", "the state")


main()
