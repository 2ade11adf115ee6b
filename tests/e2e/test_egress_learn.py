#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""sandboxer egress learn: an audited run, its least policy, and the same run under this policy."""

import contextlib
import json
import os

from client import Client
from daemon import Daemon
from egress_world import PUBLIC, PUBLIC_TOO, RESOLVER, World
from harness import check, equal, main, test
from terminal import Terminal
from tiny_yaml import read

EMBEDDED = {"SANDBOXER_NO_DAEMON": "1"}
RUN_PROFILE = "id: profile.run\nversion: 2\nresources: {memory_mb: 256, pids: 128, disk_mb: 32}\n"
JOB = "curl -sS http://api.example.com/x; curl -sS --noproxy '*' http://other.example.com/y"
LEARNED = """version: 1
network_policies:
  learned:
    endpoints:
      - host: api.example.com
        port: 80
      - host: other.example.com
        port: 80
"""


class Inside:
    """A daemon whose every start is in the world's namespace."""

    def __init__(self, c, w):
        self.d = Daemon(c, config=f"egress: {{workers: 1, resolvers: ['{RESOLVER}']}}")
        spawn = self.d.spawn
        self.d.spawn = lambda *args, **options: w.inside.run(lambda: spawn(*args, **options))

    def __enter__(self):
        return self.d.__enter__()

    def __exit__(self, *what):
        return self.d.__exit__(*what)


@contextlib.contextmanager
def world():
    with World() as w:
        w.dns.names.update({"api.example.com": [PUBLIC], "other.example.com": [PUBLIC_TOO], "looked.example.com": [PUBLIC]})
        w.http()
        w.http(PUBLIC_TOO)
        yield w


def learn(w, c, *argv, script=JOB, **options):
    return w.execute(c, [c.program(), "egress", "learn", "--resolver", RESOLVER, *argv, "--", "sh", "-c", script],
                     env=EMBEDDED, **options)


def run(w, c, policy, script):
    return w.execute(c, [c.program(), "run", "--resolver", RESOLVER, "--policy", policy, "--", "sh", "-c", script], env=EMBEDDED)


@test
def a_command_runs_under_what_was_learned_from_it(c):
    with world() as w:
        seen = learn(w, c, "--ceiling", "public", script=JOB + "; exit 7")
        equal(seen.code, 7, "the command's own status")
        equal(seen.out.decode(), LEARNED, "the policy")
        check(b"hello\n" in seen.err, f"the command's output goes to stderr: {seen}")
        policy = c.write("policy.yaml", LEARNED)
        c.cli("egress", "check", policy).expect(0)
        run(w, c, policy, JOB).expect(0, out=b"hello\n" * 2, err=b"")
        w.dns.names["elsewhere.example.com"] = [PUBLIC]
        seen = run(w, c, policy, "curl -sSf http://elsewhere.example.com/; curl -sSf http://api.example.com:8080/")
        check(b"hello" not in seen.out and b"elsewhere.example.com:80 (policy_denied)" in seen.err, str(seen))


@test
def nothing_runs_without_a_ceiling(c):
    with world() as w:
        learn(w, c).expect(2, out=b"", says="nothing says how far")
        w.nothing_got_out()
        seen = learn(w, c, "--allow", "api.example.com:80")
        check(b"other.example.com" not in seen.out and b"api.example.com" in seen.out, str(seen))
        check(b"refused: other.example.com" in seen.err, str(seen))
        equal(w.origins[1].connections, 0, "connections beyond the ceiling")


@test
def a_command_that_does_not_run_proposes_nothing(c):
    c.cli("egress", "learn", "--ceiling", "public", "--", "no-such-program", env=EMBEDDED).expect(127, out=b"", says="nothing to propose")
    c.cli("egress", "learn", "--ceiling", "public", "--", "sh", "-c", "exit 3", env=EMBEDDED).expect(3, out=b"version: 1\nnetwork_policies: {}\n")
    c.cli("egress", "learn", "--ceiling", "public", "--", "true", env={**EMBEDDED, "SANDBOXER_URL": "http://127.0.0.1:1"}).expect(
        2, out=b"", says="on this machine only")


@test
def a_person_agrees_to_a_ceiling_on_a_terminal(c):
    for answer, code, words in ((b"n\n", 125, b"was not run"), (b"y\n", 0, b"network_policies: {}")):
        with Terminal(c, "--", "true", verb=("egress", "learn"), env=EMBEDDED) as t:
            t.expect(b"every public destination while it is recorded? [y/N]")
            t.send(answer)
            t.expect(words)
            equal(t.end(), code, f"the status after {answer}")


@test
def answers_are_printed_for_programs(c):
    seen = c.cli("egress", "learn", "--allow", "api.example.com", "-o", "yaml", "--", "true", env=EMBEDDED).expect(0)
    equal(read(seen.out.decode())["policy"], "version: 1\nnetwork_policies: {}\n", "the policy")
    c.cli("egress", "learn", "--allow", "api.example.com", "--", "sh", "-c", "kill -TERM $$", env=EMBEDDED).expect(143)


@test
def addresses_of_networks_are_never_within_the_public_ceiling(c):
    script = "curl -sS -m 5 http://10.77.0.2/; curl -sS -m 5 http://169.254.169.254/; curl -sS -m 5 -x http://127.0.0.1:3128 --noproxy '' http://127.0.0.1:22/; true"
    with world() as w:
        seen = learn(w, c, "--ceiling", "public", "-o", "json", script=script).expect(0)
        answer = json.loads(seen.out)
        equal(answer["policy"], "version: 1\nnetwork_policies: {}\n", "the policy")
        equal(sorted((r["host"], r["code"]) for r in answer["refused"]),
              [("10.77.0.2", "ssrf_denied"), ("127.0.0.1", "ssrf_denied"), ("169.254.169.254", "metadata_denied")], "refusals")


@test
def lookups_addresses_and_datagrams_are_told_apart(c):
    script = f"getent hosts looked.example.com; curl -sS http://{PUBLIC_TOO}/; " \
             f"python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b\"x\", (\"{PUBLIC}\", 123))'; true"
    with world() as w:
        answer = json.loads(learn(w, c, "--ceiling", "public", "-o", "json", script=script).expect(0).out)
        equal([(a["host"], a["port"]) for a in answer["added"]], [(PUBLIC_TOO, 80)], "destinations")
        equal([a["host"] for a in answer["only_looked_up"]], ["looked.example.com"], "lookups")
        equal([(r["host"], r["port"], r["code"], r["protocol"]) for r in answer["refused"]],
              [(PUBLIC, 123, "boundary_rejected", "udp")], "refusals")


@test
def a_policy_is_compared_and_replaced(c):
    policy = c.write("policy.yaml", "version: 1\nnetwork_policies:\n  web:\n    endpoints:\n"
                     "    - {host: api.example.com, port: 80, protocol: rest, access: read-only}\n    - {host: old.example.com, port: 80}\n")
    with world() as w:
        seen = learn(w, c, "--ceiling", "public", "--policy", policy, "--write", policy).expect(0)
        check("-      - host: old.example.com" in seen.text and "+      - host: other.example.com" in seen.text, seen.text)
        written = read(policy.read_text())["network_policies"]
        equal(written["web"]["endpoints"], [{"host": "api.example.com", "port": 80, "protocol": "rest", "access": "read-only"}], "kept")
        equal(written["learned"]["endpoints"], [{"host": "other.example.com", "port": 80}], "learned")
        before = policy.read_text()
        seen = learn(w, c, "--ceiling", "public", "--policy", policy, "--write", policy).expect(0, out=b"")
        equal(policy.read_text(), before, "a second run changes nothing")
        run(w, c, policy, JOB).expect(0, out=b"hello\n" * 2, err=b"")


@test
def a_file_is_only_replaced_as_the_base(c):
    policy = c.write("policy.yaml", "version: 1\n")
    with world() as w:
        learn(w, c, "--ceiling", "public", "--write", policy).expect(125, out=b"", says="the file exists")
        equal(sum(o.connections for o in w.origins), 0, "the command did not run")
        os.symlink(policy, c.dir / "link.yaml")
        learn(w, c, "--ceiling", "public", "--write", c.dir / "link.yaml").expect(125, says="not a regular file")
        made = c.dir / "made.yaml"
        learn(w, c, "--ceiling", "public", "--write", made).expect(0, out=b"")
        equal(made.read_text(), LEARNED, "the file")
        equal(policy.read_text(), "version: 1\n", "the other file")
        equal(sorted(p.name for p in c.dir.iterdir() if p.name.endswith(".yaml") or ".yaml." in p.name),
              ["link.yaml", "made.yaml", "policy.yaml"], "nothing is left beside it")


@test
def names_that_carry_data_are_left_out(c):
    names = ["0123456789abcdef0123456789abcdef.t.example.com", "api.example.com"]
    script = "; ".join(f"curl -sS http://{n}/" for n in names)
    with world() as w:
        w.dns.names[names[0]] = [PUBLIC]
        seen = learn(w, c, "--ceiling", "public", script=script).expect(0, says="looks like encoded data")
        check("t.example.com" not in seen.text and "api.example.com" in seen.text, seen.text)
        seen = learn(w, c, "--ceiling", "public", "--include-suspicious", script=script).expect(0)
        check(names[0] in seen.text, seen.text)


@test
def programs_are_named_where_that_is_asked_for(c):
    with world() as w:
        made = c.dir / "made.yaml"
        learn(w, c, "--ceiling", "public", "--programs", "--write", made).expect(0)
        found = read(made.read_text())["network_policies"]["learned"]["endpoints"]
        equal([e["host"] for e in found], ["api.example.com", "other.example.com"], "hosts")
        check(all([os.path.basename(b) for b in e["binaries"]] == ["curl"] for e in found), str(found))
        run(w, c, made, JOB).expect(0, out=b"hello\n" * 2, err=b"")
        seen = run(w, c, made, "python3 -c 'import urllib.request as u; u.urlopen(\"http://api.example.com/\")'")
        check(seen.code == 1 and b"api.example.com:80 (binary_not_allowed)" in seen.err, str(seen))


@test
def a_flood_of_names_below_one_domain_is_left_out(c):
    script = "for i in $(seq 40); do curl -sS http://n$i.flood.example.com/; done; curl -sS http://api.example.com/"
    with world() as w:
        w.dns.names.update({f"n{i}.flood.example.com": [PUBLIC] for i in range(1, 41)})
        answer = json.loads(learn(w, c, "--ceiling", "public", "--merge", "2", "-o", "json", script=script).expect(0).out)
        equal([a["endpoint"] for a in answer["added"]], ["api.example.com"], "destinations")
        equal((len(answer["left_out"]), answer["connections"]), (40, 41), "names left out, connections")


@test
def a_record_in_memory_that_begins_again_is_learned_from_as_a_whole(c):
    c.write("many.py", f"""
import socket
for i in range(8000):
    with socket.create_connection(("{PUBLIC}", 80), 20) as s:
        s.shutdown(socket.SHUT_WR)
        s.recv(1)
""")
    with world() as w:
        seen = w.execute(c, [c.program(), "egress", "learn", "--ceiling", "public", "-o", "json", "--mount",
                             f"{c.dir / 'many.py'}:/tmp/many.py", "--", "python3", "/tmp/many.py"], env=EMBEDDED)
        answer = json.loads(seen.expect(0).out)
        equal((answer["connections"], answer["complete"]), (8000, True), "connections")


@test
def hostile_names_are_counted_and_never_written(c):
    script = """
import socket
for host in ("a.example.com\\n    - {host: evil.example}", "'x'", "a b", "%0a", "a..b", "*.example.com", "[::1", "x" * 300, "\\x1b[2J"):
    s = socket.create_connection(("127.0.0.1", 3128), 20)
    s.sendall(b"CONNECT " + host.encode() + b":443 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    s.recv(1)
"""
    c.write("hostile.py", script.replace("\\\\", "\\"))
    with world() as w:
        seen = w.execute(c, [c.program(), "egress", "learn", "--resolver", RESOLVER, "--ceiling", "public", "--include-denied",
                             "--include-suspicious", "--mount", f"{c.dir / 'hostile.py'}:/tmp/hostile.py", "--", "python3", "/tmp/hostile.py"],
                         env=EMBEDDED)
        equal((seen.code, seen.out), (0, b"version: 1\nnetwork_policies: {}\n"), str(seen))
        check(b"\x1b" not in seen.err, "nothing acts on the terminal")


@test
def a_daemon_that_runs_the_command_keeps_the_same_record(c):
    with world() as w:
        c.write("daemon/profiles/profile.run.yaml", RUN_PROFILE)
        with Inside(c, w) as d:
            seen = w.execute(c, [c.program(), "egress", "learn", "--ceiling", "public", "--", "sh", "-c", JOB],
                             env={"SANDBOXER_SOCKET": str(d.socket), "SANDBOXER_STATE": str(d.state)})
            equal((seen.code, seen.out.decode()), (0, LEARNED), str(seen))
            equal(len([box for box in d.list("?state=all&limit=1000") if box["profile"] == "profile.run"]), 1, "runs of the daemon")


@test
def a_sandbox_of_the_daemon_is_learned_from(c):
    audit = c.write("audit.yaml", "version: 1\nunlisted: {access: public}\n")
    with world() as w, Inside(c, w) as d:
        cli = Client(d)
        box = cli.create("--policy", audit)
        cli("exec", box, "--", "sh", "-c", JOB).expect(0, out=b"hello\n" * 2)
        seen = cli("egress", "learn", box).expect(0)
        check("+      - host: api.example.com" in seen.text and "-  access: public" in seen.text, seen.text)
        cli("egress", "learn", "--apply", box).expect(0, says="in force")
        cli("exec", box, "--", "sh", "-c", JOB).expect(0, out=b"hello\n" * 2)
        cli("exec", box, "--", "curl", "-sSf", "http://elsewhere.example.com/").expect(22)
        seen = cli("egress", "learn", "--include-denied", "-o", "json", box).expect(0)
        check("elsewhere.example.com" in json.loads(seen.out)["policy"], seen.text)


@test
def wrong_words_are_usage_errors(c):
    for argv, says in (([], "too few arguments"), (["--"], "give a command"), (["a", "b"], "give the ID"),
                       (["--apply", "--", "true"], "need the ID"),
                       (["--server", "http://127.0.0.1:1", "--", "true"], "need the ID"), (["--allow", "x", "sbx_1"], "are for a command"),
                       (["--ceiling", "local", "--", "true"], "ceiling"), (["--merge", "1", "--", "true"], "merge")):
        c.cli("egress", "learn", *argv).expect(2, out=b"", says=says)


main()
