#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""What egress decided, in the events: live, again after a reconnect, and only for who may see the sandbox."""

import json
import os
import signal

from client import Client
from daemon import Api, Daemon
from egress_world import PUBLIC, RESOLVER, World
from harness import PLAIN, check, equal, main, test, wait_for
from tcp import serving

NAME = "api.example.com"


class Events:
    """A stream of events, read as they come."""

    def __init__(self, api, path="/v1/events", last=None, **headers):
        headers["Accept"] = "text/event-stream"
        if last is not None:
            headers["Last-Event-ID"] = str(last)
        self.last = last
        self.connection, self.response = api.open("GET", path, None, headers)
        check(self.response.status == 200, f"{path}: {self.response.status}")
        equal(self.response.readline()[:1], b":", "the sign that it is heard")

    def next(self):
        """The next one, with its id and name; a hang ends by the connection's timeout."""
        event = {}
        while line := self.response.readline().decode().rstrip("\n"):
            key, _, value = line.partition(": ")
            if key == "data":
                event.update(json.loads(value))
            elif key:
                event[f"stream_{key}"] = value
        if "type" not in event:
            return self.next()  # a heartbeat
        equal(event["stream_event"], event["type"], "its name and its type")
        self.last = event["stream_id"]
        return event

    def until(self, kind, box=None):
        """That one, and those before it."""
        seen = []
        while not seen or seen[-1]["type"] != kind or (box and seen[-1]["sandbox_id"] != box):
            seen.append(self.next())
        return seen

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.response.close()
        self.connection.close()


def try_host(d, box, host):
    """A connection that is denied: its name is in the denial."""
    seen = d.api.run(box, ["curl", "-sS", "-m", "5", "-f", f"http://{host}/"]).expect(200).json
    check(seen["exit_code"] != 0, f"{host} is reached: {seen}")


def walled(d, **more):
    return d.create(egress={"allow": [f"{NAME}:80"]}, **more)


def host_of(event):
    return event["detail"]["dst_endpoint"]["hostname"]


@test
def denials_come_with_what_happens_to_sandboxes(c):
    with Daemon(c) as d:
        box = walled(d)
        with Events(d.api) as stream, Events(d.api, "/v1/events?kind=lifecycle") as plain, \
                Events(d.api, f"/v1/sandboxes/{box}/events?kind=denied") as own:
            try_host(d, box, "no.example.com")
            seen = stream.until("egress.denied")
            equal([e["type"] for e in seen[:3]], ["sandbox.requested", "sandbox.provisioning", "sandbox.ready"], "all")
            denial = seen[-1]
            equal((denial["sandbox_id"], host_of(denial)), (box, "no.example.com"), "the denial")
            equal(denial["detail"]["status_code"], "policy_denied", "its detail")
            check("no.example.com" in denial["reason"] and denial["time"].endswith("Z"), f"{denial}")
            equal(host_of(own.next()), "no.example.com", "the sandbox's own stream")
            d.destroy(box)
            check(all(e["type"].startswith("sandbox.") for e in plain.until("sandbox.destroyed")), "lifecycle alone")
        d.api.get("/v1/events?kind=denied").expect(400, code="invalid")
        d.api.get("/v1/events?kind=all", Accept="text/event-stream").expect(400, code="invalid")
        d.api.request("GET", "/v1/events", None, {"Accept": "text/event-stream", "Last-Event-ID": "1.x"}).expect(400)


@test
def the_command_line_follows_them(c):
    with Daemon(c) as d:
        cli, box = Client(d), walled(d)
        followers = [cli.start("events", "-f", "--after", "0", "-o", "json", *more) for more in ((), ("--kind", "lifecycle,egress", box))]
        for each in followers:
            while json.loads(each.stdout.readline())["type"] != "sandbox.ready":
                pass
        try_host(d, box, "no.example.com")
        for each in followers:
            while (seen := json.loads(each.stdout.readline()))["type"] != "egress.denied":
                check(seen["type"].startswith("sandbox."), f"{seen}")
            equal((seen["sandbox_id"], host_of(seen)), (box, "no.example.com"), "the denial")
            each.send_signal(signal.SIGINT)
            each.wait(20)
        cli("events", "--kind", "denied").expect(2, says="as they are made")


@test
def a_flood_is_a_few_events_with_their_count(c):
    with Daemon(c) as d:
        box = walled(d)
        with Events(d.api, "/v1/events?kind=denied") as stream:
            flood = "import os,socket\np = os.environ['http_proxy'].split('/')[2].split(':')\n" \
                    "for _ in range(500):\n s = socket.create_connection((p[0], int(p[1])))\n" \
                    " s.sendall(b'CONNECT no.example.com:443 HTTP/1.1\\r\\nHost: no.example.com:443\\r\\n\\r\\n')\n" \
                    " s.recv(9)\n s.close()\n"
            equal(d.api.run(box, ["python3", "-c", flood]).expect(200).json["exit_code"], 0, "the flood")
            counts = []
            while sum(counts) < 500:
                counts.append(stream.next()["detail"].get("count", 1))
            equal((sum(counts), counts[0]), (500, 1), f"counted: {counts}")
            check(len(counts) < 100, f"{len(counts)} events")


@test
def a_stream_goes_on_where_it_was(c):
    with Daemon(c) as d:
        box = walled(d)
        with Events(d.api) as stream:
            try_host(d, box, "one.example.com")
            before = stream.until("egress.denied")
        try_host(d, box, "two.example.com")
        lifecycle = next(e for e in reversed(before) if "seq" in e)["stream_id"]
        equal(str(int(lifecycle)), lifecycle, "the id of a lifecycle event is its number")
        for last in (stream.last, lifecycle):
            with Events(d.api, last=last) as again:
                seen = again.until("egress.denied")
                while host_of(seen[-1]) != "two.example.com":  # what came a moment before comes again
                    equal(host_of(seen[-1]), "one.example.com", "what comes again")
                    seen += again.until("egress.denied")
                check(all(e["seq"] > int(lifecycle) for e in seen if "seq" in e), "lifecycle events that come again")
        d.kill()
        d.start()
        with Events(d.api, last=stream.last) as again:
            while host_of(again.until("egress.denied")[-1]) != "two.example.com":
                pass
        d.destroy(box)
        with Events(d.api, f"/v1/sandboxes/{box}/events?kind=denied", last=stream.last) as again:
            while host_of(again.next()) != "two.example.com":
                pass


@test
def what_was_decided_before_the_end_is_told(c):
    with Daemon(c) as d:
        with Events(d.api, "/v1/events?kind=denied") as stream:
            boxes = [walled(d) for _ in range(3)]
            for i, box in enumerate(boxes):
                try_host(d, box, f"n{i}.example.com")
                d.destroy(box)
            equal(sorted((e["sandbox_id"], host_of(e)) for e in (stream.next() for _ in boxes)),
                  sorted((box, f"n{i}.example.com") for i, box in enumerate(boxes)), "denials")


@test
def allows_are_for_who_asks(c):
    with World() as w:
        w.dns.names[NAME] = [PUBLIC]
        w.http(PUBLIC, 80)
        d = Daemon(c, config=f"egress: {{workers: 1, resolvers: ['{RESOLVER}'], audit_max: 2M}}")
        spawn = d.spawn
        d.spawn = lambda *args, **options: w.inside.run(lambda: spawn(*args, **options))
        with d:
            box = walled(d)
            with Events(d.api, f"/v1/sandboxes/{box}/events?kind=egress") as everything, \
                    Events(d.api, "/v1/events?kind=denied") as denials:
                # Enough for several parts of the log while the streams are not read.
                many = [x for _ in range(100) for x in ("-o", "/dev/null", f"http://{NAME}/")]
                equal(d.api.run(box, ["curl", "-sS", "-m", "20", "-H", "Connection: close", *many]).expect(200)
                      .json["exit_code"], 0, "requests")
                try_host(d, box, "no.example.com")
                seen = everything.until("egress.denied")
                kinds = [e["type"] for e in seen]
                check(kinds.count("egress.allowed") >= 100 and kinds.count("egress.closed") > 0, f"{kinds}")
                equal(kinds.count("egress.lost"), 0, "gaps")
                equal(host_of(denials.until("egress.denied")[-1]), "no.example.com", "the denial")


@test
def labels_bind_the_events_a_token_sees(c):
    with serving(c) as (d, _, token):
        ours, theirs = walled(d, labels={"team": "a"}), walled(d, labels={"team": "b"})
        bound, _ = token(labels={"team": "a"})
        bound.get(f"/v1/sandboxes/{theirs}/events", Accept="text/event-stream").expect(404, code="not_found")
        equal({e["sandbox_id"] for e in bound.get(f"/v1/sandboxes/{ours}/events").expect(200).json["events"]}, {ours},
              "events")
        with Events(bound) as stream, Events(d.api, "/v1/events?kind=denied") as everything:
            try_host(d, theirs, "theirs.example.com")
            equal(host_of(everything.next()), "theirs.example.com", "who sees everything")
            d.destroy(theirs)
            try_host(d, ours, "ours.example.com")
            seen = stream.until("egress.denied")
            equal(host_of(seen[-1]), "ours.example.com", "the first denial that the token hears of")
            d.destroy(ours)
            seen += stream.until("sandbox.destroyed")
            equal({e["sandbox_id"] for e in seen}, {ours}, "whose events it hears")
        with Events(bound) as again:
            again.until("sandbox.destroyed")
            equal(again.last, seen[-1]["stream_id"], "the same from the store")


@test(only="root", because="other users reach only root's daemon")
def others_hear_nothing(c):
    with Daemon(c, config="socket: {mode: \"0666\"}") as d:
        os.chmod(d.dir, 0o755)
        roots = walled(d)
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.setgroups([])
            os.setgid(PLAIN)
            os.setuid(PLAIN)
            api = Api(d.socket)
            box = api.post("/v1/sandboxes", {"egress": {"allow": [f"{NAME}:80"]}}).expect(201).json["sandbox_id"]
            with Events(api) as stream:
                os.write(write, b"listening\n")
                api.run(box, ["curl", "-sS", "-m", "5", "http://mine.example.com/"])
                seen = stream.until("egress.denied")
                os.write(write, json.dumps([box, [e["sandbox_id"] for e in seen]]).encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as heard:
            equal(heard.readline(), "listening\n", "the other user")
            try_host(d, roots, "roots.example.com")
            box, seen = json.loads(heard.read())
        os.waitpid(child, 0)
        equal(set(seen), {box}, "whose events another user hears")
        with Events(d.api, last="0.1") as stream:
            wait_for(lambda: stream.until("egress.denied")[-1]["sandbox_id"] == box, "root hears of all")


if __name__ == "__main__":
    main()
