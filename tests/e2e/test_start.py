#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Where a daemon can start: the daemon, --check-config and doctor say the same about every place, and none of them leaves anything behind."""

import contextlib
import json
import os
import socket
import sqlite3
import subprocess
from pathlib import Path

from client import Client
from daemon import Daemon
from harness import Skip, check, equal, main, test
from tcp import free_port


def tree(path):
    return sorted(os.path.join(at, name) for at, dirs, files in os.walk(path) for name in dirs + files)


def verdicts(c, env, config):
    """What each of the three says: whether a daemon can start, and why not."""
    env = {"SANDBOXER_PROFILES": str(c.dir), **env}
    checked = c.execute([c.program("sandboxerd"), "--check-config", "--config", config], env=env)
    row = {r["check"]: r for r in json.loads(c.cli("doctor", "-o", "json", env=env).out)["checks"]}["daemon"]
    return checked.code == 0, row["state"] == "ok", checked.notes + row["found"]


def refused(c, env, *words, config=None):
    usual = config is None  # which doctor looks at
    config = config or c.write("config.yaml", "log: {level: info}\n")
    before = tree(c.dir)
    by_check, by_doctor, text = verdicts(c, env, config)
    check(not by_check and by_doctor != usual, f"a daemon can start with {env}: {by_check} {by_doctor} {text}")
    for word in words:
        check(text.count(word) > usual, f"'{word}' in {text}")
    started = c.execute([c.program("sandboxerd"), "--foreground", "--config", config], env={"SANDBOXER_PROFILES": str(c.dir), **env})
    started.expect(1, says=words)
    equal(tree(c.dir), before, f"what is left with {env}")


@test
def places_in_which_no_daemon_can_start(c):
    place = {"SANDBOXER_STATE": str(c.dir / "state"), "SANDBOXER_SOCKET": str(c.dir / "sock")}
    c.write("file", "precious")
    refused(c, {**place, "SANDBOXER_STATE": "/proc/nothing"}, "/proc/nothing")
    refused(c, {**place, "SANDBOXER_STATE": str(c.dir / "file")}, "file")
    refused(c, {**place, "SANDBOXER_STATE": str(c.dir / "file/state")}, "file/state")
    refused(c, {**place, "SANDBOXER_SOCKET": str(c.dir / "file")}, "is a file, not a socket")
    refused(c, {**place, "SANDBOXER_SOCKET": str(c.dir / "no/such/sock")}, "socket.path")
    refused(c, place, "no group 'no-such-group'", config=c.write("group.yaml", "socket: {group: no-such-group}\n"))
    equal((c.dir / "file").read_text(), "precious", "the file")
    (c.dir / "sock.lock").write_text("precious")
    refused(c, place, "sock.lock")
    (c.dir / "sock.lock").unlink()
    shared = c.mkdir(c.dir / "shared")
    shared.chmod(0o777)
    refused(c, {**place, "SANDBOXER_STATE": str(shared)}, "with mode 0777")


@test
def a_socket_or_an_address_of_another_program(c):
    place = {"SANDBOXER_STATE": str(c.dir / "state"), "SANDBOXER_SOCKET": str(c.dir / "sock")}
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        for text in (f"listen: '{at}'\n", f"domain: {{name: sandboxes.test, listen: '{at}'}}\n"):
            refused(c, place, f"listening on {at}", "in use", config=c.write("listen.yaml", text))
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(c.dir / "sock"))
        other.listen(64)
        c.own(c.dir / "sock")
        config, says = c.write("config.yaml", ""), f"another program listens on {c.dir / 'sock'}"
        c.execute([c.program("sandboxerd"), "--check-config", "--config", config], env=place).expect(1, says=says)
        c.execute([c.program("sandboxerd"), "--foreground", "--config", config], env=place).expect(75, says=says)
        equal(sorted(os.listdir(c.dir)), ["config.yaml", "listen.yaml", "sock"], "what is left")


@test
def a_store_that_no_daemon_can_open(c):
    place = {"SANDBOXER_STATE": str(c.dir / "state"), "SANDBOXER_SOCKET": str(c.dir / "sock")}
    c.mkdir(c.dir / "state")
    store = c.mkdir(c.dir / "state/daemon") / "sandboxer.db"
    store.write_text("this is not a database" * 100)
    refused(c, place, "sandboxer.db is not a sandboxer store, or is damaged")
    store.unlink()
    with contextlib.closing(sqlite3.connect(store)) as db:
        db.execute("PRAGMA application_id = 0x53424f58")
        db.execute("PRAGMA user_version = 9999")
        db.execute("CREATE TABLE newer (x)")
    refused(c, place, "sandboxer.db has version 9999")


def refused_driver(c, state, driver, *words):
    config = c.write(f"{driver}.yaml", f"storage: {{driver: {driver}}}\n")
    refused(c, {"SANDBOXER_STATE": str(state), "SANDBOXER_SOCKET": str(c.dir / "sock")}, f"storage.driver: {driver}", *words, config=config)
    check(not state.exists(), "the state directory was made")
    equal([name for name in os.listdir(state.parent) if "check" in name], [], "what the trial leaves")


@test
def a_storage_driver_that_the_place_does_not_support(c):
    memory = Path("/dev/shm") / f"sandboxer-{os.getpid()}-{c.name}"  # a tmpfs
    refused_driver(c, memory, "reflink", "does not support reflinks")
    if c.name == "plain":
        refused_driver(c, memory, "btrfs", "only root")


@test(only="root", because="a file system is mounted")
def a_state_directory_on_overlayfs(c):
    parts = [c.mkdir(c.dir / name) for name in ("lower", "upper", "work", "merged")]
    options = ",".join(f"{kind}dir={path}" for kind, path in zip(("lower", "upper", "work"), parts))
    if subprocess.run(["mount", "-t", "overlay", "-o", options, "none", parts[3]], capture_output=True, check=False).returncode:
        raise Skip("overlayfs cannot be mounted here")
    try:
        refused_driver(c, parts[3] / "state", "plain", "on overlayfs")
    finally:
        subprocess.run(["umount", parts[3]], check=False)


@test
def what_a_running_daemon_has_does_not_keep_the_next_one_from_starting(c):
    """--check-config before a restart."""
    with Daemon(c) as d:
        env = {"SANDBOXER_STATE": str(d.state), "SANDBOXER_SOCKET": str(d.socket), "SANDBOXER_PROFILES": str(d.dir / "profiles")}
        listen = ("--listen", f"127.0.0.1:{free_port()}")
        d.stop()
        d.start(args=listen)
        check_config = [c.program("sandboxerd"), "--check-config", "--config", d.config, *listen]
        c.execute(check_config, env=env).expect(0)
        d.api.get("/healthz").expect(200)
        other = {**env, "SANDBOXER_STATE": str(c.dir / "other"), "SANDBOXER_SOCKET": str(c.dir / "other.sock")}
        c.execute(check_config, env=other).expect(1, says="listening on")


@test(only="plain", because="root may write anywhere")
def a_home_that_cannot_be_written(c):
    closed = c.mkdir(c.dir / "home")
    closed.chmod(0o500)
    refused(c, {"HOME": str(closed), "XDG_DATA_HOME": "", "SANDBOXER_SOCKET": str(c.dir / "sock")}, "Permission denied")


@test(only="plain", because="root's default configuration is a file of this machine")
def a_bad_default_configuration(c):
    config = c.write("config/sandboxer/sandboxer.yaml", "log: {levle: info}\n")
    env = {"SANDBOXER_STATE": str(c.dir / "state"), "SANDBOXER_SOCKET": str(c.dir / "sock"), "SANDBOXER_PROFILES": str(c.dir), "XDG_CONFIG_HOME": str(c.dir / "config")}
    row = {r["check"]: r for r in json.loads(c.cli("doctor", "-o", "json", env=env).out)["checks"]}["daemon"]
    check(row["state"] != "ok" and "levle" in row["found"] and config.name in row["found"], f"doctor: {row}")
    c.execute([c.program("sandboxerd"), "--check-config"], env=env).expect(1, says=("levle", config.name))
    c.execute([c.program("sandboxerd"), "--foreground"], env=env).expect(1, says=("levle", config.name))
    config.write_text("log: {level: info}\n")
    row = {r["check"]: r for r in json.loads(c.cli("doctor", "-o", "json", env=env).out)["checks"]}["daemon"]
    equal(row["state"], "ok", f"a good one: {row}; the state")


@test
def a_place_in_which_one_can_start(c):
    env = {"SANDBOXER_STATE": str(c.dir / "deep/er/state"), "SANDBOXER_SOCKET": str(c.dir / "new/sock")}
    config = c.write("config.yaml", "log: {level: info}\n")
    before = tree(c.dir)
    equal(verdicts(c, env, config)[:2], (True, True), "what they say")
    equal(tree(c.dir), before, "what they leave")


@test
def a_state_directory_below_a_closed_one(c):
    """What mktemp -d makes: nobody but its owner passes it, and the control plane is another user."""
    closed = c.mkdir(c.dir / "closed")
    closed.chmod(0o700)
    with Daemon(c, state=closed / "state") as d:
        cli = Client(d)
        box = d.create()
        equal(d.api.run(box, ["echo", "hello"]).expect(200).json["stdout"], "hello\n", "a program")
        snapshot = d.api.post(f"/v1/sandboxes/{box}/snapshot", {"name": "kept"}).expect(201).json["snapshot_id"]
        cli("secrets", "rotate-key").expect(0)
        cli("backup", str(c.dir / "copy")).expect(0)
        d.kill()
        d.start()
        equal(d.api.run(box, ["echo", "again"]).expect(200).json["stdout"], "again\n", "after a crash")
        d.api.delete(f"/v1/snapshots/{snapshot}").expect(204)
        cli("audit", "verify").expect(0)


@test(only="root", because="it takes ten seconds and is the same for everybody")
def a_state_directory_in_use_is_named(c):
    with Daemon(c) as d:
        other = c.cli("list", env={"SANDBOXER_STATE": str(d.state), "SANDBOXER_SOCKET": str(c.dir / "other.sock"), "SANDBOXER_PROFILES": str(d.dir / "profiles")})
        check(other.code != 0 and "in use by" in other.notes, f"what a second daemon's client says: {other}")
        d.api.get("/healthz").expect(200)


main()
