#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Names looked up at a real DNS server, unbound, which has zones of its own and asks nobody."""

import ipaddress
import shutil

from egress_box import Box
from egress_world import PUBLIC, PUBLIC6, PUBLIC_TOO, World, echo
from harness import Skip, check, equal, main, test, wait_for

PORT = 5300
LONG = "l" * 63 + ".wild.example.com"
MANY, TOO_MANY = (17, 40, 200), 1000  # addresses of one name
POLICY = """
version: 1
network_policies:
  api:
    endpoints:
      - {host: api.example.com, port: 7}
      - {host: "*.wild.example.com", port: 7}
    binaries: [{path: /**}]
"""
CONFIGURATION = """
server:
    interface: {address}
    port: {port}
    access-control: 0.0.0.0/0 allow
    do-daemonize: no
    username: ""
    chroot: ""
    pidfile: ""
    directory: "{directory}"
    use-syslog: no
    logfile: "{log}"
    log-queries: yes
    verbosity: 1
    num-threads: 1
    module-config: "iterator"
    max-udp-size: 512
    local-zone: "example.com." static
    local-data: "example.com. 60 IN SOA ns.example.com. me.example.com. 1 3600 600 86400 60"
    local-data: "api.example.com. 60 IN A {public}"
    local-data: "once.wild.example.com. 0 IN A {public}"
    local-data: "inside.wild.example.com. 60 IN A {public}"
    local-data: "inside.wild.example.com. 60 IN A 10.0.0.1"
    local-data: "{long}. 60 IN A {public}"
"""


def addresses(n):
    """All at the place of the one that answers."""
    return [PUBLIC] + [str(ipaddress.ip_address(PUBLIC) + 256 + i) for i in range(1, n)]


class Server:
    """The server, and the questions that it was asked."""

    def __init__(self, world, caller):
        program = shutil.which("unbound", path="/usr/sbin:/usr/bin:/sbin:/bin")
        if not program:
            raise Skip("no unbound (Debian: unbound)")
        self.log = caller.dir / "unbound.log"
        text = CONFIGURATION.format(address=PUBLIC_TOO, port=PORT, directory=caller.dir, log=self.log, public=PUBLIC,
                                    long=LONG)
        text += "".join(f'    local-data: "many{n}.wild.example.com. 60 IN A {address}"\n' for n in (*MANY, TOO_MANY) for address in addresses(n))
        text += "".join(f'    local-data: "{LONG}. 60 IN AAAA 2606:2800:220:1::{i:x}"\n' for i in range(1, 17))
        configuration = caller.write("unbound.conf", text)
        self.process = world.outside.run(lambda: caller.start([program, "-d", "-c", configuration]))
        wait_for(lambda: "start of service" in self.said(), "unbound serves")

    def said(self):
        check(self.process.poll() is None, "unbound ended")
        return self.log.read_text(encoding="utf-8") if self.log.exists() else ""

    def asked(self, name):
        """The types, in their order: its names are written as they were asked."""
        lines = [line.split() for line in self.said().lower().splitlines()]
        return [line[-2] for line in lines if line[-1] == "in" and line[-3] == name + "."]

    def spelt(self, name):
        """In which letters."""
        lines = [line.split() for line in self.said().splitlines()]
        return {line[-3] for line in lines if line[-1] == "IN" and line[-3].lower() == name + "."}


@test
def names_are_resolved_and_kept_as_a_real_server_says(c):
    with World() as w:
        server = Server(w, c)
        w.origin(PUBLIC, 7, echo)
        proxy = w.proxy(c, POLICY, "--resolver", f"{PUBLIC_TOO}:{PORT}")

        def connects(name, status, again=()):
            """Twice: what of it is asked for the second time?"""
            equal(proxy.connect(f"{name}:7").status, status, name)
            first = server.asked(name)
            equal(set(first), {"a", "aaaa"}, f"questions for {name}")
            equal(proxy.connect(f"{name}:7").status, status, name)
            equal(set(server.asked(name)[len(first):]), set(again), f"questions for {name}, the second time")

        def connects_again(name):
            """Of no time to live a second is made, so that connections do not use up the lookups of a sandbox."""
            equal(proxy.connect(f"{name}:7").status, 200, name)
            first = len(server.asked(name))
            wait_for(lambda: proxy.connect(f"{name}:7").status == 200 and len(server.asked(name)) > first, f"{name} is asked for again")
        connects("api.example.com", 200)
        connects_again("once.wild.example.com")
        connects("nothing.wild.example.com", 502)  # for as long as the SOA record says
        connects("inside.wild.example.com", 403)  # one of two addresses is enough
        connects(LONG, 200)
        check(server.asked(LONG).count("aaaa") > 1, "it is not asked for over TCP as well, and 512 bytes do not hold it")
        spelt = server.spelt(LONG)
        check(len(spelt) == len(server.asked(LONG)) and LONG + "." not in spelt, f"the name is written in random letters: {spelt}")


@test
def a_name_may_have_many_addresses(c):
    """Over TCP, as they do not fit a datagram. More than can be checked are not used, and the record says so."""
    with World() as w:
        Server(w, c)
        w.origin("0.0.0.0", 7, echo)
        w.outside.ip("route add local 93.184.217.0/24 dev lo")  # the order of addresses is the server's
        proxy = w.proxy(c, POLICY, "--resolver", f"{PUBLIC_TOO}:{PORT}")
        for n in MANY:
            equal(proxy.connect(f"many{n}.wild.example.com:7").status, 200, f"a name with {n} addresses")
        equal(proxy.connect(f"many{TOO_MANY}.wild.example.com:7").status, 502, "a name with too many addresses")
        check("unusable answer" in proxy.audit.read_text(encoding="utf-8"), "the reason is on record")


FAULTS = "SERVFAIL", "REFUSED", "DROP", "NXDOMAIN"


@test(seconds=120)
def a_family_that_fails_leaves_the_other(c):
    """By CONNECT and by policy DNS, which has no address of the family that failed."""
    policy = {"version": 1, "network_policies": {"a": {"endpoints": [{"host": "*.wild.example.com", "port": 7}], "binaries": [{"path": "/**"}]}}}
    with World() as w, Box(w, c, policy) as box:
        w.origin(PUBLIC, 7, echo)
        w.origin(PUBLIC6, 7, echo)
        for fault in FAULTS:
            four, six = f"four-{fault}.wild.example.com".lower(), f"six-{fault}.wild.example.com".lower()
            w.dns.names[four] = {"A": [PUBLIC], "AAAA": fault}
            w.dns.names[six] = {"A": fault, "AAAA": [PUBLIC6]}
            for name in (four, six):
                client, found = box.tunnel(f"{name}:7")
                with client:
                    equal(found.status, 200, name)
                    equal(client.send(b"x").exactly(1), b"x", f"a byte of {name}")
                replies = {kind: box.ask(name, kind) for kind in ("A", "AAAA")}
                equal({reply.rcode for reply in replies.values()}, {"NOERROR"}, f"answers for {name}")
                check(any(reply.addresses for reply in replies.values()), f"no address of {name}")


@test
def refused_and_reverse_names_do_not_exist(c):
    """A resolver that hears so ends; at any other refusal musl waits for five seconds, and glibc reports a temporary failure."""
    policy = {"version": 1, "network_policies": {"a": {"endpoints": [{"host": "api.example.com", "port": 7}, {"host": "*.wild.example.com", "port": 7}],
                                                       "binaries": [{"path": "/**"}]}}}
    with World() as w, Box(w, c, policy) as box:
        w.dns.names.update({"api.example.com": [PUBLIC], "mixed.wild.example.com": [PUBLIC, "10.0.0.1"]})
        synthetic = box.ask("api.example.com").addresses[0]
        asked = len(w.dns.asked)
        for name, kind in (("denied.example.org", "A"), ("denied.example.org", "AAAA"), (ipaddress.ip_address(synthetic).reverse_pointer, "PTR"),
                           ("34.216.184.93.in-addr.arpa", "PTR")):
            equal(box.ask(name, kind).rcode, "NXDOMAIN", f"{kind} of {name}")
        equal(w.dns.asked[asked:], [], "names that left")
        equal(box.ask("mixed.wild.example.com").rcode, "NXDOMAIN", "a name with an address that is refused")


main()
