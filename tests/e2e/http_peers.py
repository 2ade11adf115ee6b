# SPDX-License-Identifier: Apache-2.0
"""Servers whose reading of HTTP/1.1 ours is held against, each in front of an origin that records what it gets.

    with Peers(c) as peers:
        for peer in peers.running:
            peer.ask(b"GET / HTTP/1.1\\r\\nHost: h\\r\\n\\r\\n", 1)   # ([200], [("GET", "/", 0)])
"""

import contextlib
import http.client
import json
import re
import shutil
import socket
import struct
import subprocess
import threading

from harness import BUILD, Failure, check, wait_for

ANSWER_SECONDS = 10
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
BARRIER = b"GET /barrier HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"

NGINX = """
daemon off; master_process off; pid {dir}/nginx.pid; error_log {dir}/nginx.log crit;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
    client_max_body_size 0; client_header_buffer_size 64k; large_client_header_buffers 4 64k; keepalive_requests 100000;
    proxy_ignore_client_abort on;
    server {{
        listen unix:{socket};
        location / {{ proxy_pass http://unix:{origin}; proxy_http_version 1.1; proxy_set_header Connection close; }}
    }}
}}
"""

HAPROXY = """
global
    nbthread 1
    tune.bufsize 131072
    tune.http.maxhdr 512
defaults
    mode http
    option http-server-close
    timeout connect 10s
    timeout client 10s
    timeout server 10s
frontend in
    bind unix@{socket}
    default_backend out
backend out
    server origin unix@{origin}
"""


class Origin:
    """Takes well-formed requests, one a connection and one after the other, and answers 200 to each. `seen` has those
    that came whole, as (method, target, bytes of body). `answer` is what it says to each."""

    def __init__(self, path):
        self.seen, self.running, self.answer = [], True, OK
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(str(path))
        path.chmod(0o777)
        self.listener.listen(64)
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def accept(self):
        while self.running:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.serve(connection)

    def serve(self, connection):
        with connection, contextlib.suppress(OSError):
            connection.settimeout(ANSWER_SECONDS)
            stream = connection.makefile("rb")
            first = stream.readline().decode("latin-1").split(" ")
            fields = {}
            while (line := stream.readline()) not in (b"\r\n", b""):
                name, _, value = line.partition(b":")
                fields[name.strip().lower()] = value.strip()
            if line and self.take(stream, fields, first):
                connection.sendall(self.answer)

    def take(self, stream, fields, first):
        size = int(fields.get(b"content-length", b"0"))
        if b"transfer-encoding" in fields:
            size = self.count_chunks(stream)
        elif len(stream.read(size)) < size:
            return False
        if size is not None and len(first) > 1:
            self.seen.append((first[0], first[1], size))
        return size is not None

    @staticmethod
    def count_chunks(stream):
        """Bytes in all chunks; None if the stream ends before they do."""
        total = 0
        while line := stream.readline():
            size = int(line.split(b";")[0], 16)
            total += size
            if size == 0:
                while (line := stream.readline()) not in (b"\r\n", b""):
                    pass
                return total if line else None
            if len(stream.read(size + 2)) < size + 2:
                return None
        return None

    def close(self):
        self.running = False
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(5)


class Peer:
    def __init__(self, c, name, config, argv):
        self.name, self.dir = name, c.mkdir(c.dir / name)
        self.socket, self.origin_path = self.dir / "front", self.dir / "origin"
        self.origin = Origin(self.origin_path)
        path = c.write(f"{name}/config", config.format(dir=self.dir, socket=self.socket, origin=self.origin_path))
        log = open(self.dir / "log", "wb")
        self.process = c.start([*argv, path], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        wait_for(self.ready, f"{name} listens")

    def ready(self):
        check(self.process.poll() is None, f"{self.name} ended: {(self.dir / 'log').read_text()}")
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
            s.connect(str(self.socket))
            return True
        return False

    def ask(self, stream, count):
        """Sends it. The statuses of its answers, and what the origin got: as soon as there are so many answers, or the
        server closes."""
        statuses, ended = self.exchange(stream, count)
        seen = list(self.origin.seen)
        if not ended:  # what stands behind those may be on its way still: the origin takes one after the other
            self.exchange(BARRIER, 1)
        self.origin.seen.clear()
        return statuses, seen

    def exchange(self, stream, count):
        heard = b""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
            s.settimeout(ANSWER_SECONDS)
            s.connect(str(self.socket))
            try:
                s.sendall(stream)
                while data := s.recv(65536):
                    heard += data
                    if len(self.statuses(heard)) >= count:
                        return self.statuses(heard), False
            except TimeoutError:
                raise Failure(f"{self.name} waits for more of {stream[:300]!r}; it said {heard[:300]!r}") from None
            except OSError:  # it answered before it had read all
                pass
        return self.statuses(heard), True

    def relay(self, answer):
        """What a client gets when the origin answers so: status and bytes of body; (0, 0) if it is cut off."""
        self.origin.answer = answer
        connection = http.client.HTTPConnection("h", timeout=ANSWER_SECONDS)
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.settimeout(ANSWER_SECONDS)
        connection.sock.connect(str(self.socket))
        try:
            connection.request("GET", "/", headers={"Connection": "close"})
            found = connection.getresponse()
            return found.status, len(found.read())
        except (OSError, http.client.HTTPException):
            return 0, 0
        finally:
            connection.close()
            self.origin.answer = OK

    @staticmethod
    def statuses(heard):
        return [int(code) for code in re.findall(rb"HTTP/1\.[01] ([2-5]\d\d)", heard)]

    def end(self):
        self.process.kill()
        self.process.wait()
        self.origin.close()


class Peers:
    def __init__(self, c):
        self.c, self.running, self.missing = c, [], []

    def __enter__(self):
        for name, config, flags in (("nginx", NGINX, ["-c"]), ("haproxy", HAPROXY, ["-db", "-f"])):
            program = shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")
            if program:
                self.running.append(Peer(self.c, name, config, [program, *flags]))
            else:
                self.missing.append(name)
        return self

    def __exit__(self, *_):
        for peer in self.running:
            peer.end()


class Reader:
    """Our own reading of a stream of requests, or of the answer to a GET: tests/peers/reader.c."""

    def __init__(self, *what):
        self.process = subprocess.Popen([BUILD / "tests/peers/http-reader", *what], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def read(self, stream):
        self.process.stdin.write(struct.pack("<I", len(stream)) + stream)
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()
