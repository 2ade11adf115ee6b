#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Programs that callers start are recorded: arguments without secrets, caller, interface and end. A daemon that is killed leaves
records of an unknown end, and none without an end."""

import json
import signal

from client import Client
from daemon import ApiAs, Daemon
from harness import check, equal, main, test, wait_for

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


main()
