#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""The audit is a chain: events of the daemon, and the lines of each sandbox's egress log, which are anchored among the events.
What is changed, removed, moved or added is found, with its place; crashes, rotation and retention are no damage."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import sqlite3

from client import Client
from daemon import Daemon
from egress_world import PUBLIC, RESOLVER, World, echo
from harness import check, equal, main, test, wait_for

NAME, OTHER = "api.example.com", "other.example.com"
KILLS = 10
TRAFFIC = f"""
while true; do
  curl -s -m 5 http://{NAME}/ http://{OTHER}/ http://{NAME}/a http://{NAME}/b >/dev/null
done
"""


@contextlib.contextmanager
def daemon(c, more="", config=""):
    with World() as w:
        w.dns.names[NAME] = [PUBLIC]
        w.http(PUBLIC, 80)
        w.origin(PUBLIC, 7, echo)
        d = Daemon(c, config=f"egress: {{workers: 1, resolvers: ['{RESOLVER}']{more}}}\n{config}")
        spawn = d.spawn
        d.spawn = lambda *args, **options: w.inside.run(lambda: spawn(*args, **options))
        with d:
            yield d


def create(d):
    return d.create(egress={"allow": [f"{NAME}:80,7"]})


def talk(d, box, times=3):
    urls = " ".join(f"http://{NAME}/{i}" for i in range(times))
    seen = d.api.run(box, ["sh", "-c", f"curl -sS -m 20 {urls}; curl -s -m 20 http://{OTHER}/"]).expect(200).json
    check("hello" in seen["stdout"], f"traffic: {seen}")


def log(d, box):
    return d.state / f"daemon/egress/{box}.jsonl"


def aside(d, box):
    """Parts of the log that were put aside, the oldest first."""
    return sorted((d.state / f"daemon/egress/{box}.parts").glob("*"))


def lines(d, box):
    return log(d, box).read_text().splitlines(keepends=True)


def seq_of(line):
    return json.loads(line)["unmapped"].get("seq")


def last_seq(d, box):
    """Of the last whole line; a part that was just begun has no line yet, or is not there for a moment."""
    for path in (log(d, box), *reversed(aside(d, box))):
        with contextlib.suppress(FileNotFoundError):
            whole = [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
            if whole:
                return seq_of(whole[-1])
    return 0


def anchored(d, box):
    """Waits until the last line that the log has now is among the events."""
    last = last_seq(d, box)
    policy = f"version: 1\nnetwork_policies: {{a: {{endpoints: [{{host: {NAME}, port: 80}}], binaries: [{{path: /**}}]}}}}\n"
    d.api.request("PUT", f"/v1/sandboxes/{box}/egress", policy.encode()).expect(200)

    def seen():
        events = d.api.get("/v1/events?limit=1000").expect(200).json["events"]
        return any(a["sandbox"] == box and a["seq"] >= last for e in events for a in e["detail"].get("egress_audit", []))
    wait_for(seen, f"line {last} of {box} is anchored")


def verify(d, query=""):
    return d.api.get(f"/v1/audit/verify{query}").expect(200).json


def verify_box(d, box):
    return d.api.get(f"/v1/sandboxes/{box}/audit").expect(200).json


def intact(d, what, *boxes):
    for found in (verify(d), *(verify_box(d, box) for box in boxes)):
        check(found["intact"] and not found["problems"], f"{what}: {found}")


def problems(found):
    return [(p["chain"], p["kind"], p["seq"]) for p in found["problems"]]


def said(done):
    return done.out.decode()


@contextlib.contextmanager
def database(d):
    """The store is the daemon's alone while it runs: a daemon that does is stopped meanwhile, and started again."""
    ran = d.alive
    if ran:
        d.stop()
    with contextlib.closing(sqlite3.connect(d.state / "daemon/sandboxer.db", isolation_level=None)) as db:
        yield db
    if ran:
        d.start()


@contextlib.contextmanager
def backup(d):
    """To look into while the daemon runs."""
    path = d.dir / "backup"
    path.write_bytes(d.api.get("/v1/backup").expect(200).data)
    with contextlib.closing(sqlite3.connect(path)) as db:
        yield db


# --- as it is ---

@test
def normal_traffic_is_intact_and_the_command_line_says_so(c):
    with daemon(c) as d:
        cli, box = Client(d), create(d)
        talk(d, box)
        anchored(d, box)
        intact(d, "with traffic", box)
        found = verify(d)
        equal((found["sandboxes"], found["unchained_lines"], found["head"]["chained_from"]), (1, 0, 1), "what was checked")
        check(found["lines"] >= 6 and found["events"] >= 3, f"what was checked: {found}")
        check("intact" in said(cli("audit", "verify").expect(0)), "the whole")
        check("intact" in said(cli("audit", "verify", box).expect(0)), "a sandbox")
        check("intact" in said(cli("audit", "verify", "--since", "1h").expect(0)), "since")
        equal(json.loads(said(cli("audit", "verify", "-o", "json").expect(0)))["intact"], True, "as JSON")
        kept = json.loads(said(cli("audit", "head", "-o", "json").expect(0)))
        cli("audit", "verify", "--expect", f"{kept['seq']}:{kept['digest']}").expect(0)
        cli("audit", "verify", "--expect", f"{kept['seq']}:{'0' * 64}").expect(1, says="damaged")
        cli("audit", "verify", "--expect", f"{kept['seq'] + 1000}:{kept['digest']}").expect(1, says="damaged")
        cli("audit", "verify", "--expect", "nonsense").expect(2, says="SEQ:DIGEST")
        export = log(d, box).read_text()
        equal(said(cli("egress", "log", box, "-o", "json").expect(0)).count('"chain":"'), export.count("\n"), "links that `egress log` shows")
        c.write("export.jsonl", export)
        check("intact" in said(cli("audit", "verify", "--file", "export.jsonl").expect(0)), "an exported log")
        c.write("export.jsonl", export.replace("hello", "jello").replace(NAME, "x" + NAME[1:], 1))
        cli("audit", "verify", "--file", "export.jsonl").expect(1, says="damaged")
        d.destroy(box)
        intact(d, "destroyed", box)
        event = [e for e in d.api.get(f"/v1/sandboxes/{box}/events").json["events"] if e["type"] == "sandbox.destroyed"]
        equal([(a["sandbox"], a["seq"]) for a in event[0]["detail"]["egress_audit"]], [(box, seq_of(lines(d, box)[-1]))],
              "the last line is part of the event of the end")


@test
def an_owner_checks_what_is_theirs_and_not_the_rest(c):
    with daemon(c) as d:
        box = create(d)
        talk(d, box)
        equal(verify_box(d, box)["sandboxes"], 1, "the sandbox")
        check("head" not in verify_box(d, box), "the daemon's chain is not an owner's")
        d.api.get("/v1/sandboxes/sbx_00000000000000000000/audit").expect(404)
        d.api.get("/v1/audit/verify?since=yesterday").expect(400)
        for path in [f"/v1/sandboxes/{box}/audit", "/v1/audit/verify"] * 20:  # clients that leave take their check along
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(str(d.socket))
                s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        wait_for(lambda: d.api.get(f"/v1/sandboxes/{box}/audit").status == 200, "its share is free again")
        wait_for(lambda: d.api.get("/v1/audit/verify").status == 200, "the other share is free again")


# --- egress logs ---

def flip(text, at):
    return text[:at] + ("x" if text[at] != "x" else "y") + text[at + 1:]


def forged(all_lines, at):
    """A line of another, with a chain value that anybody can compute, but no key."""
    import hashlib
    before = json.loads(all_lines[at - 1])["unmapped"]["chain"]
    body = re.sub(r',"chain":.*\n', "", all_lines[at]).replace(NAME, "bad.example.net", 1)
    digest = hashlib.sha256(bytes.fromhex(before) + body.encode()).hexdigest()
    return f'{body},"chain":"{digest}","mac":"{"0" * 32}"}}}}\n'


@test
def damage_to_a_log_is_found_with_its_place(c):
    with daemon(c) as d:
        box = create(d)
        talk(d, box, 8)
        anchored(d, box)
        good = lines(d, box)
        seqs, n = [seq_of(line) for line in good], len(good)
        equal(seqs, list(range(1, n + 1)), "the lines are numbered")
        check(n > 12, f"{n} lines")
        at = 5
        host = good[at].index('"time":') + 9
        changes = {
            "one byte": (good[:at] + [flip(good[at], host)] + good[at + 1:], "changed", at + 1),
            "one byte of the link": (good[:at] + [good[at].replace('"mac":"', '"mac":"0', 1)[:-4] + '"}}\n'] + good[at + 1:], None, at + 1),
            "a line removed": (good[:at] + good[at + 1:], "missing", at + 1),
            "two swapped": (good[:at] + [good[at + 1], good[at]] + good[at + 2:], "missing", at + 1),
            "one repeated": (good[:at] + [good[at - 1]] + good[at:], "repeated", at),
            "one inserted": (good[:at] + ['{"time":1,"message":"nothing happened"}\n'] + good[at:], "unreadable", at),
            "one forged": (good[:at] + [forged(good, at)] + good[at + 1:], "forged", at + 1),
            "the begin cut off": (good[at:], "beginning_missing", 1),
            "the end cut off": (good[:at], "end_missing", at + 1),
            "emptied": ([], "end_missing", 1),
            "the links removed": ([re.sub(r',"seq":.*', "}}", line) for line in good], "end_missing", 1),
        }
        for what, (damaged, kind, seq) in changes.items():
            log(d, box).write_text("".join(damaged))
            for found in (verify(d), verify_box(d, box)):
                check(not found["intact"] and found["problems"], f"{what}: {found}")
                if kind:
                    equal(problems(found)[0], (box, kind, seq), f"{what}: {found['problems'][:2]}")
        Client(d)("audit", "verify", box).expect(1, says="damaged")
        os.unlink(log(d, box))
        equal([p[:2] for p in problems(verify(d))], [(box, "end_missing")], "without its file")
        log(d, box).write_text("".join(good))
        intact(d, "restored", box)
        other = create(d)  # another's lines in its place
        talk(d, other)
        shutil.copy(log(d, other), log(d, box))
        check(not verify_box(d, box)["intact"], "another's log in its place")


@test
def a_log_that_is_cut_while_its_worker_is_away_is_found(c):
    with daemon(c) as d:
        box = create(d)
        talk(d, box, 8)
        anchored(d, box)
        good = lines(d, box)
        d.stop()
        log(d, box).write_text("".join(good[:5]))
        d.start()
        wait_for(lambda: d.get(box)["egress"]["in_force"], "it is served again")
        for _ in range(4):
            talk(d, box, 6)
        found = verify(d)
        check(not found["intact"] and problems(found)[0][0] == box, f"the chain was continued from where it was cut: {found}")


# --- events ---

@test
def damage_to_events_is_found_with_its_place(c):
    with daemon(c) as d:
        box = create(d)
        talk(d, box)
        anchored(d, box)
        d.destroy(box)
        intact(d, "before", box)
        with database(d) as db:
            columns = [row[1] for row in db.execute("PRAGMA table_info(events)")]
            rows = {row[0]: row for row in db.execute("SELECT * FROM events ORDER BY seq")}
            heads = {table: db.execute(f"SELECT * FROM {table}").fetchall() for table in ("ledger", "egress_heads", "event_cuts")}
        last, middle = max(rows), sorted(rows)[len(rows) // 2]

        def put_back(db):
            for table, wanted in (("events", list(rows.values())), *heads.items()):
                db.execute(f"DELETE FROM {table}")
                for row in wanted:
                    db.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row)

        def sees(what, expected, *statements):
            with database(d) as db:
                put_back(db)
                for statement, *values in statements:
                    db.execute(statement, values)
            found = problems(verify(d))
            equal(found[0] if found else None, expected, f"{what}: {found}")

        for column, value in (("reason", "nothing"), ("type", "x"), ("actor", "uid:1"), ("detail", "{}"), ("time_ns", 5), ("owner", "me"),
                              ("to_state", 3), ("chain", b"0" * 32), ("sandbox", "sbx_other")):
            if rows[middle][columns.index(column)] != value:
                sees(column, ("daemon", "changed", middle), (f"UPDATE events SET {column} = ? WHERE seq = ?", value, middle))
        sees("put back", None)
        intact(d, "put back", box)
        delete = "DELETE FROM events WHERE seq = ?"
        sees("one removed", ("daemon", "missing", middle), (delete, middle))
        sees("the last removed", ("daemon", "end_missing", last), (delete, last))
        exchange = f"UPDATE events SET {','.join(f'{k} = ?' for k in columns[1:])} WHERE seq = ?"
        sees("two swapped", ("daemon", "changed", middle - 1), (exchange, *rows[middle - 1][1:], middle), (exchange, *rows[middle][1:], middle - 1))
        sees("a link removed", ("daemon", "unchained", middle), ("UPDATE events SET chain = NULL WHERE seq = ?", middle))
        sees("the head with the last", ("daemon", "head_forged", last - 1), (delete, last),
             ("UPDATE ledger SET seq = ?, digest = ?", last - 1, rows[last - 1][columns.index("chain")]))
        sees("an anchor", (box, "head_forged", 0), ("UPDATE egress_heads SET seq = seq - 1",))
        sees("no anchor", (box, "head_missing", heads["egress_heads"][0][1]), ("DELETE FROM egress_heads",))
        sees("a forged cut", ("daemon", "cut_forged", 1), ("INSERT INTO event_cuts VALUES (?, 1, ?, ?)", middle, b"0" * 32, b"1" * 32),
             ("DELETE FROM events WHERE seq <= ?", middle))
        sees("all put back", None)
        intact(d, "all put back", box)
        # A start without a head begins another chain: a head that was kept shows it.
        kept = d.api.get("/v1/audit/head").expect(200).json
        sees("no head", None, ("DELETE FROM ledger",))
        found = verify(d, f"?expect={kept['seq']}:{kept['digest']}")
        check(found["problems"], f"the head that was kept is not missed: {found}")
        sees("one inserted", ("daemon", "unchained", last + 1),
             (f"INSERT INTO events ({','.join(columns[1:])}) VALUES ({','.join('?' * (len(columns) - 1))})", *rows[middle][1:-1], None))
        new = d.create()  # the daemon goes on behind it
        d.destroy(new)
        found = problems(verify(d))
        equal(found, [("daemon", "unchained", last + 1)], "after more events")


@test
def an_older_copy_of_everything_is_found_by_a_head_that_was_kept(c):
    with daemon(c) as d:
        box = create(d)
        talk(d, box)
        d.destroy(box)
        d.stop()
        shutil.copytree(d.state / "daemon", c.dir / "old", symlinks=True, ignore=shutil.ignore_patterns("run", "*.sock"))
        d.start()
        d.destroy(d.create())
        kept = d.api.get("/v1/audit/head").expect(200).json
        d.stop()
        for name in ("sandboxer.db-wal", "sandboxer.db-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(d.state / "daemon" / name)
        shutil.copyfile(c.dir / "old/sandboxer.db", d.state / "daemon/sandboxer.db")
        d.start()
        intact(d, "by itself an older copy is intact")
        found = verify(d, f"?expect={kept['seq']}:{kept['digest']}")
        equal(problems(found), [("daemon", "older_than_expected", kept["seq"])], "with the head that was kept")


# --- no false alarm ---

@test
def kills_under_traffic_are_no_damage(c):
    with daemon(c, more=", audit_max: 8M") as d:
        boxes = [create(d), create(d)]
        for box in boxes:
            d.api.post(f"/v1/sandboxes/{box}/processes", {"argv": ["sh", "-c", TRAFFIC], "background": True}).expect(200, 201, 202)
        for i in range(KILLS):
            before = [last_seq(d, box) for box in boxes]
            if i % 3 == 2:
                d.kill(d.plane if i % 2 else None)
                d.start()
            else:
                for pid in d.parts("sandboxer-egres"):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            for box in boxes:
                wait_for(lambda box=box: d.get(box)["egress"]["in_force"], f"{box} is served again after kill {i}", 60)

            def moved():
                return all(last_seq(d, box) > seen for box, seen in zip(boxes, before))
            wait_for(moved, f"traffic after kill {i}", 60)
            intact(d, f"after kill {i}", *boxes)
        d.stop()
        d.start()
        intact(d, "at the end", *boxes)


@test
def a_worker_that_ends_late_does_not_fork_the_chain(c):
    with daemon(c) as d:
        box = create(d)
        talk(d, box)
        d.api.post(f"/v1/sandboxes/{box}/processes", {"argv": ["sh", "-c", TRAFFIC], "background": True}).expect(200, 201, 202)
        before = last_seq(d, box)
        wait_for(lambda: last_seq(d, box) > before + 10, "there is traffic")
        old = d.parts("sandboxer-egres")[0]
        os.kill(old, signal.SIGSTOP)
        try:
            d.kill()
            d.start()
            talk(d, create(d))  # another sandbox is served by the next worker
            if c.uid:  # root's daemon ends workers of the one before by their control groups
                equal(d.get(box)["egress"]["in_force"], 0, "the generation that is in force while the first worker has the log")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(old, signal.SIGCONT)
        wait_for(lambda: d.get(box)["egress"]["in_force"], "it is served again")
        talk(d, box)
        intact(d, "after both", box)


@test
def nothing_is_removed_before_its_time_and_expiry_is_no_damage(c):
    with daemon(c, more=", audit_max: 8M, audit_keep: 1h") as d:
        box = create(d)
        talk(d, box)
        first = lines(d, box)[0]

        def has_parts():
            talk(d, box, 60)
            intact(d, "meanwhile", box)
            return len(aside(d, box)) >= 3
        wait_for(has_parts, "three parts were put aside", 120)
        equal(said(Client(d)("egress", "log", box, "-o", "json").expect(0)).splitlines()[0], first.rstrip(), "the first record after many more")
        anchored(d, box)
        d.stop()
        d.start()
        intact(d, "after a restart", box)
        equal(len(aside(d, box)) >= 3, True, "parts that are not old enough")

        oldest, second = aside(d, box)[:2]
        text = oldest.read_text()
        os.unlink(oldest)
        equal(problems(verify_box(d, box))[0][:2], (box, "beginning_missing"), "without the oldest part")
        oldest.write_text("".join(text.splitlines(keepends=True)[1:]))
        equal(problems(verify_box(d, box))[0][:2], (box, "beginning_missing"), "without its first line")
        oldest.write_text(text)
        middle = second.read_text()
        os.unlink(second)
        equal(problems(verify_box(d, box))[0][:2], (box, "missing"), "without one in the middle")
        second.write_text(middle)
        intact(d, "put back", box)

        os.utime(oldest, (1, 1))
        os.utime(second, (1, 1))
        d.kill()
        d.start()  # the first event prunes
        d.destroy(d.create())
        wait_for(lambda: oldest not in aside(d, box) and second not in aside(d, box), "expired parts are removed")
        check(aside(d, box), "a part that is not old enough")
        wait_for(lambda: d.get(box)["egress"]["in_force"], "it is served again")
        talk(d, box)
        anchored(d, box)
        intact(d, "after expiry", box)
        equal(seq_of(said(Client(d)("egress", "log", box, "-o", "json").expect(0)).splitlines()[0]), seq_of(middle.splitlines()[-1]) + 1, "the first record that is left")
        left = aside(d, box)[0]
        os.unlink(left)
        equal(problems(verify_box(d, box))[0][:2], (box, "beginning_missing"), "without a part that has not expired")


@test
def a_full_log_denies_its_sandbox_alone(c):
    with daemon(c, more=", audit_max: 64K") as d:
        box, other = create(d), create(d)

        def fetch(of):
            seen = d.api.run(of, ["curl", "-s", "-m", "20", f"http://{NAME}/"]).expect(200).json
            return "hello" if "hello" in seen["stdout"] else json.loads(seen["stdout"])["error"] if seen["stdout"] else "nothing"

        def is_full():
            d.api.run(box, ["sh", "-c", f"curl -s -m 20 {' '.join([f'http://{NAME}/'] * 40)} >/dev/null"]).expect(200)
            return fetch(box) == "audit_full"
        wait_for(is_full, "the log is full", 60)
        equal(fetch(other), "hello", "another sandbox")
        intact(d, "with a full log", box, other)
        check("audit_full" in said(Client(d)("egress", "log", box, "-o", "json").expect(0)), "the denial is on record")
        check("sandboxer_egress_logs_full 1" in d.api.get("/metrics").expect(200).data.decode(), "the metric")
        d.stop()
        config = pathlib.Path(d.config)
        config.write_text(config.read_text().replace("audit_max: 64K", "audit_max: 1M"))
        d.start()
        wait_for(lambda: fetch(box) == "hello", "with a larger budget")
        intact(d, "with a larger budget", box)


@test
def retention_is_no_damage_and_another_record_of_it_is(c):
    """Events are removed from the beginning, and a record with a code of the key says which. Logs rotate at the same time."""
    with daemon(c, more=", audit_max: 8M", config="limits: {events_keep: 1000}") as d:
        box, cli = create(d), Client(d)
        talk(d, box)
        anchored(d, box)
        wait_for(lambda: talk(d, box, 60) or aside(d, box), "a part is put aside", 60)
        for _ in range(1200):
            d.api.post(f"/v1/sandboxes/{box}/extend-ttl", {"duration": "20m"}).expect(200)

        def removed():
            with backup(d) as db:
                return db.execute("SELECT min(seq) - 1, (SELECT max(last) FROM event_cuts) FROM events").fetchone()

        wait_for(lambda: removed()[0] > 100, "old events are removed")
        intact(d, "after retention and rotation", box)
        cli("audit", "verify").expect(0)
        d.stop()
        d.start()
        intact(d, "after a restart", box)
        wait_for(lambda: d.get(box)["egress"]["in_force"], "it is served again")

        # Without the sandbox, starts add no events: no prune comes between.
        d.destroy(box)
        d.stop()
        d.start()
        wait_for(lambda: len(set(removed())) == 1, "the record says what was removed")
        with database(d) as db:
            good = db.execute("SELECT * FROM event_cuts").fetchall()
            last = db.execute("SELECT min(seq) - 1 FROM events").fetchone()[0]
            event = db.execute("SELECT * FROM events WHERE seq = ?", (last + 1,)).fetchone()
            digest = db.execute("SELECT chain FROM events WHERE seq = ?", (last + 1,)).fetchone()[0]

        def put_back(db):
            db.execute("DELETE FROM event_cuts")
            db.executemany("INSERT INTO event_cuts VALUES (?, ?, ?, ?)", good)

        def sees(what, kind, *statements):
            with database(d) as db:
                put_back(db)
                for statement, *values in statements:
                    db.execute(statement, values)
            found = problems(verify(d))
            equal(found[0][:2] if found else None, ("daemon", kind), f"{what}: {found}")
            cli("audit", "verify").expect(1, says="damaged")
        sees("no record", "missing", ("DELETE FROM event_cuts",))
        sees("another beginning", "cut_forged", ("UPDATE event_cuts SET first = first + 1 WHERE last = ?", last))
        sees("another end", "missing", ("UPDATE event_cuts SET last = last - 1 WHERE last = ?", last))
        sees("another digest", "cut_forged", ("UPDATE event_cuts SET digest = zeroblob(32) WHERE last = ?", last))
        sees("another code", "cut_forged", ("UPDATE event_cuts SET mac = zeroblob(32) WHERE last = ?", last))
        sees("one event more", "cut_forged", ("DELETE FROM events WHERE seq = ?", last + 1),
             ("UPDATE event_cuts SET last = last + 1, digest = ? WHERE last = ?", digest, last))
        with database(d) as db:
            put_back(db)
            db.execute(f"INSERT INTO events VALUES ({','.join('?' * len(event))})", event)
        intact(d, "put back", box)


@test
def a_line_that_was_not_finished_is_no_damage(c):
    with daemon(c) as d:
        box = create(d)
        talk(d, box)
        anchored(d, box)
        good = log(d, box).read_text()
        log(d, box).write_text(good + good.splitlines()[-1][:200])
        intact(d, "with half a line", box)
        d.stop()
        d.start()
        wait_for(lambda: d.get(box)["egress"]["in_force"], "it is served again")
        talk(d, box)
        intact(d, "and more behind it", box)
        check("egress.audit_repaired" in d.tail(1000), "the log says that half a line was removed")


@test
def a_state_from_before_the_chain_is_taken_as_it_is(c):
    with daemon(c) as d:
        box = create(d)
        talk(d, box)
        d.stop()
        old = "".join(re.sub(r',"seq":.*', "}}", line) for line in lines(d, box))
        log(d, box).write_text(old)
        with database(d) as db:
            for table in ("ledger", "event_cuts", "egress_heads"):
                db.execute(f"DROP TABLE {table}")
            db.execute("ALTER TABLE events DROP COLUMN chain")
            db.execute("DELETE FROM settings WHERE key = 'audit.key'")
            for index in ("tokens_revoked", "tokens_expires", "sandboxes_name", "events_type"):  # of the versions after
                db.execute(f"DROP INDEX {index}")
            for table, column in (("tokens", "maker"), ("sandboxes", "family"), ("snapshots", "family"),
                                  ("snapshots", "expires_ns"), ("sandboxes", "name"), ("snapshots", "settings"),
                                  *(("snapshots", column) for column in ("checkpoint", "parent", "changed", "cause"))):
                db.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
            events = db.execute("SELECT max(seq) FROM events").fetchone()[0]
            db.execute("PRAGMA user_version = 12")
        d.start()
        wait_for(lambda: d.get(box)["egress"]["in_force"], "it is served again")
        talk(d, box)
        anchored(d, box)
        intact(d, "with a part that is not chained", box)
        found = verify(d)
        equal((found["head"]["chained_from"], found["unchained_lines"]), (events + 1, old.count("\n")), f"where the chain begins: {found}")
        check(f"not chained before {events + 1}" in said(Client(d)("audit", "verify").expect(0)), "the command line says so")


main()
