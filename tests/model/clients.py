# SPDX-License-Identifier: Apache-2.0
"""Clients: each does its operations one after the other, and holds every answer against the reference."""

import threading
import traceback

from daemon import Cut
from harness import Failure
from reference import Broken, now

KEYS = ("first", "second")   # of idempotency; few, so that clients meet
SHORT_TTL = "1s"
# What a launcher that dies again and again may make of a create or an end.
LAUNCHER_TROUBLE = ("upstream", "busy", "timeout")
# What a start is told in a sandbox that ends: it is known already, or found out.
NOT_STARTED = (409, 502)


class Client(threading.Thread):
    """`choice` decides everything that is decided here. `on_step` is called before each operation."""

    def __init__(self, number, api, reference, choice, steps, on_step, launchers_die=False):
        super().__init__(daemon=True)
        self.number, self.api, self.reference, self.choice = number, api, reference, choice
        self.steps, self.on_step, self.launchers_die = steps, on_step, launchers_die
        self.cut = False
        self.problem = None
        self.trace = []

    def run(self):
        try:
            for _ in range(self.steps):
                self.on_step()
                self.step()
        except Cut as cut:
            self.cut = True
            self.trace.append(f"cut: {cut}")
        except Failure as broken:
            self.problem = str(broken)
        except Exception:  # a broken test must not look like a good one
            self.problem = traceback.format_exc()

    def step(self):
        names = self.reference.names()
        operation = self.choice.choices([o for o, _ in OPERATIONS], [w for _, w in OPERATIONS])[0]
        if not names or len(names) < 2 and self.choice.random() < 0.5:
            operation = Client.create
        target = self.choice.choice(names) if names else None
        number = self.choice.randrange(1 << 30)
        self.trace.append(f"client {self.number}: {operation.__name__} {target or ''} {number}")
        operation(self, target, number)

    # --- asking ---

    def ask(self, method, path, body=None, headers=()):
        begun = now()
        answer = self.api.request(method, path, body, headers)
        self.trace.append(f"    {answer}"[:300])
        return answer, begun, now()

    def expect(self, answer, *statuses):
        if answer.status not in statuses:
            raise Broken(f"{self.trace[-2]}: the answer is {answer}")

    # --- operations ---

    def make(self, label, body, headers=()):
        self.reference.may_create(label)
        answer, begun, ended = self.ask("POST", "/v1/sandboxes", {**body, "labels": {"n": label}}, headers)
        if answer.status in (200, 201):
            return self.reference.saw(answer.json, begun, ended), answer.json
        self.check_failed_create(answer, repeated=bool(headers))
        return None, None

    def check_failed_create(self, answer, repeated=False):
        """It may fail if launchers die, or if somebody who saw it in a list was quick to destroy it. Who repeats a
        create that a daemon was killed in may be there when the next one settles it."""
        if answer.code == "conflict" and "destroyed during" in answer.json["detail"]:
            return
        if repeated and answer.code == "upstream" and "the daemon ended during" in answer.json["detail"]:
            return
        if not (self.launchers_die and answer.code in LAUNCHER_TROUBLE):
            raise Broken(f"create: the answer is {answer}")

    def create(self, _, number):
        profile = ("profile.sandbox-canary", "profile.pooled")[number % 2]
        box, record = self.make(f"{self.number}-{number}", {"profile": profile})
        if box and record["state"] not in ("ready", "active") and not box.may_end(now()):
            raise Broken(f"{box.id} was made, but is {record['state']}")

    def create_short(self, _, number):
        self.make(f"{self.number}-{number}", {"ttl": SHORT_TTL})

    def create_once(self, _, number):
        key = KEYS[number % len(KEYS)]
        box, record = self.make(key, {}, {"Idempotency-Key": key})
        if box:
            self.reference.created(key, record)

    def create_once_differently(self, _, number):
        """The key of another request: refused, or the first to use its own."""
        key = KEYS[number % len(KEYS)]
        if key not in self.reference.keys:
            return
        answer, _, _ = self.ask("POST", "/v1/sandboxes", {"labels": {"n": "never"}}, {"Idempotency-Key": key})
        self.expect(answer, 409)

    def get(self, name, _):
        answer, begun, ended = self.ask("GET", f"/v1/sandboxes/{name}")
        self.expect(answer, 200)
        self.reference.saw(answer.json, begun, ended)

    def list(self, _, __):
        answer, begun, ended = self.ask("GET", "/v1/sandboxes?limit=1000")
        self.expect(answer, 200)
        self.reference.listed(answer.json["sandboxes"], begun, ended)

    def run_program(self, name, number):
        """Exits with what no success looks like, after saying something."""
        status, word = 1 + number % 120, f"word-{number}"
        streamed = number % 3 == 0
        answer, begun, ended = self.ask(
            "POST", f"/v1/sandboxes/{name}/processes",
            {"argv": ["/bin/sh", "-c", f"echo {word}; exit {status}"]},
            {} if streamed else {"Accept": "application/json"})
        if answer.status in NOT_STARTED:
            self.reference.refused(name, "a program was refused", answer, begun, ended)
            return
        self.expect(answer, 200)
        end, said = self.read_stream(answer) if streamed else (answer.json, answer.json["stdout"])
        if end is None:
            raise Cut("a stream without its end")
        if end.get("event") == "error":
            self.reference.refused(name, "a program was lost", answer, begun, ended)
            return
        self.reference.ran(name, status, end["exit_code"], begun, ended)
        if end["exit_code"] is not None and said != word + "\n":
            raise Broken(f"a program that says {word} was told to say {said!r}")

    @staticmethod
    def read_stream(answer):
        lines = answer.lines
        said = "".join(line["data"] for line in lines if line["event"] == "stdout")
        whole = lines and lines[-1]["event"] in ("exited", "error")
        return (lines[-1] if whole else None), said

    def run_background(self, name, number):
        status = 1 + number % 120
        answer, begun, ended = self.ask(
            "POST", f"/v1/sandboxes/{name}/processes",
            {"argv": ["/bin/sh", "-c", f"sleep 0.0{number % 10}; exit {status}"], "background": True})
        if answer.status == 201:
            self.reference.boxes[name].processes[answer.json["process"]] = status
        elif answer.status in NOT_STARTED:
            self.reference.refused(name, "a program was refused", answer, begun, ended)
        else:
            self.expect(answer, 501)

    def look_at_background(self, name, _):
        for process, status in list(self.reference.boxes[name].processes.items()):
            answer, begun, ended = self.ask("GET", f"/v1/sandboxes/{name}/processes/{process}")
            if answer.status == 200 and answer.json["state"] == "exited":
                self.reference.ran(name, status, answer.json["exit_code"], begun, ended)
            elif answer.status != 200:
                self.reference.refused(name, f"process {process} is not known", answer, begun, ended)

    def destroy(self, name, _):
        self.reference.ask_end(name, now())
        answer, begun, ended = self.ask("DELETE", f"/v1/sandboxes/{name}")
        if self.launchers_die and answer.code in LAUNCHER_TROUBLE:
            return
        self.expect(answer, 200)
        if self.reference.saw(answer.json, begun, ended).gone > ended:
            raise Broken(f"{name} was destroyed and is {answer.json['state']}")

    def destroy_together(self, name, number):
        """Several at once: all of them are told the same."""
        others = [threading.Thread(target=self.destroy_quietly, args=(name, number)) for _ in range(3)]
        for other in others:
            other.start()
        try:
            self.destroy(name, number)
        finally:
            for other in others:
                other.join()

    def destroy_quietly(self, name, number):
        try:
            self.destroy(name, number)
        except Cut:
            self.cut = True
        except Failure as broken:
            self.problem = str(broken)

    def extend(self, name, number):
        answer, begun, ended = self.ask("POST", f"/v1/sandboxes/{name}/extend-ttl",
                                        {"duration": f"{1 + number % 3}s"})
        if answer.status == 409:
            self.reference.refused(name, "more time was refused", answer, begun, ended)
            return
        self.expect(answer, 200)
        self.reference.saw(answer.json, begun, ended)

    def recreate(self, name, _):
        with self.reference.lock:
            label = self.reference.boxes[name].labels["n"]
        self.reference.may_create(label)
        self.reference.ask_end(name, now())
        answer, begun, ended = self.ask("POST", f"/v1/sandboxes/{name}/recreate")
        if answer.status != 201:
            self.check_failed_create(answer)
            return
        if answer.json["sandbox_id"] == name:
            raise Broken(f"{name} was recreated as itself")
        self.reference.saw(answer.json, begun, ended)


OPERATIONS = [  # and how often each is chosen
    (Client.create, 4), (Client.create_short, 2), (Client.create_once, 3), (Client.create_once_differently, 1),
    (Client.get, 3), (Client.list, 2), (Client.run_program, 5), (Client.run_background, 2),
    (Client.look_at_background, 2), (Client.destroy, 2), (Client.destroy_together, 1), (Client.extend, 2),
    (Client.recreate, 1),
]
