# SPDX-License-Identifier: Apache-2.0
"""A daemon through several lives, the reference beside it, and what must hold between and after them."""

import contextlib
import os
import shutil

from clients import Client
from daemon import Cut, Daemon
from harness import Failure, Footprint, check, descendants, wait_for
from listener import Listener
from reference import USABLE, Broken, Reference, now
from store import Store

END_SECONDS = 30  # for what is due to end by itself: only a defect takes so long


class World:
    def __init__(self, c, name):
        self.footprint = Footprint(c)
        self.daemon = Daemon(c, name)
        self.reference = Reference()
        self.listener = Listener(self.daemon.api)
        self.listener.start()
        self.before = None  # the store at the last look
        self.trace = []

    def start(self, **env):
        """False if it died before it served, as it was told to."""
        self.listener.quiet = False
        return self.daemon.spawn(**env)

    def live(self, clients):
        """Lets clients do what they do; then they and what they saw are judged."""
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        for client in clients:
            self.trace += client.trace
        for client in clients:
            if client.problem:
                raise Broken(client.problem)
        if any(client.cut for client in clients):
            self.daemon.wait()  # a connection that is cut is a daemon that died, and nothing else

    def look_at_store(self):
        store = Store(self.daemon)
        store.check(self.reference, self.before)
        self.before = store

    def audit(self):
        """Everything that was told of is still what it can be; what is said to be ready works."""
        auditor = self.auditor()
        begun = now()
        shown = self.daemon.list("?state=all&limit=1000")
        for record in shown:
            self.reference.saw(record, begun, now())
        missing = set(self.reference.boxes) - {record["sandbox_id"] for record in shown}
        check(not missing, f"not on record any more: {missing}")
        for record in shown:
            auditor.look_at_background(record["sandbox_id"], 0)
            if record["state"] in USABLE:
                auditor.run_program(record["sandbox_id"], 6)
                auditor.run_program(record["sandbox_id"], 7)

    def auditor(self):
        return Client("audit", self.daemon.api, self.reference, None, 0, None)

    def finish(self):
        """A last life without deaths: what is due ends, the rest can be ended, and nothing is left."""
        check(self.start(), f"the daemon does not serve\n{self.daemon.tail()}")
        self.audit()
        for box in list(self.reference.boxes.values()):
            if box.deadline and box.deadline < now() + 5:
                wait_for(lambda: self.over(box.id), f"{box.id} ends after its time", END_SECONDS)
        for record in self.daemon.list():
            self.auditor().destroy(record["sandbox_id"], 0)
        check(self.daemon.list() == [], "something is listed after all were destroyed")
        wait_for(lambda: not self.zombies(), "dead processes are collected", END_SECONDS)
        self.hear_all()
        self.listener.stop()
        self.daemon.clear()
        self.look_at_store()
        self.listener.check(self.before.events)
        self.footprint.check()
        shutil.rmtree(self.daemon.dir)

    def hear_all(self):
        """What is on record by now has been heard, or will be."""
        events = self.daemon.api.get("/v1/events?kind=lifecycle,commands&limit=1000").expect(200).json["events"]
        last = max((event["seq"] for event in events), default=0)
        wait_for(lambda: self.listener.problem or self.listener.last >= last, f"event {last} is heard", END_SECONDS)

    def over(self, name):
        begun = now()
        record = self.daemon.get(name)
        self.reference.saw(record, begun, now())
        return record["state"] == "destroyed"

    def zombies(self):
        below = {self.daemon.process.pid, *descendants(self.daemon.process.pid)}
        return [pid for pid, parent in all_zombies().items() if parent in below]

    def abandon(self):
        """After a failure: makes room for the next test, if that still can be done."""
        self.daemon.api.timeout = 10
        self.listener.over = True
        if self.daemon.alive:
            self.daemon.kill()
        with contextlib.suppress(Failure, Cut):
            self.daemon.start().clear()


def all_zombies():
    """pid -> parent."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", errors="replace") as stat:
                    rest = stat.read().rpartition(")")[2].split()
            except OSError:
                continue
            if rest[0] == "Z":
                found[int(entry)] = int(rest[1])
    return found
