#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""sandboxer run --allow-packages: managers reach what they are configured for or were built with, and nothing else."""

import contextlib
import json
import os
import shutil
import subprocess
import urllib.parse

import images
from egress_kit import make_certificates
from egress_servers import EVIL, GOOD, Servers
from egress_world import INSIDE, OUTSIDE, PUBLIC, RESOLVER, World, answer, swallow
from harness import PATH, Skip, check, equal, main, test

KIT = "/opt/kit"
PORT = 8099  # of what the machine has for itself


@contextlib.contextmanager
def web(c, *names):
    """The web server alone, known by these names and certified for them."""
    private, kit = c.dir / "private", c.mkdir(c.dir / "kit")
    private.mkdir()
    make_certificates(private, (GOOD, *names))
    shutil.copy(private / "authority.pem", kit)
    with World() as w, Servers(w, c.dir / "servers", private / "certificate.pem", private / "key.pem", wanted=("http",)) as servers:
        w.dns.names.update({name: [PUBLIC] for name in names})
        yield w, servers


def run(w, c, *argv):
    return w.execute(c, [c.program(), "run", "--resolver", RESOLVER, "--allow-packages", "--mount", f"{c.dir / 'kit'}:{KIT}", *argv],
                     env={"SANDBOXER_NO_DAEMON": "1"})


def ask(program, *argv):
    """What a manager itself says, outside, with nothing configured."""
    if not os.path.exists(f"/usr/bin/{program}"):
        raise Skip(f"/usr/bin/{program} is not installed")
    return subprocess.run([f"/usr/bin/{program}", *argv], check=True, capture_output=True, text=True, cwd="/",
                          env={"HOME": "/nonexistent", "PATH": "/usr/bin:/bin"}).stdout.split()


@test
def npm_installs_from_where_it_was_built_to_look(c):
    registry = urllib.parse.urlsplit(ask("npm", "config", "get", "registry")[0])
    with web(c, registry.hostname) as (w, servers):
        packument = json.loads((servers.dir / "site/npm/tiny").read_text())
        packument["versions"]["1.0.0"]["dist"]["tarball"] = f"https://{registry.hostname}/files/tiny-1.0.0.tgz"
        (servers.dir / "site/tiny").write_text(json.dumps(packument))
        seen = run(w, c, "--workdir", "/tmp", "--", "sh", "-c", f"npm install --cafile={KIT}/authority.pem "
                   "--loglevel=error --no-audit --no-fund --fetch-retries=0 tiny && node -p 'require(\"tiny\")'; "
                   f"curl -sSf -m 20 https://{EVIL}/")
        check(b"tiny of npm\n" in seen.out and f"{EVIL}:443 (policy_denied)".encode() in seen.err, str(seen))
        servers.nothing_got_out()


@test
def pip_downloads_from_where_it_was_built_to_look(c):
    script = "from pip._internal.models.index import PyPI; print(PyPI.netloc, PyPI.file_storage_domain)"
    if not os.path.exists("/usr/bin/pip3"):
        raise Skip("/usr/bin/pip3 is not installed")
    index, files = ask("python3", "-c", script)
    with web(c, index, files) as (w, servers):
        (servers.dir / "site/simple/tiny/index.html").write_text(
            f'<a href="https://{files}/files/tiny-1.0-py3-none-any.whl">tiny-1.0-py3-none-any.whl</a>')
        seen = run(w, c, "--env", f"PIP_CERT={KIT}/authority.pem", "--workdir", "/tmp", "--", "sh", "-c",
                   f"python3 -m pip download -q --no-deps --retries 0 -d got tiny && ls got; curl -sSf -m 20 https://{EVIL}/")
        check(b"tiny-1.0-py3-none-any.whl\n" in seen.out and f"{EVIL}:443 (policy_denied)".encode() in seen.err, str(seen))
        servers.nothing_got_out()


def image(c, **files):
    """One with these files in /etc, and with managers that do nothing but be there. The host's programs are in it when
    it runs."""
    root = images.directory(c)
    for name in ("lib", "lib64"):
        c.own_link(root / name, f"usr/{name}")
    for program in ("pip3", "npm", "cargo"):
        c.write(f"image/usr/bin/{program}", "", 0o755)
    for name, text in files.items():
        c.write(f"image/etc/{name.replace('_', '.')}", text)
    return root


def run_image(w, c, root, script, *flags):
    return run(w, c, *flags, "--image", root, "--mount", "/usr:/usr", "--env", f"PATH={PATH}", "--", "sh", "-c", script)


@test
def an_image_is_let_to_what_it_says(c):
    with web(c) as (w, servers):
        root = image(c, npmrc=f"registry=http://{GOOD}/npm/\n", pip_conf=f"[global]\nindex-url = http://{GOOD}/simple\n")
        seen = run_image(w, c, root, f"curl -sS http://{GOOD}/hello; curl -sSf http://{EVIL}/hello")
        check(seen.out == b"hello of http\n" and f"{EVIL}:80 (policy_denied)".encode() in seen.err, str(seen))
        check(b"note: --allow-packages knows no host for cargo; --allow HOST adds one\n" in seen.err, str(seen))
        servers.nothing_got_out()


@test
def whoever_runs_has_a_home_in_it(c):
    with web(c) as (w, servers):
        root = image(c)
        c.write("image/home/maker/.npmrc", f"registry=http://{GOOD}/npm/\n")
        seen = run_image(w, c, root, f"curl -sS http://{GOOD}/hello; curl -sSf http://{EVIL}/hello", "--user", "maker")
        check(seen.out == b"hello of http\n" and f"{EVIL}:80 (policy_denied)".encode() in seen.err, str(seen))
        servers.nothing_got_out()


@test
def an_image_that_says_nothing_starts_nothing(c):
    c.mkdir(c.dir / "kit")
    root = image(c)
    c.execute([c.program(), "run", "--allow-packages", "--image", root, "--", "echo", "started"],
              env={"SANDBOXER_NO_DAEMON": "1"}).expect(125, out=b"", says=r"no host is known .*\(pip, npm, cargo\).*--allow HOST")


@test
def an_image_does_not_grant_itself_the_machine(c):
    """What it names of the machine and of the networks around it is not what the caller has allowed."""
    with web(c) as (w, _):
        here = [w.origin(address, PORT, swallow, inside=True) for address in (INSIDE, "127.0.0.1")]
        places = [f"{origin.address}:{PORT}" for origin in here]
        root = image(c, npmrc=f"registry=http://{GOOD}/npm/\n@a:registry=http://{places[0]}/\n@b:registry=http://{places[1]}/\n",
                     pip_conf=f"[global]\nextra-index-url = http://{places[0]}/ http://{places[1]}/ http://localhost:{PORT}/ "
                     f"http://host.sandboxer.internal:{PORT}/ http://here.example.com:{PORT}/\n")
        w.dns.names["here.example.com"] = ["127.0.0.1"]
        calls = "".join(f"curl -sSf -m 5 {proxy} http://{place}/; " for place in (*places, *(f"{name}:{PORT}" for name in ("localhost", "host.sandboxer.internal", "here.example.com")))
                        for proxy in ("--noproxy '*'", "--noproxy ''"))
        seen = run_image(w, c, root, f"curl -sS http://{GOOD}/hello; {calls}")
        check(seen.out == b"hello of http\n" and f"{places[1]} (policy_denied)".encode() in seen.err, str(seen))
        equal([origin.connections for origin in here], [0, 0], "connections to the machine")


@test
def the_caller_names_a_mirror_of_its_own_network(c):
    """By a variable: an address, and a port of the machine's loopback."""
    with web(c) as (w, servers):
        mirror = w.origin(OUTSIDE, PORT, answer(b"mirror\n"))
        local = w.origin("127.0.0.1", PORT, answer(b"here\n"), inside=True)
        root = image(c, npmrc=f"registry=http://{GOOD}/npm/\n")
        seen = run_image(w, c, root, f"curl -sS http://{OUTSIDE}:{PORT}/; curl -sS http://localhost:{PORT}/; curl -sSf http://{EVIL}/hello",
                         "--env", f"PIP_INDEX_URL=http://{OUTSIDE}:{PORT}/simple", "--env", f"NPM_CONFIG_REGISTRY=http://localhost:{PORT}/")
        check(seen.out == b"mirror\nhere\n" and f"{EVIL}:80 (policy_denied)".encode() in seen.err, str(seen))
        equal((mirror.connections, local.connections), (1, 1), "connections to the mirrors")
        servers.nothing_got_out()


@test(only="root", because="a hosts file of its own takes a mount namespace")
def a_mirror_by_name_is_reached_where_this_machine_finds_it(c):
    """Looked up outside, and then reached there alone, whatever DNS says inside."""
    hosts = c.write("hosts", f"127.0.0.1 localhost\n{OUTSIDE} mirror.corp.example\n")
    with web(c) as (w, _):
        mirror = w.origin(OUTSIDE, PORT, answer(b"mirror\n"))
        w.dns.names["mirror.corp.example"] = ["10.77.0.9"]
        argv = [c.program(), "run", "--resolver", RESOLVER, "--allow-packages", "--env", f"PIP_INDEX_URL=http://mirror.corp.example:{PORT}/simple",
                "--", "sh", "-c", f"for way in '' \"--noproxy *\"; do curl -sS -m 20 $way http://mirror.corp.example:{PORT}/; done"]
        seen = w.execute(c, ["unshare", "-m", "sh", "-c", f'mount --bind {hosts} /etc/hosts && exec "$@"', "sh", *argv],
                         env={"SANDBOXER_NO_DAEMON": "1"})
        equal((seen.out, mirror.connections), (b"mirror\n" * 2, 2), f"what came: {seen}")
        # An image that has the same words is not the operator: its names are not looked up here.
        root = image(c, pip_conf=f"[global]\nindex-url = http://mirror.corp.example:{PORT}/simple\n")
        argv[5:7] = ["--image", str(root), "--mount", "/usr:/usr", "--env", f"PATH={PATH}"]
        seen = w.execute(c, ["unshare", "-m", "sh", "-c", f'mount --bind {hosts} /etc/hosts && exec "$@"', "sh", *argv],
                         env={"SANDBOXER_NO_DAEMON": "1"})
        check(mirror.connections == 2 and b"mirror.corp.example" in seen.err and b"(ssrf_denied)" in seen.err, str(seen))


main()
