#!/usr/bin/env python3
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
from egress_world import INSIDE, PUBLIC, RESOLVER, World, swallow
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
                     pip_conf=f"[global]\nextra-index-url = http://{places[0]}/ http://{places[1]}/ http://localhost:{PORT}/\n")
        calls = "".join(f"curl -sSf -m 5 {proxy} http://{place}/; " for place in (*places, f"localhost:{PORT}")
                        for proxy in ("--noproxy '*'", "--noproxy ''"))
        seen = run_image(w, c, root, f"curl -sS http://{GOOD}/hello; {calls}")
        check(seen.out == b"hello of http\n" and f"{places[1]} (policy_denied)".encode() in seen.err, str(seen))
        equal([origin.connections for origin in here], [0, 0], "connections to the machine")


main()
