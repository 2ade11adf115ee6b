#!/usr/bin/env python3
# parallel
"""Names looked up at a real DNS server, unbound, which has zones of its own and asks nobody."""

import shutil

from egress_world import PUBLIC, PUBLIC_TOO, World, echo
from harness import Skip, check, equal, main, test, wait_for

PORT = 5300
LONG = "l" * 63 + ".wild.example.com"
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


class Server:
    """The server, and the questions that it was asked."""

    def __init__(self, world, caller):
        program = shutil.which("unbound", path="/usr/sbin:/usr/bin:/sbin:/bin")
        if not program:
            raise Skip("no unbound (Debian: unbound)")
        self.log = caller.dir / "unbound.log"
        text = CONFIGURATION.format(address=PUBLIC_TOO, port=PORT, directory=caller.dir, log=self.log, public=PUBLIC,
                                    long=LONG)
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
        connects("api.example.com", 200)
        connects("once.wild.example.com", 200, again=("a", "aaaa"))  # good for no time
        connects("nothing.wild.example.com", 502)  # for as long as the SOA record says
        connects("inside.wild.example.com", 403)  # one of two addresses is enough
        connects(LONG, 200)
        check(server.asked(LONG).count("aaaa") > 1, "it is not asked for over TCP as well, and 512 bytes do not hold it")
        spelt = server.spelt(LONG)
        check(len(spelt) == len(server.asked(LONG)) and LONG + "." not in spelt, f"the name is written in random letters: {spelt}")


main()
