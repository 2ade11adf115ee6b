#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Many sandboxes with a policy each: every one reaches its own host and not its neighbour's, by the proxy and captured,
before and after all policies are exchanged; processes stay within their budgets of descriptors and memory, and at the end
nothing is left of any. SCALE_BOXES says how many (`./dev soak`: 1,000)."""

import concurrent.futures
import os
import re
import resource
from pathlib import Path

from daemon import Daemon
from egress_world import PUBLIC, RESOLVER, World
from harness import check, diagnose, equal, main, processes, test, wait_for

BOXES = int(os.environ.get("SCALE_BOXES", "80"))
AT_ONCE = 6
CONFIG = f"""egress: {{workers: 2, resolvers: ['{RESOLVER}']}}
limits: {{sandboxes_max: {BOXES + 10}, sandboxes_per_owner: {BOXES + 10}}}"""
POLICY = """version: 1
network_policies:
  own: {{endpoints: [{{host: {host}, port: 80}}], binaries: [{{path: /**}}]}}
"""
# Descriptors that a box may cost a process: its listeners and its record in a worker, its channel in the control plane.
PER_BOX = {"sandboxer-egress": 13, "sandboxerd": 4, "sandboxer-launch": 1}
SPARE = 120          # descriptors of a process that have nothing to do with boxes
KIB_PER_BOX = 160    # memory of a worker


def host(number):
    return f"h{number % BOXES}.example.com"


def each(function, items):
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(function, items))


class Crowd:
    def __init__(self, c, w):
        self.c, self.w = c, w
        w.dns.names.update({host(n): [PUBLIC] for n in range(BOXES)})
        self.origin = w.http(PUBLIC, 80)
        self.d = Daemon(c, driver="memory", config=CONFIG)
        self.boxes = []

    def asked(self):
        """How often the origin was asked for each host."""
        found = re.findall(rb"\r\nHost: ([a-z0-9.]+)\r\n", self.origin.bytes)
        return {name.decode(): found.count(name) for name in set(found)}

    def visit(self, number, own, other):
        """What a program in a box gets: from a host by the proxy and captured, and from another host."""
        visits = [["-sS", "-m", "30", "-o", "/dev/null", "-w", "%{http_code} ", *flags, f"http://{name}/"]
                  for name in (own, other) for flags in ([], ["--noproxy", "*"])]
        argv = ["curl", *visits[0], *(word for visit in visits[1:] for word in ("--next", *visit))]
        said = self.d.api.run(self.boxes[number], argv).expect(200).json["stdout"].split()
        check(said == ["200", "200", "403", "000"], f"box {number}: {own} {said[:2]}, {other} {said[2:]}")

    def each_has_its_own(self, shift):
        before = self.asked()
        each(lambda n: self.visit(n, host(n + shift), host(n + shift + 1)), range(BOXES))
        after = self.asked()
        odd = {name: after.get(name, 0) - before.get(name, 0) for name in map(host, range(BOXES))}
        check(all(count == 2 for count in odd.values()), f"asked for otherwise than twice: {odd}")

    def parts(self):
        """pid -> program, of all processes of the daemon that are no sandbox's."""
        table = processes()
        names = {"sandboxer-egres": "sandboxer-egress", "sandboxer-launc": "sandboxer-launch", "sandboxerd": "sandboxerd"}
        mine = {pid: name for pid, (parent, name) in table.items() if self.d.process.pid in (pid, parent)}
        return {pid: names[name] for pid, name in mine.items() if name in names}

    def budgets(self):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        for pid, name in self.parts().items():
            share = (BOXES + 1) // 2 if name == "sandboxer-egress" else BOXES
            files, memory = descriptors(pid), resident(pid)
            diagnose(f"{name}: {files} descriptors, {memory} KiB, for {share} boxes")
            check(files <= SPARE + PER_BOX[name] * share, f"{name} has {files} descriptors for {share} boxes")
            check(files < hard * 3 // 4, f"{name} has {files} descriptors of {hard}")
            if name == "sandboxer-egress":
                check(memory <= 65536 + KIB_PER_BOX * share, f"{name} has {memory} KiB for {share} boxes")


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(encoding="ascii"))[1])


@test(seconds=180 + BOXES * 4)
def each_of_many_has_its_own_policy(c):
    with World() as w:
        crowd = Crowd(c, w)
        d = crowd.d
        w.inside.run(d.start)
        with d:
            first = d.create(egress={"policy": POLICY.format(host=host(0))})
            before = {pid: descriptors(pid) for pid in crowd.parts()}
            crowd.boxes = [first, *each(lambda n: d.create(egress={"policy": POLICY.format(host=host(n))}), range(1, BOXES))]
            crowd.each_has_its_own(0)
            crowd.budgets()
            put = each(lambda n: d.api.request("PUT", f"/v1/sandboxes/{crowd.boxes[n]}/egress",
                                               POLICY.format(host=host(n + 1)).encode()).expect(200).json, range(BOXES))
            check(all(p["in_force"] == 2 for p in put), "a new policy is not in force")
            crowd.each_has_its_own(1)
            each(d.destroy, crowd.boxes)
            equal(d.list("?limit=1000"), [], "sandboxes that are left")
            wait_for(lambda: all(descriptors(pid) <= before.get(pid, SPARE) + 8 for pid in crowd.parts()),
                     "descriptors of boxes that are gone are closed")


main()
