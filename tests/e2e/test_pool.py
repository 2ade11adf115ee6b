#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Prepared sandboxes: like fresh ones, handed out once, few enough, and alive."""

import collections
import concurrent.futures
import glob
import os
import re
import signal

from daemon import PROFILE, PROFILES, Daemon
from harness import Skip, check, equal, main, processes, test, wait_for

CREATES = 200

# Everything a program can see of where it is, but for what differs between any two sandboxes.
LOOK = r"""
env | sort; hostname; id; umask; pwd
cat /proc/mounts | sort; ls -la / /tmp /dev /run /etc /root /home; ls /proc/self/fd
cat /proc/self/limits /proc/self/status | grep -v 'Pid\|ctxt\|Vm\|Rss\|Tgid\|NSpid\|NSpgid\|NSsid\|NStgid\|Hugetlb'
ps -eo user,args 2>/dev/null; cat /proc/net/dev; ulimit -a; cat /proc/self/cgroup; cat /proc/sys/kernel/hostname
"""


def recipe(name, pool):
    return PROFILE.format(id=name, **{**PROFILES["profile.pooled"], "pool": pool})


def pool_of(d):
    return d.api.get("/v1/inspect/host").expect(200).json["pool_ready"]


def filled(d, n):
    wait_for(lambda: pool_of(d) == n, f"the pool has {n}")


def shelved(d):
    """Process ids of the prepared sandboxes' PID 1, by the names of their directories."""
    known = {box["sandbox_id"] for box in d.list("?state=all&limit=1000")}
    return [name for name in d.leftovers() if name.startswith("sbx_") and name not in known]


def scrub(text):
    """Without ids, addresses and times: those are a sandbox's own."""
    text = re.sub(r"sbx[_-]\w+", "ID", text)
    text = re.sub(r"(subvolid|upperdir|workdir|lowerdir|fd|gid|uid|userxattr|nr_inodes|inode64)=[^,\s]*", r"\1", text)
    text = re.sub(r"\b[A-Z][a-z]{2} +\d+ +\d\d:\d\d\b|\d{4}-\d\d-\d\d \d\d:\d\d", "DATE", text)
    text = re.sub(r"(dr\S+ +)\d+( .* (proc|sys))$", r"\1N\2", text, flags=re.M)  # as many as the machine has processes
    return re.sub(" +", " ", text).splitlines()  # columns are as wide as their widest number


@test
def a_prepared_one_is_like_a_fresh_one(c):
    d = Daemon(c)
    c.write("daemon/profiles/fresh.yaml", recipe("profile.fresh", 0))
    with d:
        filled(d, 2)
        looks = []
        for profile in ("profile.pooled", "profile.fresh"):
            box = d.api.post("/v1/sandboxes", {"profile": profile, "labels": {"a": "b"}}).expect(201).json
            looks.append((scrub(d.api.run(box["sandbox_id"], ["/bin/sh", "-c", LOOK]).expect(200).json["stdout"]),
                          {k: v for k, v in box.items() if not k.endswith("_at") and k not in
                           ("sandbox_id", "profile", "reachability", "events_url")}))
        check(len(looks[0][0]) > 100, f"a short look: {looks[0][0]}")
        for pooled, fresh in zip(looks[0][0], looks[1][0]):
            equal(pooled, fresh, "what is seen in a prepared one")
        equal(len(looks[0][0]), len(looks[1][0]), "lines")
        reasons = [look[1].pop("reason", None) for look in looks]
        equal(looks[0][1], looks[1][1], f"the record of a prepared one ({reasons})")
        states = [[(e["from"] if "from" in e else None, e["to"]) for e in
                   d.api.get(f"/v1/sandboxes/{box['sandbox_id']}/events").json["events"] if e["type"] in
                   ("sandbox.requested", "sandbox.provisioning", "sandbox.ready")][:3] for box in d.list()]
        equal(states[0], states[1], "their events")


@test
def none_is_handed_out_twice(c):
    d = Daemon(c, config="pool: {total_max: 8}")
    c.write("daemon/profiles/eight.yaml", recipe("profile.eight", 8).replace("memory_mb: 128", "memory_mb: 32"))
    with d, concurrent.futures.ThreadPoolExecutor(16) as threads:
        wait_for(lambda: pool_of(d) >= 6, "the pool is filled")

        def make(n):
            """Makes one, leaves a mark in it, and destroys it: what it saw of others' marks."""
            box = d.create(profile="profile.eight")
            seen = d.api.run(box, ["/bin/sh", "-c", f"ls /tmp; touch /tmp/mark-{n}; ls /tmp"]).expect(200).json["stdout"]
            d.destroy(box)
            return box, seen
        made = list(threads.map(make, range(CREATES)))
        twice = [box for box, n in collections.Counter(box for box, _ in made).items() if n > 1]
        equal(twice, [], "sandboxes that two creates were given")
        for n, (box, seen) in enumerate(made):
            equal(seen, f"mark-{n}\n", f"what {box} saw of others")


@test
def shelves_are_filled_again_and_bounded(c):
    d = Daemon(c, config="pool: {total_max: 3}")
    c.write("daemon/profiles/other.yaml", recipe("profile.other", 2))
    with d:
        filled(d, 3)
        equal(len(shelved(d)), 3, "prepared sandboxes")
        boxes = [d.create(profile="profile.pooled") for _ in range(4)]
        filled(d, 3)
        check(len(shelved(d)) <= 3, f"more than the configuration allows: {shelved(d)}")
        equal(len({d.get(b)["sandbox_id"] for b in boxes}), 4, "sandboxes")
        d.stop()
        equal([name for name in d.leftovers() if name.startswith("sbx_") and name not in boxes], [], "prepared ones after the end")
        d.start()
        filled(d, 3)


@test
def they_are_not_made_where_they_are_not_wanted(c):
    with Daemon(c, config="pool: {enabled: false}") as d:
        d.works(d.create(profile="profile.pooled"))
        equal((pool_of(d), shelved(d)), (0, []), "prepared sandboxes")


@test
def a_dead_one_is_not_handed_out(c):
    with Daemon(c) as d:
        filled(d, 2)
        before = shelved(d)
        for pid in wait_for(lambda: inits(d) if len(inits(d)) >= 2 else None, "their PID 1 is found"):
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: d.log_path.read_text().count("pool.died") >= 2, "their death is noticed")
        for _ in range(3):
            box = d.create(profile="profile.pooled")
            check(box not in before, f"{box} was killed on its shelf")
            d.works(box)
        filled(d, 2)
        wait_for(lambda: not set(before) & set(shelved(d)), "what was killed is off its shelf")


def assigned_ahead(d):
    """Prepared sandboxes that are in control groups of an owner."""
    return [box for box in shelved(d) if glob.glob(f"/sys/fs/cgroup/*/sandboxer-*/o-*/{box}")]


@test
def one_is_assigned_ahead_to_the_owner_who_comes_again(c):
    if not c.root or not os.path.exists("/sys/fs/cgroup/memory/tasks"):
        raise Skip("prepared sandboxes are moved between groups of cgroup v1, by root")
    with Daemon(c) as d:
        filled(d, 2)
        equal(assigned_ahead(d), [], "prepared sandboxes with an owner, before anybody came")
        first = d.create(profile="profile.pooled")
        filled(d, 2)
        ahead = assigned_ahead(d)
        equal(len(ahead), 1, "of two prepared sandboxes, one has an owner")
        equal(d.create(profile="profile.pooled"), ahead[0], "what its owner gets")
        d.works(first)
        d.works(ahead[0])
        filled(d, 2)
        left = shelved(d)
        equal(len(assigned_ahead(d)), 1, "prepared sandboxes with an owner")
        d.kill()
        d.start()
        filled(d, 2)
        wait_for(lambda: not set(left) & set(shelved(d)), "prepared ones of the life before are removed")
        d.works(first)


def inits(d):
    """The PID 1 of every sandbox that a launcher of this daemon made."""
    table = processes()
    below = set(d.launchers)
    while True:
        more = {pid for pid, (parent, _) in table.items() if parent in below} - below
        if not more:
            return [pid for pid in below if table[pid][1].startswith("memfd:")]
        below |= more


main()
