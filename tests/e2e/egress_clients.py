# SPDX-License-Identifier: Apache-2.0
"""The clients that sandboxes are filled with: how each is called, what it says when it worked, and what it says when
it was refused. $HOST is who it talks to, $KIT the directory of egress_kit."""

import dataclasses

from egress_servers import BIG, FOUR, GIT, GOOD, GREETER, HTTP, HTTPS, POSTGRES, REDIS, REDIS_TLS, SIX, SSH, WEBSOCKET

# A program that knows proxies is shown why it was refused; to others the name does not exist, or the connection ends.
NO_NAME = r"(?i)resol|not known|name or service|no such host|EAI_AGAIN|ENOTFOUND|server misbehaving|try again|unable to look up"
FORBIDDEN = r"403|Forbidden"
REASON = r'"policy_denied"'

PYTHON_PLAIN = """python3 -c '
import http.client, sys
c = http.client.HTTPConnection(sys.argv[1], 80, timeout=20)
c.request("GET", "/hello")
print(c.getresponse().read().decode())' $HOST"""
PYTHON_URLLIB = """python3 -c '
import sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode())
except urllib.error.HTTPError as e:
    sys.exit(f"{e.code} {e.read().decode()}")' http://$HOST/hello"""
PYTHON_GREETED = """python3 -c '
import socket, sys
s = socket.create_connection((sys.argv[1], %d), 20)
print(s.recv(20))
s.sendall(b"hello of the client")
print(s.recv(100))' $HOST""" % GREETER
NODE_FETCH = """node -e '
fetch(process.argv[1]).then((r) => r.text()).then((t) => process.stdout.write(t))
    .catch((e) => { console.error(e.cause ?? e); process.exit(1); });' """
NODE_WS = """NODE_PATH=$KIT/node_modules node -e '
const WebSocket = require("ws"), ws = new WebSocket(process.argv[1]);
ws.on("open", () => ws.send("hello of ws"));
ws.on("message", (data) => { console.log(String(data)); ws.close(); });
ws.on("error", (e) => { console.error(e); process.exit(1); });' ws://$HOST:%d/""" % WEBSOCKET
PIP = "python3 -m pip download -vv --no-deps --no-cache-dir --disable-pip-version-check --retries 0 --trusted-host $HOST " \
      "-d got -i http://$HOST/simple tiny && ls got"
NPM = "npm install --silent --no-audit --no-fund --fetch-retries=0 --cache=$PWD/cache --loglevel=error --registry=http://$HOST/npm/ tiny " \
      "&& node -p 'require(\"tiny\")'"
APT = "mkdir -p state/lists/partial cache/archives/partial etc/apt.conf.d log && " \
      "echo \"deb [trusted=yes] http://$HOST/apt ./\" >etc/sources.list && touch status && " \
      "apt() { apt-get -q -o Dir::State=$PWD/state -o Dir::State::status=$PWD/status -o Dir::Cache=$PWD/cache -o Dir::Etc=$PWD/etc " \
      "-o Dir::Log=$PWD/log -o APT::Sandbox::User= -o Acquire::Retries=0 -o Acquire::Languages=none -o APT::Update::Error-Mode=any \"$@\"; } && " \
      "apt update && apt download tiny && dpkg-deb --fsys-tarfile tiny_*.deb | tar xOf - ./usr/share/tiny/word"
SSH_KEY = "cp $KIT/ssh_key key && chmod 600 key && "
SSH_RUN = "ssh -i $HOME/key -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=known -o ConnectTimeout=20"
# Both ends have the same bytes, or what the client was told instead is shown.
CURL_WHOLE = "curl -sS --fail-with-body --cacert $KIT/authority.pem %s -o answer || { cat answer; exit 1; }; "
DOWNLOAD = CURL_WHOLE % "http://$HOST/files/big" + \
    "test $(sha256sum <answer | cut -c1-64) = $(curl -sS http://$HOST/files/big.sum) && echo whole"
UPLOAD = f"head -c {BIG} /dev/urandom >big; " + CURL_WHOLE + "test $(sha256sum <big | cut -c1-64) = $(cat answer) && echo whole"
PUSH = "export GIT_TERMINAL_PROMPT=0 && git clone -q http://$HOST/git/tiny.git got && cd got && head -c 3000000 /dev/urandom >big && " \
       "git add big && git -c user.name=me -c user.email=me@example.com commit -qm big && " \
       "git push -q http://$HOST/git/takes.git HEAD:refs/heads/$(cat /proc/sys/kernel/random/uuid) && echo pushed"
CLONE = "GIT_TERMINAL_PROMPT=0 git clone -q %s got && cat got/word"


@dataclasses.dataclass(frozen=True)
class Client:
    name: str
    script: str
    says: str
    port: int
    proxy: str = ""             # the adapter that its proxied way takes; "": it knows no proxy
    refused: str = FORBIDDEN    # what the proxied way shows
    host: str = GOOD
    needs: tuple = ()           # programs of the host
    parts: tuple = ()           # of the kit and of the servers
    literal: bool = False       # an address instead of the name is tried, too

    @property
    def ways(self):
        return ("proxy", "captured") if self.proxy else ("captured",)

    def adapter(self, way):
        return self.proxy if way == "proxy" else "transparent"


def web(name, script, **more):
    return Client(name, script, "hello of http", HTTP, **{"proxy": "forward", **more})


def secure(name, script, **more):
    return Client(name, script, "hello of http", HTTPS, **{"proxy": "connect", **more})


CLIENTS = (
    web("curl", "curl -sS --fail-with-body http://$HOST/hello", refused=REASON, needs=("curl",), literal=True),
    web("curl, to v4", "curl -sS --fail-with-body http://$HOST/hello", refused=REASON, host=FOUR, needs=("curl",)),
    web("curl, to v6", "curl -sS --fail-with-body http://$HOST/hello", refused=REASON, host=SIX, needs=("curl",)),
    web("curl --http2", "curl -sS --http2 --fail-with-body http://$HOST/hello", refused=REASON, needs=("curl",)),
    secure("curl https", "curl -sS --cacert $KIT/authority.pem https://$HOST/hello", needs=("curl",), literal=True),
    Client("curl, download", DOWNLOAD, "whole", HTTP, proxy="forward", refused=REASON, needs=("curl",)),
    Client("curl, upload", UPLOAD % "-T big http://$HOST/put", "whole", HTTP, proxy="forward", refused=REASON, needs=("curl",)),
    Client("curl, chunks", UPLOAD % "-T - http://$HOST/put <big", "whole", HTTP, proxy="forward", refused=REASON, needs=("curl",)),
    Client("curl, upload TLS", UPLOAD % "-T big https://$HOST/put", "whole", HTTPS, proxy="connect", needs=("curl",)),
    web("wget", "wget -t1 -T20 -O- http://$HOST/hello", needs=("wget",)),
    secure("wget https", "wget -t1 -T20 -O- --ca-certificate=$KIT/authority.pem https://$HOST/hello", needs=("wget",)),
    web("python urllib", PYTHON_URLLIB, refused=REASON, needs=("python3",)),
    web("python, no proxy", PYTHON_PLAIN, proxy="", needs=("python3",)),
    Client("python, greeted", PYTHON_GREETED, "heard hello of the client", GREETER, needs=("python3",), literal=True),
    web("node fetch", NODE_FETCH + "http://$HOST/hello", proxy="", needs=("node",)),
    secure("node fetch https", "NODE_EXTRA_CA_CERTS=$KIT/authority.pem " + NODE_FETCH + "https://$HOST/hello", proxy="", needs=("node",)),
    web("go, tcp4", "$KIT/go-client tcp4 http://$HOST/hello", proxy="", host=FOUR, parts=("go",), literal=True),
    web("go, tcp6", "$KIT/go-client tcp6 http://$HOST/hello", proxy="", host=SIX, parts=("go",)),
    web("musl, v4", "$KIT/musl-client 4 $HOST 80", proxy="", host=SIX, parts=("musl",), literal=True),
    web("musl, v6", "$KIT/musl-client 6 $HOST 80", proxy="", host=FOUR, parts=("musl",)),
    Client("git http", CLONE % "http://$HOST/git/tiny.git", "tiny of git", HTTP, proxy="forward", needs=("git",)),
    Client("git push", PUSH, "pushed", HTTP, proxy="forward", needs=("git",)),
    Client("git https", "GIT_SSL_CAINFO=$KIT/authority.pem " + CLONE % "https://$HOST/git/tiny.git", "tiny of git", HTTPS,
           proxy="connect", needs=("git",)),
    Client("git://", CLONE % "git://$HOST/tiny.git", "tiny of git", GIT, needs=("git",), parts=("git",), literal=True),
    Client("git ssh", SSH_KEY + f"export GIT_SSH_COMMAND='{SSH_RUN}' && " + CLONE % "ssh://root@$HOST/tiny.git", "tiny of git", SSH,
           needs=("git", "ssh"), parts=("ssh",)),
    Client("ssh", SSH_KEY + SSH_RUN + " root@$HOST true", "hello of ssh", SSH, needs=("ssh",), parts=("ssh",), literal=True),
    Client("psql", "psql -h $HOST -U tester -d postgres -Atc \"select 'hello of ' || 'postgres'\"", "hello of postgres", POSTGRES,
           needs=("psql",), parts=("postgres",), literal=True),
    Client("psql, TLS", "psql \"host=$HOST user=tester dbname=postgres sslmode=verify-full sslrootcert=$KIT/authority.pem\" "
           "-Atc \"select 'hello of ' || version from pg_stat_ssl where pid = pg_backend_pid()\"", "hello of TLS", POSTGRES,
           needs=("psql",), parts=("postgres",)),
    Client("redis-cli, TLS", f"redis-cli -h $HOST -p {REDIS_TLS} --tls --sni $HOST --cacert $KIT/authority.pem echo hello-of-redis",
           "hello-of-redis", REDIS_TLS, needs=("redis-cli",), parts=("redis",)),
    Client("redis-cli", "redis-cli -h $HOST echo hello-of-redis", "hello-of-redis", REDIS, needs=("redis-cli",), parts=("redis",),
           literal=True),
    Client("ws", NODE_WS, "hello of ws", WEBSOCKET, needs=("node",), parts=("ws",)),
    Client("pip", PIP, "tiny-1.0-py3-none-any.whl", HTTP, proxy="forward", needs=("pip3",)),
    Client("npm", NPM, "tiny of npm", HTTP, proxy="forward", needs=("npm",)),
    Client("apt", APT, "tiny of apt", HTTP, proxy="forward", needs=("apt-get", "dpkg-deb")),
)
