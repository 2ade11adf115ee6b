#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""sandboxer run --allow, --policy by a daemon: the same as without one, in output, exit status, messages and record."""

import contextlib
import json
import os
import shutil

from daemon import Daemon
from egress_world import PUBLIC, PUBLIC_TOO, RESOLVER, World
from harness import Skip, check, equal, main, test, wait_for

CONFIG = f"egress: {{workers: 1, resolvers: ['{RESOLVER}']}}"
RUN_PROFILE = "id: profile.run\nversion: 2\nresources: {memory_mb: 256, pids: 128, disk_mb: 32}\npool: {min: 1, max: 4}\n"
NAME, OTHER = "api.example.com", "evil.example"
POLICY = """
version: 1
network_policies:
  rest:
    endpoints:
      - {host: api.example.com, port: 80, protocol: rest, access: read-only}
    binaries: [{path: "/**/curl"}]
"""
ASK = "curl -sS -m 10 http://{}/x"


class Both:
    """One command line, run by the daemon and without it."""

    def __init__(self, c, w, d):
        self.c, self.w, self.d = c, w, d

    def served(self, *argv, **options):
        before = self.ids()
        seen = self.w.execute(self.c, [self.c.program(), "run", *argv],
                              env={"SANDBOXER_SOCKET": str(self.d.socket), "SANDBOXER_STATE": str(self.d.state)}, **options)
        made = self.ids() - before
        wait_for(lambda: all(self.d.get(box)["state"] == "destroyed" for box in made), "its sandbox is gone")
        return seen, made

    def embedded(self, *argv, **options):
        return self.w.execute(self.c, [self.c.program(), "run", "--resolver", RESOLVER, *argv],
                              env={"SANDBOXER_NO_DAEMON": "1"}, **options)

    def ids(self):
        return {box["sandbox_id"] for box in self.d.list("?state=all&limit=1000") if box["profile"] == "profile.run"}

    def same(self, *argv, **options):
        """The daemon's result, which is the other's too."""
        seen, made = self.served(*argv, **options)
        equal(len(made), 1, f"sandboxes that the daemon made for {argv}: {seen}")
        alone = self.embedded(*argv, **options)
        equal((seen.code, seen.out, seen.err), (alone.code, alone.out, alone.err), f"{argv} by the daemon")
        return seen


@contextlib.contextmanager
def both(c):
    with World() as w:
        w.dns.names.update({NAME: [PUBLIC], OTHER: [PUBLIC_TOO]})
        c.write("daemon/profiles/profile.run.yaml", RUN_PROFILE)
        d = Daemon(c, config=CONFIG)
        w.inside.run(d.start)
        with d:
            yield Both(c, w, d)


def hits(d):
    """How many prepared sandboxes were used so far."""
    text = d.api.get("/metrics").expect(200).data.decode()
    return sum(float(line.split()[-1]) for line in text.splitlines()
               if line.startswith("sandboxer_pool_takes_total") and "hit" in line)


def sh(script, *flags):
    return (*flags, "--", "sh", "-c", script)


@test
def what_is_allowed_passes_and_what_is_refused_is_said(c):
    with both(c) as b:
        origin, other = b.w.http(), b.w.http(PUBLIC_TOO)
        b.same(*sh(ASK.format(NAME), "--allow", f"{NAME}:80")).expect(0, out=b"hello\n", err=b"")
        b.same(*sh("unset http_proxy HTTP_PROXY; " + ASK.format(NAME), "--allow", f"{NAME}:80")).expect(0, out=b"hello\n", err=b"")
        b.same(*sh(ASK.format(OTHER) + " -f -o /dev/null 2>/dev/null; exit 7", "--allow", f"{NAME}:80")).expect(
            7, says=[r"1 connection refused: evil\.example:80 \(policy_denied\); --allow evil\.example:80 would allow it"])
        b.same(*sh(ASK.format(OTHER) + " -f -o /dev/null 2>/dev/null; exit 0", "--allow", f"{NAME}:80", "-q")).expect(0, err=b"")
        equal((origin.connections > 0, other.connections), (True, 0), "connections")


@test
def a_policy_file_holds_for_both(c):
    policy = c.write("policy.yaml", POLICY)
    with both(c) as b:
        origin = b.w.http()
        script = ASK.format(NAME) + "; curl -s -o /dev/null -X DELETE http://api.example.com/x; exit 3"
        b.same(*sh(script, "--policy", policy)).expect(3, out=b"hello\n", says=["refused: api.example.com:80"])
        check(b"DELETE" not in origin.bytes, "what is not allowed got out")
        seen, _ = b.served(*sh(ASK.format(NAME), "--policy", "-"), stdin=POLICY.encode())
        seen.expect(0, out=b"hello\n", err=b"")


@test
def the_record_is_the_same(c):
    logs = {}
    with both(c) as b:
        b.w.http()
        script = ASK.format(NAME) + "; " + ASK.format(OTHER) + " -f -o /dev/null 2>/dev/null; true"
        for how in ("served", "embedded"):
            log = c.dir / f"{how}.jsonl"
            log.write_text('{"kept": true}\n')
            c.own(log)
            getattr(b, how)(*sh(script, "--allow", f"{NAME}:80", "--egress-log", log))
            events = [json.loads(line) for line in log.read_text().splitlines()]
            equal(events[0], {"kept": True}, "what was there before")
            logs[how] = [(e["class_uid"], e.get("action_id"), e.get("dst_endpoint", {}).get("hostname"), e.get("status_code"))
                         for e in events[1:]]
        check(any(e[2] == OTHER and e[1] == 2 for e in logs["served"]), f"the denial is on record: {logs}")
        equal(logs["served"], logs["embedded"], "the events")


@test
def what_is_wrong_is_said_in_the_same_words(c):
    bad = c.write("policy.yaml", "version: 1\nnetwork_policies:\n  a:\n    endpoints:\n      - hosst: x\n")
    with both(c) as b:
        for flags, says in ((["--policy", bad], r"line 5: network_policies\.a\.endpoints\[0\]\.hosst"),
                            (["--policy", c.dir / "nowhere"], "nowhere"),
                            (["--allow", "a b"], "--allow: 'a b'"),
                            (["--allow", NAME, "--egress-log", c.dir / "no/such/file"], "--egress-log"),
                            (["--egress-log", "x"], "go with --allow")):
            seen, made = b.served(*flags, "--", "echo", "started")
            equal(made, set(), f"sandboxes for {flags}")
            alone = c.execute([c.program(), "run", *flags, "--", "echo", "started"], env={"SANDBOXER_NO_DAEMON": "1"})
            equal(seen.expect(125, out=b"", says=[says]).err, alone.err, f"{flags} by the daemon")
        b.same("--allow", NAME, "--", "/no/such/program").expect(127)
        b.same("--allow", NAME, "--workdir", "/nowhere", "--", "true").expect(125)


@test
def package_managers_are_those_of_the_system(c):
    variables = {"pip3": "PIP_INDEX_URL", "npm": "NPM_CONFIG_REGISTRY", "go": "GOPROXY"}
    found = [name for program, name in variables.items() if os.path.exists(f"/usr/bin/{program}")]
    if not found or not shutil.which("curl"):
        raise Skip(f"none of {', '.join(variables)} is in /usr/bin")
    with both(c) as b:
        b.w.http()
        b.same(*sh(ASK.format(NAME), "--allow-packages", "--env", f"{found[0]}=http://{NAME}/simple")).expect(0, out=b"hello\n")


@test
def prepared_sandboxes_are_handed_over_with_a_network(c):
    with both(c) as b:
        b.w.http()
        b.served(*sh("true", "--allow", f"{NAME}:80"))
        before = hits(b.d)
        for _ in range(20):
            seen, _ = b.served(*sh(ASK.format(NAME), "--allow", f"{NAME}:80"))
            seen.expect(0, out=b"hello\n", err=b"")
        check(hits(b.d) > before, "no prepared sandbox was used")


main()
