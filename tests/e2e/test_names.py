#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Names of sandboxes: each finds one sandbox of its owner, wherever an id does, as long as that lives."""

import json
import os

from client import Client
from daemon import ApiAs, Daemon
from harness import PLAIN, Skip, check, equal, main, test
from peer import decide, master_token
from tcp import OTHERS, serving

NETWORK = ["read", "create", "exec", "files", "extend", "destroy"]


@test
def a_name_goes_wherever_an_id_goes(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create("--name", "web.1-a_b")
        name = "web.1-a_b"
        equal(cli.json("get", name)["sandbox_id"], box, "get")
        equal(cli.json("get", box)["name"], name, "the name in an answer")
        equal(cli.sh(name, "echo hi").expect(0).text, "hi", "exec")
        here = c.write("here", "inside\n")
        cli("cp", str(here), f"{name}:/tmp/there").expect(0)
        cli("cp", f"{name}:/tmp/there", str(c.dir / "back")).expect(0)
        equal((c.dir / "back").read_text(), "inside\n", "cp there and back")
        process = cli.spawn(name, "echo background")
        cli("attach", name, process).expect(0)
        check("background" in cli("logs", "-p", process, name).expect(0).text, "logs")
        cli("ps", name).expect(0)
        cli("extend-ttl", name, "--duration", "11m").expect(0)
        cli("events", name).expect(0)
        cli("snapshot", name, "--name", "taken").expect(0)
        cli("diff", name).expect(0)
        cli("pause", name).expect(0)
        equal(cli.json("get", name)["state"], "paused", "a paused one")
        cli("resume", name).expect(0)
        copy = cli.json("fork", "--name", "copy", name)["sandboxes"][0]
        equal((copy["name"], cli.json("get", "copy")["sandbox_id"]), ("copy", copy["sandbox_id"]), "fork --name")
        check("name" not in cli.json("fork", name)["sandboxes"][0], "a copy has no name of its source")
        cli("fork", "--name", "two", "-n", "2", name).expect(2, says="2 copies cannot share a name")
        back = cli("restore", "-q", "--name", "back", "taken").expect(0).text
        equal(cli.json("get", "back")["sandbox_id"], back, "restore --name")
        head, *rows = cli.lines("list")
        check(head.split()[1] == "NAME" and any(row.split()[:2] == [box, name] for row in rows), f"list: {head} {rows}")
        check({box, name, "copy"} <= set(cli.lines("list", "--names")), "list --names")
        check("list --names" in cli("completion", "bash").expect(0).text, "completion asks for names")
        types = [(e["type"], (e.get("detail") or {}).get("name")) for e in map(json.loads, cli.lines("events", "-o", "json", box))]
        check(("sandbox.requested", name) in types, f"the name in the events: {types}")
        cli("destroy", name).expect(0)
        cli("get", name).expect(3, says=f"there is no sandbox {name}")
        equal(cli.json("get", box)["name"], name, "the record keeps the name")


@test
def ssh_takes_a_name(c):
    if not os.path.exists("/usr/sbin/sshd"):
        raise Skip("no sshd here")
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create("--name", "host")
        equal(cli("ssh", "--host-key", "host").expect(0).text, cli("ssh", "--host-key", box).expect(0).text, "its key")
        for bad in ("-oProxyCommand=x", ".host", "Host", "ho st"):
            cli("ssh", "--", bad).expect(125, says="is not the id or name")


@test
def a_name_is_unique_while_its_sandbox_lives(c):
    with Daemon(c) as d:
        box = d.create(name="web")
        said = d.api.post("/v1/sandboxes", {"name": "web"}).expect(409, code="conflict").json["detail"]
        check(box in said and "another name" in said, said)
        d.api.post(f"/v1/sandboxes/{box}/fork", {"name": "web"}).expect(409)
        d.destroy("web")
        d.api.get("/v1/sandboxes/web").expect(404)
        again = d.create(name="web")
        equal(d.get("web")["sandbox_id"], again, "the name is free again")
        equal(d.get(box)["name"], "web", "and kept in the record")
        d.stop()
        d.start()
        equal(d.get("web")["sandbox_id"], again, "after a restart")
        d.api.post("/v1/sandboxes", {"name": "web"}).expect(409)
        d.kill()
        d.start()
        equal(d.get("web")["sandbox_id"], again, "after a crash")
        d.works("web")


@test
def a_recreated_sandbox_keeps_its_name(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create("--name", "web")  # its owner is not that of d.api, which is root's
        new = cli("recreate", "-q", "web").expect(0).text
        check(new != box, "a new one")
        equal(cli.json("get", "web")["sandbox_id"], new, "its name")
        cli("destroy", "web").expect(0)
        box = d.create(name="web")
        new = d.api.post("/v1/sandboxes/web/recreate").expect(201).json["sandbox_id"]
        check(new != box and d.get("web")["sandbox_id"] == new, "over REST")
        d.api.post(f"/v1/sandboxes/{box}/recreate").expect(409)
        equal(d.api.post(f"/v1/sandboxes/{box}/recreate?name=other").expect(201).json["name"], "other", "another name")
        check("name" not in d.api.post(f"/v1/sandboxes/{box}/recreate?name=").expect(201).json, "none")
        d.api.post(f"/v1/sandboxes/{box}/recreate?name=sbx_x").expect(400)
        equal(cli.json("recreate", "--name", "third", new)["name"], "third", "recreate --name")
        d.api.get("/v1/sandboxes/web").expect(404)


@test
def an_id_comes_before_a_name_and_a_name_before_a_part_of_an_id(c):
    with Daemon(c) as d:
        cli = Client(d)
        first = cli.create()
        part = first[4:10]
        equal(cli.json("get", part)["sandbox_id"], first, "a part of an id")
        second = cli.create("--name", part)
        equal(cli.json("get", part)["sandbox_id"], second, "the name")
        equal(cli.json("get", f"sbx_{part}")["sandbox_id"], first, "what only an id begins with")
        equal(cli.json("get", first)["sandbox_id"], first, "the id")
        cli.create("--name", "webserver")
        d.api.get("/v1/sandboxes/web").expect(404)
        cli("get", "web").expect(3, says="there is no sandbox web")


@test
def hostile_names_are_refused(c):
    with Daemon(c) as d:
        box = d.create(name="web")
        for bad in ("", ".", "..", "-x", "_x", ".x", "Web", "a b", "a/b", "a%2fb", "web\n", "web\0", "\0", "\x1b[31m", "é", "a" * 64,
                    "sbx_", "sbx_x", box, "sbx-x", box.replace("_", "-"), "web;x", "$(x)", 5, None, ["web"], {"a": "b"}):
            answer = d.api.post("/v1/sandboxes", {"name": bad}).expect(*((400,) if bad is not None else (201, 400)))
            if answer.status == 400:
                check("name" in answer.json["detail"], f"{bad!r}: {answer.json}")
        d.create(name="a" * 63)
        d.create(name="0")
        for path in ("web%00", "web%0a", "%77eb%20", "web/", "WEB", "web%2f..", "uid:0", "web%2fuid:0", "a" * 5000, "%ff"):
            check(d.api.get(f"/v1/sandboxes/{path}").status in (400, 404, 414, 431), f"{path[:20]} finds something")
        equal(d.get("%77eb")["sandbox_id"], box, "a percent-encoded name is that name")


@test(only="root", because="other users reach only root's daemon")
def a_name_of_another_owner_is_not_found(c):
    with Daemon(c, config=OTHERS) as d:
        os.chmod(d.dir, 0o755)
        one, two = ApiAs(d, PLAIN), ApiAs(d, PLAIN + 1)
        mine = one.create(name="web")
        for method, path, body in (("GET", "", None), ("DELETE", "", None), ("POST", "/processes", {"argv": ["true"]}), ("POST", "/fork", {}),
                                   ("GET", "/files?path=/", None), ("POST", "/pause", None), ("POST", "/recreate", None)):
            for other in (two, d.api):  # root sees all sandboxes, but a name is one of its own
                other.request(method, f"/v1/sandboxes/web{path}", body).expect(404, code="not_found")
        theirs = two.create(name="web")
        equal([x.get("/v1/sandboxes/web").expect(200).json["sandbox_id"] for x in (one, two)], [mine, theirs], "each its own")
        check(mine not in two.post("/v1/sandboxes", {"name": "web"}).expect(409).json["detail"], "another owner's id")
        two.delete("/v1/sandboxes/web").expect(200)
        one.works("web")


@test
def a_token_with_labels_learns_nothing_of_a_sandbox_that_it_does_not_see(c):
    with serving(c) as (d, _, token):
        box = d.create(name="web", labels={"team": "a"})
        bound, _ = token(labels={"team": "b"})
        bound.get("/v1/sandboxes/web").expect(404)
        said = bound.post("/v1/sandboxes", {"name": "web"}).expect(409).json["detail"]
        check(box not in said and "another sandbox" in said, said)
        seeing, _ = token(labels={"team": "a"})
        equal(seeing.get("/v1/sandboxes/web").expect(200).json["sandbox_id"], box, "a token with its label")


@test
def an_approved_call_reaches_the_sandbox_that_the_master_saw(c):
    with serving(c) as (d, _, token):
        holder, _ = token(*NETWORK)
        master = master_token(d)
        network = {"name": "web", "egress": {"allow": ["example.com:443"]}}
        old = d.create(**network)
        held = holder.request("PUT", "/v1/sandboxes/web/egress", {"allow": ["example.org:443"]}).expect(403).json["request_id"]
        d.destroy(old)
        new = d.create(**network)
        decide(d, held, "approve", master).expect(200)
        result = d.api.get(f"/v1/approvals/{held}?wait=60").expect(200).json
        check(old in str(result["result"]) and "destroyed" in str(result["result"]), f"{result}")
        check("example.org" not in d.api.get(f"/v1/sandboxes/{new}/egress").expect(200).data.decode(),
              "the call reached the sandbox that has the name now")


main()
