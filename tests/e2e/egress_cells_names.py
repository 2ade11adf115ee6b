# SPDX-License-Identifier: Apache-2.0
"""Cells of the table of attacks: destinations and names (cases 1 to 23)."""

import contextlib
import functools
import select
import socket
import struct
import time

from egress_box import FAILED, RCODES, question
from egress_cases import API, CASES, REFUSED, get, hello
from egress_trial import ADAPTERS, ANYBODY, OWN, POLICY, cell, lying, reaches, run_probes, send_address, send_place, wire
from egress_world import PUBLIC, PUBLIC6
from harness import Failure, check, equal, wait_for


def foreign_hello(t):
    """The way of a name that is spelt with a dot: the hello is held against the name without one."""
    client, found = t.box.tunnel(API + ".:443")
    equal(found.status, 200, "status")
    with client:
        return client.send(hello("other.example.com")).closed()


@cell(1, "connect")
def dot_by_connect(t, _):
    equal(foreign_hello(t) in REFUSED, True, "a foreign hello is refused")
    client, found = t.box.tunnel("API.Example.COM.:443")
    equal(found.status, 200, "status")
    equal(t.names(), {API}, "names asked for")
    with client:
        client.send(hello())
        wait_for(lambda: t.origin443.bytes.endswith(hello()[-20:]) or t.news(), "the hello arrives")
    client, found = t.box.tunnel("api.example.com..:443")
    client.close()
    equal(found.status, 400, "two dots")
    return "as without"


@cell(1, "forward")
def dot_by_forward(t, _):
    for path, status in (("/ok", 200), ("/secret/x", 403)):
        found = t.box.raw(f"GET http://api.example.com.{path} HTTP/1.1\r\nHost: api.example.com.\r\n"
                          "Connection: close\r\n\r\n")
        equal(found.status, status, path)
    check(b"Host: api.example.com\r\n" in t.news(), f"one form upstream: {t.news()!r}")
    check(t.names() <= {API}, f"names asked for, unless known by that name: {t.names()}")
    return "as without"


@cell(1, "transparent")
def dot_by_capture(t, _):
    with t.box.capture(API, 80) as client:
        found = client.send(b"GET /secret/x HTTP/1.1\r\nHost: api.example.com.\r\n\r\n").rest()
    equal(found.status, 403, "a dot in Host")
    with t.box.capture(API, 443) as client:
        check(client.send(hello("other.example.com")).closed() in REFUSED, "a foreign hello")
    t.silent({API})
    return "as without"


def ports_by_capture(t):
    address = t.box.ask(API).addresses[0]
    seen = {send_address(t, None, (address, port)) for port in (25, 22, 9999, 2379, 2380, 6443, 10250, 10255, 444, 1)}
    check(seen <= set(REFUSED), f"ended: {seen}")
    t.silent({API})


CONTROL_PLANE = (2379, 2380, 6443, 10250, 10255)


def ends_at(t, adapter, port):
    if adapter != "transparent":
        return send_place(t, adapter, f"{API}:{port}")
    return send_address(t, None, (t.box.ask(API).addresses[0], port))


@cell(12, "connect", "forward", "transparent")
def ports_of_control_planes(t, adapter):
    """No policy can list them; one for all public addresses on every port does not have them either."""
    if adapter == "transparent":
        ports_by_capture(t)
    for port in CONTROL_PLANE:
        for ports in ({"port": port}, {"ports": [443, port]}):
            t.box.set_policy({"version": 1, "network_policies": {"a": {"endpoints": [{"host": API, **ports}], **ANYBODY}}},
                             answer=FAILED)
        check(ends_at(t, adapter, port) in (403, *REFUSED), f"port {port} after a policy that lists it")
    t.silent({API})
    t.box.set_policy({**POLICY, "unlisted": {"access": "public"}})
    seen = {ends_at(t, adapter, port) for port in CONTROL_PLANE}
    check(seen <= {403, *REFUSED} and not t.news(), f"on every port: {seen}, {t.news()!r}")
    with t.box.dial("127.0.0.1", 3128) if adapter != "transparent" else t.box.dial(PUBLIC, 7) as client:
        if adapter == "connect":
            check(client.send(f"CONNECT {PUBLIC}:7 HTTP/1.1\r\nHost: {PUBLIC}:7\r\n\r\n").head().status == 200, "another port")
        elif adapter == "forward":
            check(client.send(f"GET http://{PUBLIC}/ HTTP/1.1\r\nHost: {PUBLIC}\r\n\r\n").head().status == 200, "another port")
        else:
            check(client.send(b"ping").exactly(4) == b"ping", "another port")
    t.box.set_policy(POLICY)
    return f"listed {len(CONTROL_PLANE)} times: no policy; on every port: " + " ".join(sorted(map(str, seen)))


@cell(14, "forward")
def targets_by_forward(t, adapter):
    return run_probes(t, next(case for case in CASES if case.number == 45), adapter)


MIXED = ([PUBLIC, "10.0.0.1"], [PUBLIC, "fe80::1"], [PUBLIC, "127.0.0.1"], ["::1"], ["0.0.0.0"], ["::ffff:127.0.0.1"],
         [PUBLIC, "64:ff9b::7f00:1"], [PUBLIC, "10.77.0.1"], [PUBLIC, OWN], ["100.64.0.1"], ["192.168.1.1", PUBLIC])


def crowd(query, addresses, six=0):
    """An answer with all these A records; to AAAA, one with this code."""
    end = query.index(b"\0", 12) + 5
    if query[end - 4:end - 2] != b"\0\1":
        return query[:2] + struct.pack("!HHHHH", 0x8180 | six, 1, 0, 0, 0) + query[12:end]
    found = [b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 60, 4) + socket.inet_aton(a) for a in addresses]
    return query[:2] + struct.pack("!HHHHH", 0x8180, 1, len(found), 0, 0) + query[12:end] + b"".join(found)


def crowded_answers(t, adapter):
    """Of many addresses the first are used and all are checked; a family that fails is one without addresses."""
    base = f"{adapter}.wild.example.com"
    chains = {f"forty-{base}": ([PUBLIC] * 40, 0), f"last-{base}": ([PUBLIC] * 39 + ["10.0.0.1"], 0),
              f"six2-{base}": ([PUBLIC], 2), f"six5-{base}": ([PUBLIC], 5)}
    with lying(t, {name: functools.partial(crowd, addresses=addresses, six=six) for name, (addresses, six) in chains.items()}):
        t.refused(adapter, f"last-{base}", 7)
        check(not t.news(), f"got out: {t.news()!r}")
        for name in chains:
            check(name.startswith("last") or reaches(t, adapter, name), f"{name} is refused")
    t.mark()


@cell(15, *ADAPTERS)
def mixed_answers(t, adapter):
    crowded_answers(t, adapter)
    seen = []
    for number, addresses in enumerate(MIXED):
        name = f"mixed{number}{adapter}.wild.example.com"
        t.world.dns.names[name] = addresses
        seen.append(t.refused(adapter, name, 443))
    check(not t.news(), f"got out: {t.news()!r}")
    return " ".join(sorted(set(seen)))


def has_moved(t, adapter, name, port):
    """Whether a name is refused by now: what was found is kept for a second at least."""
    with contextlib.suppress(Failure):
        return t.refused(adapter, name, port)
    return None


@cell(16, "connect", "forward", "transparent")
def rebinding(t, adapter):
    name = f"rebind{adapter}.wild.example.com"
    t.world.dns.names[name] = [[PUBLIC], ["127.0.0.1"]]
    if adapter != "transparent":  # whose mapping is to outlive the connection
        t.world.dns.ttls[name] = 0
    if adapter == "forward":
        found = t.box.raw(f"GET http://{name}/ok HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n")
        equal(found.status, 200, "the first")
    else:
        with t.raw(adapter, name, 7) as client:
            equal(client.send(b"one").exactly(3), b"one", "the first")
    asked = [kind for asked, kind in t.world.dns.asked[t.asked:] if asked == name]
    equal(sorted(asked), ["A", "AAAA"], "questions")
    if adapter == "transparent":  # the mapping holds what was checked
        with t.raw(adapter, name, 7) as client:
            equal(client.send(b"two").exactly(3), b"two", "the second")
        return "pinned"
    wait_for(lambda: has_moved(t, adapter, name, 7), "the name is looked up again")
    return f"one lookup, then {t.refused(adapter, name, 7)}"


@cell(17, "connect", "transparent")
def kept_tunnels(t, adapter):
    """Requests for another name on a kept connection do not reach the first one's origin."""
    with t.http(adapter) as client:
        client.send(wire(adapter, get()))
        equal(client.head().status, 200, "the first")
        client.exactly(6)
        t.mark()
        client.send(b"GET /ok HTTP/1.1\r\nHost: other.wild.example.com\r\n\r\n")
        equal(client.head().status, 403, "another host on it")
    t.silent()
    return "403"


@cell(17, "forward")
def kept_forward(t, adapter):
    """The connection to one origin is not used for another, nor by a name that has moved."""
    name = "moved.wild.example.com"
    t.world.dns.names[name] = [[PUBLIC], ["10.0.0.1"]]
    t.world.dns.ttls[name] = 0
    with t.http(adapter) as client:
        ask = f"GET http://{name}/ok HTTP/1.1\r\nHost: {name}\r\n\r\n"
        client.send(ask)
        equal(client.head().status, 200, "the first")
        client.exactly(6)
        before = t.origin80.connections
        client.send(wire(adapter, get()))
        equal(client.head().status, 200, "another host")
        client.exactly(6)
        equal(t.origin80.connections, before + 1, "connections")
        wait_for(lambda: has_moved(t, "connect", name, 7), "the name is looked up again")
        equal(client.send(ask).rest().status, 403, "the first again, which points inside by now")
    return "new connection, 403"


def alias(query, names, address):
    """An answer that leads from the name asked for over others to an address."""
    end = query.index(b"\0", 12) + 1
    kind, owner, found = query[end:end + 2], query[12:end], []
    for name in names:
        target = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"
        found.append(owner + struct.pack("!HHIH", 5, 1, 60, len(target)) + target)
        owner = target
    if address and kind == b"\0\1":
        found.append(owner + struct.pack("!HHIH", 1, 1, 60, 4) + socket.inet_aton(address))
    return query[:2] + struct.pack("!HHHHH", 0x8180, 1, len(found), 0, 0) + query[12:end + 4] + b"".join(found)


@cell(18, *ADAPTERS)
def aliases(t, adapter):
    """Where a chain ends decides; what has no end, or is too long, is nothing."""
    base = f"{adapter}.wild.example.com"
    chains = {f"inside-{base}": (["internal.example"], "192.168.0.1"), f"self-{base}": ([f"self-{base}"], PUBLIC),
              f"loop-{base}": (["a.example", f"loop-{base}"], PUBLIC), f"metadata-{base}": (["m.example"], "169.254.169.254"),
              f"long-{base}": ([f"c{i}.example" for i in range(9)], PUBLIC), f"own-{base}": (["own.example"], OWN),
              f"good-{base}": ([f"c{i}.example" for i in range(8)], PUBLIC), f"none-{base}": (["n.example"], None)}
    with lying(t, {name: functools.partial(alias, names=names, address=address)
                   for name, (names, address) in chains.items()}):
        seen = {t.refused(adapter, name, 7) for name in chains if not name.startswith("good")}
        check(not t.news(), f"got out: {t.news()!r}")
        check(reaches(t, adapter, f"good-{base}"), "a public address behind aliases is refused")
    check(t.names() <= set(chains), f"was asked for: {t.names()}")
    return " ".join(sorted(seen))


def forge(kind, query):
    """A wrong answer to a query."""
    end = 12
    while query[end]:
        end += 1 + query[end]
    asked, address = query[12:end + 5], socket.inet_aton(PUBLIC)
    one = struct.pack("!HHHHH", 0x8180, 1, 1, 0, 0)
    record = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 60, 4) + address
    other = b"\4evil\7example\0"
    return {
        "id": bytes([query[0] ^ 1]) + query[1:2] + one + asked + record,
        "question": query[:2] + one + other + asked[-4:] + record,
        "owner": query[:2] + one + asked + other + record[2:],
        "length": query[:2] + one + asked + record[:10] + b"\0\3" + address[:3],
        "loop": query[:2] + one + b"\xc0\x0c" + asked[-4:] + record,
        "owner loop": query[:2] + one + asked + bytes([0xc0, 12 + len(asked)]) + record[2:],
        "cut": (query[:2] + one + asked + record)[:-2],
        "no answer bit": query[:2] + struct.pack("!HHHHH", 0x0100, 1, 1, 0, 0) + asked + record,
        "count": query[:2] + struct.pack("!HHHHH", 0x8180, 1, 65535, 65535, 65535) + asked + record,
        "empty": b"",
        "truncated": query[:2] + b"\x83\x80" + query[4:],
    }[kind]


FORGERIES = ("id", "question", "owner", "length", "loop", "owner loop", "cut", "no answer bit", "count", "empty",
             "truncated")


@cell(20, *ADAPTERS)
def forged_answers(t, adapter):
    """None is believed. A name is asked for again after a while, so all adapters wait together."""
    if not t.forged:
        wanted = {(f"f{i}{a}.wild.example.com", a): kind for i, kind in enumerate(FORGERIES) for a in ADAPTERS}
        with lying(t, {name: functools.partial(forge, kind) for (name, _), kind in wanted.items()}):
            clients = {(name, a): wait_for(lambda a=a, name=name: ask_to_leave(t, a, name), f"{name} leaves") for name, a in wanted}
            for key, client in clients.items():
                t.forged.setdefault(key[1], set()).add(finish_asking(key[1], client, f"{wanted[key]} forgery"))
    check(not t.news(), f"got out: {t.news()!r}")
    return " ".join(sorted(t.forged[adapter]))


def start_asking(t, adapter, name):
    if adapter in ("dns", "transparent"):
        query = question(name)
        client = t.box.dial("127.0.0.1", 53)
        return client.send(struct.pack("!H", len(query)) + query)
    client = t.box.open()
    line = f"CONNECT {name}:7" if adapter == "connect" else f"GET http://{name}:7/"
    return client.send(f"{line} HTTP/1.1\r\nHost: {name}:7\r\n\r\n")


def ask_to_leave(t, adapter, name):
    """A client whose name was asked for upstream; None if that was beyond the sandbox's rate of lookups."""
    def has_left():
        return any(asked == name for asked, _ in t.world.dns.asked)
    client = start_asking(t, adapter, name)
    wait_for(lambda: has_left() or select.select([client.socket], [], [], 0)[0], f"{name} is looked up or refused")
    if has_left():
        return client
    client.close()
    return None


def finish_asking(adapter, client, what):
    client.socket.settimeout(25)
    with client:
        if adapter in ("dns", "transparent"):
            size = client.exactly(2)
            data = client.exactly(struct.unpack("!H", size)[0])
            check(data[3] & 15 in (2, 3) or data[6:8] == b"\0\0", f"{what}: {data!r}")
            return RCODES[data[3] & 15]
        status = client.rest().status
        check(status in (403, 502, 504), f"{what}: {status}")
        return str(status)


@cell(21, "connect", "forward", "transparent")
def hosts_file(t, adapter):
    """The worker resolves by its own server and opens no file of the sandbox: it cannot open any."""
    with open(f"/proc/{t.box.process.pid}/status", encoding="utf-8") as status:
        check("Seccomp:\t2" in status.read(), "the worker is not confined")
    found = t.box.raw(f"CONNECT {API}:443 HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n") if adapter == "connect" else None
    if found:
        equal(found.status, 400, "an address of the sandbox's own in Host")
    if adapter == "transparent":  # what the edited file makes a program dial
        check(send_address(t, None, ("10.0.0.1", 443)) in REFUSED, "10.0.0.1 is dialled")
    t.silent({API})
    return "no effect"


def answer_for(query, address, ttl):
    end = query.index(b"\0", 12) + 5
    records = [b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, ttl, 4) + socket.inet_aton(address)]
    records = records if query[end - 4:end - 2] == b"\0\1" else []
    return query[:2] + struct.pack("!HHHHH", 0x8180, 1, len(records), 0, 0) + query[12:end] + b"".join(records)


@cell(22, "transparent")
def synthetic_addresses(t, _):
    address = t.box.ask(API).addresses[0]
    neighbour = address.rsplit(".", 1)[0] + "." + str((int(address.rsplit(".", 1)[1]) + 77) % 250 + 1)
    seen = [send_address(t, None, place) for place in ((address, 9999), (neighbour, 443), ("198.19.255.254", 443))]
    six = t.box.ask(API, "AAAA").addresses
    seen += [send_address(t, None, (six[0], 9999)), send_address(t, None, (six[0][:-1] + ("d" if six[0].endswith("e") else "e"), 443))] if six else []
    check(set(seen) <= {"reset"}, f"ended: {seen}")
    with lying(t, {"short.wild.example.com": lambda query: answer_for(query, PUBLIC, 0)}):
        short = t.box.ask("short.wild.example.com").addresses[0]
        with t.box.dial(short, 7) as client:
            equal(client.send(b"x").exactly(1), b"x", "at once")
        time.sleep(3.1)
        with t.box.dial(short, 7) as client:
            equal(client.send(b"y").exactly(1), b"y", "after its time, by its name")
    with lying(t, {"short.wild.example.com": lambda query: answer_for(query, "10.0.0.1", 0)}):
        t.mark()
        equal(send_address(t, None, (short, 7)), "reset", "after its name has moved")
        equal(send_address(t, None, (short, 9999)), "reset", "on another port")
        t.silent({"short.wild.example.com", API})
    with lying(t, {"short.wild.example.com": lambda query: answer_for(query, PUBLIC, 0)}):
        check(t.box.ask("short.wild.example.com").addresses[0] == short, "another address for a known name")
    t.box.set_policy({"version": 1, "network_policies": {}})
    t.mark()
    check(send_address(t, None, (address, 443)) in REFUSED, "an address that the new policy has not is dialled")
    t.silent()
    t.box.set_policy(POLICY)
    with t.box.capture("raw.example.com", 7) as client:
        client.send(b"z").exactly(1)
    t.box.set_policy(POLICY)
    raw = t.box.ask("raw.example.com").addresses[0]
    t.box.set_policy(POLICY)
    with t.box.dial(raw, 7) as client:
        equal(client.send(b"z").exactly(1), b"z", "an address of the policy before, under one that has its name")
    equal(t.box.ask(API).addresses[0], address, "the address of a known name")
    check(t.box.ask("raw.example.com").addresses[0] != address, "an address is given twice")
    return "reset"


@cell(22, "dns")
def synthetic_answers(t, _):
    first = {t.box.ask(name).addresses[0] for name in (API, "raw.example.com", "insp.example.com")}
    equal(len(first), 3, "addresses of three names")
    check(all(address.startswith(("198.18.", "198.19.")) for address in first), f"answers: {first}")
    return "never twice"


@cell(23, "dns")
def other_resolvers(t, adapter):
    """Whatever server is asked, ours answers; what may not be asked gets out by none."""
    names = [t.box.ask("c2VjcmV0.attacker.test", kind, server).rcode for server in ("8.8.8.8", "93.184.216.53", "::1",
             "2001:4860:4860::8888") for kind in ("A", "AAAA", "TXT", "SVCB", "HTTPS", "ANY")]
    check(set(names) <= {"NXDOMAIN", "NOTIMP"}, f"answers: {names}")
    for server in ("8.8.8.8", "2001:4860:4860::8888"):
        equal(t.box.ask_tcp(question("c2VjcmV0.attacker.test"), server).rcode, "NXDOMAIN", f"over TCP at {server}")
        equal(t.box.ask_tcp(question(API), server).addresses, t.box.ask(API).addresses, f"the answer over TCP at {server}")
    for kind in ("HTTPS", "SVCB"):  # which could name another port, address or protocol
        reply = t.box.ask(API, kind)
        equal((reply.rcode, reply.data[6:12]), ("NOERROR", bytes(6)), f"{kind} records")
    for address in (PUBLIC, PUBLIC6):
        for port in (5353, 853, 443, 123):
            try:
                t.box.datagram(b"x", address, port)
                raise Failure(f"UDP port {port} of {address} takes a datagram")
            except PermissionError:
                pass
    t.silent({API})
    return "NXDOMAIN, EPERM"


@cell(23, "transparent")
def dials_are_on_record(t, adapter):
    time.sleep(1.1)  # of a flood only kinds are recorded, and a flood is what came before
    places = [("93.184.216.34", 443), ("8.8.8.8", 853), ("10.1.2.3", 22), ("2606:2800:220:1::34", 443)]
    places += [(t.box.ask(API, kind).addresses[0], 853) for kind in ("A", "AAAA")]  # DNS over TLS, to a name's address
    equal({send_address(t, adapter, place) for place in places}, {"reset"}, "ends")
    recorded = {(e.get("dst_endpoint", {}).get("ip"), e.get("dst_endpoint", {}).get("port")) for e in t.box.events()
                if e.get("action_id") == 2}
    check(any(e.get("dst_endpoint", {}).get("hostname") == API and e["dst_endpoint"].get("port") == 853
              for e in t.box.events()), "DNS over TLS to a name is not on record")
    places = [place for place in places if not place[0].startswith(("198.1", "fd73:"))]  # known by their names
    check(set(places) <= recorded, f"not on record: {set(places) - recorded}")
    return "on record"
