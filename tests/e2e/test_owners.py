#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Owners: what the sandboxes of one use together stays within its share, and does not keep others from theirs."""

import os

from daemon import ApiAs, Daemon
from groups import groups
from harness import PLAIN, Skip, check, equal, main, test, wait_for
from tcp import OTHERS, serving, users_token

OTHER = PLAIN + 1
MEMORY, PIDS = 96 << 20, 60  # of an owner; one sandbox has 128 MiB and 64 processes
CONFIG = 'socket: {mode: "0666"}\nlimits: {owner: {memory: 96M, pids: 60}}'


def owner_group(controller, box):
    found = groups(controller, box)
    equal(len(found), 1, f"{controller} groups of {box} ({found})")
    return os.path.dirname(found[0])


def number(path, *names):
    for name in names:
        if os.path.exists(f"{path}/{name}"):
            with open(f"{path}/{name}", encoding="ascii") as f:
                return int(f.read().split()[0])
    raise Skip(f"{path} has none of {names}")


def members(path):
    with open(f"{path}/cgroup.procs", encoding="ascii") as f:
        return [int(line) for line in f]


def name_of(pid):
    with open(f"/proc/{pid}/comm", encoding="ascii") as f:
        return f.read().strip()


def score(pid):
    with open(f"/proc/{pid}/oom_score_adj", encoding="ascii") as f:
        return int(f.read())


def await_pool(d):
    wait_for(lambda: d.api.get("/v1/inspect/host").expect(200).json["pool_ready"] == 2, "the pool is filled")


@test(only="root", because="other users reach only root's daemon")
def what_was_assigned_ahead_to_one_owner_is_not_given_to_another(c):
    with Daemon(c, config=CONFIG) as d:
        os.chmod(d.dir, 0o755)
        one, other = ApiAs(d, PLAIN), ApiAs(d, OTHER)
        await_pool(d)
        mine = [one.create(profile="profile.pooled")]
        await_pool(d)  # one of the two is in the groups of the first owner
        theirs = []
        for _ in range(3):  # the first without an owner; then it is the other's turn to have one ahead
            theirs.append(other.create(profile="profile.pooled"))
            await_pool(d)
        mine.append(one.create(profile="profile.pooled"))
        for box in mine:
            one.works(box)
        for box in theirs:
            other.works(box)
        for controller in ("memory", "pids", "cpu"):
            found = [{owner_group(controller, box) for box in boxes} for boxes in (mine, theirs)]
            equal([len(each) for each in found], [1, 1], f"{controller} groups of each owner ({found})")
            check(found[0] != found[1], f"{controller}: groups are shared")


@test(only="root", because="other users reach only root's daemon")
def sandboxes_of_one_owner_are_in_its_group(c):
    with Daemon(c, config=CONFIG) as d:
        os.chmod(d.dir, 0o755)
        one, other = ApiAs(d, PLAIN), ApiAs(d, OTHER)
        boxes = [one.create(), one.create(profile="profile.pooled"), one.create(profile="profile.pooled")]
        theirs, roots = other.create(profile="profile.pooled"), d.create(profile="profile.pooled")
        for box in boxes[1:]:
            one.works(box)  # a prepared one has entered its group before it starts anything
        other.works(theirs)
        d.works(roots)
        for controller in ("memory", "pids", "cpu"):
            mine = {owner_group(controller, box) for box in boxes}
            equal(len(mine), 1, f"{controller} groups of one owner ({mine})")
            check(mine.isdisjoint({owner_group(controller, theirs), owner_group(controller, roots)}), f"{controller}: groups are shared")
        group = owner_group("pids", boxes[0])
        equal(number(group, "pids.max"), PIDS, "processes of an owner")
        equal(number(owner_group("memory", theirs), "memory.max", "memory.limit_in_bytes"), MEMORY, "memory of an owner")
        with open(f"{owner_group('pids', roots)}/pids.max", encoding="ascii") as f:
            equal(f.read().strip(), "max", "processes of an administrator")
        # A pause and a resume, a fork, and what outlives the daemon.
        one.post(f"/v1/sandboxes/{boxes[0]}/pause").expect(200)
        one.post(f"/v1/sandboxes/{boxes[0]}/resume").expect(200)
        d.kill()
        d.start()
        for box in boxes:
            one.works(box)
            equal(owner_group("pids", box), group, "the group after a pause or a crash")
        again = one.post(f"/v1/sandboxes/{boxes[1]}/recreate").expect(200, 201).json["sandbox_id"]
        one.works(again)  # from the pool: its groups are made when it has been answered
        equal(owner_group("pids", again), group, "the group of what is made again")
        for box in (*boxes, again):
            one.delete(f"/v1/sandboxes/{box}")
        wait_for(lambda: not os.path.exists(group), "an owner's group goes with its last sandbox")


@test
def a_profile_with_a_working_directory_has_prepared_sandboxes(c):
    """The directory is made before a sandbox has an owner."""
    c.write("daemon/profiles/there.yaml", "id: profile.there\nversion: 1\nworkdir: /some/where\npool: {min: 1, max: 1}\n")
    with Daemon(c) as d:
        wait_for(lambda: d.api.get("/v1/inspect/host").expect(200).json["pool_ready"] == 3, "prepared sandboxes of both profiles")
        equal(d.api.run(d.create(profile="profile.there"), ["pwd"]).expect(200).json["stdout"], "/some/where\n", "where it starts")


@test(only="root", because="a user without delegated control groups has none")
def each_family_of_an_administrators_tokens_is_in_a_group_of_its_own(c):
    with serving(c, CONFIG) as (d, _, token):
        await_pool(d)
        one, two = token()[0], token()[0]
        mine, theirs = ([api.post("/v1/sandboxes", {"profile": "profile.pooled"}).expect(201).json["sandbox_id"] for _ in range(2)] for api in (one, two))
        roots = d.create(profile="profile.pooled")
        for box in (*mine, *theirs, roots):
            d.works(box)
        found = [{owner_group("pids", box) for box in boxes} for boxes in (mine, theirs, [roots])]
        equal([len(each) for each in found], [1, 1, 1], f"groups of each ({found})")
        equal(len(set.union(*found)), 3, f"groups of all ({found})")
        equal([number(owner_group("pids", boxes[0]), "pids.max") for boxes in (mine, theirs)], [PIDS, PIDS], "processes of a family of root's tokens")
        equal(number(owner_group("memory", mine[0]), "memory.max", "memory.limit_in_bytes"), MEMORY, "memory of a family of root's tokens")


@test(only="root", because="other users reach only root's daemon")
def one_owner_at_its_limits_does_not_hold_up_another(c):
    with Daemon(c, config=CONFIG) as d:
        os.chmod(d.dir, 0o755)
        one, other = ApiAs(d, PLAIN), ApiAs(d, OTHER)
        boxes = [one.create(), one.create(profile="profile.pooled"), one.create(profile="profile.pooled")]
        # More processes than one owner has, of which none of its sandboxes has too many.
        for box in boxes:
            one.background(box, "for i in $(seq 40); do sleep 600 & done 2>/dev/null; wait")
        group = owner_group("pids", boxes[0])

        def most():
            return number(group, "pids.peak", "pids.current")
        # The kernel updates the peak without a lock: processors that count at the same time may store the smaller number.
        wait_for(lambda: most() > PIDS - os.cpu_count(), "it uses what it may")
        theirs = other.create(profile="profile.pooled")
        other.works(theirs)
        d.works(d.create())
        check(most() <= PIDS, "more processes than an owner may have")
        for box in boxes:
            check(number(groups("pids", box)[0], "pids.peak", "pids.current") < 60, "a sandbox at its own limit")
            one.delete(f"/v1/sandboxes/{box}")
        # And more memory.
        boxes = [one.create(), one.create(profile="profile.pooled")]
        for box in boxes:
            one.background(box, "(head -c 70M /dev/zero; sleep 600) | tail")
        group = owner_group("memory", boxes[0])

        def kills():
            """In its sandboxes: the kernel has made room among them."""
            return sum(int(line.split()[1]) for box in boxes for name in ("memory.events", "memory.oom_control")
                       if os.path.exists(f"{group}/{box}/{name}") for line in open(f"{group}/{box}/{name}", encoding="ascii")
                       if line.startswith("oom_kill "))
        wait_for(lambda: kills() >= 1, "its programs are killed")
        other.works(theirs)
        other.works(other.create())
        check(number(group, "memory.peak", "memory.max_usage_in_bytes") <= MEMORY, "more memory than an owner may have")
        equal({one.get(f"/v1/sandboxes/{box}").expect(200).json["state"] for box in boxes} - {"ready", "active"}, set(), "states of its sandboxes")


@test(only="root", because="others see no processes of sandboxes")
def programs_are_killed_before_those_who_serve_them(c):
    with Daemon(c) as d:
        box = d.create()
        d.api.post(f"/v1/sandboxes/{box}/processes", {"argv": ["sleep", "600"], "background": True})
        group = groups("pids", box)[0]
        wait_for(lambda: len(members(group)) == 2, "the program runs")
        scores = {"program" if name_of(pid) == "sleep" else "PID 1": score(pid) for pid in members(group)}
        wait_for(lambda: {score(pid) for pid in d.launchers} == {300}, "launchers that have started have their score")
        equal(scores["program"], 800, "a program's score")
        check(scores["PID 1"] <= 300, f"scores: {scores}")
        check(score(d.process.pid) <= 0 and score(d.plane) <= 0, "the daemon's own")
        # Over its own limit: a program dies, PID 1 and with it the sandbox live.
        answer = d.api.run(box, ["sh", "-c", "head -c 200M /dev/zero | tail >/dev/null; echo ${PIPESTATUS:-$?}"]).expect(200).json
        check(answer["stdout"].strip() != "0", f"it was not killed: {answer}")
        d.works(box)


@test(only="root", because="other users are needed")
def the_start_of_an_id_finds_ones_own_alone(c):
    with serving(c, OTHERS) as (d, port, _):
        users = [users_token(c, d, port, uid) for uid in (PLAIN, OTHER)]
        boxes = [user.post("/v1/sandboxes").expect(201).json["sandbox_id"] for user in users]
        for user, own, theirs in ((users[0], *boxes), (users[1], *reversed(boxes))):
            for n in (len("sbx_") + 1, 12, len(theirs) - 1):
                if own.startswith(theirs[:n]):
                    continue
                for answer in (user.get(f"/v1/sandboxes/{theirs[:n]}", Sandboxer_Ids="short"), user.delete(f"/v1/sandboxes/{theirs[:n]}", Sandboxer_Ids="short")):
                    answer.expect(404, code="not_found")
                    check(theirs not in answer.data.decode(), f"{answer}")
            equal(user.get("/v1/sandboxes/sbx_", Sandboxer_Ids="short").expect(200).json["sandbox_id"], own, "the only one with a start that both have")
            user.get(f"/v1/sandboxes/{own[:-1]}").expect(404)
        for user, own in zip(users, boxes):
            user.delete(f"/v1/sandboxes/{own[:-1]}", Sandboxer_Ids="short").expect(200)


if __name__ == "__main__":
    main()
