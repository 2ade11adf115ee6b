# SPDX-License-Identifier: Apache-2.0
"""A daemon of a test's own, and its REST interface.

    from daemon import Daemon

    with Daemon(c) as d:
        box = d.create(labels={"a": "b"})
        d.api.post(f"/v1/sandboxes/{box}/processes", {"argv": ["true"]}).expect(200)

It has a state directory, a socket, a configuration and profiles of its own below c.dir, so that any number of
them run side by side. Leaving the `with` destroys every sandbox, stops the daemon in good order and checks that
nothing of it is left on disk; what is left elsewhere the harness finds. `profile.sandbox-canary`, which is what
a create without a profile gets, keeps no prepared boxes here; `profile.pooled` does; sandboxes of `profile.short`
live for four seconds and cannot get more.
"""

import contextlib
import http.client
import json
import os
import select
import signal
import socket
import subprocess
import time

from harness import Failure, check, equal, processes, wait_for

ANSWER_SECONDS = 60  # no answer takes longer, unless something is broken
GRACE_SECONDS = 1    # of the configuration below
DRIVER = os.environ.get("DRIVER", "auto")  # of storage: any test can be run with another one
VOLUME = "1G"  # of the file that has a btrfs where root's state directory is on ext4: allocated at once, and tests run side by side

CONFIG = """\
ttl: {{grace: {grace}s, paused: {paused}}}
log: {{level: debug}}
{storage}
{more}
"""

PROFILE = """\
id: {id}
version: 1
ttl: {{default: {ttl}, max: {max}, idle_reap: 0}}
resources: {{cpu: 1, memory_mb: 128, pids: 64, disk_mb: 32}}
pool: {{min: {pool}, max: {pool}}}
"""

PROFILES = {
    "profile.sandbox-canary": {"ttl": "10m", "max": "1h", "pool": 0},
    "profile.pooled": {"ttl": "10m", "max": "1h", "pool": 2},
    "profile.short": {"ttl": "4s", "max": "4s", "pool": 0},
}


class Cut(Exception):
    """The connection ended before the answer did, or there was none to be had."""


class Answer:
    """One response; `json` is its body, read."""

    def __init__(self, status, headers, data):
        self.status, self.headers, self.data = status, headers, data

    @property
    def json(self):
        return json.loads(self.data)

    @property
    def lines(self):
        """Of NDJSON: every event, in order."""
        return [json.loads(line) for line in self.data.splitlines()]

    @property
    def code(self):
        """Of a problem; "" otherwise."""
        return self.json.get("code", "") if "problem" in self.headers.get("Content-Type", "") else ""

    def expect(self, *statuses, code=None):
        check(self.status in statuses, f"status is {self.status}, not {statuses}: {self.data[:600]!r}")
        check(code is None or self.code == code, f"code is {self.code!r}, not {code!r}: {self.data[:600]!r}")
        return self

    def __str__(self):
        return f"{self.status} {self.data[:600]!r}"


class Connection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Api:
    """The REST interface on a unix socket: a connection for each request, from any thread."""

    def __init__(self, path, timeout=ANSWER_SECONDS):
        self.path, self.timeout = str(path), timeout

    def connection(self):
        return Connection(self.path, self.timeout)

    def open(self, method, path, body=None, headers=()):
        """Sends; the response is still to be read: (connection, response)."""
        connection = self.connection()
        ready = body is None or isinstance(body, bytes) or hasattr(body, "__next__")  # the last goes in chunks
        data = body if ready else json.dumps(body).encode()
        try:
            connection.request(method, path, data, dict(headers))
            return connection, connection.getresponse()
        except TimeoutError:
            connection.close()
            raise Failure(f"{method} {path}: no answer within {self.timeout} s") from None
        except (OSError, http.client.HTTPException) as e:
            connection.close()
            raise Cut(f"{method} {path}: {e!r}") from None

    def request(self, method, path, body=None, headers=()):
        connection, response = self.open(method, path, body, headers)
        try:
            return Answer(response.status, response.headers, response.read())
        except TimeoutError:
            raise Failure(f"{method} {path}: the answer does not end within {self.timeout} s") from None
        except (OSError, http.client.HTTPException) as e:
            raise Cut(f"{method} {path}: {e!r}") from None
        finally:
            connection.close()

    def get(self, path, **headers):
        return self.request("GET", path, None, headers)

    def post(self, path, body=None, headers=()):
        return self.request("POST", path, {} if body is None else body, headers)

    def delete(self, path):
        return self.request("DELETE", path)

    def run(self, box, argv, **options):
        """Runs a program and waits: its answer, with exit_code, stdout and so on in `json`."""
        return self.post(f"/v1/sandboxes/{box}/processes", {"argv": argv, **options},
                         {"Accept": "application/json"})


class ConnectionAs(Connection):
    def __init__(self, path, timeout, uid):
        super().__init__(path, timeout)
        self.uid = uid

    def connect(self):
        os.seteuid(self.uid)  # whom the daemon sees at the other end
        try:
            super().connect()
        finally:
            os.seteuid(0)


class ApiAs(Api):
    """The interface as another user has it."""

    def __init__(self, d, uid):
        super().__init__(d.socket)
        self.uid = uid

    def connection(self):
        return ConnectionAs(self.path, self.timeout, self.uid)

    def create(self, **request):
        return self.post("/v1/sandboxes", request).expect(201).json["sandbox_id"]

    def background(self, box, script):
        """Busy if its owner has no process left to start it with."""
        return self.post(f"/v1/sandboxes/{box}/processes", {"argv": ["sh", "-c", script], "background": True}).expect(201, 503)

    def works(self, box):
        answer = self.run(box, ["echo", "here"]).expect(200).json
        equal((answer["exit_code"], answer["stdout"]), (0, "here\n"), f"the answer of {box}")


class Stream:
    """A program whose events are read as they come; leaving closes the connection."""

    def __init__(self, api, box, argv, **options):
        self.connection, self.response = api.open("POST", f"/v1/sandboxes/{box}/processes",
                                                  {"argv": argv, **options})
        if self.response.status != 200:
            raise Failure(f"starting {argv}: {self.response.status} {self.response.read()[:600]!r}")

    def next(self):
        """The next event; None at the end."""
        try:
            line = self.response.readline()
        except (OSError, http.client.HTTPException) as e:
            raise Cut(repr(e)) from None
        return json.loads(line) if line else None

    def until(self, event):
        while (got := self.next()) is not None:
            if got["event"] == event:
                return got
        raise Cut(f"the stream ended before '{event}'")

    def silent(self):
        """Nothing has come and the connection stands."""
        return not select.select([self.connection.sock or self.response.fileno()], [], [], 0)[0]

    def close(self):
        # Both hold the socket: the server sees the end when the last one has gone.
        self.response.close()
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Daemon:
    def __init__(self, c, name="daemon", config="", grace=GRACE_SECONDS, driver=DRIVER, state=None, paused="7d"):
        self.c, self.driver = c, driver
        self.dir = c.mkdir(c.dir / name)
        self.state, self.socket, self.log_path = state or self.dir / "state", self.dir / "sock", self.dir / "log"
        self.config = c.write(f"{name}/config.yaml", CONFIG.format(grace=grace, paused=paused, more=config, storage="" if "storage:" in config else f"storage: {{driver: {driver}, size: {VOLUME}}}"))
        for profile, values in PROFILES.items():
            c.write(f"{name}/profiles/{profile}.yaml", PROFILE.format(id=profile, **values))
        self.api = Api(self.socket)
        self.process = self.served_by = None

    # --- life ---

    def spawn(self, prefix=(), args=(), **env):
        """Starts it, and says whether it serves: False if it ended first. One that is to die at a step does not die of what
        every first start writes."""
        if "SANDBOXER_DIE_AT" in env and not self.state.exists():
            self.start(prefix, args)
            self.stop()
        ready, theirs = os.pipe()
        with open(self.log_path, "ab") as log:
            self.process = self.c.start(
                [*prefix, self.c.program("sandboxerd"), "--foreground", "--config", self.config,
                 "--ready-fd", theirs, *args],
                env={"SANDBOXER_STATE": str(self.state), "SANDBOXER_SOCKET": str(self.socket),
                     "SANDBOXER_PROFILES": str(self.dir / "profiles"), **env},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(theirs,))
        os.close(theirs)
        try:
            check(select.select([ready], [], [], ANSWER_SECONDS)[0], f"the daemon says nothing\n{self.tail()}")
            serves = os.read(ready, 1) == b"\n"
        finally:
            os.close(ready)
        self.served_by = self.plane
        return serves

    def start(self, prefix=(), args=(), **env):
        check(self.spawn(prefix, args, **env), f"the daemon does not serve\n{self.tail()}")
        return self

    def wait(self):
        """Until it has ended, by whatever means, but for its sandboxes: its status, as a shell has it."""
        try:
            code = self.process.wait(ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failure(f"the daemon does not end\n{self.tail()}") from None
        wait_for(lambda: self.served_by not in processes(), "the control plane ends with its warden")
        return code if code >= 0 else 128 - code

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        equal(self.wait(), 0, f"the daemon's exit status\n{self.tail()}\nstatus")

    def kill(self, pid=None):
        """SIGKILL for the warden or the control plane; the other one ends as well."""
        os.kill(pid or self.process.pid, signal.SIGKILL)
        self.wait()

    @property
    def alive(self):
        return self.process is not None and self.process.poll() is None

    def parts(self, name):
        """The pids of its own processes that are called so, as the kernel shortens it."""
        return [pid for pid, (parent, known) in processes().items()
                if parent == self.process.pid and known == name]

    @property
    def stopped(self):
        """Those that hang, as a file system may let them, or SANDBOXER_STOP_AT."""
        def state(pid):
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/stat", encoding="ascii") as f:
                    return f.read().rpartition(")")[2].split()[0]
            return ""
        return [pid for pid in self.parts("sandboxerd") if state(pid) == "T"]

    @property
    def plane(self):
        """The control plane's pid; None if there is none."""
        return next(iter(self.parts("sandboxerd")), None)

    @property
    def launchers(self):
        return self.parts("sandboxer-launc")

    def kill_launchers(self):
        """Until they have gone: what is sent to one that is still dying is lost with it."""
        victims = self.launchers
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not set(victims) & set(processes()), "launchers that were killed end")

    def refused_calls(self):
        """Log lines about system calls that the control plane should have had."""
        with contextlib.suppress(OSError):
            return [line for line in self.log_path.read_text(errors="replace").splitlines() if "call_refused" in line]
        return []

    def tail(self, lines=15):
        with contextlib.suppress(OSError):
            return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])
        return ""

    # --- sandboxes ---

    def create(self, **request):
        return self.api.post("/v1/sandboxes", request).expect(201).json["sandbox_id"]

    def list(self, query="?limit=1000"):
        return self.api.get(f"/v1/sandboxes{query}").expect(200).json["sandboxes"]

    def get(self, box):
        return self.api.get(f"/v1/sandboxes/{box}").expect(200).json

    def destroy(self, box):
        equal(self.api.delete(f"/v1/sandboxes/{box}").expect(200).json["state"], "destroyed", "state")

    def works(self, box):
        """A program in it says what it was told to."""
        token = f"{time.monotonic_ns():x}"
        answer = self.api.run(box, ["echo", token]).expect(200).json
        equal((answer["exit_code"], answer["stdout"]), (0, token + "\n"), f"the answer of {box}")

    def leftovers(self):
        """What is on disk of sandboxes, their control groups included."""
        with contextlib.suppress(FileNotFoundError):
            return sorted(os.listdir(self.state / "daemon/run"))
        return []

    def clear(self):
        """Destroys everything and stops; nothing is left."""
        for box in self.list():
            self.destroy(box["sandbox_id"])
        self.stop()
        equal(self.leftovers(), [], "what is left in run/")
        equal(self.refused_calls(), [], "system calls that the control plane's filter refused")

    def __enter__(self):
        return self if self.alive else self.start()

    def __exit__(self, kind, *_):
        if kind is None:
            self.clear()
        elif self.alive:
            # The test failed; make room for the next one, but its own reason is the reason.
            with contextlib.suppress(Failure, Cut):
                self.clear()
