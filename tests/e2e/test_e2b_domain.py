#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Sandboxes by name: https://PORT-ID.DOMAIN, with a certificate of ours or a given one, for curl and E2B's clients."""

import contextlib
import http.client
import os
import select
import signal
import socket
import ssl
import warnings

from daemon import Answer, Daemon
from e2b import Served
from e2b_story import BUILD, STORY, import_base
from harness import check, equal, main, test, wait_for
from mcp import script
from npm import modules, tell
from tcp import flood, free_port, stopped

DOMAIN = "sandboxes.test"
NEWEST, INSTALL_SECONDS = ("e2b@2.51.0",), 170
# Stands for the DNS server that a domain has.
NAMES = """
const dns = require('dns'), lookup = dns.lookup;
dns.lookup = (name, options, done) => lookup(name.endsWith('.%s') ? '127.0.0.1' : name, options, done);
""" % DOMAIN


def at(port, box):
    """The first part of a name."""
    return f"{port}-{box.id}"


class Named(Served):
    """A daemon with a domain; `port` is that of its plain interface."""

    def __init__(self, c, more=""):
        self.secure = free_port()
        super().__init__(c, config=f"domain: {{name: {DOMAIN}, listen: '127.0.0.1:{self.secure}'{more}}}\n")
        self.authority = self.d.state / "tls" / DOMAIN / "authority.pem"

    def context(self, authority=None):
        return ssl.create_default_context(cafile=str(authority or self.authority))

    def connect(self, name, context=None):
        s = socket.create_connection(("127.0.0.1", self.secure), 60)
        return (context or self.context()).wrap_socket(s, server_hostname=f"{name}.{DOMAIN}" if name else DOMAIN)

    def over(self, method, name, path, body=None, context=None, **headers):
        """A request to that name."""
        connection = http.client.HTTPConnection(f"{name}.{DOMAIN}" if name else DOMAIN, self.secure, timeout=60)
        with contextlib.closing(connection):
            connection.sock = self.connect(name, context)
            connection.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())


def serving(s, box, port=8080):
    """Something that answers inside, with the path it was asked for."""
    program = f"""
import http.server
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        data = self.path.encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)
    def log_message(self, *a): pass
http.server.HTTPServer(('127.0.0.1', {port}), H).serve_forever()
"""
    s.d.api.post(f"/v1/sandboxes/{box.id}/processes", {"argv": ["python3", "-c", program], "background": True}).expect(201)
    wait_for(lambda: s.d.api.get(f"/v1/sandboxes/{box.id}/ports/{port}").json["open"], "the port is open")


@test
def every_form_of_an_id_is_a_name(c):
    """Python's TLS, whose wildcards match no underscore, takes the names that clients make of the ids they are given."""
    with Named(c) as s:
        box = s.create(s.key()["E2B_API_KEY"])
        context = s.context()
        check(context.check_hostname and context.verify_mode == ssl.CERT_REQUIRED, "names are checked")
        token = {"X_Access_Token": box.token}
        for name in (box.id, f"sbx-{box.id[3:]}", f"{box.id}-sandboxer", box.id.upper()):  # the third: clients that append the clientID
            with contextlib.closing(s.connect(f"49983-{name}", context)):
                pass
        for name in (box.id, f"sbx-{box.id[3:]}", f"{box.id}-sandboxer"):
            s.over("GET", f"49983-{name}", "/health", context=context, **token).expect(204)
        try:
            s.connect(f"49983-sbx_{box.id[3:]}", context).close()
            check(False, "Python's TLS takes an underscore now: the reason for these ids is gone")
        except ssl.SSLCertVerificationError:
            pass
        s.ask("GET", "/health", Host=f"49983-sbx_{box.id[3:]}.{DOMAIN}", **token).expect(204)  # others take it


@test
def names_lead_to_ports(c):
    with Named(c) as s:
        key = s.key()["E2B_API_KEY"]
        box = s.create(key)
        serving(s, box)
        token = {"X_Access_Token": box.token}
        for path in ("/", "/v1/sandboxes", "/sandboxes", "/healthz", "/a?b=c"):  # all of them are the server's inside
            equal(s.over("GET", at(8080, box), path, **token).expect(200).data, path.encode(), "what it says")
        s.over("GET", at(49983, box), "/health", **token).expect(204)
        s.over("GET", at(49983, box), "/health").expect(401)
        equal(s.over("GET", "api", f"/sandboxes/{box.id}", X_API_KEY=key).expect(200).json["sandboxID"], box.id, "the id")
        for name in ("", "api"):
            s.over("GET", name, "/healthz").expect(200)
        # The name counts, whatever else is said.
        other = s.create(key)
        s.over("GET", at(8080, other), "/", X_Access_Token=other.token, **{"E2b-Sandbox-Id": box.id}).expect(502)
        # Behind somebody else's TLS, too.
        got = s.ask("GET", "/plain", Host=f"8080-{box.id}.{DOMAIN}", **token)
        equal(got.expect(200).data, b"/plain", "what it says on the plain port")


def say_hello(context):
    """A client's side of TLS without a socket, and its first message."""
    given, made = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(given, made, server_hostname=DOMAIN)
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return tls, given, made


def exchange(s, tls, given, made, request):
    """The rest of the handshake, then this request: the first piece of the answer, nothing if there is none."""
    steps = [tls.do_handshake, lambda: tls.write(request), lambda: tls.read(65536)]
    got = b""
    with contextlib.suppress(ssl.SSLEOFError, ConnectionError):
        while steps:
            try:
                got = steps[0]()
                steps.pop(0)
            except ssl.SSLWantReadError:
                s.sendall(made.read())
                came = s.recv(65536)
                given.write(came) if came else given.write_eof()
        return got
    return b""


@test
def what_came_is_read_before_a_flood_takes_its_place(c):
    """Clients that send nothing come in numbers, eight of whom have room; behind them comes what an earlier client sends."""
    with Named(c, more="}\nlimits: {connections: 64, connections_unauthenticated: 16") as s:
        key = s.key()["E2B_API_KEY"]
        request = f"GET /v2/sandboxes HTTP/1.1\r\nHost: api.{DOMAIN}\r\nX-API-Key: {key}\r\nConnection: close\r\n\r\n".encode()
        for port in (s.secure, s.port) * 5:  # after a handshake: a request
            with s.connect("api") as mine, contextlib.ExitStack() as crowd:
                mine.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as clients do: what is sent is not held back
                with stopped(s.d):
                    for one in flood(port, 40):
                        crowd.enter_context(one)
                    mine.sendall(request)
                check(mine.recv(65536).startswith(b"HTTP/1.1 200 "), f"no answer after a handshake, beside those at {port}")
        for _ in range(5):  # before it: the hello, whose sender stays until eight more have come
            with socket.create_connection(("127.0.0.1", s.secure), 60) as mine, contextlib.ExitStack() as crowd:
                tls, given, made = say_hello(s.context())
                s.over("GET", "api", "/healthz").expect(200)  # it is accepted by now
                with stopped(s.d):
                    for one in flood(s.secure, 12):
                        crowd.enter_context(one)
                    mine.sendall(made.read())
                check(exchange(mine, tls, given, made, request).startswith(b"HTTP/1.1 200 "), "no answer to a hello")


@test
def addresses_that_we_tell(c):
    """Who comes by HTTPS is sent nowhere else."""
    with Named(c) as s:
        key = s.key()["E2B_API_KEY"]
        auth = {"X_API_KEY": key}
        made = s.over("POST", "api", "/v2/sandboxes", b'{"templateID": "base"}', **auth).expect(201).json
        equal(made["domain"], f"{DOMAIN}:{s.secure}", "the domain of who came by it")
        for name in ("api", ""):
            equal(s.over("GET", name, f"/sandboxes/{made['sandboxID']}", **auth).expect(200).json["domain"], f"{DOMAIN}:{s.secure}", f"by {name!r}")
        connect = f"/v2/sandboxes/{made['sandboxID']}/connect"
        equal(s.over("POST", "api", connect, b"{}", **auth).expect(200).json["domain"], f"{DOMAIN}:{s.secure}", "of one that is connected to")
        # By an address, and in the clear, there is none; behind somebody else's TLS there is.
        for headers, domain in (({}, None), ({"Host": f"api.{DOMAIN}"}, None), ({"Host": f"api.{DOMAIN}", "X-Forwarded-Proto": "https"}, DOMAIN)):
            equal(s.ask("POST", connect, {}, **auth, **headers).expect(200).json["domain"], domain, f"by {headers}")
        build = s.over("POST", "api", "/v3/templates", b'{"name": "t"}', **auth).expect(202).json["templateID"]
        secure = f"https://api.{DOMAIN}:{s.secure}/"
        for scheme, answer in ((secure, s.over("GET", "api", f"/templates/{build}/files/abc", **auth)), (f"http://127.0.0.1:{s.port}/", s.ask("GET", f"/templates/{build}/files/abc", **auth))):
            url = answer.expect(201).json["url"]
            check(url.startswith(scheme), f"where files go: {url}")
        bearer = {"Authorization": f"Bearer {key}"}
        shown = s.over("GET", "api", f"/daytona/sandbox/{made['sandboxID']}", **bearer).expect(200).json["toolboxProxyUrl"]
        check(shown.startswith(secure), f"a toolbox: {shown}")
        preview = s.over("GET", "api", f"/daytona/sandbox/{made['sandboxID']}/ports/8080/preview-url", **bearer).expect(200).json["url"]
        check(preview.startswith(secure), f"a preview: {preview}")


@test
def who_may_not_gets_nothing(c):
    with Named(c) as s:
        key = s.key()["E2B_API_KEY"]
        box, other = s.create(key), s.create(key)
        serving(s, box)
        for token in ({}, {"X_Access_Token": other.token}, {"X_API_KEY": key}):
            s.over("GET", at(8080, box), "/", **token).expect(403)
        # Nobody who comes by TLS is a user of this machine.
        for path in ("/v1/sandboxes", "/v1/tokens"):
            s.over("GET", "api", path).expect(401)
        # Only the holder of its token is told that a sandbox is not there.
        for token in ({}, {"X_Access_Token": box.token}):
            equal(s.over("GET", "8080-sbx-nothing", "/", **token).expect(403).data, s.over("GET", at(8080, other), "/", **token).expect(403).data, f"with {token}")
        s.over("DELETE", "api", f"/sandboxes/{other.id}", X_API_KEY=key).expect(204)
        for port in (8080, 49983):
            s.over("GET", at(port, other), "/health", X_Access_Token=other.token).expect(502)
        for name in (at(0, box), at(65536, box), at("x", box), box.id, "other"):
            s.over("GET", name, "/healthz").expect(403, code="denied")
        s.ask("GET", "/healthz", Host=f"api.{DOMAIN}.evil.test").expect(403)
        s.over("GET", "api", "/healthz", Origin="https://evil.test").expect(403)


@test
def what_clients_need_is_printed(c):
    port = free_port()
    with Daemon(c, config=f"domain: {{name: {DOMAIN}, listen: '127.0.0.1:{port}'}}\n") as d:
        made = c.cli("token", "create", "--e2b", env={"SANDBOXER_SOCKET": str(d.socket), "SANDBOXER_STATE": str(d.state)}).expect(0)
        for line in (f"export E2B_DOMAIN='{DOMAIN}:{port}'", f"export NODE_EXTRA_CA_CERTS='{d.state}/tls/{DOMAIN}/authority.pem'"):
            check(line in made.text.splitlines(), f"{line!r} is not printed: {made.text}")
        check("E2B_API_URL" not in made.text, "there is no other address")


@test
def a_given_certificate_is_used(c):
    given = c.dir / "given"
    c.mkdir(given)
    names = f"subjectAltName=DNS:{DOMAIN},DNS:*.{DOMAIN}"
    c.execute(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=given",
               "-addext", names, "-keyout", given / "key", "-out", given / "certificate"]).expect(0)
    with Named(c, f", certificate: {given}/certificate, key: {given}/key") as s:
        s.over("GET", "api", "/healthz", context=s.context(given / "certificate")).expect(200)
        check(not s.authority.exists(), "no authority is made")
    c.write("given/key", "no key")
    d = Daemon(c, "bad", config=f"domain: {{name: {DOMAIN}, listen: '127.0.0.1:{free_port()}', certificate: {given}/certificate, key: {given}/key}}\n")
    check(not d.spawn(), "a daemon without its key does not serve")
    check("the key is not valid PEM" in d.tail(), f"it says why: {d.tail()}")
    d.wait()


@test
def certificates_are_renewed(c):
    given = c.dir / "given"
    c.mkdir(given)
    names = f"subjectAltName=DNS:{DOMAIN},DNS:*.{DOMAIN}"

    def make(name):
        c.execute(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                   "-addext", names, "-keyout", given / "key", "-out", given / "certificate"]).expect(0)
        return ssl.create_default_context(cafile=str(given / "certificate"))

    def serves(s, context):
        try:
            return s.over("GET", "api", "/healthz", context=context).status == 200
        except ssl.SSLCertVerificationError:
            return False

    first = make("first")
    with Named(c, f", certificate: {given}/certificate, key: {given}/key") as s, s.connect("api", first) as old:
        second = make("second")
        check(serves(s, first) and not serves(s, second), "nobody said so")
        s.d.process.send_signal(signal.SIGHUP)
        wait_for(lambda: serves(s, second), "the new one is served")
        old.sendall(f"GET /healthz HTTP/1.1\r\nHost: api.{DOMAIN}\r\n\r\n".encode())
        check(old.recv(4096).startswith(b"HTTP/1.1 200"), "a connection that there was goes on")
        c.write("given/key", "no key")
        s.d.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "tls.renewal_failed" in s.d.log_path.read_text(), "that it is bad is said")
        check(serves(s, second), "the last good one stays")
    # Without anybody's doing, also one of ours.
    third = make("third")
    with Named(c, f", certificate: {given}/certificate, key: {given}/key, renew: 1s") as s:
        fourth = make("fourth")
        wait_for(lambda: serves(s, fourth), "the new one is served")
        check(not serves(s, third), "the old one is not")
    with Named(c, ", renew: 1s") as s:
        serial = leaf(s)
        wait_for(lambda: leaf(s) != serial, "a new one is made")


def leaf(s):
    with s.connect("api") as one:
        return one.getpeercert()["serialNumber"]


@test
def an_authority_stays_and_is_good_for_its_domain_alone(c):
    with Named(c) as s:
        first, old = s.authority.read_bytes(), s.context()
        check(not os.stat(s.authority.parent / "authority.key").st_mode & 0o077, "its key is nobody else's")
        s.d.stop()
        s.start()
        equal(s.authority.read_bytes(), first, "the authority after a restart")
        s.over("GET", "api", "/healthz", context=old).expect(200)
        text = c.execute(["openssl", "x509", "-in", s.authority, "-noout", "-text"]).expect(0).text
        check(f"DNS:{DOMAIN}" in text and "Name Constraints: critical" in text, "it is limited to the domain")
        with contextlib.suppress(ssl.SSLCertVerificationError):
            s.connect("a.b")
            check(False, "a name two levels below is no name of the certificate")


@test
def hostile_hellos_cost_themselves_only(c):
    with Named(c, "") as s, contextlib.ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", s.secure), 60)) for _ in range(30)]
        for i, one in enumerate(silent):
            one.sendall([b"", b"\x16", b"\x16\x03\x01\x40\x00" + b"\x01" * 1000][i % 3])
        for noise in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"\xff" * 70000, os.urandom(5000), b"\x80\x2e\x01\x00\x02" + b"\0" * 44):
            with socket.create_connection(("127.0.0.1", s.secure), 60) as client, contextlib.suppress(OSError):
                client.sendall(noise)
                while client.recv(4096):
                    pass
        s.over("GET", "api", "/healthz").expect(200)
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        with contextlib.suppress(ssl.SSLError, OSError):
            s.connect("api", old)
            check(False, "TLS 1.1 is not spoken")
        # Half a request, and a client that stops reading: everybody else is served.
        half = stack.enter_context(s.connect("api"))
        half.sendall(b"GET /healthz HTTP/1.1\r\nHost: api")
        check(not select.select([half], [], [], 0)[0], "nothing is answered to half a request")
        s.over("GET", "api", "/healthz").expect(200)


@test
def large_bodies_and_other_protocols(c):
    with Named(c) as s:
        key = s.key()["E2B_API_KEY"]
        box = s.create(key)
        data = bytes(range(256)) * 40000
        token = {"X_Access_Token": box.token}
        s.over("POST", at(49983, box), "/files?path=/tmp/big", data, Content_Type="application/octet-stream", **token).expect(200)
        equal(s.over("GET", at(49983, box), "/files?path=/tmp/big", **token).expect(200).data, data, "what comes back")
        echo = ("import socket\ns = socket.create_server(('127.0.0.1', 9090))\nwhile True:\n c = s.accept()[0]\n c.recv(9999)\n"
                " c.sendall(b'HTTP/1.1 101 Switching Protocols\\r\\nConnection: upgrade\\r\\nUpgrade: echo\\r\\n\\r\\n')\n"
                " while d := c.recv(65536): c.sendall(d)\n")
        s.d.api.post(f"/v1/sandboxes/{box.id}/processes", {"argv": ["python3", "-c", echo], "background": True}).expect(201)
        wait_for(lambda: s.d.api.get(f"/v1/sandboxes/{box.id}/ports/9090").json["open"], "the port is open")
        with s.connect(at(9090, box)) as client:
            client.sendall(f"GET / HTTP/1.1\r\nHost: {at(9090, box)}.{DOMAIN}\r\nX-Access-Token: {box.token}\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n".encode())
            head = b""
            while b"\r\n\r\n" not in head:
                head += client.recv(4096)
            check(head.startswith(b"HTTP/1.1 101"), f"the protocol changes: {head!r}")
            got = head.partition(b"\r\n\r\n")[2]
            for n in range(1 << 16, (1 << 20) + 1, 1 << 16):  # in turns: one of Python's is not for two threads at once
                client.sendall(data[n - (1 << 16):n])
                while len(got) < n and (piece := client.recv(1 << 16)):
                    got += piece
            check(got == data[:1 << 20], "what comes back is what was sent")


@test(seconds=400, only="root", because="it is the same client")
def the_newest_sdk_by_names(c):
    place = modules(NEWEST, INSTALL_SECONDS)
    with Named(c) as s:
        key = s.key()["E2B_API_KEY"]
        env = {"E2B_API_KEY": key, "E2B_DOMAIN": f"{DOMAIN}:{s.secure}", "NODE_EXTRA_CA_CERTS": str(s.authority),
               "NODE_OPTIONS": f"--require={c.write('names.cjs', NAMES)}"}
        said = script(c, place, "story.mjs", STORY, ["big"], HOME=str(c.home), **env)
        check(len(said) > 40, f"only {len(said)} steps were taken")
        tell(said)


@test(seconds=400, only="root", because="it is the same client")
def templates_by_names(c):
    place = modules(NEWEST, INSTALL_SECONDS)
    with Named(c) as s:
        env = {"E2B_API_KEY": s.key()["E2B_API_KEY"], "E2B_DOMAIN": f"{DOMAIN}:{s.secure}", "NODE_EXTRA_CA_CERTS": str(s.authority),
               "NODE_OPTIONS": f"--require={c.write('names.cjs', NAMES)}"}
        said = script(c, place, "build.mjs", BUILD, [import_base(c, s)], HOME=str(c.home), **env)
        check(len(said) > 8, f"only {len(said)} steps were taken")
        tell(said)


main()
