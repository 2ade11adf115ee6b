#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Real clients in sandboxes, real servers outside: each client reaches what is allowed and nothing else, through the
proxy that its variables name and, where it knows none or the variables are gone, captured. A row of the table is a
client and a way; a column is who made the sandbox (a run of its own, a daemon) and who the client is inside."""

import concurrent.futures
import contextlib
import io
import itertools
import json
import re
import shutil
import tarfile

from daemon import Daemon
from egress_clients import CLIENTS, NO_NAME
from egress_kit import make_certificates, make_kit
from egress_servers import EVIL, FOUR, GOOD, PORTS, SIX, Servers
from egress_world import PUBLIC_TOO, RESOLVER, World
from harness import PATH, Failure, Skip, check, diagnose, main, test, wait_for

KIT = "/opt/kit"
ALLOWED = [f"{host}:{','.join(map(str, PORTS))}" for host in (GOOD, FOUR, SIX)]
POLICY = {"version": 1, "network_policies": {"clients": {"endpoints": [{"host": host, "ports": list(PORTS)} for host in (GOOD, FOUR, SIX)],
                                                         "binaries": [{"path": "/**"}]}}}
UNSET = "unset HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy\n"
PROFILE = """\
id: profile.clients
version: 1
ttl: {default: 10m, max: 1h, idle_reap: 0}
resources: {cpu: 2, memory_mb: 1024, pids: 256, disk_mb: 256}
pool: {min: 0, max: 0}
"""
PEOPLE = {"root": "0", "uid": "1000"}
ALLOW, DENY = 1, 2
DENIED = ("policy_denied",)
AT_ONCE = 4
RUN_SECONDS = 120
table = {}    # (client, way, column) -> what was seen
absent = {}   # client -> why it is not there


def script_of(client, way, host):
    """In a directory of its own, so that a client finds nothing of another, and leaves nothing."""
    return f"set -e\nexport HOME=$(mktemp -d) HOST={host} KIT={KIT}\ncd $HOME\ntrap 'rm -rf $HOME' EXIT\n" \
           f"{UNSET if way == 'captured' and client.proxy else ''}{client.script}\n"


def judge_allowed(client, code, out, err):
    check(code == 0 and client.says in out, f"allowed, but status {code}\nstdout: {out[-600:]}\nstderr: {err[-1200:]}")


def judge_refused(client, way, host, code, out, err):
    shown = out + err
    check(code != 0 and client.says not in out, f"{host} was reached: status {code}\n{shown[-1200:]}")
    words = client.refused if way == "proxy" else NO_NAME
    check(host != EVIL or re.search(words, shown), f"{host} is refused, but shows nothing of {words!r}:\n{shown[-1200:]}")


def decides(event, host, adapters, verdict):
    """Whether it is the record of this verdict about this host, by one of these ways, with its reason."""
    place = event.get("dst_endpoint", {})
    reason = "firewall_rule" in event if verdict == ALLOW else event.get("status_code") in DENIED
    return event.get("action_id") == verdict and host in (place.get("hostname"), place.get("ip")) and \
        event.get("unmapped", {}).get("adapter") in adapters and reason


def on_record(client, way, host, events):
    """The decision about this client's connection, as the audit has it."""
    if host == client.host:
        return any(decides(e, host, (client.adapter(way),), ALLOW) and e["dst_endpoint"]["port"] == client.port for e in events)
    return any(decides(e, host, (client.proxy,) if way == "proxy" else ("dns", "transparent"), DENY) for e in events)


class Embedded:
    """A sandbox for every call, without a daemon."""

    def __init__(self, c, world, kit, person):
        self.c, self.world, self.kit, self.person = c, world, kit, person
        self.column = f"run, {person}"
        self.numbers = itertools.count()

    @contextlib.contextmanager
    def open(self):
        yield self

    def call(self, client, way, host):
        log = self.c.dir / f"{next(self.numbers)}.jsonl"
        argv = [self.c.program(), "run", "--resolver", RESOLVER, "--egress-log", log, "--mount", f"{self.kit}:{KIT}", "--user",
                PEOPLE[self.person], "--env", f"PATH={PATH}"]
        for item in ALLOWED:
            argv += ["--allow", item]
        seen = self.world.execute(self.c, [*argv, "--", "sh", "-c", script_of(client, way, host)], seconds=RUN_SECONDS,
                                  env={"SANDBOXER_NO_DAEMON": "1"})
        events = [json.loads(line) for line in log.read_text().splitlines()]
        check(on_record(client, way, host, events), f"{host} is not on record as it should be: {log.read_text()[-1500:]}\n{seen}")
        check(host == client.host or b"refused: " in seen.err, f"the run does not say that {host} was refused: {seen}")
        said = [line for line in seen.notes.splitlines() if not line.startswith("sandboxer: ")]
        return seen.code, seen.out.decode(errors="replace"), "\n".join(said)

    def unrecorded(self):
        return []  # each call has seen to that


class Served:
    """One sandbox of a daemon for all calls."""

    def __init__(self, c, world, kit, person):
        self.world, self.kit, self.person = world, kit, person
        self.column = f"daemon, {person}"
        self.daemon = Daemon(c, config=f"egress: {{workers: 1, resolvers: ['{RESOLVER}']}}")
        self.daemon.api.timeout = RUN_SECONDS + 30
        c.write("daemon/profiles/profile.clients.yaml", PROFILE)
        self.calls, self.box = [], None

    @contextlib.contextmanager
    def open(self):
        spawn = self.daemon.spawn
        self.daemon.spawn = lambda *args, **options: self.world.inside.run(lambda: spawn(*args, **options))
        with self.daemon as d:
            self.box = d.create(profile="profile.clients", egress={"policy": POLICY})
            d.api.post(f"/v1/sandboxes/{self.box}/files/mkdir", {"path": KIT}).expect(200, 201, 204)
            d.api.request("PUT", f"/v1/sandboxes/{self.box}/files/tar?path={KIT}", packed(self.kit)).expect(200, 204)
            yield self

    def call(self, client, way, host):
        seen = self.daemon.api.run(self.box, ["sh", "-c", script_of(client, way, host)], user=PEOPLE[self.person],
                                   env={"PATH": PATH}, timeout=f"{RUN_SECONDS}s").expect(200).json
        self.calls.append((client, way, host))
        return seen["exit_code"], seen.get("stdout", ""), seen.get("stderr", "")

    def unrecorded(self):
        """The calls whose decisions are not in the daemon's log."""
        events = self.daemon.api.get(f"/v1/sandboxes/{self.box}/egress/log").expect(200).lines
        return [(client.name, way, host) for client, way, host in self.calls if not on_record(client, way, host, events)]


def of_root(member):
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def packed(directory):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        tar.add(directory, arcname=".", filter=of_root)
    return data.getvalue()


def fill(place, servers, client, way):
    """One cell: allowed, then not allowed by its name and, where that can be said, by its address."""
    judge_allowed(client, *place.call(client, way, client.host))
    elsewhere = [EVIL] + ([PUBLIC_TOO] if client.literal else [])
    for host in elsewhere:
        judge_refused(client, way, host, *place.call(client, way, host))
    servers.nothing_got_out()
    return "works, else refused"


def fill_column(place, servers, present, problems):
    def run(client, way):
        try:
            table[client.name, way, place.column] = fill(place, servers, client, way)
        except (Failure, OSError) as problem:
            table[client.name, way, place.column] = "FAILED"
            problems.append(f"{client.name}, {way}, {place.column}: {problem}")
    with place.open(), concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for done in [pool.submit(run, client, way) for client in present for way in client.ways]:
            done.result()
        if not problems:
            wait_for(lambda: not place.unrecorded(), f"in the record: {place.unrecorded()}")


def find_clients(missing):
    present = []
    for client in CLIENTS:
        programs = [name for name in client.needs if not shutil.which(name, path=PATH)]
        parts = [missing[part] for part in client.parts if part in missing]
        if programs or parts:
            absent[client.name] = ", ".join([f"{name} is not installed" for name in programs] + parts)
        else:
            present.append(client)
    return present


def make_all(c):
    """The kit, and beside it what only servers may have."""
    kit, private = c.mkdir(c.dir / "kit"), c.dir / "private"
    private.mkdir()
    missing = make_kit(kit)
    make_certificates(private, (GOOD, FOUR, SIX))
    shutil.copy(private / "authority.pem", kit)
    return kit, private, missing


@test(seconds=280)
def every_client_by_every_way(c):
    problems = []
    with World() as w:
        kit, private, missing = make_all(c)
        with Servers(w, c.dir / "servers", private / "certificate.pem", private / "key.pem") as servers:
            if "ssh" not in servers.missing:
                shutil.copy(c.dir / "servers/ssh/key", kit / "ssh_key")
                (kit / "ssh_key").chmod(0o644)
            present = find_clients({**missing, **servers.missing})
            people = ("root", "uid") if c.root else ("uid", "root")
            for kind, person in zip((Embedded, Served), people):
                fill_column(kind(c, w, kit, person), servers, present, problems)
    check(not problems, "\n".join(problems))


@test
def the_table(c):
    """Every cell is there. Printed when both callers have filled theirs."""
    columns = ("run, root", "run, uid", "daemon, root", "daemon, uid")
    rows = [(client.name, way) for client in CLIENTS for way in client.ways]
    diagnose(f"{'client':<18}{'way':<10}" + "".join(f"{column:<22}" for column in columns))
    for name, way in rows:
        cells = [table.get((name, way, column), "not installed" if name in absent else "-") for column in columns]
        diagnose(f"{name:<18}{way:<10}" + "".join(f"{cell:<22}" for cell in cells))
    mine = ("run, root", "daemon, uid") if c.root else ("run, uid", "daemon, root")
    lost = [f"{name} {way} {column}" for name, way in rows for column in mine
            if table and name not in absent and (name, way, column) not in table]
    check(not lost, f"cells are missing: {lost}")
    if absent:
        raise Skip("; ".join(f"{name}: {why}" for name, why in absent.items()))


main()
