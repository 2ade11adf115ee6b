# SPDX-License-Identifier: Apache-2.0
"""A small internet to prove what an egress proxy lets out.

    with World() as w:
        w.dns.names["api.example.com"] = ["93.184.216.34"]
        web = w.http("93.184.216.34", 80)
        proxy = w.proxy(c, POLICY)
        equal(proxy.connect("api.example.com:443").status, 403, "status")
        w.nothing_got_out()

Two network namespaces joined by a cable: in one the programs under test, in the other the origins, which own
public addresses, and the DNS server. (An address of the programs' own machine would be refused for that alone.)
Everything that arrives at an origin or at the DNS server is recorded, so that a test can show what did not.
A namespace is held by a descriptor of ours: nothing has a name, and nothing is left behind.
"""

import contextlib
import ctypes
import json
import os
import socket
import ssl
import struct
import subprocess
import threading
import time

from harness import Failure, Skip, check, wait_for

CLONE_NEWNET = 0x40000000
PUBLIC = "93.184.216.34"        # api.example.com and whoever
PUBLIC_TOO = "93.184.216.35"
PUBLIC6 = "2606:2800:220:1::34"
RESOLVER = "93.184.216.53"
INSIDE, OUTSIDE = "10.77.0.1", "10.77.0.2"  # the two ends of the cable
PROXY = ("127.0.0.1", 3128)
ANSWER_SECONDS = 10
TYPES = {1: "A", 28: "AAAA"}
libc = ctypes.CDLL(None, use_errno=True)


class Namespace:
    """A network namespace. Only the thread that enters it is in it; what that opens stays there."""

    def __init__(self):
        self.fd = None
        self.run(lambda: None, make=True)

    def enter(self, make):
        done = libc.unshare(CLONE_NEWNET) if make else libc.setns(self.fd, CLONE_NEWNET)
        if done != 0:
            raise Skip(f"no network namespace: {os.strerror(ctypes.get_errno())}")
        if make:
            self.fd = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    def run(self, function, make=False):
        """Calls function inside, and gives back what it returns or raises."""
        result = []

        def body():
            try:
                self.enter(make)
                result.append((function(), None))
            except BaseException as error:  # pylint: disable=broad-except
                result.append((None, error))
        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
        value, error = result[0]
        if error:
            raise error
        return value

    def ip(self, *lines):
        for line in lines:
            done = self.run(lambda line=line: subprocess.run(["ip", *line.split()], capture_output=True, check=False))
            check(done.returncode == 0, f"ip {line}: {done.stderr.decode()}")

    @property
    def path(self):
        return f"/proc/{os.getpid()}/fd/{self.fd}"

    def close(self):
        os.close(self.fd)


class Origin:
    """Listens, records what comes, and lets a handler answer. The handler gets the connection and `hear`, which
    receives and records."""

    def __init__(self, namespace, address, port, handler):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.address, self.port, self.handler = address, port, handler
        self.heard = []  # bytes of each connection
        self.closed = 0
        self.open = []
        self.listener = namespace.run(lambda: socket.create_server((address, port), family=family, backlog=64))
        self.listener.settimeout(0.1)
        self.running = True
        self.threads = [threading.Thread(target=self.accept, daemon=True)]
        self.threads[0].start()

    @property
    def connections(self):
        return len(self.heard)

    @property
    def bytes(self):
        return b"".join(self.heard)

    def accept(self):
        while self.running:
            try:
                connection, _ = self.listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            self.heard.append(b"")
            self.open.append(connection)
            thread = threading.Thread(target=self.serve, args=(connection, len(self.heard) - 1), daemon=True)
            self.threads.append(thread)
            thread.start()

    def serve(self, connection, number):
        def hear(size=65536, through=connection):
            data = through.recv(size)
            self.heard[number] += data
            return data
        with contextlib.suppress(OSError, ssl.SSLError):
            connection.settimeout(30)
            self.handler(connection, hear)
        with contextlib.suppress(OSError):
            connection.close()
        self.closed += 1

    def close(self):
        self.running = False
        self.listener.close()
        for connection in self.open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        for thread in self.threads:
            thread.join(2)


def echo(connection, hear):
    while data := hear():
        connection.sendall(data)


def swallow(_, hear):
    while hear():
        pass


def answer(text=b"hello\n"):
    """An HTTP handler: a request, this body, and again."""
    def handler(connection, hear):
        pending = b""
        while True:
            while b"\r\n\r\n" not in pending:
                data = hear()
                if not data:
                    return
                pending += data
            head, _, pending = pending.partition(b"\r\n\r\n")
            for line in head.split(b"\r\n")[1:]:
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    while len(pending) < int(value):
                        pending += hear()
                    pending = pending[int(value):]
            body = b"" if head.startswith(b"HEAD") else text
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), body))
    return handler


def tls(context, inner=answer()):
    """A handler that speaks TLS first. What is recorded is what came through it."""
    def handler(connection, hear):
        with context.wrap_socket(connection, server_side=True) as secure:
            inner(secure, lambda size=65536: hear(size, secure))
    return handler


class Names:
    """The DNS server, over UDP and TCP. names: name -> list of addresses of both families, or one of NXDOMAIN,
    SERVFAIL, REFUSED, DROP, or ("CNAME", name, ...addresses), or a dict of these by type. A list of lists is for one question after the other (of one
    type), the last for all that follow. ttls: name -> seconds, 60 where none is said."""

    def __init__(self, namespace, address):
        self.names, self.asked, self.turns, self.ttls = {}, [], {}, {}
        self.udp = namespace.run(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self.udp.bind((address, 53))
        self.udp.settimeout(0.1)
        self.running = True
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()
        self.tcp = Origin(namespace, address, 53, self.stream)

    def serve(self):
        while self.running:
            try:
                data, peer = self.udp.recvfrom(4096)
            except TimeoutError:
                continue
            except OSError:
                return
            reply = self.reply(data)
            if reply:
                self.udp.sendto(reply, peer)

    def stream(self, connection, hear):
        pending = b""
        while data := hear():
            pending += data
            while len(pending) >= 2 and len(pending) >= 2 + struct.unpack("!H", pending[:2])[0]:
                size = struct.unpack("!H", pending[:2])[0]
                reply = self.reply(pending[2:2 + size])
                pending = pending[2 + size:]
                if reply:
                    connection.sendall(struct.pack("!H", len(reply)) + reply)

    def script(self, name, kind):
        entry = self.names.get(name, "NXDOMAIN")
        if isinstance(entry, dict):
            entry = entry[kind]
        if isinstance(entry, list) and entry and isinstance(entry[0], (list, str)) and \
                (isinstance(entry[0], list) or entry[0] in ("NXDOMAIN", "SERVFAIL", "DROP")):
            turn = self.turns.get((name, kind), 0)
            self.turns[name, kind] = turn + 1
            return entry[min(turn, len(entry) - 1)]
        return entry

    def reply(self, query):
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode("latin-1"))
            at += 1 + query[at]
        kind = TYPES.get(struct.unpack("!H", query[at + 1:at + 3])[0], "?")
        name, question = ".".join(labels).lower(), query[12:at + 5]
        self.asked.append((name, kind))
        entry = self.script(name, kind)
        if entry == "DROP":
            return None
        code = {"NXDOMAIN": 3, "SERVFAIL": 2, "REFUSED": 5}.get(entry if isinstance(entry, str) else "", 0)
        records = self.records(entry, kind, self.ttls.get(name, 60)) if code == 0 else []
        return query[:2] + struct.pack("!HHHHH", 0x8180 | code, 1, len(records), 0, 0) + question + b"".join(records)

    @staticmethod
    def records(entry, kind, ttl):
        owner, found = b"\xc0\x0c", []
        if isinstance(entry, tuple):
            target = b"".join(bytes([len(label)]) + label.encode() for label in entry[1].split(".")) + b"\0"
            found.append(owner + struct.pack("!HHIH", 5, 1, ttl, len(target)) + target)
            owner, entry = target, entry[2:]
        for address in entry:
            six = ":" in address
            if (kind == "AAAA") == six and kind in TYPES.values():
                data = socket.inet_pton(socket.AF_INET6 if six else socket.AF_INET, address)
                found.append(owner + struct.pack("!HHIH", 28 if six else 1, 1, ttl, len(data)) + data)
        return found

    def close(self):
        self.running = False
        self.thread.join(2)
        self.udp.close()
        self.tcp.close()


class Answer:
    """What came back over a raw connection."""

    def __init__(self, data):
        self.data = data
        self.head, _, self.body = data.partition(b"\r\n\r\n")

    @property
    def status(self):
        """0 if nothing came: the connection was closed."""
        parts = self.head.split()
        return int(parts[1]) if len(parts) > 1 and parts[0].startswith(b"HTTP/") else 0

    @property
    def json(self):
        return json.loads(self.body)


class Client:
    """A connection to somewhere inside."""

    def __init__(self, connection):
        self.socket = connection
        self.socket.settimeout(ANSWER_SECONDS)

    def send(self, data):
        self.socket.sendall(data.encode() if isinstance(data, str) else data)
        return self

    def head(self):
        """Until the end of one head, and not a byte further."""
        data = b""
        while not data.endswith(b"\r\n\r\n"):
            try:
                byte = self.socket.recv(1)
            except ConnectionResetError:
                break
            if not byte:
                break
            data += byte
        return Answer(data)

    def exactly(self, size):
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                break
            data += more
        return data

    def rest(self):
        """Until the other side closes; a reset is an end, too."""
        data = b""
        with contextlib.suppress(ConnectionResetError):
            while more := self.socket.recv(65536):
                data += more
        return Answer(data)

    def closed(self, seconds=ANSWER_SECONDS):
        """Waits for the end: "reset" or "closed", and nothing before it."""
        self.socket.settimeout(seconds)
        try:
            data = self.socket.recv(1)
        except ConnectionResetError:
            return "reset"
        except TimeoutError:
            raise Failure(f"still open after {seconds} s") from None
        check(data == b"", f"a byte came: {data!r}")
        return "closed"

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Proxy:
    """A running sandboxer-egress --standalone."""

    def __init__(self, world, caller, policy, flags):
        self.world, self.caller = world, caller
        self.policy = caller.write("policy.yaml", policy) if policy is not None else None
        self.audit = caller.dir / "audit.jsonl"
        self.log = ""
        argv = [caller.program("sandboxer-egress"), "--standalone", "--audit", self.audit]
        argv += ["--resolver", RESOLVER] if "--resolver" not in flags else []
        argv += ["--policy", self.policy] if self.policy else []
        self.process = world.start(caller, [*argv, *flags])
        wait_for(self.ready, "the proxy listens")

    def ready(self):
        check(self.process.poll() is None, f"the proxy ended: {self.process.poll()} {self.said()}")
        with contextlib.suppress(OSError):
            self.open().close()
            return True
        return False

    def said(self):
        return self.process.stderr.read().decode() if self.process.poll() is not None else ""

    def says(self, text):
        """Whether its log has this by now."""
        os.set_blocking(self.process.stderr.fileno(), False)
        with contextlib.suppress(BlockingIOError):
            self.log += os.read(self.process.stderr.fileno(), 65536).decode()
        return text in self.log

    def open(self):
        return Client(self.world.inside.run(lambda: socket.create_connection(PROXY, ANSWER_SECONDS)))

    def raw(self, data):
        """Sends it all, and hears all that comes until the proxy closes."""
        with self.open() as client:
            return client.send(data).rest()

    def tunnel(self, authority, host=None):
        """A client whose CONNECT was answered, and the answer."""
        client = self.open()
        client.send(f"CONNECT {authority} HTTP/1.1\r\nHost: {host or authority}\r\n\r\n")
        found = client.head()
        if found.status != 200:
            found = Answer(found.data + client.rest().data)
        return client, found

    def connect(self, authority, host=None):
        """The answer to a CONNECT, whose tunnel is not used."""
        client, found = self.tunnel(authority, host)
        client.close()
        return found

    def reload(self, policy):
        """Another policy; waits until it is in force, or refused."""
        before = self.generation()
        self.caller.write("policy.yaml", policy)
        self.process.send_signal(1)
        return before

    def generation(self):
        return max((e.get("unmapped", {}).get("generation", 0) for e in self.events()), default=0)

    def events(self):
        with contextlib.suppress(FileNotFoundError):
            return [json.loads(line) for line in self.audit.read_text().splitlines()]
        return []

    def end(self):
        self.process.terminate()
        return self.process.wait(10)


class World:
    def __init__(self):
        self.inside = self.outside = self.dns = None
        self.origins = []

    def __enter__(self):
        if os.getuid() != 0:
            raise Skip("only root can make network namespaces and join them")
        self.inside, self.outside = Namespace(), Namespace()
        self.inside.ip("link set lo up", f"link add cable type veth peer name cable netns {self.outside.path}",
                       f"addr add {INSIDE}/30 dev cable", "addr add fd77::1/64 dev cable nodad",
                       "link set cable up")
        self.outside.ip("link set lo up", f"addr add {OUTSIDE}/30 dev cable", "addr add fd77::2/64 dev cable nodad",
                        "link set cable up", f"addr add {PUBLIC}/32 dev lo", f"addr add {PUBLIC_TOO}/32 dev lo",
                        f"addr add {RESOLVER}/32 dev lo", f"addr add {PUBLIC6}/128 dev lo nodad")
        self.inside.ip(f"route add default via {OUTSIDE}", "route add default via fd77::2")
        self.dns = Names(self.outside, RESOLVER)
        return self

    def __exit__(self, *_):
        for origin in self.origins:
            origin.close()
        self.dns.close()
        self.inside.close()
        self.outside.close()

    def origin(self, address, port, handler, inside=False):
        made = Origin(self.inside if inside else self.outside, address, port, handler)
        self.origins.append(made)
        return made

    def http(self, address=PUBLIC, port=80, text=b"hello\n"):
        return self.origin(address, port, answer(text))

    def secure(self, directory, name="api.example.com", address=PUBLIC, port=443, inside=False, names=""):
        """An HTTPS origin with a certificate that signs itself, for more names than one if they are said."""
        key, certificate = directory / "key.pem", directory / "certificate.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                        "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName={names or f'DNS:{name}'}",
                        "-keyout", key, "-out", certificate], check=True, capture_output=True)
        certificate.chmod(0o644)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        made = self.origin(address, port, tls(context), inside)
        made.certificate = certificate
        return made

    def start(self, caller, argv, **options):
        return self.inside.run(lambda: caller.start(argv, **options))

    def execute(self, caller, argv, **options):
        return self.inside.run(lambda: caller.execute(argv, **options))

    def proxy(self, caller, policy, *flags):
        return Proxy(self, caller, policy, flags)

    def nothing_got_out(self, connections=True, names=True):
        """No origin has seen a byte (nor a connection), and no name was asked for. Waits a moment for what might
        still be on its way."""
        time.sleep(0.05)
        for origin in self.origins:
            check(origin.bytes == b"", f"{origin.address}:{origin.port} has heard {origin.bytes[:200]!r}")
            check(not connections or origin.connections == 0, f"{origin.address}:{origin.port} was connected to")
        check(not names or not self.dns.asked, f"names were asked for: {self.dns.asked}")
