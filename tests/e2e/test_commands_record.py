#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Programs that callers start are recorded: arguments without secrets, caller, interface and end. A daemon that is killed leaves
records of an unknown end, and none without an end."""

import json
import os
import select
import signal
import subprocess

import daytona
import e2b
import mcp

from client import Client
from daemon import ApiAs, Daemon
from harness import check, equal, main, test, wait_for
from tcp import serving
from volumes import fill

FULL = "id: profile.full\nversion: 1\nrecord_commands: full\n"
NONE = "id: profile.none\nversion: 1\nrecord_commands: none\n"


def events(cli, box):
    lines = cli("events", "--kind", "commands", "-o", "json", box).expect(0).text.splitlines()
    return [json.loads(line) for line in lines]


def ended(cli, box):
    return [e["detail"] for e in events(cli, box) if e["type"] == "command.ended"]


def records(cli, box, n):
    wait_for(lambda: len(ended(cli, box)) >= n, f"{n} records")
    return ended(cli, box)


@test
def the_last_events_of_programs_are_found_behind_others(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        cli.sh(box, "true").expect(0)
        records(cli, box, 1)
        for _ in range(3):
            cli("extend-ttl", box, "-d", "20m").expect(0)
            cli("stop", box).expect(0)
            cli("resume", box).expect(0)
        types = [e["type"] for e in d.api.get("/v1/events?kind=commands&tail=1").expect(200).json["events"]]
        equal(types, ["command.ended"], "the last one of programs")
        lines = cli("events", "--kind", "commands", "-n", "1", "-o", "json", box).expect(0).text.splitlines()
        equal([json.loads(line)["type"] for line in lines], ["command.ended"], "with -n")
        both = d.api.get("/v1/events?kind=commands,lifecycle&tail=1000").expect(200).json["events"]
        equal({e["type"].startswith("command.") for e in both}, {False, True}, "both kinds")


@test
def a_program_has_a_record(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        cli.sh(box, "TOKEN=hunter2; exit 3").expect(3)
        cli("exec", box, "--", "no-such-program")
        cli.sh(box, "kill -TERM $$")
        d.api.run(box, ["echo", "--password", "hunter2"]).expect(200)
        shell, missing, killed, rest = records(cli, box, 4)
        equal([shell["argv"], shell["masked"], shell["outcome"], shell["exit_code"], shell["client"], shell["user"]],
              [["/bin/sh", "-c", "TOKEN=***; exit 3"], 1, "exited", 3, "cli", "root"], "of a shell")
        equal([missing["outcome"], missing["argv"]], ["not_started", ["no-such-program"]], "of a program that is missing")
        check("No such file" in missing["reason"], missing)
        equal([killed["outcome"], killed["signal"]], ["signalled", "TERM"], "of a killed one")
        equal([rest["argv"], rest["client"], rest["exit_code"]], [["echo", "--password", "***"], "rest", 0], "of REST")
        seen = events(cli, box)[0]
        equal([seen["type"], seen["reason"], seen["actor"]["id"]], ["command.ended", "/bin/sh", f"uid:{c.uid}"], "the event")
        check("command." not in cli("events", box).expect(0).text, "programs are among the events unasked")
        cli("audit", "verify").expect(0)


@test
def the_profile_says_what_is_recorded(c):
    c.write("daemon/profiles/full.yaml", FULL)
    c.write("daemon/profiles/none.yaml", NONE)
    with Daemon(c) as d:
        cli = Client(d)
        full, none = cli.create("-p", "full"), cli.create("-p", "none")
        for box in none, full:
            cli("exec", box, "--", "echo", "--password", "hunter2").expect(0)
        equal([r["argv"] for r in records(cli, full, 1)], [["echo", "--password", "hunter2"]], "full")
        equal(events(cli, none), [], "none")


@test
def a_program_that_runs_has_two_events(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        number = cli.spawn(box, "exec sleep 1000")
        wait_for(lambda: events(cli, box), "its start")
        equal([[e["type"], e["detail"]["outcome"], e["detail"]["process"]] for e in events(cli, box)],
              [["command.started", "running", int(number)]], "while it runs")
        cli("kill", box, number).expect(0)
        (end,) = records(cli, box, 1)
        equal([end["outcome"], end["background"]], ["signalled", True], "its end")
        equal(len({e["detail"]["command"] for e in events(cli, box)}), 1, "the same id")


@test
def a_client_that_leaves_abandons_its_program(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        waiting = cli.start("exec", box, "--", "sleep", "1000")
        wait_for(lambda: events(cli, box), "its start")
        waiting.send_signal(signal.SIGKILL)
        waiting.wait(20)
        equal([r["outcome"] for r in records(cli, box, 1)], ["abandoned"], "its end")


@test
def a_killed_daemon_leaves_no_record_without_an_end(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        waiting = cli.start("exec", box, "--", "sleep", "1000")
        number = cli.spawn(box, "exec sleep 1000")
        wait_for(lambda: len(events(cli, box)) == 2, "two starts")
        d.kill()
        waiting.wait(20)
        d.start()
        (lost,) = records(cli, box, 1)
        equal([lost["outcome"], lost["argv"]], ["lost", ["sleep", "1000"]], "the one that died with its client")
        check("daemon ended" in lost["reason"], lost)
        cli("kill", box, number).expect(0)
        equal([r["outcome"] for r in records(cli, box, 2)], ["lost", "signalled"], "the one that lived on")
        d.kill()
        d.start()
        equal(len(ended(cli, box)), 2, "ends are recorded once")
        cli("audit", "verify").expect(0)


@test(only="root", because="it is two users")
def an_owner_that_floods_is_refused_alone(c):
    with Daemon(c, config='socket: {mode: "0666"}\nlimits: {events_keep: 1000, events_per_owner: 60}\n') as d:
        one, two = ApiAs(d, 1000), ApiAs(d, 65534)
        box, other = one.create(), two.create()
        two.run(other, ["echo", "first"]).expect(200)
        answers = [one.run(box, ["true"]) for _ in range(20)]
        wait_for(lambda: answers.append(one.run(box, ["true"])) or answers[-1].status != 200, "its budget ends")
        check("limits.events_per_owner" in answers[-1].expect(429, code="quota").json["detail"], answers[-1])
        two.run(other, ["echo", "second"]).expect(200)
        cli = Client(d)
        equal([r["argv"] for r in records(cli, other, 2)], [["echo", "first"], ["echo", "second"]], "of the other owner")
        ran = sum(a.status == 200 for a in answers)
        equal(len(records(cli, box, ran)), ran, "every program that ran is on record")


@test
def tokens_of_an_administrator_hide_no_programs_of_each_other(c):
    """Each of their families has a budget of its own; what its administrator runs is beyond all budgets, and counted beyond one."""
    with serving(c, "limits: {events_keep: 1000, events_per_owner: 40}\n") as (d, _, token):
        cli = Client(d)

        def run(api, box):
            return api.post(f"/v1/sandboxes/{box}/processes", {"argv": ["true"]}, Accept="application/json")
        for api in [token(name=f"t{i}")[0] for i in range(4)]:
            box, ran = api.post("/v1/sandboxes").expect(201).json["sandbox_id"], []
            wait_for(lambda api=api, box=box, ran=ran: ran.append(run(api, box)) or ran[-1].status != 200, "its budget ends")
            check("limits.events_per_owner" in ran[-1].expect(429, code="quota").json["detail"], ran[-1])
            equal(len(records(cli, box, len(ran) - 1)), len(ran) - 1, "every program that ran is on record")
            check(len(ran) > 6, f"programs of a token: {len(ran)}")
        box = cli.create()
        cli.sh(box, "true").expect(0)
        equal(len(records(cli, box, 1)), 1, "of the administrator")


def shown(cli, *argv):
    """What `audit commands` shows, the newest first."""
    lines = cli("audit", "commands", "-o", "json", *argv).expect(0).text.splitlines()
    return [json.loads(line) for line in lines]


def words(rows):
    return [" ".join(r["argv"]) for r in rows]


@test
def the_verb_filters(c):
    with Daemon(c) as d:
        cli = Client(d)
        one, two = cli.create("--name", "one"), cli.create("--name", "two")
        cli("exec", one, "--", "/bin/echo", "a").expect(0)
        cli("exec", two, "--", "false").expect(1)
        d.api.run(two, ["echo", "b"]).expect(200)
        cli.spawn(two, "exec sleep 1000")
        wait_for(lambda: len(shown(cli)) == 4, "four records")
        sleep = "/bin/sh -c 'exec sleep 1000'".replace("'", "")
        equal(words(shown(cli)), [sleep, "echo b", "false", "/bin/echo a"], "the newest first")
        equal(words(shown(cli, "one")), ["/bin/echo a"], "of a sandbox, by its name")
        equal(words(shown(cli, "--failed")), ["false"], "--failed")
        equal(words(shown(cli, "--status", "1")), ["false"], "--status CODE")
        equal(words(shown(cli, "--status", "running")), [sleep], "--status OUTCOME")
        equal(words(shown(cli, "--client", "rest")), ["echo b"], "--client")
        equal(words(shown(cli, "--program", "e?ho")), ["echo b", "/bin/echo a"], "--program, the last part")
        equal(words(shown(cli, "--program", "/bin/e*")), ["/bin/echo a"], "--program, a path")
        equal(words(shown(cli, "--user", f"uid:{c.uid}", "two", "-n", "2")), [sleep, "echo b"], "--user, -n")
        equal(shown(cli, "--user", "uid:4711"), [], "of another caller")
        equal(shown(cli, "--until", "1h"), [], "--until")
        equal(len(shown(cli, "--since", "1h")), 4, "--since")
        row = shown(cli, "one")[0]
        equal([row["sandbox_id"], row["owner"], row["actor"]["id"], row["exit_code"], row["outcome"]],
              [one, f"uid:{c.uid}", f"uid:{c.uid}", 0, "exited"], "a row")
        check("exit 1" in cli("audit", "commands", "--failed").expect(0).text, "the table")
        cli("audit", "commands", "--status", "x").expect(2)
        cli("audit", "commands", "--program", "[").expect(2)
        cli("destroy", "one").expect(0)
        equal(words(shown(cli, one)), ["/bin/echo a"], "of a sandbox that is destroyed")


@test
def pages_have_every_record_once(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = d.create()
        for i in range(30):
            d.api.run(box, ["echo", str(i)]).expect(200)
        wait_for(lambda: len(shown(cli)) == 30, "thirty records")
        seen, before = [], ""
        while True:
            page = d.api.get(f"/v1/audit/commands?limit=7{before}").expect(200).json
            seen += [r["argv"][1] for r in page["commands"]]
            if "next" not in page:
                break
            before = f"&before={page['next']}"
        equal(seen, [str(i) for i in reversed(range(30))], "pages")


@test
def new_records_can_be_followed(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        following = cli.start("audit", "commands", "-f", "--program", "echo", "-o", "json")

        def first():
            d.api.run(box, ["echo", "x"]).expect(200)
            return select.select([following.stdout], [], [], 0.2)[0]
        wait_for(first, "a record")
        d.api.run(box, ["true"]).expect(200)
        d.api.run(box, ["echo", "last"]).expect(200)
        rows = iter(lambda: json.loads(following.stdout.readline()), None)
        seen = next(r for r in rows if r["argv"] != ["echo", "x"])
        equal([seen["argv"], seen["outcome"]], [["echo", "last"], "exited"], "the next one")
        following.send_signal(signal.SIGINT)
        following.wait(20)


@test(only="root", because="it is two users")
def callers_see_their_own(c):
    with Daemon(c, config='socket: {mode: "0666"}\n') as d:
        one, two = ApiAs(d, 1000), ApiAs(d, 65534)
        mine, theirs = one.create(), two.create()
        one.run(mine, ["echo", "one"]).expect(200)
        two.run(theirs, ["echo", "two"]).expect(200)
        everything = "/v1/audit/commands"
        wait_for(lambda: len(d.api.get(everything).json["commands"]) == 2, "an administrator sees both")
        equal(words(one.get(everything).expect(200).json["commands"]), ["echo one"], "the first one")
        equal(words(two.get(everything).expect(200).json["commands"]), ["echo two"], "the second one")
        two.get(f"/v1/sandboxes/{mine}/audit/commands").expect(404)


@test(only="root", because="a file system is mounted")
def a_full_disk_loses_no_record(c):
    place = c.mkdir(c.dir / "small")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64M,mode=0755", "none", str(place)], check=True)
    try:
        with Daemon(c, state=place / "state", driver="memory") as d:
            cli = Client(d)
            box = cli.create()
            numbers = [cli.spawn(box, f"exec sleep 100{i}") for i in range(4)]
            wait_for(lambda: len(events(cli, box)) == 4, "four starts")
            fill(place / "filler")
            for number in numbers:
                d.api.post(f"/v1/sandboxes/{box}/processes/{number}/signal", {"signal": "KILL"})
            refused = wait_for(lambda: (x := d.api.run(box, ["true"])).status == 507 and x, "no program starts")
            equal(refused.code, "storage_full", "why")
            os.unlink(place / "filler")
            wait_for(lambda: d.api.run(box, ["true"]).status == 200, "programs start again")
            wait_for(lambda: len([r for r in ended(cli, box) if r["outcome"] == "signalled"]) == 4, "the ends are written")
            cli("audit", "verify").expect(0)
    finally:
        subprocess.run(["umount", str(place)], check=False)


def by_client(cli, box, n):
    wait_for(lambda: len(shown(cli, box)) >= n, f"{n} records")
    return {(r["client"], " ".join(r["argv"])): r for r in shown(cli, box)}


@test
def tools_have_records(c):
    with Daemon(c) as d, mcp.Lines(c, d) as m:
        m.begin()
        box = m.tool("sandbox_create")["sandbox_id"]
        m.tool("sandbox_exec", sandbox_id=box, argv=["echo", "tool"])
        equal(by_client(Client(d), box, 1)["mcp", "echo tool"]["outcome"], "exited", "of a tool")


@test
def programs_of_e2b_have_records(c):
    with e2b.Served(c) as s:
        box = s.create(s.key("busy")["E2B_API_KEY"])
        equal(box.run("/bin/echo", "x")[0], b"x\n", "a program")
        box.ask("POST", "/execute", {"code": "TOKEN='hunter2'\nprint(1)"}, E2b_Sandbox_Port="49999").expect(200)
        seen = by_client(Client(s.d), box.id, 3)
        ran = next(r for (client, words), r in seen.items() if client == "e2b" and "echo x" in words)
        equal([ran["token"], ran["outcome"]], ["busy", "exited"], "of a program")
        code = next(r for (client, words), r in seen.items() if "print(1)" in words)
        equal([code["client"], code["argv"][2], code["outcome"]], ["e2b", "TOKEN='***'\nprint(1)", "exited"], "of a piece of code")


@test
def commands_of_daytona_have_records(c):
    with daytona.Served(c) as s:
        box = s.create(s.key("busy")["DAYTONA_API_KEY"])
        box.run("echo x")
        box.ask("POST", "process/session", {"sessionId": "s"}).expect(201)
        box.ask("POST", "process/session/s/exec", {"command": "echo y"}).expect(200, 202)
        seen = by_client(Client(s.d), box.id, 3)
        ran = next(r for (client, words), r in seen.items() if client == "daytona" and "echo x" in words)
        equal([ran["token"], ran["outcome"]], ["busy", "exited"], "of a command")
        equal(seen["daytona", "sh -c echo y"]["outcome"], "sent", "of a session's command")


main()
