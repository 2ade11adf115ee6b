#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""sandboxer run --allow, --policy: real clients inside, recording origins outside."""

import contextlib
import json
import os
import shutil
import signal
import threading

from egress_world import INSIDE, OUTSIDE, PUBLIC, PUBLIC6, PUBLIC_TOO, RESOLVER, World, answer, echo, swallow
from harness import Skip, check, equal, main, test, wait_for

EMBEDDED = {"SANDBOXER_NO_DAEMON": "1"}
POLICY = """
version: 1
network_policies:
  rest:
    endpoints:
      - host: api.example.com
        port: 80
        protocol: rest
        access: read-only
    binaries: [{path: "/**"}]
  programs:
    endpoints:
      - host: programs.example.com
        port: 80
    binaries: [{path: "/**/curl"}]
"""
REFUSED = b"refused: "
RAW = """
import socket
s = socket.create_connection(("%s", %d), 5)
s.sendall(b"GET /raw HTTP/1.1\\r\\nHost: %s\\r\\nConnection: close\\r\\n\\r\\n")
data = b""
while not data.endswith(b"hello\\n"):
    data += s.recv(65536)
print("hello")
"""


def run(w, c, *argv, **options):
    """In the world's network, without a daemon."""
    return w.execute(c, [c.program(), "run", "--resolver", RESOLVER, *argv], env=EMBEDDED, **options)


def sh(w, c, script, *flags):
    return run(w, c, *flags, "--", "sh", "-c", script)


def need(program):
    if not shutil.which(program):
        raise Skip(f"{program} is not installed")


@contextlib.contextmanager
def world():
    with World() as w:
        w.dns.names.update({"api.example.com": [PUBLIC], "programs.example.com": [PUBLIC],
                            "evil.example": [PUBLIC_TOO]})
        yield w


CLIENTS = {
    "curl": "curl -sS http://api.example.com/x",
    "wget": "wget -qO- http://api.example.com/x",
    "python3": "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://api.example.com/x\").read().decode(), end=\"\")'",
    "node": "node -e 'fetch(\"http://api.example.com/x\").then(r => r.text()).then(t => process.stdout.write(t))'",
}


@test
def names_are_found_for_one_family(c):
    """glibc asks nobody for a family of which it sees no address but the loopback one."""
    with World() as w:
        w.dns.names["api.example.com"] = [PUBLIC, PUBLIC6]
        w.http()
        for family in "46":
            seen = sh(w, c, f"getent ahostsv{family} api.example.com", "--allow", "api.example.com:80")
            check(seen.code == 0 and b"STREAM" in seen.out, f"IPv{family}: {seen}")
        equal(sh(w, c, "curl -sS --noproxy '*' -4 http://api.example.com/x", "--allow", "api.example.com:80").out, b"hello\n", "curl -4")


@test
def every_client_reaches_what_is_allowed(c):
    with world() as w:
        origin = w.http()
        for program, script in CLIENTS.items():
            for before in ("", "unset HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy; "):
                if not shutil.which(program):
                    continue
                seen = sh(w, c, before + script, "--allow", "api.example.com:80")
                seen.expect(0, out=b"hello\n", err=b"")
        check(b"GET /x HTTP/1.1" in origin.bytes, "the origin was asked")


@test
def every_client_is_refused_what_is_not(c):
    with world() as w:
        w.http(PUBLIC_TOO)
        for program, script in CLIENTS.items():
            for before in ("", "unset HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy; "):
                if not shutil.which(program):
                    continue
                seen = sh(w, c, before + script.replace("api.example.com", "evil.example"), "--allow", "api.example.com:80")
                check(REFUSED in seen.err and b"evil.example" in seen.err, f"{program}: {seen}")
                check(b"hello" not in seen.out, f"{program}: {seen}")
        w.nothing_got_out()


@test
def a_raw_socket_is_captured(c):
    need("python3")
    with world() as w:
        w.http()
        w.http(PUBLIC_TOO)
        run(w, c, "--allow", "api.example.com:80", "--", "python3", "-c",
            RAW % ("api.example.com", 80, "api.example.com")).expect(0, out=b"hello\n", err=b"")
        seen = run(w, c, "--allow", "api.example.com:80", "--", "python3", "-c", RAW % (PUBLIC_TOO, 80, "x"))
        check(seen.code == 1 and f"{PUBLIC_TOO}:80 (policy_denied)".encode() in seen.err, str(seen))
        equal([o.connections for o in w.origins], [1, 0], "connections")


@test
def git_clones_through_it(c):
    need("git")
    with world() as w:
        w.http()
        seen = sh(w, c, "git ls-remote http://api.example.com/r.git; git ls-remote http://evil.example/r.git",
                  "--allow", "api.example.com:80")
        check(b"evil.example:80 (policy_denied)" in seen.err, str(seen))
        check(b"GET /r.git/info/refs" in w.origins[0].bytes, "git asked the origin")


@test
def a_policy_file_rules_requests_and_programs(c):
    policy = c.write("policy.yaml", POLICY)
    log = c.dir / "log.jsonl"
    with world() as w:
        origin = w.http()
        seen = sh(w, c, "curl -sS http://api.example.com/x; curl -sS -X DELETE http://api.example.com/x; "
                        "curl -sS http://programs.example.com/p; wget -qO- http://programs.example.com/q",
                  "--policy", policy, "--egress-log", log)
        equal(seen.out.count(b"hello\n"), 2, f"answers in {seen}")
        check(b"DELETE" not in origin.bytes and b"GET /q" not in origin.bytes, "only what is allowed got out")
        check(REFUSED in seen.err, str(seen))
        events = [json.loads(line) for line in log.read_text().splitlines()]
        check(any(e.get("action_id") == 2 for e in events), "denials are on record")
        check(any(e.get("actor", {}).get("process", {}).get("file", {}).get("name") == "curl" for e in events),
              "programs are on record")


@test
def a_client_may_offer_http_2_and_change_to_a_tunnel(c):
    """An offer of h2c is left out where requests are inspected; behind a request, a kept connection may carry a CONNECT."""
    c.write("policy.yaml", POLICY)
    behind = """
import socket
s = socket.create_connection(("127.0.0.1", 3128), 20)
for head, end in ((b"GET http://programs.example.com:/x HTTP/1.1\\r\\nHost: programs.example.com:\\r\\n\\r\\n", b"hello\\n"),
                  (b"CONNECT programs.example.com:80 HTTP/1.1\\r\\nHost: programs.example.com:80\\r\\n\\r\\n", b"\\r\\n\\r\\n"),
                  (b"GET /x HTTP/1.1\\r\\nHost: programs.example.com\\r\\n\\r\\n", b"hello\\n")):
    s.sendall(head)
    data = b""
    while not data.endswith(end):
        more = s.recv(65536)
        assert more, data
        data += more
    print(data.split()[1].decode())
"""
    with world() as w:
        web = w.http(PUBLIC, 80)
        seen = sh(w, c, "".join(f"curl -sS --http2 {way} http://api.example.com/x; " for way in ("", "--noproxy '*'", "-p")), "--policy", c.dir / "policy.yaml")
        seen.expect(0, out=b"hello\n" * 3, err=b"")
        check(b"h2c" not in web.bytes.lower(), "the offer got out")
        c.write("behind.py", behind)
        run(w, c, "--mount", f"{c.dir / 'behind.py'}:/tmp/behind.py", "--allow", "programs.example.com:80", "--", "python3", "/tmp/behind.py").expect(0, out=b"200\n" * 3)


@test
def package_managers_reach_what_they_are_configured_for(c):
    variables = {"pip3": "PIP_INDEX_URL", "npm": "NPM_CONFIG_REGISTRY", "go": "GOPROXY"}
    found = [name for program, name in variables.items() if os.path.exists(f"/usr/bin/{program}")]
    if not found:
        raise Skip(f"none of {', '.join(variables)} is in /usr/bin")
    with world() as w:
        w.http()
        w.http(PUBLIC_TOO)
        seen = sh(w, c, "curl -sS http://api.example.com/x; curl -sSf http://evil.example/x", "--allow-packages",
                  "--env", f"{found[0]}=http://api.example.com/simple")
        check(seen.out == b"hello\n" and b"evil.example:80 (policy_denied)" in seen.err, str(seen))
        equal(w.origins[1].connections, 0, "connections elsewhere")


WAYS = {"by the variables": "", "captured": "--noproxy '*'", "by the proxy": "-x http://127.0.0.1:3128 --noproxy ''",
        "by CONNECT": "-p -x http://127.0.0.1:3128 --noproxy ''"}
PORT = 8099  # of what the machine has for itself


def calls(*urls):
    return "".join(f"curl -sS -m 20 {way} {url} || echo failed; " for url in urls for way in WAYS.values())


@test
def the_loopback_of_the_machine_is_reached_where_it_is_granted(c):
    """By its address and its names, with and without the proxy; and the sandbox has its own loopback beside it."""
    own = "python3 -m http.server 5055 --bind 127.0.0.1 >/dev/null 2>&1 & " \
          "until curl -sf -o /dev/null http://127.0.0.1:5055/; do sleep 0.1; done; curl -sf -o /dev/null http://localhost:5055/ && echo own"
    urls = [f"http://{host}:{PORT}/" for host in ("127.0.0.1", "localhost", "host.sandboxer.internal")]
    with world() as w:
        page = w.origin("127.0.0.1", PORT, answer(b"page\n"), inside=True)
        for item in (f"127.0.0.1:{PORT}", f"localhost:{PORT}"):
            sh(w, c, calls(*urls) + own, "--allow", item).expect(0, out=b"page\n" * len(WAYS) * 3 + b"own\n", err=b"")
        equal(page.connections, 2 * len(WAYS) * 3, "connections to the machine")
        # Granted by its name alone, the port of 127.0.0.1 inside stays the sandbox's.
        seen = sh(w, c, calls(urls[2]) + f"curl -sS http://127.0.0.1:{PORT}/", "--allow", f"host.sandboxer.internal:{PORT}")
        check(seen.out == b"page\n" * len(WAYS) and b"Couldn't connect" in seen.err, str(seen))
        equal(w.dns.asked, [], "names that were looked up")


@test
def the_loopback_of_the_machine_is_not_reached_otherwise(c):
    with world() as w:
        page = w.origin("127.0.0.1", PORT, swallow, inside=True)
        urls = [f"http://{host}:{PORT}/" for host in ("127.0.0.1", "localhost", "host.sandboxer.internal")]
        seen = sh(w, c, calls(*urls).replace("-sS", "-sSf"), "--allow", "api.example.com:80", "--allow", f"127.0.0.1:{PORT + 1}")
        equal((seen.out, page.connections), (b"failed\n" * len(WAYS) * 3, 0), "what came and arrived")
        check(f"host.sandboxer.internal:{PORT} (port_not_allowed)".encode() in seen.err, str(seen))
        c.write("localhost.yaml", "version: 1\nnetwork_policies: {a: {endpoints: [{host: localhost, port: 80}]}}\n")
        run(w, c, "--policy", c.dir / "localhost.yaml", "--", "true").expect(125, says="is a loopback name.*127.0.0.1")


@test
def a_name_is_reached_at_the_private_address_that_is_declared(c):
    """In every way, whatever DNS says of it."""
    with world() as w:
        w.dns.names["mirror.corp.example"] = [[PUBLIC_TOO], ["10.77.0.9"]]
        mirror, elsewhere = w.http(OUTSIDE, 80), w.http(PUBLIC_TOO, 80)
        url = "http://mirror.corp.example/x"
        sh(w, c, calls(url), "--allow", f"mirror.corp.example:80={OUTSIDE}").expect(0, out=b"hello\n" * len(WAYS), err=b"")
        equal((mirror.connections, elsewhere.connections, w.dns.asked), (len(WAYS), 0, []), "connections, and lookups")
        # Inspected, and in a range: then it is looked up, and where it is has to be in there.
        w.dns.names["mirror.corp.example"] = [OUTSIDE]
        policy = "version: 1\nnetwork_policies: {a: {endpoints: [{host: '*.corp.example', port: 80, allowed_ips: [10.77.0.0/30], " \
                 "protocol: rest, access: read-only}]}}\n"
        c.write("range.yaml", policy)
        sh(w, c, calls(url), "--policy", c.dir / "range.yaml").expect(0, out=b"hello\n" * len(WAYS), err=b"")
        for address in ("10.77.0.9", INSIDE, "169.254.169.254", "127.0.0.1"):
            w.dns.names["mirror.corp.example"] = [address]
            before = mirror.connections
            seen = sh(w, c, calls(url).replace("-sS", "-sSf"), "--policy", c.dir / "range.yaml")
            equal((seen.out, mirror.connections), (b"failed\n" * len(WAYS), before), f"at {address}")
        explain = [c.program(), "egress", "explain", c.dir / "range.yaml", "--to", "mirror.corp.example:80", "--method", "GET", "--path", "/"]
        c.execute(explain).expect(0)


@test
def tls_reaches_a_private_name_that_is_declared(c):
    """The hello names the server that was granted; one that names another, or none, does not get there."""
    with world() as w:
        mirror = w.secure(c.dir, "mirror.corp.example", OUTSIDE)
        granted = ["--mount", f"{mirror.certificate}:/tmp/authority.pem", "--allow", f"mirror.corp.example:443={OUTSIDE}"]
        trust = "--cacert /tmp/authority.pem"
        seen = sh(w, c, calls(f"{trust} https://mirror.corp.example/"), *granted)
        seen.expect(0, out=b"hello\n" * len(WAYS), err=b"")
        equal((mirror.connections, w.dns.asked), (len(WAYS), []), "connections, and lookups")
        before = mirror.bytes
        other = "--connect-to other.corp.example:443:mirror.corp.example:443"
        wrong = f"-k {other} https://other.corp.example/", f"-k https://{OUTSIDE}/"
        seen = sh(w, c, "".join(calls(url) for url in wrong), *granted)
        equal((seen.out, mirror.bytes), (b"failed\n" * len(WAYS) * len(wrong), before), f"what came, and what the mirror heard: {seen}")
        check(b"mirror.corp.example:443 (sni_mismatch)" in seen.err, str(seen))


@test
def tls_reaches_the_loopback_of_the_machine_where_it_is_granted(c):
    """By each of its names and by its address, which a hello does not name; captured, and through the proxy."""
    names = "127.0.0.1", "localhost", "host.sandboxer.internal"
    with world() as w:
        page = w.secure(c.dir, "localhost", "127.0.0.1", PORT, inside=True, names="IP:127.0.0.1,DNS:localhost,DNS:host.sandboxer.internal")
        mount = "--mount", f"{page.certificate}:/tmp/authority.pem"
        script = calls(*(f"--cacert /tmp/authority.pem https://{name}:{PORT}/" for name in names))
        for item in (f"127.0.0.1:{PORT}", f"localhost:{PORT}"):
            before = page.connections
            sh(w, c, script, *mount, "--allow", item).expect(0, out=b"hello\n" * len(WAYS) * len(names), err=b"")
            equal(page.connections - before, len(WAYS) * len(names), f"connections to the machine with {item}")
        before = page.bytes
        fronted = f"-k --connect-to api.example.com:{PORT}:localhost:{PORT} https://api.example.com:{PORT}/"
        seen = sh(w, c, calls(fronted), *mount, "--allow", f"localhost:{PORT}")
        equal((seen.out, page.bytes), (b"failed\n" * len(WAYS), before), f"what came of a hello that names another: {seen}")


@test
def a_bad_policy_starts_nothing(c):
    policy = c.write("policy.yaml", "version: 1\nnetwork_policies:\n  a:\n    endpoints:\n      - hosst: x\n")
    for flags, says in ((["--policy", policy], r"line 5: network_policies\.a\.endpoints\[0\]\.hosst"),
                        (["--policy", c.dir / "nowhere"], "nowhere"),
                        (["--allow", "a b"], "--allow: 'a b'"),
                        (["--egress-log", "x"], "go with --allow")):
        c.execute([c.program(), "run", *flags, "--", "echo", "started"], env=EMBEDDED).expect(125, out=b"", says=[says])


@test
def without_a_word_nothing_is_reached(c):
    seen = c.execute([c.program(), "run", "--allow", "api.example.com", "--", "sh", "-c",
                      "curl -sS -m 20 https://evil.example/"], env=EMBEDDED)
    check(seen.code != 0 and b"evil.example:443 (policy_denied); --allow evil.example:443 would allow it" in seen.err,
          str(seen))


USES = """
version: 1
network_policies:
  always:
    endpoints: [{host: api.example.com, ports: [80, 7]}]
    binaries: [{path: "/**"}]
  twice:
    endpoints: [{host: programs.example.com, port: 80}]
    binaries: [{path: "/**"}]
    uses: 2
"""
TUNNEL = """
import socket
s = socket.create_connection(("127.0.0.1", 3128))
s.sendall(b"CONNECT api.example.com:7 HTTP/1.1\\r\\nHost: api.example.com:7\\r\\n\\r\\n")
print(s.recv(4096).split()[1].decode(), flush=True)
try:
    while s.recv(4096):
        pass
except OSError:
    pass
print("ended", flush=True)
"""


class Session:
    """A run whose program executes lines that it is sent, each to its end."""

    def __init__(self, w, c, *flags):
        self.process = w.start(c, [c.program(), "run", "--resolver", RESOLVER, *flags, "--", "sh", "-c",
                                   "echo up; while read -r line; do eval \"$line\"; end=$?; echo; echo \" $end\"; done"], env=EMBEDDED)
        equal(self.process.stdout.readline(), b"up\n", "output")

    def send(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def do(self, line):
        """Its output, and its exit status."""
        self.send(line)
        out = b""
        while True:
            got = self.process.stdout.readline()
            check(got, "the program ended")
            if got.startswith(b" "):
                return out[:-1].decode(), int(got)  # the newline is ours
            out += got

    def fetch(self, host="api.example.com", more=""):
        return self.do(f"curl -sS -m 60 {more} http://{host}/x 2>&1")

    def worker(self, other=0):
        return wait_for(lambda: [pid for pid in children(self.process.pid, "sandboxer-egres") if pid != other], "the worker is there")[0]

    def hears(self, text):
        for line in self.process.stderr:
            if text in line:
                return
        raise AssertionError(f"nobody says '{text}'")

    def end(self):
        self.process.stdin.close()
        err = self.process.stderr.read().decode()
        equal(self.process.wait(timeout=60), 0, f"the run's end: {err}")


@test
def a_worker_that_dies_is_replaced(c):
    with world() as w:
        w.http()
        w.origin(PUBLIC, 7, echo)
        log, tunnel = c.dir / "egress.jsonl", c.write("tunnel.py", TUNNEL)
        session = Session(w, c, "--policy", c.write("policy.yaml", USES), "--egress-log", log, "--mount", f"{tunnel}:/tunnel.py")
        equal(session.fetch(), ("hello\n", 0), "before")
        equal(session.fetch("programs.example.com"), ("hello\n", 0), "the first of two uses")
        session.send("python3 /tunnel.py")
        equal(session.process.stdout.readline(), b"200\n", "a tunnel")
        old = session.worker()
        os.kill(old, signal.SIGKILL)
        equal([session.process.stdout.readline() for _ in range(3)], [b"ended\n", b"\n", b" 0\n"], "its end, with its worker")
        session.hears(b"the egress worker died")
        new = session.worker(old)
        wait_for(lambda: session.fetch() == ("hello\n", 0), "another worker serves", 60)
        check("uses_spent" in session.fetch("programs.example.com")[0], "a use that the first worker may have counted")
        for i in range(3):
            os.kill(new, signal.SIGKILL)
            new = session.worker(new)
            wait_for(lambda: session.fetch() == ("hello\n", 0), f"the worker after death {i}", 60)
        session.end()
        records = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        equal([e["unmapped"]["seq"] for e in records], list(range(1, len(records) + 1)), "places in the chain")
        check(b": intact: " in c.execute([c.program(), "audit", "verify", "--file", log]).expect(0).out, "the chain")


@test
def a_worker_that_dies_again_and_again_leaves_no_connection_hanging(c):
    with world() as w:
        w.http()
        session = Session(w, c, "--allow", "api.example.com:80")
        equal(session.fetch(), ("hello\n", 0), "before")

        def killing():
            while not over.is_set():
                for pid in children(session.process.pid, "sandboxer-egres"):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                over.wait(0.01)
        over = threading.Event()
        thread = threading.Thread(target=killing)
        thread.start()
        try:
            session.hears(b"the network stays down")
        finally:
            over.set()
            thread.join()
        refused = {"by the proxy": "", "captured": "--noproxy '*'", "by address": f"--noproxy '*' --resolve api.example.com:80:{PUBLIC}"}
        for what, flags in refused.items():
            out, code = session.fetch(more=flags)
            check(code not in (0, 28), f"{what}: {code} {out}")  # 28: it waited
        check(session.do("timeout 60 getent ahosts api.example.com")[1] not in (0, 124), "a name")
        session.end()


@test
def a_worker_that_hangs_is_replaced_and_does_not_hold_up_the_end(c):
    with world() as w:
        w.http()
        session = Session(w, c, "--allow", "api.example.com:80")
        equal(session.fetch(), ("hello\n", 0), "before")
        old = session.worker()
        os.kill(old, signal.SIGSTOP)
        session.hears(b"the egress worker hangs")
        os.kill(session.worker(old), 0)
        wait_for(lambda: session.fetch() == ("hello\n", 0), "another worker serves", 60)
        os.kill(session.worker(old), signal.SIGSTOP)
        session.end()


@test
def a_log_that_nobody_reads_denies_and_holds_up_nothing(c):
    with world() as w:
        w.http()
        fifo = c.dir / "fifo"
        os.mkfifo(fifo, 0o600)
        os.chown(fifo, c.uid, c.uid)
        run(w, c, "--allow", "api.example.com:80", "--egress-log", fifo, "--", "true").expect(125, says="no reader")
        fd = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        session = Session(w, c, "--allow", "api.example.com:80", "--egress-log", fifo)
        for turn in range(2):
            wait_for(lambda: "audit_unavailable" in session.fetch(more="-w '\\n' " + "http://api.example.com/y " * 20)[0], f"nothing is allowed, turn {turn}", 60)
            check("audit_unavailable" in session.fetch()[0], "and goes on so")

            def again():
                with contextlib.suppress(BlockingIOError):
                    while os.read(fd, 65536):
                        pass
                return session.fetch() == ("hello\n", 0)
            wait_for(again, "it goes on when the log is read")
        session.end()
        os.close(fd)


@test
def what_a_terminal_sends_does_not_end_the_network(c):
    process = c.start([c.program(), "run", "--allow", "api.example.com", "--", "sh", "-c",
                       "trap 'echo heard' INT; echo up; while ! read x; do :; done; curl -sS -m 20 https://evil.example/"],
                      env=EMBEDDED, start_new_session=True)
    equal(process.stdout.readline(), b"up\n", "output")
    os.killpg(process.pid, signal.SIGINT)
    equal(process.stdout.readline(), b"heard\n", "output")
    _, err = process.communicate(b"on\n", timeout=20)
    check(b"worker died" not in err and b"evil.example:443 (policy_denied)" in err, err.decode())


def children(pid, name):
    found = []
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        for child in file.read().split():
            with contextlib.suppress(OSError), open(f"/proc/{child}/comm", encoding="utf-8") as comm:
                if comm.read().strip() == name:
                    found.append(int(child))
    return found


main()
