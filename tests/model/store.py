# SPDX-License-Identifier: Apache-2.0
"""The daemon's store, read as an operator would: from a copy, while nobody writes."""

import shutil
import sqlite3
import tempfile
from pathlib import Path

from reference import CLOCK_SLACK, MOVES, Broken

STATES = ["requested", "provisioning", "ready", "active", "paused", "expired", "failed", "destroying", "destroyed"]
FILES = ("sandboxer.db", "sandboxer.db-wal")


def state_name(number):
    return None if number < 0 else STATES[number]


class Store:
    """sandboxes: id -> state; events: (seq, time, type, sandbox, from, to), ascending."""

    def __init__(self, daemon):
        with tempfile.TemporaryDirectory(dir=daemon.dir) as copy:
            for name in FILES:
                path = daemon.state / "daemon" / name
                if path.exists():
                    shutil.copy(path, copy)
            self.read(Path(copy, FILES[0]))

    def read(self, path):
        db = sqlite3.connect(path)
        try:
            problems = [row[0] for row in db.execute("PRAGMA integrity_check")]
            if problems != ["ok"]:
                raise Broken(f"the store is damaged: {problems}")
            self.sandboxes = {name: state_name(state) for name, state in
                              db.execute("SELECT id, state FROM sandboxes")}
            self.events = [(seq, time / 1e9, kind, box, state_name(a), state_name(b)) for seq, time, kind, box, a, b in
                           db.execute("SELECT seq, time_ns, type, sandbox, from_state, to_state FROM events ORDER BY seq")]
        finally:
            db.close()

    def moves(self, box):
        return [(a, b, time) for _, time, _, name, a, b in self.events if name == box and b]

    def check(self, reference, before=None):
        """Everything that was told is here, once and in order; and what an earlier look has seen still is."""
        seqs = [event[0] for event in self.events]
        if seqs != list(range(1, len(seqs) + 1)):
            raise Broken(f"events are not numbered one after the other: {seqs}")
        if before and self.events[:len(before.events)] != before.events:
            raise Broken("events that were there have changed")
        for box, state in self.sandboxes.items():
            self.check_chain(box, state)
        for box in reference.boxes.values():
            self.check_told(box)

    def check_chain(self, box, state):
        at = None
        for a, b, _ in self.moves(box):
            if a != at or b not in MOVES[at]:
                raise Broken(f"{box}: the event {a} -> {b} follows the state {at}")
            at = b
        if at != state:
            raise Broken(f"{box} is {state}, but its last event says {at}")

    def check_told(self, box):
        if box.id not in self.sandboxes:
            raise Broken(f"{box.id} is not on record, but was told of")
        reached = {b for _, b, _ in self.moves(box.id)}
        for _, state in box.told:
            if state not in reached:
                raise Broken(f"{box.id} was told to be {state}, but there is no event")
        for _, b, time in self.moves(box.id):
            if b == "expired" and box.deadline and time < box.deadline - CLOCK_SLACK:
                raise Broken(f"{box.id} expired at {time}, before its time, {box.deadline}")
