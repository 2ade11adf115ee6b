#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""The gate of egress workers: where a process in a worker's control group can connect to, as one that took the worker over could."""

import contextlib
import json
import os
import pwd
import re
import signal
import socket
import subprocess
import sys
import threading

from client import Client
from daemon import PROFILE, PROFILES, Daemon
from egress_world import INSIDE, OUTSIDE, PUBLIC, RESOLVER, Names, World
from harness import Skip, check, equal, main, processes, test, wait_for
from host_page import page, reads

METADATA = [("169.254.169.254", 80), ("100.100.100.200", 80), ("fd00:ec2::254", 80), ("::ffff:169.254.169.254", 80)]
LOOPBACK = ["127.0.0.1", "127.8.8.8", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1"]
TOP = "/sys/fs/cgroup/unified" if os.path.exists("/sys/fs/cgroup/unified/cgroup.procs") else "/sys/fs/cgroup"
ONLY = {"only": "root", "because": "a plain user's daemon cannot load BPF programs"}

# Joins the group given first, becomes the user given second, and tries what stdin lists: [how, address, port].
# "passes": the kernel did not refuse with EPERM.
ATTACKER = """
import errno, json, os, socket, sys
with open(sys.argv[1], "w") as f:
    f.write("0")
os.setgroups([]); os.setresgid(*[int(sys.argv[2])] * 3); os.setresuid(*[int(sys.argv[2])] * 3)
def attempt(how, address, port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM if how == "tcp" else socket.SOCK_DGRAM) as s:
        s.settimeout(0.2)
        try:
            if how == "send":
                s.sendto(b"x", (address, port))
            else:
                s.connect((address, port))
        except OSError as e:
            return "denied" if e.errno == errno.EPERM else "passes"
    return "connected" if how == "tcp" else "passes"
print(json.dumps([attempt(*a) for a in json.load(sys.stdin)]))
"""


def gated(d):
    """Skips, with the daemon's own words, where there is no gate."""
    def said():
        log = d.log_path.read_text(errors="replace").splitlines()
        return next((line for line in log if "egress.filtered" in line or "egress.unfiltered" in line), None)
    line = wait_for(said, "the daemon's word of the gate")  # the control plane may be ready before the monitor
    if "egress.unfiltered" in line:
        raise Skip(line)


def group_of(pid):
    with open(f"/proc/{pid}/cgroup", encoding="ascii") as f:
        return next(line[3:] for line in f.read().splitlines() if line.startswith("0::"))


def worker(d):
    wait_for(lambda: d.parts("sandboxer-egres"), "a worker runs")
    return d.parts("sandboxer-egres")[0]


def user():
    with contextlib.suppress(KeyError):
        return pwd.getpwnam("sandboxer-egress").pw_uid
    return 61742


def attack(pid, *tries, within=None):
    """What became of connections from the worker's group, as the worker's user."""
    def run():
        return subprocess.run([sys.executable, "-c", ATTACKER, f"{TOP}{group_of(pid)}/cgroup.procs", str(user())],
                              input=json.dumps(tries), capture_output=True, text=True, check=False, timeout=60)
    done = within.run(run) if within else run()
    equal(done.returncode, 0, done.stderr)
    return json.loads(done.stdout)


def groups(d):
    """Of workers, that this daemon's state directory has now."""
    st = os.stat(d.state / "daemon")
    return [name for name in os.listdir(TOP) if name.startswith(f"sandboxer-{st.st_dev:x}.{st.st_ino:x}-egress.")]


def local(port):
    return {"egress": {"allow": [f"127.0.0.1:{port}"]}}


def inside(w, d):
    """Has every start of the daemon in the world's namespace."""
    spawn = d.spawn
    d.spawn = lambda *args, **options: w.inside.run(lambda: spawn(*args, **options))
    return d


def gets(d, box, url):
    seen = d.api.run(box, ["curl", "-sS", "-m", "20", url]).expect(200).json
    equal((seen["exit_code"], seen["stdout"]), (0, "hello\n"), f"{url}: {seen}")


def served(d, box, port):
    done = json.dumps(reads(d.api, box, port).expect(200).json)
    check("the host's page" in done, done)


@contextlib.contextmanager
def datagrams():
    """A server of datagrams on the host's loopback: its port, and what came."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        s.bind(("::", 0))
        s.settimeout(0)
        yield s.getsockname()[1], s


@test(**ONLY)
def a_worker_that_was_taken_over_reaches_neither_loopback_nor_metadata(c):
    with page() as port, datagrams() as (udp, heard), Daemon(c, config="egress: {workers: 1}") as d:
        gated(d)
        d.create(egress={"allow": ["api.example.com:443"]})
        pid = worker(d)
        tries = [("tcp", a, port) for a in LOOPBACK] + [(how, a, udp) for a in LOOPBACK for how in ("udp", "send")]
        tries += [(how, *place) for place in METADATA for how in ("tcp", "udp", "send")]
        tries += [("tcp", a, 80) for a in ("10.1.2.3", "192.168.0.1", "172.17.0.1", "fe80::1", "fd00::1", "64:ff9b::7f00:1")]
        for one, became in zip(tries, attack(pid, *tries)):
            equal(became, "denied", f"{one}")
        equal(attack(pid, ("udp", "93.184.216.34", 53)), ["passes"], "a public address")
        with contextlib.suppress(BlockingIOError):
            check(not heard.recv(10), "a datagram came through")
        # The same from outside of the group: the server is there, and nothing but the gate stops them.
        with socket.create_connection(("127.0.0.1", port), 5):
            pass


@test(**ONLY)
def what_a_policy_is_granted_passes_and_nothing_beside(c):
    with page() as port, page() as other, Daemon(c, config="egress: {workers: 1}") as d:
        gated(d)
        first = d.api.post("/v1/sandboxes", local(port)).expect(201).json["sandbox_id"]
        served(d, first, port)
        pid = worker(d)
        equal(attack(pid, ("tcp", "127.0.0.1", port), ("tcp", "::ffff:127.0.0.1", port), ("tcp", "127.0.0.1", other),
                     ("tcp", "127.0.0.2", port), ("tcp", "::1", port), *(("tcp", *m) for m in METADATA)),
              ["connected", "connected", "denied", "denied", "denied"] + ["denied"] * len(METADATA), "with one grant")
        second = d.api.post("/v1/sandboxes", local(port)).expect(201).json["sandbox_id"]
        d.api.request("PUT", f"/v1/sandboxes/{second}/egress", {"allow": [f"127.0.0.1:{port}", f"127.0.0.1:{other}"]}).expect(200)
        served(d, second, other)
        both = [("tcp", "127.0.0.1", port), ("tcp", "127.0.0.1", other)]
        equal(attack(pid, *both), ["connected", "connected"], "with two")
        # Another policy takes its places with it, but not those of the other sandbox.
        d.api.request("PUT", f"/v1/sandboxes/{second}/egress", {"allow": ["api.example.com:443"]}).expect(200)
        wait_for(lambda: attack(pid, *both) == ["connected", "denied"], "the second place goes with its policy")
        d.destroy(first)
        wait_for(lambda: attack(pid, *both) == ["denied", "denied"], "the last place goes with its sandbox")
        equal(d.parts("sandboxer-egres"), [pid], "the same worker")


@test(**ONLY)
def every_port_of_an_address_that_an_administrator_lists(c):
    with World() as w:
        for port in (8080, 9090):
            w.http(OUTSIDE, port)
        with inside(w, Daemon(c, config=f"egress: {{workers: 1, resolvers: ['{RESOLVER}']}}")) as d:
            gated(d)
            box = d.create(egress={"allow_out": [OUTSIDE]})
            for port in (8080, 9090):
                gets(d, box, f"http://{OUTSIDE}:{port}/")
            equal(attack(worker(d), ("tcp", OUTSIDE, 8080), ("tcp", OUTSIDE, 9090), ("tcp", INSIDE, 8080), within=w.inside),
                  ["connected", "connected", "denied"], "places")


@test(**ONLY)
def grants_hold_for_the_next_worker_and_the_next_daemon(c):
    with page() as port, Daemon(c, config="egress: {workers: 1}") as d:
        gated(d)
        box = d.api.post("/v1/sandboxes", local(port)).expect(201).json["sandbox_id"]
        served(d, box, port)
        for kill in (lambda: os.kill(worker(d), signal.SIGKILL), d.kill, lambda: d.kill(d.plane), d.stop):
            old, before = worker(d), group_of(worker(d))
            kill()
            if not d.alive:
                d.start()
            wait_for(lambda: d.parts("sandboxer-egres") not in ([], [old]), "another worker runs")
            wait_for(lambda: d.get(box)["egress"]["in_force"] == 1, "the policy is in force again")
            served(d, box, port)
            pid = worker(d)
            equal(attack(pid, ("tcp", "127.0.0.1", port), ("tcp", "127.0.0.2", port)), ["connected", "denied"], "places")
            check(group_of(pid) != before, f"{before} is used again")
            wait_for(lambda: not os.path.exists(f"{TOP}{before}"), f"{before} is removed")
            equal(len(groups(d)), 1, f"groups of the daemon: {groups(d)}")
    equal(groups(d), [], "groups of a daemon that ended")


@test(**ONLY)
def what_is_left_in_a_group_ends_with_its_worker(c):
    with Daemon(c, config="egress: {workers: 1}") as d:
        gated(d)
        d.create(egress={"allow": ["api.example.com:443"]})
        pid = worker(d)
        with open(f"{TOP}{group_of(pid)}/cgroup.procs", "w", encoding="ascii") as procs, \
                subprocess.Popen(["sleep", "1000"]) as left:
            procs.write(str(left.pid))
            procs.flush()
            os.kill(pid, signal.SIGKILL)
            equal(left.wait(30), -signal.SIGKILL, "status of a process in the worker's group")


@test(**ONLY)
def a_killed_daemon_leaves_nothing_that_the_next_does_not_remove(c):
    with Daemon(c, config="egress: {workers: 1}") as d:
        gated(d)
        d.create(egress={"allow": ["api.example.com:443"]})
        pid = worker(d)
        # A worker that hangs does not end with its daemon.
        os.kill(pid, signal.SIGSTOP)
        stayed = group_of(pid)
        d.kill()
        check(pid in processes() and os.path.exists(f"{TOP}{stayed}"), "the worker hangs")
        d.start()
        wait_for(lambda: pid not in processes(), "the worker of the killed daemon is ended")
        check(not os.path.exists(f"{TOP}{stayed}"), f"{stayed} is left")


@test(**ONLY)
def workers_do_not_share_grants(c):
    d = Daemon(c)
    c.write("daemon/profiles/own.yaml", PROFILE.format(id="profile.own", **PROFILES["profile.sandbox-canary"])
            + "network: {worker: own, egress: [{host: api.example.com, port: 443}]}\n")
    with page() as port, d:
        gated(d)
        box = d.create(profile="profile.own", **local(port))
        served(d, box, port)
        first = worker(d)
        d.create(profile="profile.own")
        wait_for(lambda: len(d.parts("sandboxer-egres")) == 2, "a worker for the other sandbox")
        second = next(pid for pid in d.parts("sandboxer-egres") if pid != first)
        place = ("tcp", "127.0.0.1", port)
        equal((attack(first, place), attack(second, place)), (["connected"], ["denied"]), "of two workers")


@test(**ONLY)
def a_resolver_on_loopback_serves(c):
    with World() as w:
        w.http(PUBLIC, 80)
        resolver = w.inside.run(lambda: Names(w.inside, "127.0.0.53"))
        resolver.names["api.example.com"] = [PUBLIC]
        with inside(w, Daemon(c, config="egress: {workers: 1, resolvers: ['127.0.0.53']}")) as d:
            gated(d)
            box = d.create(egress={"allow": ["api.example.com:80"]})
            gets(d, box, "http://api.example.com/")
            check(("api.example.com", "A") in resolver.asked, f"{resolver.asked}")
            equal(attack(worker(d), ("udp", "127.0.0.53", 53), ("tcp", "127.0.0.53", 53), ("udp", "127.0.0.53", 54),
                         ("udp", "127.0.0.54", 53), within=w.inside), ["passes", "connected", "denied", "denied"], "places of the resolver")
        resolver.close()


@test(**ONLY)
def a_proxy_of_the_operator_on_loopback_is_reached(c):
    asked = []

    def proxy(listener):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    asked.append(connection.recv(4096))
                    connection.sendall(b"HTTP/1.1 503 No\r\n\r\n")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=proxy, args=(listener,), daemon=True).start()
        port = listener.getsockname()[1]
        with Daemon(c, config=f"egress: {{workers: 1, upstream: 'http://127.0.0.1:{port}'}}") as d:
            gated(d)
            box = d.create(egress={"allow": ["93.184.216.34:443"]})
            d.api.run(box, ["curl", "-sk", "-m", "20", "https://93.184.216.34/"]).expect(200)
            check(asked and asked[0].startswith(b"CONNECT 93.184.216.34:443"), f"{asked}")
        listener.shutdown(socket.SHUT_RDWR)


@test
def doctor_and_the_log_say_whether_there_is_a_gate(c):
    with Daemon(c) as d:
        log = d.log_path.read_text(errors="replace")
        equal(len(re.findall(r"egress\.(?:un)?filtered", log)), 1, f"lines about the gate\n{d.tail()}")
        checks = json.loads(Client(d)("doctor", "-o", "json").text)["checks"]
        found = next(row for row in checks if row["check"] == "egress gate")
        equal(found["state"] == "ok", "egress.filtered" in log, f"{found}")
        if not c.root:
            check("reason=" in log and "root" in found["found"], f"{found}\n{d.tail()}")


main()
