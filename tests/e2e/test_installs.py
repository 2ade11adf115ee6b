#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""sandbox_install: each manager gets a real package through the egress policy, and nothing where that does not let it."""

import base64
import contextlib
import hashlib
import io
import json
import shutil
import tarfile
import zipfile

from client import Client
from daemon import Daemon
from egress_kit import make_certificates
from egress_servers import EVIL, GOOD, Servers
from egress_world import RESOLVER, World
from harness import Skip, check, equal, main, test
from mcp import Lines

ONCE = {"only": "root", "because": "the daemon is the same for everybody"}

RULES = """\
version: 1
tools:
  sandbox_create: {tier: 2, effect: write, creates: true}
  sandbox_write: {tier: 2, effect: write}
  sandbox_exec: {tier: 2, effect: execute}
  sandbox_install: {tier: 2, effect: network}
"""

# Room for compilers, and a system that takes packages.
PROFILE = """\
id: profile.builder
version: 1
resources: {cpu: 2, memory_mb: 2048, pids: 512, disk_mb: 512}
writable_system: true
"""


# --- what the server has, beside what Servers gives it ---

def make_go_module(site):
    """As GOPROXY names it."""
    name, at = "example.com/tiny", site / "go/example.com/tiny/@v"
    at.mkdir(parents=True)
    (at / "list").write_text("v1.0.0\n")
    (at / "v1.0.0.info").write_text(json.dumps({"Version": "v1.0.0", "Time": "2020-01-01T00:00:00Z"}))
    (at / "v1.0.0.mod").write_text(f"module {name}\n")
    with zipfile.ZipFile(at / "v1.0.0.zip", "w") as z:
        z.writestr(f"{name}@v1.0.0/go.mod", f"module {name}\n")
        z.writestr(f"{name}@v1.0.0/main.go", 'package main\n\nfunc main() { println("tiny of go") }\n')


def make_crate(site):
    """A sparse registry: what there is, and where its archives are."""
    archive = site / "files/tiny-1.0.0.crate"
    with tarfile.open(archive, "w:gz") as tar:
        for name, text in (("Cargo.toml", '[package]\nname = "tiny"\nversion = "1.0.0"\n'),
                           ("src/main.rs", 'fn main() { println!("tiny of cargo"); }\n')):
            member = tarfile.TarInfo(f"tiny-1.0.0/{name}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    (site / "cargo/ti/ny").mkdir(parents=True)
    (site / "cargo/config.json").write_text(json.dumps({"dl": f"http://{GOOD}/files/{{crate}}-{{version}}.crate"}))
    (site / "cargo/ti/ny/tiny").write_text(json.dumps({"name": "tiny", "vers": "1.0.0", "deps": [], "features": {}, "yanked": False,
                                                       "cksum": hashlib.sha256(archive.read_bytes()).hexdigest()}) + "\n")


# --- the managers: what they are told, what they install, and what shows that it is there ---

DPKG = "mkdir -p /var/lib/dpkg/info /var/lib/dpkg/updates /var/lib/dpkg/triggers /var/log/apt && touch /var/lib/dpkg/status"
MANAGERS = {
    "apt": ("apt-get", {"/etc/apt/sources.list": f"deb [trusted=yes] http://{GOOD}/apt ./\n"}, "tiny", "cat /usr/share/tiny/word", "tiny of apt"),
    "pip": ("pip3", {"/root/.config/pip/pip.conf": f"[global]\nindex-url = http://{GOOD}/simple\ntrusted-host = {GOOD}\nretries = 0\ntimeout = 20\n"},
            "tiny", "python3 -c 'import tiny; print(tiny.WORD)'", "tiny of pip"),
    "npm": ("npm", {"/root/.npmrc": f"registry=http://{GOOD}/npm/\nfetch-retries=0\n"}, "tiny", "node -p 'require(\"tiny\")'", "tiny of npm"),
    "cargo": ("cargo", {"/root/.cargo/config.toml": '[source.crates-io]\nreplace-with = "here"\n[source.here]\n'
                        f'registry = "sparse+http://{GOOD}/cargo/"\n[net]\nretry = 0\n'}, "tiny", "/root/.cargo/bin/tiny", "tiny of cargo"),
    "go": ("go", {"/root/.config/go/env": f"GOPROXY=http://{GOOD}/go\nGOSUMDB=off\nGOFLAGS=-p=1\n"}, "example.com/tiny@v1.0.0",
           "/root/go/bin/tiny 2>&1", "tiny of go"),
}


@contextlib.contextmanager
def served(c):
    """A daemon in a network with the server, and a client of it."""
    bundle = c.write("bundle.yaml", RULES)
    private = c.mkdir(c.dir / "private")
    make_certificates(private, (GOOD,))
    with World() as w, Servers(w, c.dir / "servers", private / "certificate.pem", private / "key.pem", wanted=("http",)) as servers:
        make_go_module(servers.dir / "site")
        make_crate(servers.dir / "site")
        d = Daemon(c, config=f"egress: {{workers: 1, resolvers: ['{RESOLVER}']}}\ntrust: {{bundle: '{bundle}'}}")
        c.write("daemon/profiles/builder.yaml", PROFILE)
        spawn = d.spawn
        d.spawn = lambda *args, **options: w.inside.run(lambda: spawn(*args, **options))
        with d, Lines(c, d) as m:
            m.begin()
            yield d, m, servers


def check_manager(c, name):
    program, files, package, shows, says = MANAGERS[name]
    with served(c) as (d, m, servers):
        def create(host):
            box = m.tool("sandbox_create", profile="profile.builder", capabilities={"network": [f"{host}:80"]})["sandbox_id"]
            for path, content in files.items():
                m.tool("sandbox_write", sandbox_id=box, path=path, content=content)
            if name == "apt":
                equal(m.tool("sandbox_exec", sandbox_id=box, command=DPKG)["exit_code"], 0, "a system without packages")
            return box
        box = create(GOOD)
        if m.tool("sandbox_exec", sandbox_id=box, command=f"command -v {program}")["exit_code"]:
            m.refused("sandbox_install", f"has no {name}", sandbox_id=box, manager=name, packages=[package])
            raise Skip(f"{program} is not installed where sandboxes see it")
        said = m.tool("sandbox_install", sandbox_id=box, manager=name, packages=[package])
        equal(said["exit_code"], 0, f"{said}")
        shown = m.tool("sandbox_exec", sandbox_id=box, command=shows)
        equal(shown["stdout"].strip(), says, f"what was installed: {shown}")
        box = create(EVIL)
        m.refused("sandbox_install", "egress policy", sandbox_id=box, manager=name, packages=[package])
        check(f"{GOOD}:80" in Client(d)("egress", "denials", box).expect(0).text, "on record")
        check(m.tool("sandbox_exec", sandbox_id=box, command=shows)["exit_code"], "what was not installed is there")
        servers.nothing_got_out()


def wheel():
    """A package of Python without anything to build."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as z:
        z.writestr("greeting.py", "print('hello')\n")
        z.writestr("greeting-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: greeting\nVersion: 1\n")
        z.writestr("greeting-1.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("greeting-1.dist-info/RECORD", "")
    return base64.b64encode(held.getvalue()).decode()


@test(**ONCE)
def packages_that_are_at_hand_are_installed(c):
    done = 0
    with Daemon(c) as d, Lines(c, d) as m:
        m.begin()
        box = m.tool("sandbox_create")["sandbox_id"]
        if m.tool("sandbox_exec", sandbox_id=box, command="python3 -m pip --version")["exit_code"] == 0:
            m.tool("sandbox_write", sandbox_id=box, path="/tmp/greeting-1-py3-none-any.whl", content=wheel(), encoding="base64")
            said = m.tool("sandbox_install", sandbox_id=box, manager="pip", packages=["/tmp/greeting-1-py3-none-any.whl"])
            check("Successfully installed greeting" in said["stdout"], f"{said}")
            equal(m.tool("sandbox_exec", sandbox_id=box, command="python3 -m greeting")["stdout"], "hello\n", "what it does")
            done += 1
        if m.tool("sandbox_exec", sandbox_id=box, command="npm --version")["exit_code"] == 0:
            m.tool("sandbox_write", sandbox_id=box, path="/tmp/pack/package.json", content='{"name": "greeting", "version": "1.0.0", "main": "main.js"}')
            m.tool("sandbox_write", sandbox_id=box, path="/tmp/pack/main.js", content="console.log('hello')")
            said = m.tool("sandbox_install", sandbox_id=box, manager="npm", packages=["/tmp/pack"])
            equal(said["exit_code"], 0, f"{said}")
            equal(m.tool("sandbox_exec", sandbox_id=box, command="node -e 'require(\"greeting\")'")["stdout"], "hello\n", "what it does")
            done += 1
        m.refused("sandbox_install", "did not install", sandbox_id=box, manager="npm" if shutil.which("npm") else "pip", packages=["no-such-package-here"], timeout_s=1)
    if not done:
        raise Skip("neither pip nor npm is installed")


for manager in MANAGERS:
    def one(c, name=manager):
        check_manager(c, name)
    one.__name__ = f"{manager}_installs_through_the_egress_policy"
    test(**ONCE)(one)


main()
