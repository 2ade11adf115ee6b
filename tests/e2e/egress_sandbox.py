# SPDX-License-Identifier: Apache-2.0
"""A real sandbox as a box of the table of attacks: made by a daemon, with its boundary in force.

    with Sandbox(world, c, POLICY, user="root") as box:
        with box.dial("93.184.216.34", 443) as client: ...

Sockets are opened, and connected, by an agent that runs in the sandbox under its user; the test holds a copy of each.
There are two agents: one is the program that the policy's rules for programs name, the other is not."""

import contextlib
import ctypes
import errno
import json
import os
import re
import select
import socket
import subprocess
from pathlib import Path

from daemon import Daemon
from egress_box import APPLIED, Box, Reply
from egress_world import ANSWER_SECONDS, RESOLVER, Client, libc
from harness import Failure, check, equal, wait_for

PIDFD_GETFD = 438
NAMED = "/usr/bin/curl"  # the program of the policy's rules, which is the first agent here
COPY = "/tmp/agent"      # the other one

AGENT = r"""
import os, socket, sys
kept = {}
print(os.readlink("/proc/self/exe"), os.getuid(), flush=True)
for line in sys.stdin:
    word, *rest = line.split()
    try:
        if word == "close":
            kept.pop(int(rest[0])).close()
            continue
        if word == "dial":
            made = socket.create_connection((rest[0], int(rest[1])), float(rest[2]))
        else:
            made = socket.socket(socket.AF_INET6 if rest[0] == "6" else socket.AF_INET,
                                 socket.SOCK_DGRAM if rest[1] == "udp" else socket.SOCK_STREAM)
        kept[made.fileno()] = made
        print("fd", made.fileno(), flush=True)
    except OSError as e:
        print("errno", e.errno or 110, flush=True)
"""


class Lent(socket.socket):
    """A socket of an agent's; who closes it closes both copies."""

    def __init__(self, agent, number, fd):
        super().__init__(fileno=fd)
        self.agent, self.number = agent, number

    def close(self):
        super().close()
        if self.number is not None:
            number, self.number = self.number, None
            self.agent.tell(f"close {number}")


class Agent:
    """A process in the sandbox that opens sockets."""

    def __init__(self, box, program, user):
        self.token = f"agent-{id(self):x}"
        argv = [box.caller.program(), "exec", "-i", "-u", user, box.id, "--", program, "-c", AGENT, self.token]
        self.process = box.caller.start(argv, env={"SANDBOXER_SOCKET": str(box.daemon.socket)})
        self.program, uid = self.hear().split()
        equal(uid, user, "the agent's user")
        self.pidfd = os.pidfd_open(self.find())

    def find(self):
        """Its pid here: of those with our token it is the one that has another pid inside."""
        for entry in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if entry.isdigit() and self.token.encode() in Path("/proc", entry, "cmdline").read_bytes():
                    status = Path("/proc", entry, "status").read_text(encoding="utf-8")
                    if len(re.search(r"NSpid:(.*)", status)[1].split()) > 1:
                        return int(entry)
        raise Failure("the agent is not to be found")

    def tell(self, text):
        with contextlib.suppress(OSError, ValueError):
            self.process.stdin.write(text.encode() + b"\n")
            self.process.stdin.flush()

    def hear(self):
        check(select.select([self.process.stdout], [], [], 30)[0], "the agent says nothing")
        line = self.process.stdout.readline().decode().strip()
        check(line, f"the agent ended: {self.process.poll()}")
        return line

    def get(self, text):
        """A socket; raises what the agent met."""
        self.tell(text)
        word, number = self.hear().split()
        if word == "errno":
            raise OSError(int(number), f"{text}: {errno.errorcode.get(int(number), number)}")
        fd = libc.syscall(PIDFD_GETFD, self.pidfd, int(number), 0)
        check(fd >= 0, f"pidfd_getfd: {os.strerror(ctypes.get_errno())}")
        return Lent(self, int(number), fd)

    def end(self):
        os.close(self.pidfd)
        self.process.stdin.close()
        self.process.wait(20)


class Worker:
    """The process that lets connections out, as far as the table asks for it."""

    def __init__(self, daemon):
        self.pid = wait_for(lambda: next(iter(daemon.parts("sandboxer-egres")), None), "a worker")

    def poll(self):
        return None if Path("/proc", str(self.pid)).exists() else 1


class Sandbox(Box):
    def __init__(self, world, caller, policy, user):
        super().__init__(world, caller, policy)
        self.user, self.number = user, id(self)

    def __enter__(self):
        self.daemon = Daemon(self.caller, f"daemon{self.number:x}", config=f"egress: {{workers: 1, resolvers: ['{RESOLVER}']}}")
        self.world.inside.run(self.daemon.start)
        self.id = self.daemon.create(egress={"policy": json.dumps(self.policy)})
        self.audit = self.daemon.state / "daemon/egress" / f"{self.id}.jsonl"
        self.process, self.generation = Worker(self.daemon), 1
        self.named = Agent(self, "/usr/bin/python3", self.user)
        self.exec("cp", self.named.program, COPY, user=self.user)
        self.other = Agent(self, COPY, self.user)
        check(self.other.program == COPY, f"the other agent is {self.other.program}")
        self.set_policy(self.policy)
        return self

    def __exit__(self, kind, *rest):
        for agent in (self.named, self.other):
            agent.end()
        self.daemon.__exit__(kind, *rest)

    def exec(self, *argv, **options):
        done = self.daemon.api.run(self.id, list(argv), **options).expect(200).json
        equal(done["exit_code"], 0, f"{argv}: {done}")
        return done["stdout"]

    def set_policy(self, policy, answer=APPLIED):
        """As Box has it, through the daemon's interface. Rules for programs are for the first agent."""
        text = policy if isinstance(policy, bytes) else json.dumps(policy).replace(NAMED, self.named.program).encode()
        said = self.daemon.api.request("PUT", f"/v1/sandboxes/{self.id}/egress", text)
        if answer != APPLIED:
            return check(said.status in (400, 413), f"it is taken: {said}")
        now = said.expect(200).json
        equal(now["in_force"], now["generation"], "the generation in force")
        self.generation = now["generation"] + 1
        return said

    # ---- from inside ----

    def dial(self, address, port, seconds=ANSWER_SECONDS):
        if self.program is None:
            return self.dial_as_nobody(address, port, seconds)
        agent = self.named if self.program == NAMED else self.other
        return Client(agent.get(f"dial {address} {port} {seconds}"))

    def dial_as_nobody(self, address, port, seconds):
        """No process of the sandbox has the socket when it is connected."""
        lent = self.other.get(f"open {6 if ':' in address else 4} tcp")
        self.other.tell(f"close {lent.number}")
        lent.number = None
        lent.settimeout(seconds)
        lent.connect((address, port))
        return Client(lent)

    def run(self, function):
        raise NotImplementedError("only agents are inside")

    def datagram(self, data, address, port):
        with self.named.get(f"open {6 if ':' in address else 4} udp") as lent:
            lent.sendto(data, (address, port))

    def send_query(self, query, server="127.0.0.1", seconds=ANSWER_SECONDS):
        with self.named.get(f"open {6 if ':' in server else 4} udp") as lent:
            lent.settimeout(seconds)
            lent.sendto(query, (server, 53))
            try:
                return Reply(lent.recv(65536))
            except TimeoutError:
                return Reply(b"")
