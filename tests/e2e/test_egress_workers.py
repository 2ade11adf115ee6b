#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""The processes that let connections out: which sandbox has which, what becomes of one that hangs, what is counted."""

import contextlib
import json
import os
import signal
import subprocess

from daemon import PROFILE, PROFILES, Daemon
from egress_world import PUBLIC, RESOLVER, World, echo
from harness import PLAIN, Skip, check, equal, main, test, wait_for

CONFIG = f"egress: {{workers: 1, resolvers: ['{RESOLVER}']}}"
NAME = "api.example.com"
HANGS_SECONDS = 60  # far more than it takes to find out

SEND = """
import socket, sys
s = socket.create_connection((sys.argv[1], 7), 10)
left = want = int(sys.argv[2])
while want:
    if left:
        left -= s.send(b"x" * min(left, 4096))
    want -= len(s.recv(65536))
print("done")
"""


@contextlib.contextmanager
def daemon(c, config="", **profiles):
    with World() as w:
        w.dns.names[NAME] = [PUBLIC]
        w.http(PUBLIC, 80)
        w.origin(PUBLIC, 7, echo)
        for name, more in profiles.items():
            c.write(f"daemon/profiles/{name}.yaml", PROFILE.format(id=f"profile.{name}", **PROFILES["profile.sandbox-canary"]) + more)
        d = Daemon(c, config=CONFIG + "\n" + config)
        w.inside.run(d.start)
        with d:
            yield d


def create(d, **more):
    return d.create(egress={"allow": [f"{NAME}:80,7"]}, **more)


def reaches(d, box):
    seen = d.api.run(box, ["curl", "-sS", "-m", "10", f"http://{NAME}/"]).expect(200).json
    equal((seen["exit_code"], seen["stdout"]), (0, "hello\n"), f"{box}: {seen}")


def workers(d):
    return d.parts("sandboxer-egres")


def worker_of(d, box):
    """The pid of the worker that writes its record."""
    for pid in workers(d):
        with contextlib.suppress(OSError):
            for fd in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    if box in os.readlink(f"/proc/{pid}/fd/{fd}"):
                        return pid
    return None


@test
def one_that_hangs_is_replaced(c):
    with daemon(c) as d:
        box = create(d)
        reaches(d, box)
        old = workers(d)
        os.kill(old[0], signal.SIGSTOP)
        wait_for(lambda: old[0] not in workers(d) and workers(d), "another worker, and the first one gone", HANGS_SECONDS)
        wait_for(lambda: d.get(box)["egress"]["in_force"] == 1, "the policy is in force again")
        reaches(d, box)
        check("no answer to pings" in d.log_path.read_text(), "the log says why")


@test
def one_that_hangs_holds_up_neither_a_destroy_nor_the_end(c):
    with daemon(c) as d:
        box = create(d)
        reaches(d, box)
        old = workers(d)
        os.kill(old[0], signal.SIGSTOP)
        d.destroy(box)
        d.stop()
        wait_for(lambda: not os.path.exists(f"/proc/{old[0]}"), "it is gone with the daemon")
        d.start()


@test
def a_profile_gives_each_sandbox_its_own(c):
    with daemon(c, alone="network: {worker: own}\n") as d:
        one, two = create(d, profile="profile.alone"), create(d, profile="profile.alone")
        shared, too = create(d), create(d)
        pids = [worker_of(d, box) for box in (one, two, shared, too)]
        check(None not in pids, f"workers: {pids}")
        equal((len(set(pids)), pids[2]), (3, pids[3]), f"different workers among {pids}")
        for box in (one, two, shared, too):
            reaches(d, box)
        connection, response = d.api.open("POST", f"/v1/sandboxes/{two}/processes",
                                          {"argv": ["python3", "-c", SEND.replace("print", "import time; time.sleep(0.2); print"), NAME, "5000000"]})
        check(b"started" in response.readline(), "the transfer runs")
        os.kill(pids[0], signal.SIGKILL)
        check(b"done" in response.read(), "another's transfer goes on")
        connection.close()
        wait_for(lambda: worker_of(d, one) not in (None, pids[0]), "another worker")
        equal([worker_of(d, box) for box in (two, shared, too)], pids[1:], "the workers of the others")
        wait_for(lambda: d.get(one)["egress"]["in_force"] == 1, "the policy is in force again")
        reaches(d, one)
        d.destroy(two)
        wait_for(lambda: pids[1] not in workers(d), "its worker goes with a sandbox")


@test
def no_worker_serves_two_owners_of_a_daemon_with_tenants(c):
    if c.uid:
        raise Skip("one user has one owner")
    with daemon(c, config="socket: {mode: '0666'}") as d:
        for directory in (d.dir, *list(d.dir.parents)[:3]):
            os.chmod(directory, 0o755)
        one, two = create(d), create(d)
        body = json.dumps({"egress": {"allow": [f"{NAME}:80"]}})
        made = subprocess.run(["setpriv", "--reuid", str(PLAIN), "--regid", str(PLAIN), "--clear-groups", "curl", "-s", "--unix-socket", d.socket,
                               "-H", "Content-Type: application/json", "-d", body, "http://localhost/v1/sandboxes"], capture_output=True, check=True)
        other = json.loads(made.stdout)["sandbox_id"]
        wait_for(lambda: d.get(other)["state"] == "ready", "the other owner's sandbox is ready")
        pids = [worker_of(d, box) for box in (one, two, other)]
        check(None not in pids, f"workers: {pids}")
        equal((pids[0] == pids[1], pids[0] == pids[2]), (True, False), f"one worker an owner: {pids}")


@test
def a_profile_says_so_in_words_that_there_are(c):
    c.write("daemon/profiles/odd.yaml", PROFILE.format(id="profile.odd", **PROFILES["profile.sandbox-canary"]) + "network: {worker: alone}\n")
    with daemon(c) as d:
        check("network.worker" in d.api.post("/v1/sandboxes", {"profile": "profile.odd"}).expect(400, 404, 409, 422).json["detail"], "the field")


@test
def every_byte_is_counted_when_it_is_over(c):
    with daemon(c) as d:
        for size in (1, 70000):
            box = create(d)
            seen = d.api.run(box, ["python3", "-c", SEND, NAME, str(size)]).expect(200).json
            equal(seen["stdout"], "done\n", f"the transfer: {seen}")
            d.destroy(box)
            shown = d.get(box)["egress"]
            equal((shown["bytes_out"], shown["bytes_in"], shown["denied"]), (size, size, 0), f"counters: {shown}")
            check(shown["allowed"] >= 1, f"counters: {shown}")


main()
