# SPDX-License-Identifier: Apache-2.0
"""A sandbox's network boundary and the egress worker behind it, without the sandbox.

    with World() as w, Box(w, c, POLICY) as box:
        with box.dial("93.184.216.34", 443) as client: ...
        box.ask("api.example.com")

The boundary is that of src/engine/runtime/rules.h and listen.c, made by hand in a namespace of its own; the test is the
worker's control plane. Whatever is opened inside belongs to the caller: to its root, or to a plain user."""

import array
import contextlib
import ctypes
import json
import os
import socket
import struct
import subprocess
import threading

from egress_world import ANSWER_SECONDS, RESOLVER, Answer, Client, Namespace, libc
from harness import Failure, check, wait_for

RULES = """
table inet sandboxer {
    chain capture {
        type filter hook prerouting priority mangle; policy accept;
        ip daddr 127.0.0.0/8 return
        ip6 daddr ::1 return
        tcp dport 53 return
        meta l4proto tcp tproxy to :3129
    }
    chain guard {
        type filter hook output priority filter; policy drop;
        ip daddr 127.0.0.1 tcp dport 3129 reject with tcp reset
        ip6 daddr ::1 tcp dport 3129 reject with tcp reset
        ip daddr 127.0.0.0/8 accept
        ip6 daddr ::1 accept
        meta l4proto tcp accept
        udp dport 53 accept
        udp sport 53 accept
        limit rate 10/second burst 20 packets log prefix "egress" group 1 snaplen 128
    }
}
"""
IP_TRANSPARENT, IPV6_TRANSPARENT, IP_PKTINFO, IPV6_RECVPKTINFO = 19, 75, 8, 49
NETLINK_SOCK_DIAG, NETLINK_NETFILTER = 4, 12
SETRESUID = {"x86_64": 117, "aarch64": 147}

# src/engine/egress/wire.h
HEAD = struct.Struct("=IHHII")
ADD, POLICY, REMOVE, AUDIT, WHO_IS, TEXTS = range(1, 7)
ADDED, APPLIED, FAILED, REMOVED, WHO, USED, FULL = range(64, 71)
MAGIC, VERSION = 0x52474553, 3
ID = "sbx_cases"

# The widest ceiling, an administrator's: the policy alone decides (src/domain/policy/egress_ceiling.h).
CEILING = {"reach": "local", "from": "the test", "places": []}

RCODES = {0: "NOERROR", 1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED"}
QTYPES = {"A": 1, "AAAA": 28, "PTR": 12, "TXT": 16, "SVCB": 64, "HTTPS": 65, "ANY": 255, "AXFR": 252}


def message(kind, body, tag=0):
    return HEAD.pack(MAGIC, VERSION, kind, HEAD.size + len(body), tag) + body


def read_events(path):
    """Of a record that is being written: the line that is not complete yet is left out."""
    whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]


def memfd(name, data):
    fd = os.memfd_create(name)
    os.write(fd, data)
    return fd


def listener(family, kind, address, port, transparent):
    made = socket.socket(family, kind)
    six = family == socket.AF_INET6
    level = socket.IPPROTO_IPV6 if six else socket.IPPROTO_IP
    if six:
        made.setsockopt(level, socket.IPV6_V6ONLY, 1)
    if transparent:
        made.setsockopt(level, IPV6_TRANSPARENT if six else IP_TRANSPARENT, 1)
    if kind == socket.SOCK_DGRAM:
        made.setsockopt(level, IPV6_RECVPKTINFO if six else IP_PKTINFO, 1)
    made.bind((address, port))
    if kind == socket.SOCK_STREAM:
        made.listen(4096)
    return made


def log_of_rejects():
    """NFLOG group 1, as listen.c asks for it."""
    made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
    attributes = (struct.pack("=HHB3x", 5, 1, 1) + struct.pack("=HH", 10, 2) + struct.pack("!IBB2x", 128, 2, 0) +
                  struct.pack("=HH", 8, 5) + struct.pack("!I", 1))
    body = struct.pack("=BB", 0, 0) + struct.pack("!H", 1) + attributes
    made.sendto(struct.pack("=IHHII", 16 + len(body), 4 << 8 | 1, 1 | 4, 1, 0) + body, (0, 0))
    code = struct.unpack("=i", made.recv(4096)[16:20])[0]
    check(code == 0, f"the log of rejected packets: {os.strerror(-code)}")
    return made


def listeners():
    """In the order of enum listener_slot."""
    four, six, tcp, udp = socket.AF_INET, socket.AF_INET6, socket.SOCK_STREAM, socket.SOCK_DGRAM
    return [listener(four, tcp, "127.0.0.1", 3128, False), listener(six, tcp, "::1", 3128, False),
            listener(four, tcp, "127.0.0.1", 3129, True), listener(six, tcp, "::1", 3129, True),
            listener(four, udp, "0.0.0.0", 53, True), listener(six, udp, "::", 53, True),
            listener(four, tcp, "0.0.0.0", 53, False), listener(six, tcp, "::", 53, False),
            log_of_rejects(), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG)]


class Reply:
    """A DNS answer."""

    def __init__(self, data):
        self.data = data
        self.rcode = RCODES.get(data[3] & 15, str(data[3] & 15)) if len(data) > 3 else "nothing"
        self.addresses = list(self.read()) if self.rcode == "NOERROR" else []

    def read(self):
        count, at = struct.unpack("!H", self.data[6:8])[0], 12
        while self.data[at]:
            at += 1 + self.data[at]
        at += 5
        for _ in range(count):
            while self.data[at] and self.data[at] < 0xc0:
                at += 1 + self.data[at]
            at += 2 if self.data[at] else 1
            kind, _, _, size = struct.unpack("!HHIH", self.data[at:at + 10])
            at += 10
            if kind in (1, 28):
                yield socket.inet_ntop(socket.AF_INET if kind == 1 else socket.AF_INET6, self.data[at:at + size])
            at += size


def question(name, kind="A", number=0x1234, flags=0x0100):
    """A query; a name in bytes is sent label by label as it is."""
    raw = name if isinstance(name, bytes) else name.encode()
    labels = b"".join(bytes([len(label)]) + label for label in raw.rstrip(b".").split(b".")) + b"\0"
    return struct.pack("!HHHHHH", number, flags, 1, 0, 0, 0) + labels + struct.pack("!HH", QTYPES[kind], 1)


class Box:
    def __init__(self, world, caller, policy):
        self.world, self.caller, self.policy = world, caller, policy
        self.audit = caller.dir / f"audit{id(self)}.jsonl"
        self.generation, self.answers, self.asked_who, self.ceiling = 0, [], [], CEILING
        self.program = "/usr/bin/curl"  # what the control plane says of whoever asks; None: it does not know

    def __enter__(self):
        self.namespace = Namespace()
        self.namespace.ip("link set lo up", "route add local default dev lo", "-6 route add local default dev lo")
        loaded = self.namespace.run(lambda: subprocess.run(["nft", "-f", "-"], input=RULES.encode(),
                                                           capture_output=True, check=False))
        check(loaded.returncode == 0, f"nft: {loaded.stderr.decode()}")
        self.start()
        return self

    def start(self):
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        argv = [self.caller.program("sandboxer-egress"), "--worker", theirs.fileno(), "--resolver", RESOLVER]
        self.process = self.world.start(self.caller, self.command(argv), pass_fds=(theirs.fileno(),))
        theirs.close()
        sockets = self.namespace.run(listeners)
        with open(self.audit, "ab") as audit:
            body = struct.pack("=32sIIQQQ32s32sII", ID.encode(), (1 << len(sockets)) - 1, 1, 0, 0, 0, b"", b"", 0, 0)
            self.send(ADD, body, [*(s.fileno() for s in sockets), audit.fileno()])
        for each in sockets:
            each.close()
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()
        self.wait(ADDED)
        self.set_policy(self.policy)

    def command(self, argv):
        """How the worker is started."""
        return argv

    def send(self, kind, body, fds=(), tag=0):
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.control.sendmsg([message(kind, body, tag)], ancillary)

    def listen(self):
        with contextlib.suppress(OSError):
            while data := self.control.recv(65536):
                _, _, kind, _, tag = HEAD.unpack(data[:HEAD.size])
                if kind == WHO:
                    self.asked_who.append(struct.unpack("=QI", data[48:60]))
                    self.tell_who(tag)
                elif kind != USED:
                    self.answers.append((kind, data[HEAD.size:]))

    def tell_who(self, tag):
        program = (self.program or "").encode()
        self.send(WHO_IS, struct.pack("=IiII256s72s4096s", 1 if program else 0, 1, 0, 0, program, b"", b""), tag=tag)

    def wait(self, kind):
        """The next answer, which must be of this kind."""
        wait_for(lambda: self.answers or self.process.poll() is not None, "the worker answers")
        check(self.answers, f"the worker ended: {self.process.poll()}")
        got, body = self.answers.pop(0)
        check(got == kind, f"the worker says {got}, not {kind}: {body[48:].split(chr(0).encode())[0].decode()}")
        return body

    def set_policy(self, policy, answer=APPLIED):
        """A document, or any text. Waits until it is in force, or refused."""
        return self.set_policy_of(ID, policy, answer)

    def set_policy_of(self, box, policy, answer=APPLIED):
        text = policy if isinstance(policy, bytes) else json.dumps(policy).encode()
        self.generation += 1
        fds = [memfd("policy", text), memfd("ceiling", json.dumps(self.ceiling).encode())]
        self.send(POLICY, struct.pack("=32sQ", box.encode(), self.generation), fds)
        for fd in fds:
            os.close(fd)
        return self.wait(answer)

    def set_file(self, text):
        """A policy as people write it."""
        self.generation += 1
        fd = memfd("policy", text.encode())
        self.send(TEXTS, struct.pack("=32sQIIII256s", ID.encode(), self.generation, 1, 0, 0, 0, b"policy.yaml"), [fd])
        os.close(fd)
        return self.wait(APPLIED)

    def __exit__(self, *_):
        self.control.shutdown(socket.SHUT_RDWR)
        self.process.wait(10)
        self.thread.join(5)
        self.control.close()
        self.namespace.close()

    # ---- from inside ----

    def run(self, function):
        """Calls function inside, as the caller's uid: what it opens is that user's."""
        def as_caller():
            uid = ctypes.c_long(self.caller.uid)
            number = SETRESUID[os.uname().machine]
            if self.caller.uid and libc.syscall(number, uid, uid, uid) != 0:
                raise Failure(f"setresuid: {os.strerror(ctypes.get_errno())}")
            return function()
        return self.namespace.run(as_caller)

    def dial(self, address, port, seconds=ANSWER_SECONDS):
        return Client(self.run(lambda: socket.create_connection((address, port), seconds)))

    def datagram(self, data, address, port):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with self.run(lambda: socket.socket(family, socket.SOCK_DGRAM)) as made:
            made.sendto(data, (address, port))

    def open(self):
        return self.dial("127.0.0.1", 3128)

    def raw(self, data):
        """To the proxy: all that comes back until it closes."""
        with self.open() as client:
            return client.send(data).rest()

    def tunnel(self, authority, host=None):
        """A client whose CONNECT was answered, and the answer."""
        client = self.open()
        head = b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n\r\n"
        client.send(head % (encoded(authority), encoded(host or authority)))
        found = client.head()
        if found.status != 200:
            found = Answer(found.data + client.rest().data)
        return client, found

    def ask(self, name, kind="A", server="127.0.0.1"):
        return self.send_query(question(name, kind), server)

    def send_query(self, query, server="127.0.0.1", seconds=ANSWER_SECONDS):
        def exchange():
            with socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.settimeout(seconds)
                s.sendto(query, (server, 53))
                try:
                    return s.recv(65536)
                except TimeoutError:
                    return b""
        return Reply(self.run(exchange))

    def ask_tcp(self, query, server="127.0.0.1"):
        with self.dial(server, 53) as client:
            client.send(struct.pack("!H", len(query)) + query)
            size = client.exactly(2)
            return Reply(client.exactly(struct.unpack("!H", size)[0]) if len(size) == 2 else b"")

    def capture(self, name, port):
        """A captured connection to a name: asks for it, and dials what policy DNS says."""
        reply = self.ask(name)
        check(reply.addresses, f"{name} is not resolved: {reply.rcode}")
        return self.dial(reply.addresses[0], port)

    def events(self):
        return read_events(self.audit)


def encoded(text):
    return text if isinstance(text, bytes) else text.encode()
