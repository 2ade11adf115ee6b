# SPDX-License-Identifier: Apache-2.0
"""Another daemon beside the one that dies: nothing that happens there may be felt here."""

from daemon import Daemon, Stream
from harness import check, descendants, equal, wait_for


class Neighbour:
    """`with Neighbour(c) as n: … n.check()`; one sandbox with a file and a program that runs all the time."""

    def __init__(self, c):
        self.daemon = Daemon(c, "neighbour")

    def __enter__(self):
        self.daemon.start()
        self.box = self.daemon.create()
        self.daemon.api.run(self.box, ["/bin/sh", "-c", "echo still here >/tmp/mark"]).expect(200)
        self.program = Stream(self.daemon.api, self.box, ["/bin/sh", "-c", "echo up; sleep 100000"])
        self.program.until("stdout")
        wait_for(lambda: "sleep" in descendants(self.daemon.process.pid).values(), "the neighbour's program")
        return self

    def check(self):
        check(self.daemon.alive, f"the neighbour's daemon died\n{self.daemon.tail()}")
        check(self.program.silent(), "the neighbour's program ended")
        equal(self.daemon.get(self.box)["state"], "active", "the neighbour's sandbox")
        equal(self.daemon.api.run(self.box, ["cat", "/tmp/mark"]).expect(200).json["stdout"], "still here\n",
              "the neighbour's file")

    def __exit__(self, *failed):
        self.program.close()
        self.daemon.__exit__(*failed)
