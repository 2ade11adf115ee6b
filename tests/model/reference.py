# SPDX-License-Identifier: Apache-2.0
"""The reference: what clients were told about sandboxes, and what may therefore still be true.

Operations overlap and daemons die, so what happened is known only in part. Each operation has a beginning and an
end; what it was told counts from its end, what it asked for from its beginning. Whatever is told later must be
possible after everything that was told before: that is checked at once, and Broken says what does not fit."""

import datetime
import threading
import time

from harness import Failure

MOVES = {  # the whole table of states
    None: {"requested"},
    "requested": {"provisioning", "failed", "destroying"},
    "provisioning": {"ready", "failed", "destroying"},
    "ready": {"active", "paused", "expired", "failed", "destroying"},
    "active": {"ready", "paused", "expired", "failed", "destroying"},
    "paused": {"ready", "expired", "failed", "destroying"},
    "expired": {"destroying"},
    "failed": {"destroying"},
    "destroying": {"destroyed", "failed"},
    "destroyed": set(),
}
USABLE = ("ready", "active")
ENDING = ("expired", "destroying", "destroyed")
CLOCK_SLACK = 0.05  # two clocks are read one after the other, and times are told in milliseconds
NEVER = float("inf")


class Broken(Failure):
    """A promise that was not kept."""


def closure():
    after = {state: {state} | MOVES[state] for state in MOVES if state}
    for _ in MOVES:
        after = {state: set().union(*(after[s] for s in reach)) for state, reach in after.items()}
    return after


REACHABLE = closure()


def wall(text):
    return datetime.datetime.fromisoformat(text).timestamp()


class Box:
    """A sandbox as clients know it. Times are wall clock, as the interface tells them."""

    def __init__(self, name):
        self.id = name
        self.told = []            # (when it was told, state)
        self.was_ready = NEVER    # since when somebody knows that it was
        self.ending = NEVER       # since when somebody may have asked for its end
        self.gone = NEVER         # since when somebody knows that it is destroyed
        self.deadline = None      # it lives at least until then
        self.killed = False       # its first process was, by the test
        self.labels = None
        self.processes = {}       # background ones: number -> what it exits with

    def may_end(self, at):
        return self.ending <= at or (self.deadline is not None and self.deadline - CLOCK_SLACK <= at)

    def must_work(self, begun, ended):
        """It was ready before, and nothing can have ended it until the operation was over."""
        return self.was_ready < begun and not self.may_end(ended) and not self.killed


class Reference:
    def __init__(self):
        self.lock = threading.RLock()
        self.boxes = {}
        self.keys = {}         # idempotency key -> id
        self.creates = {}      # the label of a create -> how many sandboxes it may have made

    def names(self):
        with self.lock:
            return sorted(self.boxes, key=lambda name: self.boxes[name].labels["n"])

    def may_create(self, label):
        with self.lock:
            self.creates[label] = self.creates.get(label, 0) + 1

    def ask_end(self, name, begun):
        with self.lock:
            box = self.boxes[name]
            box.ending = min(box.ending, begun)

    def saw(self, record, begun, ended):
        """A sandbox was shown: the record, and when it was asked for and told."""
        with self.lock:
            box = self.boxes.setdefault(record["sandbox_id"], Box(record["sandbox_id"]))
            self.check_record(box, record, ended)
            state = record["state"]
            for when, earlier in box.told:
                if when < begun and state not in REACHABLE[earlier]:
                    raise Broken(f"{box.id} is {state} after it was told to be {earlier}")
            self.check_end(box, record, ended)
            box.told.append((ended, state))
            if state in USABLE:
                box.was_ready = min(box.was_ready, ended)
            if state == "destroyed":
                box.gone = min(box.gone, ended)
            if record.get("expires_at") and state in USABLE:
                self.check_deadline(box, wall(record["expires_at"]), begun)
            return box

    def check_record(self, box, record, ended):
        labels = record["labels"]
        if box.labels is None:
            box.labels = labels
            made = sum(1 for b in self.boxes.values() if b.labels and b.labels["n"] == labels["n"])
            if made > self.creates.get(labels["n"], 0):
                raise Broken(f"{box.id} is one more than create {labels['n']} asked for")
        if box.labels != labels:
            raise Broken(f"{box.id} has the labels {labels}, not {box.labels}")
        if record["state"] in ("failed", *ENDING) and not record.get("reason"):
            raise Broken(f"{box.id} is {record['state']} for no reason")

    def check_end(self, box, record, ended):
        """A create that fails is destroyed by the daemon."""
        state = record["state"]
        never_ready = box.was_ready == NEVER and not record.get("ready_at")
        if state in ENDING and not never_ready and not box.may_end(ended):
            raise Broken(f"{box.id} is {state}: nobody asked for that, and its time is not over "
                         f"(until {box.deadline}, it is {ended})")
        if state == "failed" and box.was_ready < NEVER and not box.killed:
            raise Broken(f"{box.id} was ready and has failed, though nothing happened to it")

    def check_deadline(self, box, deadline, begun):
        if box.deadline is not None and deadline < box.deadline - CLOCK_SLACK and \
                not any(when > begun for when, _ in box.told):
            raise Broken(f"{box.id} is to live until {deadline}, but was promised until {box.deadline}")
        box.deadline = max(box.deadline or 0, deadline)

    def created(self, key, record):
        """A create with an idempotency key was answered."""
        with self.lock:
            first = self.keys.setdefault(key, record["sandbox_id"])
            if first != record["sandbox_id"]:
                raise Broken(f"key {key} made {first} and then {record['sandbox_id']}")

    def listed(self, records, begun, ended):
        """All that are not destroyed were shown."""
        with self.lock:
            for record in records:
                self.saw(record, begun, ended)
            shown = {record["sandbox_id"] for record in records}
            for box in self.boxes.values():
                if box.id in shown and box.gone < begun:
                    raise Broken(f"{box.id} is listed after its end")
                if box.id not in shown and box.must_work(begun, ended):
                    raise Broken(f"{box.id} is not listed any more")

    def ran(self, name, wanted, got, begun, ended):
        """A program that exits with `wanted` was told to have ended; got None: not by itself."""
        with self.lock:
            box = self.boxes[name]
            if got is not None and got != wanted:
                raise Broken(f"a program that exits with {wanted} was told to exit with {got}")
            if got is None and box.must_work(begun, ended):
                raise Broken(f"a program in {name} was ended, though nothing happened to it")

    def refused(self, name, what, answer, begun, ended):
        """Something was refused that a sandbox which is ready must take."""
        with self.lock:
            if self.boxes[name].must_work(begun, ended):
                raise Broken(f"{what} in {name}, which is ready: {answer}")


def now():
    return time.time()
