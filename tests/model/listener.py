# SPDX-License-Identifier: Apache-2.0
"""A subscriber to all events through every life of a daemon: it goes on after the last one it has heard."""

import contextlib
import json
import socket
import threading
import time

from daemon import Cut
from reference import Broken


class Listener(threading.Thread):
    """`events` is what it has heard, in order; each must follow the one before."""

    def __init__(self, api):
        super().__init__(daemon=True)
        self.api, self.events, self.problem = api, [], None
        self.socket = None
        self.quiet = self.over = False

    @property
    def last(self):
        return self.events[-1]["seq"] if self.events else 0

    def run(self):
        while not self.over:
            try:
                if not self.quiet:
                    self.listen()
            except (Cut, OSError, ValueError):  # cut off, in the middle of a line perhaps
                pass
            except Broken as broken:
                self.problem = str(broken)
                return
            time.sleep(0.005)

    def listen(self):
        connection, response = self.api.open("GET", "/v1/events?kind=lifecycle,commands", None, {
            "Accept": "text/event-stream", "Last-Event-ID": str(self.last)})
        self.socket = connection.sock
        with response:
            if response.status != 200:
                raise Broken(f"events are refused: {response.status} {response.read()[:300]!r}")
            name = None
            while line := response.readline():
                if line.startswith(b"id:"):
                    name = int(line[3:])
                elif line.startswith(b"data:"):
                    self.hear(name, json.loads(line[5:]))

    def hear(self, name, event):
        if event["seq"] != name or name != self.last + 1:
            raise Broken(f"event {name} ({event['seq']} inside) follows {self.last}")
        self.events.append(event)

    def hang_up(self):
        """Until quiet is taken back: a daemon that stops in good order waits for who still listens."""
        self.quiet = True
        with contextlib.suppress(OSError, AttributeError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def stop(self):
        self.over = True
        while self.is_alive():  # it may just be connecting
            self.hang_up()
            self.join(0.05)
        if self.problem:
            raise Broken(self.problem)

    def check(self, rows):
        """Every event that is on record was heard, as it is there."""
        heard = [(e["seq"], e["type"], e.get("sandbox_id") or "", e.get("from") or None, e.get("to") or None)
                 for e in self.events]
        wanted = [(seq, kind, box, a, b) for seq, _, kind, box, a, b in rows][:len(heard)]
        if heard != wanted:
            raise Broken(f"heard {[h for h in heard if h not in wanted]}, on record is "
                         f"{[w for w in wanted if w not in heard]}")
