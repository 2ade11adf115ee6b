# SPDX-License-Identifier: Apache-2.0
"""Real servers in the outside half of a World: what a sandbox's clients talk to.

    with World() as w, Servers(w, directory, certificate, key) as s:
        s.missing        # server -> why it is not there

All of them answer on GOOD's addresses; behind the same ports of EVIL's nobody answers, and everything is recorded.
"""

import base64
import hashlib
import http.server
import io
import json
import os
import pwd
import shutil
import socket
import ssl
import subprocess
import tarfile
import threading
import zipfile
from pathlib import Path

from egress_world import PUBLIC, PUBLIC6, PUBLIC_TOO, swallow
from harness import PATH, Skip, check, wait_for
from npm import modules

GOOD, EVIL = "good.example.com", "evil.example.net"
FOUR, SIX = "four.example.com", "six.example.com"  # the same servers, with addresses of one family
HTTP, HTTPS, SSH, GIT, POSTGRES, REDIS, REDIS_TLS, WEBSOCKET, GREETER = 80, 443, 22, 9418, 5432, 6379, 6380, 8080, 2525
PORTS = (HTTP, HTTPS, SSH, GIT, POSTGRES, REDIS, REDIS_TLS, WEBSOCKET, GREETER)
BIG = 8 << 20
ECHO = """
const {WebSocketServer} = require('ws');
new WebSocketServer({host: process.argv[1], port: +process.argv[2]})
    .on('connection', (ws) => ws.on('message', (data, binary) => ws.send(data, {binary})));
"""
# It looks for keys in root's home and nowhere else, so it gets a home of its own.
SSHD = """
home=$(getent passwd 0 | cut -d: -f6)
mount -t tmpfs -o mode=700 ssh "$home" && mkdir -m 700 "$home/.ssh" && cp key.pub "$home/.ssh/authorized_keys" &&
exec dropbear -F -E -s -j -k -P '' -r host_key -p "$1" -c "sh $PWD/answer"
"""
SSH_ANSWER = """
case $SSH_ORIGINAL_COMMAND in
git-upload-pack*) exec git-upload-pack {repository} ;;
*) echo hello of ssh ;;
esac
"""


# ---- what the web server has ------------------------------------------------------------------------


def make_wheel(path):
    info = "tiny-1.0.dist-info/"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tiny.py", "WORD = 'tiny of pip'\n")
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(info + "RECORD", f"tiny.py,,\n{info}METADATA,,\n{info}WHEEL,,\n{info}RECORD,,\n")


def make_module(path):
    with tarfile.open(path, "w:gz") as tar:
        for name, text in (("package.json", json.dumps({"name": "tiny", "version": "1.0.0", "main": "index.js"})),
                           ("index.js", "module.exports = 'tiny of npm';\n")):
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))


def make_registry(site):
    """A packument and the archive that it names, as npm asks for them."""
    (site / "npm").mkdir()
    archive = site / "files/tiny-1.0.0.tgz"
    make_module(archive)
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    version = {"name": "tiny", "version": "1.0.0",
               "dist": {"tarball": f"http://{GOOD}/files/{archive.name}", "integrity": f"sha512-{digest}"}}
    (site / "npm/tiny").write_text(json.dumps({"name": "tiny", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}))


def make_index(site):
    """A simple index, as pip reads it."""
    (site / "simple/tiny").mkdir(parents=True)
    make_wheel(site / "files/tiny-1.0-py3-none-any.whl")
    (site / "simple/tiny/index.html").write_text('<a href="/files/tiny-1.0-py3-none-any.whl">tiny-1.0-py3-none-any.whl</a>')


def make_archive(site, scratch):
    """A flat archive of Debian packages: one package, the list of it, and what vouches for the list."""
    tree, archive = scratch / "tiny", site / "apt"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "usr/share/tiny").mkdir(parents=True)
    archive.mkdir()
    (tree / "usr/share/tiny/word").write_text("tiny of apt\n")
    control = "Package: tiny\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody <nobody@example.com>\nDescription: tiny\n"
    (tree / "DEBIAN/control").write_text(control)
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", tree, archive / "tiny.deb"], check=True, capture_output=True)
    deb = (archive / "tiny.deb").read_bytes()
    packages = f"{control}Filename: ./tiny.deb\nSize: {len(deb)}\nSHA256: {hashlib.sha256(deb).hexdigest()}\n".encode()
    (archive / "Packages").write_bytes(packages)
    (archive / "Release").write_text(f"SHA256:\n {hashlib.sha256(packages).hexdigest()} {len(packages)} Packages\n")


def git(*argv, cwd=None):
    identity = {f"GIT_{who}_{what}": f"{who}@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    subprocess.run(["git", *argv], cwd=cwd, check=True, capture_output=True,
                   env={**os.environ, **identity, "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"})


def make_repository(site, scratch):
    work = scratch / "work"
    git("init", "-q", work)
    (work / "word").write_text("tiny of git\n")
    git("add", "word", cwd=work)
    git("commit", "-qm", "A word", cwd=work)
    for name in ("tiny", "takes"):
        git("clone", "-q", "--bare", work, site / f"git/{name}.git")
    git("config", "http.receivepack", "true", cwd=site / "git/takes.git")


class Pages(http.server.SimpleHTTPRequestHandler):
    """Files of the site, and git's own program for what is below /git/."""

    protocol_version = "HTTP/1.1"

    def __init__(self, *arguments):
        super().__init__(*arguments, directory=str(self.site))

    def do_GET(self):  # pylint: disable=invalid-name
        if self.path.startswith("/git/"):
            self.serve_git()
        else:
            super().do_GET()

    def do_POST(self):  # pylint: disable=invalid-name
        self.serve_git()

    def do_PUT(self):  # pylint: disable=invalid-name
        """Answers what it has got."""
        answer = hashlib.sha256(self.body()).hexdigest().encode() + b"\n"
        self.send_response(201)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def body(self):
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        data = b""
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def serve_git(self):
        body = self.body()
        path, _, query = self.path.partition("?")
        done = subprocess.run(["git", "http-backend"], input=body, capture_output=True, check=False, env={
            "PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_PROJECT_ROOT": str(self.site / "git"),
            "GIT_HTTP_EXPORT_ALL": "1", "REQUEST_METHOD": self.command, "PATH_INFO": path.removeprefix("/git"),
            "QUERY_STRING": query, "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)), "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", "")})
        head, _, answer = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if line)
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in {**fields, "Content-Length": str(len(answer))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


class Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_):  # a client that goes away is no event
        pass


def greet(connection, hear):
    """Speaks first, as mail servers and databases do."""
    connection.sendall(b"hello of the server\n")
    connection.sendall(b"heard " + hear())


# ---- all of them ------------------------------------------------------------------------------------


class Servers:
    def __init__(self, world, directory, certificate, key, wanted=None):
        self.world, self.dir, self.missing, self.wanted = world, directory, {}, wanted
        self.certificate, self.key = certificate, key
        self.processes, self.listeners = [], []
        self.log = None

    def __enter__(self):
        world = self.world
        world.dns.names.update({GOOD: [PUBLIC, PUBLIC6], FOUR: [PUBLIC], SIX: [PUBLIC6], EVIL: [PUBLIC_TOO]})
        self.dir.mkdir()
        self.log = open(self.dir / "log", "wb")  # pylint: disable=consider-using-with
        self.recorders = [world.origin(PUBLIC_TOO, port, swallow) for port in PORTS]
        try:
            for name, start in (("http", self.start_web), ("postgres", self.start_postgres), ("redis", self.start_redis),
                                ("ssh", self.start_ssh), ("git", self.start_git), ("ws", self.start_websocket)):
                try:
                    if self.wanted is None or name in self.wanted:
                        start()
                except Skip as why:
                    self.missing[name] = str(why)
            world.origin(PUBLIC, GREETER, greet)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for listener in self.listeners:
            listener.shutdown()
            listener.server_close()
        for process in self.processes:
            process.send_signal(2 if "postgres" in str(process.args[0]) else 15)
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.log.close()

    def start(self, argv, user=None, env=None, **options):
        """A server in the outside namespace."""
        identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
        process = self.world.outside.run(lambda: subprocess.Popen(
            [str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            env={"PATH": PATH, "HOME": "/nonexistent", "LANG": "C.UTF-8", **(env or {})}, **{"cwd": "/", **options}, **identity))
        self.processes.append(process)
        return process

    def listens(self, process, port):
        def answers():
            check(process.poll() is None, f"{process.args[0]} ended: {Path(self.log.name).read_text(errors='replace')[-2000:]}")
            try:
                self.world.outside.run(lambda: socket.create_connection((PUBLIC, port), 1)).close()
            except OSError:
                return False
            return True
        wait_for(answers, f"{process.args[0]} listens")

    def home(self, name, user):
        made = self.dir / name
        made.mkdir()
        os.chown(made, user.pw_uid, user.pw_gid)
        return made

    def lend_certificate(self, home, user):
        """A copy that a server takes: its own, and for its eyes alone."""
        for name, source in (("certificate.pem", self.certificate), ("key.pem", self.key)):
            shutil.copy(source, home / name)
            os.chown(home / name, user.pw_uid, user.pw_gid)
            (home / name).chmod(0o600)

    def start_web(self):
        site = self.dir / "site"
        for part in ("files", "git"):
            (site / part).mkdir(parents=True)
        (site / "hello").write_text("hello of http\n")
        (site / "files/big").write_bytes(os.urandom(BIG))
        (site / "files/big.sum").write_text(hashlib.sha256((site / "files/big").read_bytes()).hexdigest() + "\n")
        make_registry(site)
        make_index(site)
        make_archive(site, self.dir / "scratch")
        make_repository(site, self.dir / "scratch")
        secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        secure.load_cert_chain(self.certificate, self.key)
        for address, port in ((a, p) for a in (PUBLIC, PUBLIC6) for p in (HTTP, HTTPS)):
            self.serve_pages(site, address, port, secure if port == HTTPS else None)

    def serve_pages(self, site, address, port, secure):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = Listener((address, port), type("Site", (Pages,), {"site": site}), bind_and_activate=False)
        listener.socket.close()
        listener.socket = self.world.outside.run(lambda: socket.create_server((address, port), family=family, backlog=64))
        if secure:
            listener.socket = secure.wrap_socket(listener.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=listener.serve_forever, args=(0.05,), daemon=True).start()
        self.listeners.append(listener)

    def start_postgres(self):
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        if not found:
            raise Skip("postgresql is not installed")
        user = pwd.getpwnam("nobody")
        data, programs = self.home("postgres", user), found[-1].parent
        subprocess.run([programs / "initdb", "-D", data, "-U", "tester", "-A", "trust", "--no-sync", "--no-instructions"], check=True,
                       capture_output=True, user=user.pw_uid, group=user.pw_gid, extra_groups=[], env={"LC_ALL": "C"}, cwd="/")
        with open(data / "pg_hba.conf", "a", encoding="ascii") as file:
            file.write("host all all all trust\n")
        self.lend_certificate(data, user)
        settings = {"ssl": "on", "ssl_cert_file": "certificate.pem", "ssl_key_file": "key.pem", "listen_addresses": PUBLIC, "port": POSTGRES, "unix_socket_directories": "", "fsync": "off",
                    "dynamic_shared_memory_type": "mmap", "autovacuum": "off", "shared_buffers": "1MB"}
        self.start([programs / "postgres", "-D", data, *(f"--{name}={value}" for name, value in settings.items())], user)
        wait_for(lambda: self.world.outside.run(lambda: subprocess.run(
            [programs / "pg_isready", "-q", "-h", PUBLIC, "-p", str(POSTGRES)], check=False).returncode) == 0, "postgres is ready")

    def start_redis(self):
        program = shutil.which("redis-check-rdb")  # the same program is the server, by another name
        if not program:
            raise Skip("redis-tools is not installed")
        user = pwd.getpwnam("nobody")
        home = self.home("redis", user)
        self.lend_certificate(home, user)
        process = self.start(["redis-server", "--bind", PUBLIC, "--port", REDIS, "--save", "", "--protected-mode", "no",
                              "--tls-port", REDIS_TLS, "--tls-cert-file", "certificate.pem", "--tls-key-file", "key.pem",
                              "--tls-auth-clients", "no", "--tls-ca-cert-file", "certificate.pem"], user, executable=program, cwd=home)
        self.listens(process, REDIS)

    def start_ssh(self):
        if not shutil.which("dropbear", path=PATH):
            raise Skip("dropbear-bin is not installed")
        home = self.home("ssh", pwd.getpwuid(0))
        subprocess.run(["dropbearkey", "-t", "ed25519", "-f", home / "host_key"], check=True, capture_output=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", home / "key"], check=True)
        (home / "answer").write_text(SSH_ANSWER.format(repository=self.dir / "site/git/tiny.git"))
        process = self.start(["unshare", "-m", "sh", "-c", SSHD, "sh", f"{PUBLIC}:{SSH}"], cwd=home)
        self.listens(process, SSH)

    def start_git(self):
        programs = subprocess.run(["git", "--exec-path"], check=True, capture_output=True, text=True).stdout.strip()
        process = self.start([f"{programs}/git-daemon", "--export-all", f"--base-path={self.dir / 'site/git'}",
                              f"--listen={PUBLIC}", f"--port={GIT}", "--reuseaddr"])
        self.listens(process, GIT)

    def start_websocket(self):
        process = self.start(["node", "-e", ECHO, PUBLIC, WEBSOCKET], env={"NODE_PATH": str(modules() / "node_modules")})
        self.listens(process, WEBSOCKET)

    def nothing_got_out(self):
        """Nobody has come to EVIL's ports, and nobody has asked for its name."""
        for origin in self.recorders:
            check(origin.connections == 0, f"{origin.address}:{origin.port} was connected to: {origin.bytes[:200]!r}")
        asked = [name for name, _ in self.world.dns.asked if name == EVIL]
        check(not asked, f"{EVIL} was asked for")
