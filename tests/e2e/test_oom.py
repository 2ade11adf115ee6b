#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Memory and disk are two limits: a full disk is ENOSPC, a program beyond memory is killed and named, and PID 1 survives both."""

import glob
import os

import daytona
import e2b
from client import Client
from daemon import Daemon
from harness import Skip, check, equal, main, test, wait_for

MEMORY, DISK = 32, 64  # MiB, of the profile below
PROFILE = f"""\
id: profile.small
version: 1
ttl: {{default: 10m, max: 1h, idle_reap: 0}}
resources: {{cpu: 1, memory_mb: {MEMORY}, pids: 64, disk_mb: {DISK}}}
pool: {{min: 0, max: 0}}
"""
BEYOND = 2 * (MEMORY + DISK)  # more than a program gets when the disk is empty
HOG = f"x = bytearray({BEYOND} << 20)\nfor i in range(0, len(x), 4096): x[i] = 1"
KILLED = f"killed: out of memory (limit {MEMORY}M)"


class Small(Daemon):
    """One whose sandboxes write to memory, and have little of it."""

    def __init__(self, c, pool=0, **options):
        super().__init__(c, driver="memory", **options)
        c.write("daemon/profiles/profile.small.yaml", PROFILE.replace("pool: {min: 0, max: 0}", f"pool: {{min: {pool}, max: {pool}}}"))

    def create(self, **request):
        return super().create(profile="profile.small", **request)

    def sh(self, box, script):
        return self.api.run(box, ["sh", "-c", script]).expect(200).json

    def python(self, box, script):
        return self.api.run(box, ["/usr/bin/python3", "-c", script]).expect(200).json


def group_of(box):
    found = glob.glob(f"/sys/fs/cgroup/memory/**/{box}", recursive=True) or glob.glob(f"/sys/fs/cgroup/**/{box}", recursive=True)
    if not found:
        raise Skip("no control group to look at")
    return found[0]


def content(*path):
    with open(os.path.join(*path), encoding="ascii") as f:
        return f.read().strip()


def fill(mebibytes, path="/tmp/big"):
    return f"head -c {mebibytes}M /dev/zero > {path}"


# ---- the disk ----


@test(only="root", because="no delegated control group")
def the_whole_disk_is_there_beside_the_memory(c):
    for pool in (0, 1):  # a prepared sandbox gets its groups later
        with Small(c, name="daemon", pool=pool) as d:
            box = d.create()
            equal(d.sh(box, fill(DISK - 4))["exit_code"], 0, "writing nearly all of the disk")
            equal(d.python(box, "x = b'x' * (10 << 20); print(len(x))")["exit_code"], 0, "memory beside a full disk")
            answer = d.sh(box, fill(DISK + 8, "/tmp/more"))
            check(answer["exit_code"] == 1 and "No space left" in answer["stderr"], f"beyond the disk: {answer}")
            answer = d.python(box, HOG)
            equal((answer["signal"], answer["oom_kills"]), ("KILL", 1), "a program beyond memory and disk")
            equal(d.sh(box, "rm /tmp/more; wc -c < /tmp/big")["stdout"].strip(), str((DISK - 4) << 20), "the file is as it was")
            d.works(box)


@test(only="root", because="no delegated control group")
def the_group_has_the_sum_and_is_not_killed_as_one(c):
    with Small(c) as d:
        group = group_of(d.create())
        limit = "memory.max" if os.path.exists(f"{group}/memory.max") else "memory.limit_in_bytes"
        equal(int(content(group, limit)), (MEMORY + DISK) << 20, limit)
        if os.path.exists(f"{group}/memory.oom.group"):
            equal(content(group, "memory.oom.group"), "0", "memory.oom.group")


@test(only="root", because="no delegated control group")
def a_full_disk_is_an_error_that_names_the_limit(c):
    big = c.dir / "big"
    with open(big, "wb") as f:
        f.truncate((DISK + 16) << 20)
    os.chmod(big, 0o644)
    with Small(c) as d:
        cli, box = Client(d), d.create()
        says = rf"No space left on device \(the sandbox's disk limit is {DISK}M\) \(storage_full\)"
        cli("cp", str(big), f"{box}:/tmp/big").expect(6, says=says)
        answer = d.api.request("PUT", f"/v1/sandboxes/{box}/files?path=/root/big", big.read_bytes())
        answer.expect(507, code="storage_full")
        equal(answer.json["errno"], "ENOSPC", "errno")
        equal(d.sh(box, "rm /tmp/big; ls /root")["stdout"].count("big"), 0, "a file that was not written whole")
        d.works(box)
        d.sh(box, f"{fill(DISK + 8)}; {fill(1, '/dev/shm/x')}")
        equal(d.sh(box, "rm /tmp/big && echo gone")["stdout"], "gone\n", "removing on a full disk")
        equal(d.get(box).get("oom_kills"), None, "kills")


@test(only="root", because="no delegated control group")
def run_has_memory_and_disk(c):
    limits = ("--memory", f"{MEMORY}M", "--disk", f"{DISK}M")
    c.sh(f"{fill(DISK - 4)} && echo fits; {fill(DISK + 8)} || echo full", *limits).expect(0, out=b"fits\nfull\n", says="No space left")
    c.run(*limits, "--", "/usr/bin/python3", "-c", HOG).expect(137, says=rf"killed: out of memory \(limit {MEMORY}M\)")
    # A disk that was not asked for is not larger than the memory: it would be memory to programs.
    c.run("--memory", f"{MEMORY}M", "--", "/usr/bin/python3", "-c", HOG).expect(137, says="killed: out of memory")
    c.sh(f"{fill(MEMORY + 8)} || echo full", "--memory", f"{MEMORY}M").expect(0, out=b"full\n")


@test(only="root", because="no delegated control group")
def clients_of_e2b_hear_of_both(c):
    with e2b.Served(c, "storage: {driver: memory}") as s:
        box = s.create(s.key()["E2B_API_KEY"], templateID="sandbox-canary")  # 128M and a disk of 32M
        user = "&username=root"
        full = box.ask("POST", f"/files?path=/tmp/big{user}", bytes(40 << 20), Content_Type="application/octet-stream")
        equal((full.status, full.json["code"]), (507, 507), f"no room: {full}")
        box.ask("POST", f"/files?path=/tmp/small{user}", b"x", Content_Type="application/octet-stream").expect(200)
        hog, end = HOG.replace(str(BEYOND), "220"), {}
        with box.start("/usr/bin/python3", "-c", hog, Authorization="Basic cm9vdDo=") as response:
            for _, message in e2b.frames(response):
                end = message.get("event", {}).get("end", end)
        equal((end.get("status"), end.get("error")), ("signal: killed", "signal: killed: out of memory (limit 128M)"), "the end")


@test(only="root", because="no delegated control group")
def clients_of_daytona_hear_of_both(c):
    with daytona.Served(c, "storage: {driver: memory}") as s:
        box = s.create(s.key()["DAYTONA_API_KEY"], snapshot="sandbox-canary")
        full = box.ask("POST", "files/upload-v2?path=/tmp/big", bytes(40 << 20), Content_Type="application/octet-stream")
        equal((full.status, full.json["statusCode"]), (507, 507), f"no room: {full}")
        check("disk limit is 32M" in full.json["message"], f"{full}")
        hog = HOG.replace(str(BEYOND), "220")
        answer = box.ask("POST", "process/execute", {"command": f"/usr/bin/python3 -c '{hog}'"}).expect(200).json
        equal(answer["exitCode"], 137, "exit code")
        check("killed: out of memory (limit 128M)" in answer["result"], f"{answer}")


# ---- PID 1 ----

# A segment that stays when nobody is attached to it any more.
SEGMENT = f"""
import ctypes
l = ctypes.CDLL(None)
l.shmat.restype = ctypes.c_void_p
a = l.shmat(l.shmget(0, {BEYOND} << 20, 0o1600), None, 0)
for at in range(0, {BEYOND} << 20, 4096): ctypes.memset(a + at, 1, 1)
"""
WAYS = {
    "anonymous memory": ["/usr/bin/python3", "-c", HOG],
    "many processes": ["sh", "-c", f"for i in $(seq 24); do (head -c {BEYOND}M /dev/zero | tail -c 16M >/dev/null) & done; wait"],
    "files, then memory": ["sh", "-c", f"{fill(DISK + 8)}; {fill(8, '/dev/shm/x')}; head -c {BEYOND}M /dev/zero | tail -c {BEYOND}M | wc -c"],
    "files without a name": ["/usr/bin/python3", "-c",
                             f"import os\nf = os.memfd_create('x')\nfor i in range({BEYOND}): os.write(f, bytes(1 << 20))"],
    "a lowered score": ["sh", "-c", f"echo 300 > /proc/self/oom_score_adj; head -c {BEYOND}M /dev/zero | tail -c {BEYOND}M"],
    "shared memory": ["sh", "-c", f"for i in 1 2 3 4; do /usr/bin/python3 -c '{SEGMENT}'; done"],
}


@test(only="root", because="no delegated control group")
def the_supervisor_survives_every_way_to_fill_memory(c):
    with Small(c) as d:
        for what, argv in WAYS.items():
            box = d.create()
            kept = d.api.post(f"/v1/sandboxes/{box}/processes", {"argv": argv, "background": True}).expect(201).json["process"]
            wait_for(lambda box=box, n=kept: d.api.get(f"/v1/sandboxes/{box}/processes/{n}").expect(200).json["state"] == "exited",
                     f"{what}: it ends", seconds=60)
            # The kernel may still be ending its children, which count for the limit of processes.
            wait_for(lambda box=box: d.api.run(box, ["true"]).status == 200, f"{what}: a program starts")
            d.works(box)
            equal(d.sh(box, "rm -f /tmp/big /dev/shm/x; echo 1 > /tmp/one; cat /tmp/one")["stdout"], "1\n", f"{what}: files afterwards")
            check(d.get(box)["state"] in ("ready", "active"), f"{what}: {d.get(box)}")
            d.destroy(box)


# ---- what is told ----


def leave_no_memory(d, box):
    """Memory that no process has: so the next process that needs some is the one that is killed."""
    answer = d.api.run(box, ["/usr/bin/python3", "-c", SEGMENT.replace(str(BEYOND << 20), str(512 << 20)).replace(str(BEYOND), "512")]).expect(200).json
    equal((answer["signal"], answer["oom_kills"]), ("KILL", 1), f"who fills the memory: {answer}")


@test(only="root", because="no delegated control group")
def an_upload_whose_helper_is_killed_says_so(c):
    data = bytes(24 << 20)  # less than the disk has, and more than is left of the group
    local = c.write("local", data)
    with Small(c) as d:
        cli, box = Client(d), d.create()
        leave_no_memory(d, box)
        cli("cp", str(local), f"{box}:/tmp/big").expect(1, says=rf"killed: out of memory \(limit {MEMORY}M\)")
        answer = d.api.request("PUT", f"/v1/sandboxes/{box}/files?path=/tmp/big", data)
        check(answer.status >= 400 and KILLED in answer.json["detail"], f"REST: {answer}")
        wait_for(lambda: d.get(box)["oom_kills"] >= 3, "the sandbox has counted the kills")  # recorded after the answer
        check(d.get(box)["state"] in ("ready", "active"), f"after the kills: {d.get(box)}")
    with e2b.Served(c, "storage: {driver: memory}") as s:
        box = s.create(s.key()["E2B_API_KEY"], templateID="sandbox-canary")
        leave_no_memory(s.d, box.id)
        killed = box.ask("POST", "/files?path=/tmp/big&username=root", data, Content_Type="application/octet-stream")
        check(killed.status >= 400 and "killed: out of memory (limit 128M)" in killed.json["message"], f"E2B: {killed}")
    with daytona.Served(c, "storage: {driver: memory}") as s:
        box = s.create(s.key()["DAYTONA_API_KEY"], snapshot="sandbox-canary")
        leave_no_memory(s.d, box.id)
        killed = box.ask("POST", "files/upload-v2?path=/tmp/big", data, Content_Type="application/octet-stream")
        check(killed.status >= 400 and "killed: out of memory (limit 128M)" in killed.json["message"], f"Daytona: {killed}")


@test(only="root", because="no delegated control group")
def a_kill_is_told_by_the_daemon_that_comes_after_it(c):
    """Of a process in the background: killed while no daemon was there, and in the next daemon's life."""
    with Small(c) as d:
        cli, box = Client(d), d.create()
        wait = "import os, time\nwhile not os.path.exists('/tmp/go{}'): time.sleep(0.05)\n"
        first, second = (cli("exec", "-d", box, "--", "/usr/bin/python3", "-c", wait.format(i) + HOG).expect(0).text.strip() for i in (1, 2))
        helper = cli("exec", "-d", box, "--", "sh", "-c", "sleep 3; touch /tmp/go1").expect(0).text.strip()
        group = group_of(box)
        counter = "memory.events" if os.path.exists(f"{group}/memory.events") else "memory.oom_control"
        d.kill()
        wait_for(lambda: "oom_kill 1" in content(group, counter), "it is killed while no daemon is there")
        d.start()
        for n, kills in ((first, 1), (second, 2)):  # in the sandbox while it ran
            if n == second:
                d.sh(box, "touch /tmp/go2")
            row = wait_for(lambda n=n: (r := d.api.get(f"/v1/sandboxes/{box}/processes/{n}").expect(200).json)["state"] == "exited" and r, "its end is known")
            equal((row["signal"], row.get("oom_kills"), row.get("memory_limit")), ("KILL", kills, MEMORY << 20), f"the process {n} of {first}, {second}: {row}")
            cli("logs", box, "-p", n).expect(0, says=rf"process {n} was killed: out of memory \(limit {MEMORY}M\)")
        equal(d.get(box)["oom_kills"], 2, f"what the sandbox has counted ({helper} helped)")


@test(only="root", because="no delegated control group")
def every_verb_says_that_memory_ran_out(c):
    with Small(c) as d:
        cli, box = Client(d), d.create()
        check("OOM" not in cli("get", box).expect(0).text, "no kill yet")
        cli("exec", box, "--", "/usr/bin/python3", "-c", HOG).expect(137, err=f"sandboxer: {KILLED}\n".encode())
        cli.sh(box, f"/usr/bin/python3 -c '{HOG}'; exit 3").expect(3, says="note: 1 process was killed: out of memory")
        cli("exec", box, "--", "true").expect(0, err=b"")
        cli.sh(box, "kill -KILL $$").expect(137, err=b"")
        n = cli("exec", "-d", box, "--", "/usr/bin/python3", "-c", "print('begun', flush=True)\n" + HOG).expect(0).text.strip()
        wait_for(lambda: "out of memory" in cli("ps", box).expect(0).text, "ps shows it")
        cli("logs", box).expect(0, out=b"begun\n", says=rf"process {n} was killed: out of memory \(limit {MEMORY}M\)")
        row = d.api.get(f"/v1/sandboxes/{box}/processes/{n}").expect(200).json
        equal((row["signal"], row["oom_kills"], row["memory_limit"]), ("KILL", 1, MEMORY << 20), "the process")
        shown = wait_for(lambda: (x := d.get(box)).get("oom_kills") == 3 and x, "the sandbox has counted")
        check(shown["last_oom_at"] >= shown["created_at"], f"when: {shown}")
        told = cli("get", box).expect(0).text
        check("OOM KILLS" in told and "LAST OOM" in told, told)
        events = d.api.get(f"/v1/sandboxes/{box}/events").expect(200).json["events"]
        equal(sum(e["detail"]["oom_kills"] for e in events if e["type"] == "sandbox.oom"), 3, "kills in events")
        d.kill()  # the count outlives the daemon, and goes on
        d.start()
        equal(d.get(box)["oom_kills"], 3, "kills after a restart")
        equal(d.api.get(f"/v1/sandboxes/{box}/processes/{n}").expect(200).json, row, "the process after a restart")
        cli("logs", box).expect(0, out=b"begun\n", says=rf"process {n} was killed: out of memory \(limit {MEMORY}M\)")
        d.python(box, HOG)
        wait_for(lambda: d.get(box)["oom_kills"] == 4, "the next kill is counted")


main()
