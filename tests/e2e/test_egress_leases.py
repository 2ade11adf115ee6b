#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""One lease per dial: names leave within one budget and on record, uses and dials are counted alike whichever way they are
made, Opens and Closes pair, and sandboxes that share a worker share its descriptors."""

import contextlib
import socket
import struct

from egress_box import ADD, ADDED, Box, listeners, question, read_events
from egress_world import PUBLIC, Namespace, World, answer, echo
from harness import check, equal, main, test, wait_for

BURST, NAMES = 100, 400
ANYBODY = [{"path": "/**"}]


def policy(*endpoints, **entry):
    return {"version": 1, "network_policies": {"web": {"endpoints": list(endpoints), "binaries": ANYBODY, **entry}}}


def opens(events):
    return [e["metadata"]["correlation_uid"] for e in events if e["type_uid"] == 400101 and e["unmapped"].get("adapter") != "dns"]


def closes(events):
    return [e["metadata"]["correlation_uid"] for e in events if e["type_uid"] == 400102]


def leave(box, adapter, name):
    """Asks for a name that does not exist: what comes of it."""
    if adapter == "dns":
        return box.send_query(question(name)).rcode
    if adapter == "connect":
        return box.raw(f"CONNECT {name}:80 HTTP/1.1\r\nHost: {name}:80\r\n\r\n").status
    return box.raw(f"GET http://{name}/ HTTP/1.1\r\nHost: {name}\r\n\r\n").status


@test(seconds=120)
def names_leave_from_one_budget_and_on_record(c):
    with World() as w, Box(w, c, policy({"host": "*.wild.example.com", "port": 80})) as box:
        came = {leave(box, ("connect", "forward", "dns")[number % 3], f"n{number}.wild.example.com") for number in range(NAMES)}
        left = {name for name, _ in w.dns.asked}
        events = box.events()
        check(BURST <= len(left) < NAMES, f"{len(left)} of {NAMES} names left")
        equal({e["query"]["hostname"] for e in events if e["class_uid"] == 4003}, left, "names on record and names that left")
        equal(came, {429, 502, "NXDOMAIN", "SERVFAIL"}, "answers")
        wait_for(lambda: any(e.get("status_code") in ("lookup_limit", "more_denials") for e in box.events()),
                 "the reason is on record, or counted with others")


@test
def an_endpoint_without_a_host_lets_no_name_leave(c):
    with World() as w, Box(w, c, policy({"port": 80, "allowed_ips": ["93.184.216.0/24"]})) as box:
        w.http(PUBLIC, 80)
        w.dns.names["secret.attacker.test"] = [PUBLIC]
        for adapter in ("connect", "forward", "dns"):
            leave(box, adapter, "secret.attacker.test")
        equal(w.dns.asked, [], "names that left")
        codes = {e["unmapped"]["adapter"]: e["status_code"] for e in box.events() if e.get("action_id") == 2}
        equal(codes, {"connect": "policy_denied", "forward": "policy_denied", "dns": "policy_denied"}, "reasons on record")
        equal(box.raw(f"GET http://{PUBLIC}/ HTTP/1.1\r\nHost: {PUBLIC}\r\nConnection: close\r\n\r\n").status, 200, "an address")


def once(connection, hear):
    """Answers a request and closes."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = hear()
        if not more:
            return
        data += more
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")


def request_again(client, host):
    """The status of one request on a kept connection to the proxy; 0 if it is closed."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        client.send(f"GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n")
        found = client.head()
        if found.status == 200:
            client.exactly(2)
        return found.status
    return 0


@test
def each_dial_of_a_forward_connection_is_a_use_with_open_and_close(c):
    host = "api.example.com"
    with World() as w, Box(w, c, policy({"host": host, "port": 80}, uses=5)) as box:
        w.dns.names[host] = [PUBLIC]
        origin = w.origin(PUBLIC, 80, once)
        statuses = []
        for _ in range(10):
            with box.open() as client:
                while (status := request_again(client, host)) == 200:
                    statuses.append(status)
                statuses.append(status)
        equal(statuses.count(200), 5, "requests that passed")
        equal(origin.connections, 5, "dials")
        wait_for(lambda: len(closes(box.events())) == 5, "the last Close")
        equal(sorted(opens(box.events())), sorted(closes(box.events())), "uids of Opens and Closes")
        equal(len(set(opens(box.events()))), 5, "different uids")
        check(any(e.get("status_code") == "uses_spent" for e in box.events()), "the reason is on record")


REST = {"host": "rest.example.com", "port": 80, "protocol": "rest", "rules": [{"allow": {"method": "GET", "path": "/ok"}}]}


@test(seconds=120)
def opens_dials_and_closes_are_as_many(c):
    """By every way, with requests that are denied, new policies in between, and destinations that do not listen."""
    both = policy(REST, {"host": "api.example.com", "ports": [80, 9999]})
    with World() as w, Box(w, c, both) as box:
        w.dns.names.update({"rest.example.com": [PUBLIC], "api.example.com": [PUBLIC]})
        origin = w.origin(PUBLIC, 80, answer())
        kept = [box.tunnel("api.example.com:80")[0] for _ in range(5)]
        captured = box.ask("api.example.com").addresses[0]
        for turn in range(30):
            path = "/no" if turn % 3 else "/ok"
            box.raw(f"GET http://rest.example.com{path} HTTP/1.1\r\nHost: rest.example.com\r\nConnection: close\r\n\r\n")
            if turn % 5 == 0:
                box.set_policy(both)
            if turn % 10 == 0:
                box.raw("CONNECT api.example.com:9999 HTTP/1.1\r\nHost: api.example.com:9999\r\n\r\n")
            with box.dial(captured, 80) as client:
                client.send("GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n").head()
        for client in kept:
            client.send("GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n")
            equal(client.head().status, 200, "a connection that was open all the time")
            client.close()
        wait_for(lambda: len(closes(box.events())) == len(opens(box.events())), "every connection is closed")
        events = box.events()
        equal(sorted(opens(events)), sorted(closes(events)), "uids of Opens and Closes")
        unreachable = sum(e["type_uid"] == 400102 and e.get("status_detail") == "unreachable" for e in events)
        equal(unreachable, 3, "dials that nothing answered")
        equal(len(opens(events)), origin.connections + unreachable, "Opens and dials")


# ---- boxes that share a worker -------------------------------------------------------------------------


class Neighbour:
    """One more box of a worker: its proxy, in a network of its own."""

    def __init__(self, box, number):
        self.id = f"sbx_neighbour{number}"
        self.audit = box.caller.dir / f"{self.id}.jsonl"
        self.namespace = Namespace()
        self.namespace.ip("link set lo up")
        sockets = self.namespace.run(listeners)
        self.box, self.clients = box, []
        with open(self.audit, "ab") as audit:
            body = struct.pack("=32sIIQQQ32s32sII", self.id.encode(), (1 << len(sockets)) - 1, 1, 0, 0, 0, b"", b"", 0, 0)
            box.send(ADD, body, [*(s.fileno() for s in sockets), audit.fileno()])
        for each in sockets:
            each.close()
        box.wait(ADDED)
        box.set_policy_of(self.id, box.policy)

    def start(self, authority):
        client = self.namespace.run(lambda: socket.create_connection(("127.0.0.1", 3128), 20))
        client.sendall(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
        self.clients.append(client)
        return client

    def events(self):
        return read_events(self.audit)

    def waits(self):
        return any(e.get("status_code") == "connection_limit" for e in self.events())

    def fill(self, authority, most):
        """As many connections as it gets."""
        for _ in range(most):
            self.start(authority)
            if self.waits():
                return
        wait_for(self.waits, "connections wait for the box's share")

    def close(self):
        for client in self.clients:
            client.close()
        self.namespace.close()


class Shared(Box):
    """A worker with few descriptors."""

    def __init__(self, world, caller, document, files):
        super().__init__(world, caller, document)
        self.files, self.neighbours = files, []

    def command(self, argv):
        return ["prlimit", f"--nofile={self.files}:{self.files}", *argv]

    def join(self):
        self.neighbours.append(Neighbour(self, len(self.neighbours)))
        return self.neighbours[-1]

    def __exit__(self, *what):
        for each in self.neighbours:
            each.close()
        super().__exit__(*what)


FILES = 700


def serves(box, authority):
    """Twenty tunnels, one after the other, each of which carries bytes."""
    for _ in range(20):
        with box.start(authority) as client:
            check(client.recv(64).startswith(b"HTTP/1.1 200"), "a tunnel of the box that is not greedy")
            client.sendall(b"x")
            equal(client.recv(1), b"x", "a byte comes back")


@test(seconds=120)
def greedy_boxes_leave_others_their_share(c):
    with World() as w, Shared(w, c, policy({"host": PUBLIC, "port": 7}), FILES) as box:
        w.origin(PUBLIC, 7, echo)
        boxes = [box.join() for _ in range(7)]
        for greedy in boxes[:6]:
            greedy.fill(f"{PUBLIC}:7", FILES)
        serves(boxes[6], f"{PUBLIC}:7")


@test(seconds=120)
def a_box_that_comes_late_gets_its_share(c):
    """Each of the others has filled what was its share when it came."""
    with World() as w, Shared(w, c, policy({"host": PUBLIC, "port": 7}), FILES) as box:
        w.origin(PUBLIC, 7, echo)
        for _ in range(6):
            box.join().fill(f"{PUBLIC}:7", FILES)
        serves(box.join(), f"{PUBLIC}:7")
        first = box.neighbours[0]
        wait_for(lambda: any(e.get("status_detail") == "share" for e in first.events()), "its oldest connections are closed, on record")


main()
