#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Lifecycle events to a hub: in order, none lost, nothing waits for it.

Delivery is at least once: an event may come again if the daemon dies between a hub's answer and noting it.
"""

import contextlib
import http.server
import json
import os
import signal
import threading

from daemon import Daemon
from harness import check, equal, main, test, wait_for
from tcp import free_port

LIFE = ["sandbox.requested", "sandbox.provisioning", "sandbox.ready", "sandbox.destroying", "sandbox.destroyed"]


class Hub:
    """Takes events; `moods` are the statuses of its next answers, None hangs up without one."""

    def __init__(self):
        self.taken, self.refused, self.moods, self.headers = [], 0, [], []
        self.always = 200
        self.lock = threading.Lock()
        self.server = None
        self.port = free_port()

    def open(self):
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = hub.answer(dict(self.headers), body)
                if status is None:
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def close(self):
        if self.server:
            self.server.shutdown()
            self.server.server_close()
            self.server = None

    def answer(self, headers, body):
        with self.lock:
            status = self.moods.pop(0) if self.moods else self.always
            if status == 200:
                self.headers.append(headers)
                self.taken.append(json.loads(body))
            else:
                self.refused += 1
            return status

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/events"

    def of(self, box):
        """The types of a sandbox's events, in the order they came, without repetitions."""
        with self.lock:
            seen, types = set(), []
            for event in self.taken:
                if event.get("subject") == box and event["id"] not in seen:
                    seen.add(event["id"])
                    types.append(event["type"].removeprefix("dev.sandboxer."))
            return types


@contextlib.contextmanager
def hub_and_daemon(c, is_open=True):
    hub = Hub().open()
    if not is_open:
        hub.close()
    try:
        with Daemon(c, config=f"hub: {{url: {hub.url}, timeout: 20s}}") as d:
            yield hub, d
    finally:
        hub.close()


def life(d):
    box = d.create()
    d.destroy(box)
    return box


@test
def events_come_as_cloudevents_in_order(c):
    with hub_and_daemon(c) as (hub, d):
        boxes = [life(d) for _ in range(5)]
        wait_for(lambda: all(hub.of(box)[-1:] == LIFE[-1:] for box in boxes), "the hub has everything")
        for box in boxes:
            equal(hub.of(box), LIFE, f"events of {box}")
        event = hub.taken[0]
        equal((event["specversion"], event["datacontenttype"]), ("1.0", "application/json"), "the envelope")
        check(event["source"].startswith("/sandboxer/") and event["time"].endswith("Z"), f"the envelope: {event}")
        equal((event["data"]["sandbox_id"], str(event["data"]["seq"])), (event["subject"], event["id"]), "the event in it")
        check(hub.headers[0]["Content-Type"].startswith("application/cloudevents+json"), f"{hub.headers[0]}")
        ids = [e["id"] for e in hub.taken]
        equal(len(ids), len(set(ids)), "events that came twice, without a reason")


@test
def a_hub_that_fails_loses_nothing(c):
    with hub_and_daemon(c) as (hub, d):
        hub.moods = [500, 200, 503, None, 429, 404, 200, 500]
        box = life(d)
        wait_for(lambda: hub.of(box)[-1:] == LIFE[-1:], "everything comes in the end", 60)
        equal(hub.of(box), LIFE, "events")
        check(hub.refused >= 4, f"the hub refused {hub.refused} times only")


@test
def a_hub_that_is_away_holds_nothing_up(c):
    with hub_and_daemon(c, is_open=False) as (hub, d):
        boxes = [life(d) for _ in range(3)]
        d.works(d.create())
        hub.open()
        wait_for(lambda: all(hub.of(box)[-1:] == LIFE[-1:] for box in boxes), "everything comes when it is back", 90)
        for box in boxes:
            equal(hub.of(box), LIFE, f"events of {box}")


def deny(d, box, host):
    """The proxy's 403 (curl's status 22). A connection that meets a daemon which is starting may fail without a decision."""
    def is_denied():
        seen = d.api.run(box, ["curl", "-sS", "-m", "20", "-f", f"http://{host}/"]).expect(200).json
        check(seen["exit_code"] != 0, f"{host} is reached: {seen}")
        return seen["exit_code"] == 22
    wait_for(is_denied, f"{host} is denied", 60)


def denied(hub):
    """What the hub knows to be denied: sandbox and host, each once, although deny() may have asked twice: a decision of a
    worker whose daemon was killed is on record, and its answer may be lost."""
    with hub.lock:
        return sorted({(e["subject"], e["data"]["detail"]["dst_endpoint"]["hostname"]) for e in hub.taken
                       if e["type"] == "dev.sandboxer.egress.denied"})


@test
def denials_are_sent_where_they_are_wanted(c):
    hub = Hub().open()
    try:
        with Daemon(c, config=f"hub: {{url: {hub.url}, timeout: 20s, egress: true}}") as d:
            one, two = (d.create(egress={"allow": ["api.example.com:80"]}) for _ in range(2))
            deny(d, one, "a.example.com")
            wait_for(lambda: denied(hub) == [(one, "a.example.com")], "a denial comes")
            event = next(e for e in hub.taken if e["type"].startswith("dev.sandboxer.egress"))
            equal((event["specversion"], event["data"]["sandbox_id"]), ("1.0", one), "the envelope")
            check(event["id"].startswith(one) and event["time"].endswith("Z"), f"the envelope: {event}")
            hub.moods = [500, 503]
            deny(d, two, "b.example.com")
            want = sorted([(one, "a.example.com"), (two, "b.example.com")])
            wait_for(lambda: denied(hub) == want, "one that was refused at first comes", 60)
            hub.close()
            deny(d, one, "c.example.com")
            d.kill()
            d.start()
            deny(d, two, "d.example.com")
            d.destroy(two)
            before = len(hub.taken)
            hub.open()
            want = sorted([*want, (one, "c.example.com"), (two, "d.example.com")])
            wait_for(lambda: denied(hub) == want, "what was denied while it was away comes", 90)
            known = {e["id"] for e in hub.taken[:before]}
            again = [e for e in hub.taken[before:] if e["type"].startswith("dev.sandboxer.egress") and e["id"] in known]
            check(len(again) <= 1, f"what it has taken comes again: {again}")
    finally:
        hub.close()


@test
def a_restart_in_between_loses_nothing(c):
    with hub_and_daemon(c) as (hub, d):
        hub.always = 503
        first = life(d)
        d.kill()
        d.start()
        second = life(d)
        d.stop()
        hub.always = 200
        d.start()
        wait_for(lambda: all(hub.of(box)[-1:] == LIFE[-1:] for box in (first, second)), "everything comes after restarts", 90)
        for box in (first, second):
            equal(hub.of(box), LIFE, f"events of {box}")


@test
def headers_of_the_operator_are_sent(c):
    hub = Hub().open()
    try:
        headers = c.write("headers", "# for the hub\nAuthorization: Bearer hub-secret\nX-Env: test\n", 0o600)
        with Daemon(c, config=f"hub: {{url: {hub.url}, headers_file: {headers}}}") as d:
            box = life(d)
            wait_for(lambda: hub.of(box)[-1:] == LIFE[-1:], "the hub has everything")
            equal((hub.headers[0]["Authorization"], hub.headers[0]["X-Env"]), ("Bearer hub-secret", "test"), "headers")
            check("hub-secret" not in d.log_path.read_text(), "the log has the secret")
            headers.write_text("Authorization: Bearer next-secret\n")
            d.process.send_signal(signal.SIGHUP)
            wait_for(lambda: hub.of(life(d)) is not None and hub.headers[-1]["Authorization"] == "Bearer next-secret", "the new secret is sent")
            os.chmod(headers, 0o644)
            d.process.send_signal(signal.SIGHUP)
            wait_for(lambda: "hub.reload_failed" in d.log_path.read_text(), "a secret that others can read is refused")
            hub.headers.clear()
            box = life(d)
            wait_for(lambda: hub.of(box)[-1:] == LIFE[-1:], "the hub has everything")
            equal(hub.headers[-1]["Authorization"], "Bearer next-secret", "the secret after a reload that failed")
    finally:
        hub.close()


@test
def headers_that_others_can_read_are_not_used(c):
    headers = c.write("headers", "Authorization: Bearer hub-secret\n", 0o600)
    os.symlink(headers, c.dir / "link")
    d = Daemon(c, config=f"hub: {{url: 'http://127.0.0.1:1/', headers_file: {c.dir / 'link'}}}")
    check(not d.spawn(), "it serves with a link for its secret")
    d.wait()
    os.chmod(headers, 0o640)
    d = Daemon(c, config=f"hub: {{url: 'http://127.0.0.1:1/', headers_file: {headers}}}")
    check(not d.spawn(), "it serves with a secret that others can read")
    d.wait()
    check("hub.headers_file" in d.tail(), f"what it says: {d.tail()}")


main()
