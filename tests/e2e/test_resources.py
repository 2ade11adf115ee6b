#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Limits, users and other settings of a create: what it gets, what keeps them, and what it may not ask for."""

import os

from client import Client
from daemon import ApiAs, Daemon
from groups import groups
from harness import PLAIN, check, equal, main, test, wait_for
from tcp import OTHERS, serving

SETTINGS = {"resources": {"cpu": 0.5, "memory_mb": 96, "pids": 20, "disk_mb": 8}, "user": "1000", "workdir": "/work", "hostname": "box.test",
            "caps": ["CHOWN"]}
OPTIONS = ("--cpu", "0.5", "--memory", "96M", "--pids", "20", "--disk", "8M", "--user", "1000", "--workdir", "/work",
           "--hostname", "box.test", "--cap", "CHOWN")
LOOK = "id -u; pwd; hostname; grep CapBnd /proc/self/status; head -c 16M /dev/zero >/tmp/big 2>/dev/null || echo full; rm -f /tmp/big"
CHOWN = "0000000000000001"


def look(api, box):
    return api.run(box, ["sh", "-c", LOOK]).expect(200).json["stdout"].split("\n")


def check_settings(d, box, what, hostname="box.test"):
    uid, pwd, host, caps, disk, *_ = look(d.api, box)
    equal((uid, pwd, host, caps.split()[-1], disk), ("1000", "/work", hostname, CHOWN, "full"), f"{what}: inside")
    for controller, file, value in (("pids", "pids.max", 20), ("memory", "memory.max", None)):
        group, = groups(controller, box)
        if value and os.path.exists(f"{group}/{file}"):
            with open(f"{group}/{file}", encoding="ascii") as f:
                equal(int(f.read()), value, f"{what}: {file}")


@test(only="root", because="its groups are looked at")
def create_takes_the_options_of_run(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create(*OPTIONS)
        shown = d.get(box)
        equal({k: shown[k] for k in SETTINGS}, SETTINGS, "the answer")
        check_settings(d, box, "a create")
        check(cli.json("get", box)["resources"] == SETTINGS["resources"], "get")


@test(only="root", because="its groups are looked at")
def settings_stay_with_the_sandbox(c):
    with Daemon(c) as d:
        box = d.create(name="kept", **SETTINGS)
        d.stop()
        d.start()
        check_settings(d, box, "after a restart")
        d.api.post(f"/v1/sandboxes/{box}/stop").expect(200)
        d.kill()
        d.start()
        d.api.post(f"/v1/sandboxes/{box}/resume").expect(200)
        check_settings(d, box, "after a stop, a crash and a resume")
        copy = d.api.post(f"/v1/sandboxes/{box}/fork").expect(201).json["sandboxes"][0]["sandbox_id"]
        check_settings(d, copy, "a copy", copy.replace("_", "-"))
        snapshot = d.api.post(f"/v1/sandboxes/{box}/snapshot", {"name": "s"}).expect(201).json["snapshot_id"]
        again = d.create(snapshot=snapshot)
        check_settings(d, again, "from a snapshot", again.replace("_", "-"))
        wider = d.create(snapshot="s", resources={"pids": 40}, user="0")
        equal(d.get(wider)["resources"], {"cpu": 0.5, "memory_mb": 96, "pids": 40, "disk_mb": 8}, "what the request gives counts")
        equal(look(d.api, wider)[0], "0", "its user")
        other = d.create(snapshot="s", profile="profile.pooled")
        check("resources" not in d.get(other), "another profile's")
        new = d.api.post(f"/v1/sandboxes/{box}/recreate").expect(201).json["sandbox_id"]
        check_settings(d, new, "a recreated one")


@test
def a_prepared_sandbox_serves_what_equals_its_profile(c):
    def taken():
        return next(float(line.split()[1]) for line in d.api.get("/metrics").data.decode().splitlines()
                    if line.startswith('sandboxer_pool_takes_total{outcome="hit"}'))
    with Daemon(c) as d:
        wait_for(lambda: d.api.get("/v1/inspect/host").expect(200).json["pool_ready"] == 2, "the pool is filled")
        before = taken()
        d.create(profile="profile.pooled", resources={"memory_mb": 128, "pids": 64, "cpu": 1, "disk_mb": 32}, user="root")
        equal(taken(), before + 1, "equal")
        box = d.create(profile="profile.pooled", user="1000")
        d.create(profile="profile.pooled", resources={"memory_mb": 64})
        d.create(profile="profile.pooled", hostname="other")
        equal(taken(), before + 1, "different")
        equal(look(d.api, box)[0], "1000", "its user")


@test
def what_makes_no_sense_is_refused(c):
    with Daemon(c) as d:
        for bad, member in (({"resources": {"memory_mb": 1}}, "memory_mb"), ({"resources": {"memory_mb": -1}}, "memory_mb"),
                            ({"resources": {"memory_mb": 1e30}}, "memory_mb"), ({"resources": {"pids": 0}}, "pids"),
                            ({"resources": {"cpu": 0.001}}, "cpu"), ({"resources": {"cpu": -1}}, "cpu"), ({"resources": {"cpu": 1e9}}, "cpu"),
                            ({"resources": {"disk_mb": 1 << 40}}, "disk_mb"), ({"resources": {"gpu": 1}}, "gpu"), ({"resources": 5}, "resources"),
                            ({"user": "-x"}, "user"), ({"user": "a b"}, "user"), ({"user": "70000"}, "user"), ({"user": "1:x"}, "user"),
                            ({"user": "1:70000"}, "user"), ({"user": "../x"}, "user"), ({"user": "1\n"}, "user"), ({"user": ""}, "user"),
                            ({"workdir": "x"}, "workdir"), ({"workdir": "/a/../b"}, "workdir"), ({"workdir": "/a\n"}, "workdir"),
                            ({"hostname": "a b"}, "hostname"), ({"hostname": "-a"}, "hostname"), ({"hostname": "a..b"}, "hostname"),
                            ({"hostname": "a\n"}, "hostname"), ({"hostname": "x" * 64}, "hostname"),
                            ({"caps": ["SYS_ADMIN"]}, "caps"), ({"caps": ["chown"]}, "caps"), ({"caps": "CHOWN"}, "caps")):
            said = d.api.post("/v1/sandboxes", bad).expect(400, code="invalid").json["detail"]
            check(member in said, f"{bad}: {said}")
        equal(d.list(), [], "nothing was made")
        cli = Client(d)
        for options in (("--memory", "much"), ("--cpu", "0"), ("--pids", "-1"), ("--user", ""), ("--workdir", "x"), ("--cap", "SYS_ADMIN")):
            cli("create", *options).expect(2, says=options[0])


@test(only="root", because="other users reach only root's daemon")
def a_request_is_bound_by_profiles_or_the_configuration(c):
    with Daemon(c, config=OTHERS) as d:
        os.chmod(d.dir, 0o755)
        one = ApiAs(d, PLAIN)
        most = max(p["resources"]["memory_mb"] for p in d.api.get("/v1/profiles").expect(200).json["profiles"] if "resources" in p)
        one.create(resources={"memory_mb": most})
        said = one.post("/v1/sandboxes", {"resources": {"memory_mb": most + 1}}).expect(403, code="denied").json["detail"]
        check("resources.memory_mb" in said and "limits.sandbox.memory" in said and str(most) in said, said)
        d.create(resources={"memory_mb": most + 1})  # an administrator's
    with Daemon(c, "configured", config=OTHERS + "limits: {sandbox: {memory: 200M, pids: 70, cpu: 1.5, disk: 64M}}") as d:
        os.chmod(d.dir, 0o755)
        one = ApiAs(d, PLAIN)
        box = one.create(resources={"memory_mb": 200, "pids": 70, "cpu": 1.5, "disk_mb": 64})
        for more in ({"memory_mb": 201}, {"pids": 71}, {"cpu": 1.501}, {"disk_mb": 65}):
            one.post("/v1/sandboxes", {"resources": more}).expect(403)
        one.post("/v1/sandboxes", {"resources": {"pids": 32}}).expect(201)
        one.post(f"/v1/sandboxes/{box}/snapshot", {"name": "wide"}).expect(201)
        d.stop()
        d.config.write_text(d.config.read_text().replace("memory: 200M", "memory: 150M"))
        d.start()
        one.post("/v1/sandboxes", {"snapshot": "wide"}).expect(403)
        one.post(f"/v1/sandboxes/{box}/fork").expect(403)
        one.post(f"/v1/sandboxes/{box}/recreate").expect(403)
        equal(one.get(f"/v1/sandboxes/{box}").expect(200).json["state"], "ready", "and it is unchanged")


@test
def a_token_cannot_exceed_its_limits_with_resources(c):
    with serving(c, config="limits: {sandbox: {memory: 1G, cpu: 4}}") as (d, _, token):
        plain = ["read", "create", "exec", "files", "extend", "destroy"]
        holder, _ = token(*plain, capabilities={"memory_mb": 256, "cpu_quota": 1})
        holder.post("/v1/sandboxes", {"resources": {"memory_mb": 256}}).expect(201)
        for more in ({"memory_mb": 257}, {"cpu": 1.5}):
            held = holder.post("/v1/sandboxes", {"resources": more}).expect(403).json
            equal(held.get("kind"), "require_approval", f"{more}: {held}")
        holder.post("/v1/sandboxes", {"resources": {"memory_mb": 1025}}).expect(403, code="denied")
        admin, _ = token()  # of an administrator, who has no such limit
        admin.post("/v1/sandboxes", {"resources": {"memory_mb": 1025}}).expect(403, code="denied")


@test
def a_profile_has_a_short_name(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create("-p", "pooled")
        equal(d.get(box)["profile"], "profile.pooled", "create -p")
        equal(d.get(d.create(profile="pooled@1"))["profile"], "profile.pooled", "REST, with a version")
        check(box in cli.lines("list", "-q", "-p", "pooled"), "list -p")
        equal(cli.json("profiles", "get", "pooled")["id"], "profile.pooled", "profiles get")
        said = d.api.post("/v1/sandboxes", {"profile": "poled"}).expect(404, code="not_found").json["detail"]
        check("did you mean profile.pooled?" in said, said)
        said = d.api.post("/v1/sandboxes", {"profile": "nothing-like-it"}).expect(404).json["detail"]
        check("did you mean" not in said and "profiles list" in said, said)
        d.api.post("/v1/sandboxes", {"profile": "no name"}).expect(400)


main()
