#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Secrets at rest: values of environment variables are on disk only sealed, with a key outside of the store."""

import contextlib
import os
import socket
import sqlite3
import time
from pathlib import Path

from client import Client
from daemon import Daemon
from harness import check, equal, main, test
from tcp import EVERYTHING, serving

MARKER = "hunter2-marker-value"


def places(root, marker=MARKER):
    """Files below a directory that hold the marker."""
    return [str(f) for f in Path(root).rglob("*") if f.is_file() and marker.encode() in f.read_bytes()]


def key_of(d):
    return (d.state / "secrets/key").read_text()


def shown(d, box):
    return d.api.run(box, ["sh", "-c", "echo $SECRET"]).expect(200).json["stdout"].strip()


@test
def values_are_never_on_disk_in_the_clear(c):
    with Daemon(c) as d:
        box = d.create(env={"SECRET": MARKER})
        process = d.api.post(f"/v1/sandboxes/{box}/processes", {"argv": ["sleep", "100"], "env": {"OTHER": MARKER + "-2"}, "background": True}).expect(200, 201, 202)
        check(process, "a background process")
        equal(shown(d, box), MARKER, "the variable inside")
        equal(places(d.state), [], "files with the value")
        check(MARKER not in d.api.get(f"/v1/sandboxes/{box}").data.decode(), "GET shows the value")
        copy = d.dir / "copy.db"
        copy.write_bytes(d.api.get("/v1/backup").expect(200).data)
        equal(places(d.dir), [], "files with the value, with a backup")
        check(key_of(d).splitlines()[1].split()[1].encode() not in copy.read_bytes(), "the key is in the backup")
        mode = os.stat(d.state / "secrets/key").st_mode & 0o777
        equal(mode, 0o600, "mode of the key file")
        # Over a restart they are opened again.
        d.stop()
        d.start()
        equal(shown(d, box), MARKER, "the variable after a restart")
        d.destroy(box)
        d.stop()
        with contextlib.closing(sqlite3.connect(f"file:{d.state}/daemon/sandboxer.db?mode=ro", uri=True)) as db:
            rows = db.execute("SELECT request FROM sandboxes").fetchall() + db.execute("SELECT spec FROM processes").fetchall()
        check(all("sealed:" not in row[0] and MARKER not in row[0] for row in rows), f"rows of a destroyed sandbox: {rows}")
        d.start()
        equal(places(d.state), [], "files with the value after the destroy")


@test
def arguments_of_background_processes_are_sealed_and_erased(c):
    with Daemon(c) as d:
        box = d.create()
        start = {"argv": ["sleep", "100", MARKER], "env": {"OTHER": MARKER + "-2"}, "background": True}
        n = d.api.post(f"/v1/sandboxes/{box}/processes", {**start, "argv": ["sh", "-c", f"exec sleep 100 # TOKEN={MARKER}"]}).expect(201).json["process"]
        path = d.state / "daemon/sandboxer.db"

        def listed():
            return [p["argv"][2] for p in d.api.get(f"/v1/sandboxes/{box}/processes").expect(200).json["processes"] if p["process"] == n]

        def works():
            equal(listed(), [f"exec sleep 100 # TOKEN={MARKER}"], "the list has the arguments")
            equal(places(d.state), [], "files with the arguments")
            (d.dir / "copy.db").write_bytes(d.api.get("/v1/backup").expect(200).data)
            equal(places(d.dir), [], "files with the arguments, with a backup")
            (d.dir / "copy.db").unlink()
        works()
        d.api.post("/v1/secrets/rotate-key", {}).expect(200)
        d.stop()
        d.start()
        works()
        # As a version before had it: the variables sealed, the arguments not.
        d.stop()
        with sqlite3.connect(path) as db:
            db.execute("UPDATE processes SET spec = ? WHERE sandbox = ?",
                       ('{"cookie":1,"pid":0,"request":{"argv":["sh","-c","exec sleep 100 # TOKEN=' + MARKER + '"],"background":true}}', box))
        db.close()
        check(places(d.state), "the test wrote nothing")
        d.start()
        works()
        d.destroy(box)
        d.stop()
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            equal({row[0] for row in db.execute("SELECT spec FROM processes")}, {"{}"}, "rows of a destroyed sandbox")
        d.start()


@test
def a_rotation_seals_everything_again(c):
    with Daemon(c) as d:
        box = d.create(env={"SECRET": MARKER})
        before = key_of(d)
        equal(d.api.post("/v1/secrets/rotate-key", {}).expect(200).json, {"key": 2}, "answer")
        after = key_of(d)
        equal(len(after.splitlines()), 2, "lines of the key file")
        check(before.splitlines()[1] not in after, "the old key is still there")
        equal(places(d.state), [], "files with the value")
        d.stop()
        d.start()
        equal(shown(d, box), MARKER, "the variable after rotation and restart")
        # A rotation that was cut short: both keys in the file, everything sealed with the old one.
        d.stop()
        number, new = 3, "3 " + "ab" * 32
        (d.state / "secrets/key").write_text(after.splitlines()[0] + f"\n{new}\n" + after.splitlines()[1] + "\n")
        d.start()
        equal(key_of(d).splitlines()[1:], [new], f"keys after the start, with key {number} alone")
        equal(shown(d, box), MARKER, "the variable after an interrupted rotation")


@test
def a_kill_during_a_rotation_loses_nothing(c):
    with Daemon(c) as d:
        box = d.create(env={"SECRET": MARKER})
        for turn in range(4):
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(str(d.socket))
                s.sendall(b"POST /v1/secrets/rotate-key HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
                time.sleep(0.002 * turn)
            d.kill(d.plane)
            d.start()
            equal(shown(d, box), MARKER, "the variable")
            d.api.post("/v1/secrets/rotate-key", {}).expect(200)
        equal(places(d.state), [], "files with the value")


@test
def a_lost_key_costs_the_variables_and_nothing_else(c):
    with Daemon(c) as d:
        box = d.create(env={"SECRET": MARKER}, labels={"a": "b"})
        d.stop()
        os.unlink(d.state / "secrets/key")
        d.start()
        equal(d.get(box)["labels"], {"a": "b"}, "labels")
        d.works(box)
        equal(shown(d, box), "", "the variable")
        check("secrets.unreadable" in d.tail(1000), "the log says nothing")


@test
def a_store_in_the_clear_is_sealed_at_the_start(c):
    with Daemon(c) as d:
        box = d.create(env={"SECRET": MARKER})
        d.stop()
        path = d.state / "daemon/sandboxer.db"
        with sqlite3.connect(path) as db:
            request = db.execute("SELECT request FROM sandboxes WHERE id = ?", (box,)).fetchone()[0]
            start = request.index('"sealed:')
            end = request.index('"', start + 1) + 1
            plain = request[:start] + '{"SECRET":"' + MARKER + '"}' + request[end:]
            db.execute("UPDATE sandboxes SET request = ? WHERE id = ?", (plain, box))
            db.execute("DELETE FROM settings WHERE key = 'secrets.key'")
        db.close()
        check(places(d.state), "the test wrote no value")
        d.start()
        equal(places(d.state), [], "files with the value")
        equal(shown(d, box), MARKER, "the variable")


@test
def only_administrators_rotate_and_read_the_key(c):
    with Daemon(c) as d:
        cli = Client(d)
        cli("secrets", "rotate-key").expect(0)
        cli("backup", "copy.db", "--with-key").expect(0)
        text = (Path(c.dir) / "copy.db.key").read_text()
        equal(text, key_of(d), "the saved key")
        cli("backup", "-", "--with-key").expect((2, 125), says="--with-key")
    with serving(c) as (d, _port, token):
        before = key_of(d)
        tenant, _ = token(*[verb for verb in EVERYTHING if verb != "admin"])
        for method, path in (("GET", "/v1/secrets/key"), ("POST", "/v1/secrets/rotate-key"), ("GET", "/v1/backup")):
            tenant.request(method, path).expect(403)
        equal(key_of(d), before, "the key")


@test
def the_key_can_be_a_file_elsewhere_or_a_credential_of_systemds(c):
    place = c.mkdir(c.dir / "elsewhere")
    with Daemon(c, config=f"secrets: {{key_file: {place}/key}}\n") as d:
        box = d.create(env={"SECRET": MARKER})
        check(not (d.state / "secrets").exists(), "there is a key in the state directory, too")
        equal(os.stat(place / "key").st_mode & 0o777, 0o600, "mode of the key file")
        equal(places(d.state), [], "files with the value")
        d.stop()
        # The same key as a credential: nothing else is read or written.
        credentials = c.mkdir(c.dir / "credentials")
        (place / "key").rename(credentials / "sandboxer.key")
        d.start(CREDENTIALS_DIRECTORY=str(credentials))
        equal(shown(d, box), MARKER, "the variable, sealed with the credential")
        check(not (place / "key").exists(), "another key was made")
        refused = d.api.post("/v1/secrets/rotate-key")
        check(refused.status >= 400 and "not the daemon's to change" in refused.json["detail"], f"a rotation of a key that systemd has: {refused}")


main()
