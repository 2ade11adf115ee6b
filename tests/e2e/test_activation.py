#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""How a daemon comes to serve: by systemd's sockets, by --ready-fd, in the background; and how it does not."""

import os
import signal
import socket
import subprocess

from client import Client, listener
from daemon import Api, Daemon
from harness import REPO, Skip, check, equal, main, processes, test, wait_for

# systemd hands descriptors over from 3 on and names the pid that they are for.
ACTIVATE = """
import os, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
s.bind(sys.argv[1])
os.chmod(sys.argv[1], int(os.environ.pop('ACTIVATE_MODE', '600'), 8))
s.listen(64)
if s.fileno() != 3:
    os.dup2(s.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.argv[2], sys.argv[2:])
"""


@test
def systemds_socket_is_taken_over(c):
    d = Daemon(c)
    theirs = d.dir / "activated"
    d.api = Api(theirs)
    d.start(prefix=["python3", "-c", ACTIVATE, theirs])
    box = d.create()
    d.works(box)
    check(not d.socket.exists(), "it also made a socket of its own")
    inside = d.api.run(box, ["env"]).expect(200).json["stdout"]
    check("LISTEN" not in inside, "the workload sees systemd's variables")
    d.destroy(box)
    d.stop()
    check(theirs.exists(), "systemd's socket was removed: nothing could start the daemon again")


@test
def a_socket_of_systemds_that_others_can_reach_guards_tenants(c):
    if not os.path.exists("/proc/self/timens_offsets"):
        raise Skip("this kernel has no time namespaces")
    for mode, guarded in (("600", False), ("620", True), ("666", True)):
        d = Daemon(c)
        theirs = d.dir / "activated"
        theirs.unlink(missing_ok=True)
        d.api = Api(theirs)
        d.start(prefix=["python3", "-c", ACTIVATE, theirs], ACTIVATE_MODE=mode)
        box = d.create()
        offsets = d.api.run(box, ["cat", "/proc/self/timens_offsets"]).expect(200).json["stdout"]
        equal(any(int(word) for line in offsets.splitlines() for word in line.split()[1:]), guarded, f"whether the sandbox has clocks of its own at mode {mode}: {offsets}")
        d.destroy(box)
        d.stop()


@test
def a_socket_of_systemds_for_other_machines_needs_a_word(c):
    """The rule for `listen` holds for a socket that systemd opened, too."""
    tcp = ACTIVATE.replace("socket.AF_UNIX, ", "socket.AF_INET, ").replace("s.bind(sys.argv[1])", "s.bind((sys.argv[1], 0))").replace("os.chmod(", "(lambda *_: 0)(")
    for address, args, serves in (("0.0.0.0", (), False), ("0.0.0.0", ("--listen-unencrypted",), True), ("127.0.0.1", (), True)):
        d = Daemon(c)
        equal(d.spawn(prefix=["python3", "-c", tcp, address], args=args), serves, f"whether it serves on {address} with {args}")
        if serves:
            d.process.send_signal(signal.SIGTERM)
        else:
            check("listen_unencrypted" in d.tail(), f"the error: {d.tail()}")
        d.wait()


@test
def readiness_is_told_to_systemd(c):
    d = Daemon(c)
    path = d.dir / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(str(path))
        os.chmod(path, 0o666)
        s.settimeout(30)
        d.start(NOTIFY_SOCKET=str(path))
        check("READY=1" in s.recv(4096).decode().split("\n"), "READY=1 is not said first")
        d.api.get("/healthz").expect(200)
        d.stop()
        said = s.recv(4096).decode()
        check("STOPPING=1" in said.split("\n"), f"at the end it says {said!r}")


@test
def ready_means_that_it_serves(c):
    d = Daemon(c)
    for _ in range(3):
        d.start()
        equal(d.api.get("/healthz").expect(200).json, {"status": "ok"}, "the first answer")
        d.stop()
    check(not d.socket.exists(), "the socket is left")


@test
def a_second_daemon_is_75(c):
    with Daemon(c) as d:
        for other in ({}, {"SANDBOXER_SOCKET": str(c.dir / "other.sock")}):
            second = c.execute([c.program("sandboxerd"), "--foreground", "--config", d.config],
                               env={"SANDBOXER_STATE": str(d.state), "SANDBOXER_SOCKET": str(d.socket), **other})
            second.expect(75, says="another|in use")
        d.api.get("/healthz").expect(200)
        d.works(d.create())


@test
def without_foreground_it_goes_to_the_background(c):
    env = {"SANDBOXER_STATE": str(c.dir / "state"), "SANDBOXER_SOCKET": str(c.dir / "sock"), "SANDBOXER_PROFILES": str(c.dir / "profiles")}
    c.write("profiles/canary.yaml", "id: profile.sandbox-canary\nversion: 1\n")
    c.execute([c.program("sandboxerd")], env=env).expect(0)
    Api(c.dir / "sock").get("/healthz").expect(200)
    pid = listener(c.dir / "sock")
    c.execute([c.program("sandboxerd")], env=env).expect(75, says="another")
    check(b"daemon.ready" in (c.dir / "state/sandboxerd.log").read_bytes(), "nothing in the log")
    os.kill(pid, signal.SIGTERM)
    wait_for(lambda: pid not in processes(), "it ends")


@test
def configurations_are_checked(c):
    good = c.write("good.yaml", "ttl: {grace: 3s}\nlimits: {sandboxes_max: 77}\n")
    text = c.execute([c.program("sandboxerd"), "--check-config", "--config", good]).expect(0).text
    check("sandboxes_max: 77" in text and "grace: 3" in text, f"what holds: {text}")
    for text, words in (("limits: {sandboxes_max: many}\n", "limits.sandboxes_max"), ("lissten: x\n", "lissten"),
                        ("a: b\nttl: {grace: -1s}\n", "bad.yaml"), ("listen: nowhere\n", "listen")):
        bad = c.write("bad.yaml", text)
        c.execute([c.program("sandboxerd"), "--check-config", "--config", bad]).expect(1, out=b"", says=words)
        c.execute([c.program("sandboxerd"), "--foreground", "--config", bad],
                  env={"SANDBOXER_STATE": str(c.dir / "state"), "SANDBOXER_SOCKET": str(c.dir / "sock")}).expect(1, says=words)
    c.execute([c.program("sandboxerd"), "--check-config", "--config", "/nowhere"]).expect(1, says="/nowhere")
    c.execute([c.program("sandboxerd"), "--nonsense"]).expect(2)
    c.execute([c.program("sandboxerd"), "argument"]).expect(2, says="argument")


@test
def the_shipped_configuration_has_every_field_at_its_default(c):
    """It is commented out; without the first # of its lines it is the configuration that holds without it."""
    shown = subprocess.run([REPO / "packaging/config", REPO / "docs/configuration.md"], check=True, capture_output=True, text=True).stdout
    texts = ("", shown, "".join(line.removeprefix("#") + "\n" for line in shown.splitlines()))
    said = [c.execute([c.program("sandboxerd"), "--check-config", "--config", c.write(f"{i}.yaml", text)],
                      env={"SANDBOXER_STATE": str(c.dir / "state"), "SANDBOXER_SOCKET": str(c.dir / "sock")}).expect(0).text for i, text in enumerate(texts)]
    check("#listen:" in shown and "#  grace: 10s" in shown, f"no fields are in {shown[:400]}")
    equal(said[1:], said[:1] * 2, "the configurations in force")


@test
def profiles_are_read_again_and_sandboxes_keep_theirs(c):
    with Daemon(c) as d:
        cli = Client(d)
        c.write("daemon/profiles/p.yaml", "id: profile.p\nversion: 1\nenv: {V: one}\n")
        d.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "profile.p" in cli.lines("profiles", "list", "-q"), "the profile is there")
        old = cli.create("-p", "profile.p")
        c.write("daemon/profiles/p.yaml", "id: profile.p\nversion: 2\nenv: {V: two}\n")
        d.process.send_signal(signal.SIGHUP)
        wait_for(lambda: cli.json("profiles", "get", "profile.p")["version"] == 2, "the new version is there")
        cli.sh(old, "echo $V").expect(0, out=b"one\n")
        cli.sh(cli.create("-p", "profile.p"), "echo $V").expect(0, out=b"two\n")
        (d.dir / "profiles/p.yaml").unlink()
        d.process.send_signal(signal.SIGHUP)
        wait_for(lambda: cli("create", "-p", "profile.p").code == 3, "the profile is gone")
        cli.sh(old, "echo $V").expect(0, out=b"one\n")


@test
def a_socket_path_of_a_dead_daemon_is_taken_over(c):
    d = Daemon(c)
    d.start()
    box = d.create()
    d.kill()
    check(d.socket.exists(), "the test is about a socket that is left")
    with d.start():
        d.works(box)


@test(only="root", because="only root's daemon changes its user")
def roots_control_plane_has_no_rights(c):
    with Daemon(c) as d:
        d.works(d.create())
        status = dict(line.split(":\t", 1) for line in open(f"/proc/{d.plane}/status").read().splitlines() if ":\t" in line)
        check(status["Uid"].split()[0] != "0", f"its uid is {status['Uid']}")
        equal((int(status["CapEff"], 16), int(status["CapPrm"], 16), status["NoNewPrivs"]), (0, 0, "1"), "its rights")
        equal(status.get("Groups", "").split(), [], "its groups")
        equal(oct(os.stat(d.socket).st_mode & 0o777), "0o600", "the socket's mode")
        equal(os.stat(d.state / "daemon").st_mode & 0o777, 0o700, "the state's mode")
        refused = subprocess.run(["python3", "-c", "import socket,sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])", d.socket],
                                 user=1000, group=1000, extra_groups=[], capture_output=True, check=False, env=c.environment)
        check(b"PermissionError" in refused.stderr, f"a plain user can connect: {refused.stderr}")


main()
