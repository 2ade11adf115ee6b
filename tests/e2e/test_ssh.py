#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""ssh, scp, sftp, rsync and git into sandboxes, with OpenSSH's own programs."""

import contextlib
import hashlib
import pwd
import shutil
import socket
import tarfile

from client import Client
from daemon import Daemon
from harness import Skip, check, equal, main, test, wait_for
from images import busybox, member
from registry import Image, file, folder, layer, tar_of
from tcp import free_port, serving
from terminal import Terminal

BYTES = bytes(range(256)) * (4 << 12)
REFUSED = 255  # what ssh ends with when it is the one that failed
ECHO = "import socket\ns = socket.create_server(('127.0.0.1', 8080))\nwhile True:\n c = s.accept()[0]\n c.sendall(c.recv(100))\n c.close()"


def need(*programs):
    for name in programs:
        if not shutil.which(name):
            raise Skip(f"{name} is not installed")


class Ssh(Client):
    """The command line with a state directory of its own, as a person on another machine has it."""

    def __init__(self, d, **env):
        need("ssh", "sshd")
        try:
            pwd.getpwuid(d.c.uid)
        except KeyError:
            raise Skip(f"ssh does nothing for a user without a name, and {d.c.uid} has none") from None
        super().__init__(d, **{"SANDBOXER_STATE": str(d.dir / "person"), **env})
        self.api = d.api
        self.config = d.c.write("ssh_config", self("ssh-config").expect(0).out)

    def tool(self, name, *argv, env=None, **options):
        """One of OpenSSH's programs, by what `ssh-config` printed."""
        need(name)
        return self.c.execute([name, "-F", self.config, *argv], env=env or self.env, **options)

    def ssh(self, *argv, **options):
        return self.tool("ssh", *argv, **options)

    def start_ssh(self, *argv, **options):
        return self.c.start(["ssh", "-F", self.config, *argv], env=self.env, **options)

    def running(self, box, name):
        """How many processes inside are called so."""
        return len(self.sh(box, f"grep -lx {name} /proc/[0-9]*/comm; true").expect(0).text.split())


@contextlib.contextmanager
def sandbox(c):
    with Daemon(c) as d:
        cli = Ssh(d)
        yield cli, cli.create()


# --- what it is for ---


@test
def commands_have_their_streams_and_status(c):
    with sandbox(c) as (cli, box):
        cli("ssh", box, "--", "echo out; echo err >&2; exit 3").expect(3, out=b"out\n", err=b"err\n")
        cli("ssh", box, "--", "cat", stdin=BYTES).expect(0, out=BYTES)
        for name in (box, f"sbx-{box[4:]}", f"sbx-{box}"):
            cli.ssh(name, "sha256sum", stdin=BYTES).expect(0, out=f"{hashlib.sha256(BYTES).hexdigest()}  -\n".encode())


@test
def the_configuration_names_the_daemon(c):
    """For an editor that was started elsewhere."""
    with sandbox(c) as (cli, box):
        bare = {name: value for name, value in cli.env.items() if not name.startswith("SANDBOXER_")}
        c.execute(["ssh", "-F", cli.config, box, "echo here"], env=bare).expect(0, out=b"here\n")


@test
def programs_are_those_of_an_exec(c):
    with Daemon(c) as d:
        cli = Ssh(d)
        box = d.create(env={"GREETING": "two words"})
        script = "id; pwd; echo $HOME $USER $LOGNAME $PATH; echo $GREETING $LANG; cat /proc/self/uid_map; ls -l /proc/self/fd | wc -l"
        want = cli.sh(box, script).expect(0).out
        cli.ssh(box, script).expect(0, out=want)
        for user in ("0", "1000") if c.root else ("0",):
            equal(cli("ssh", "--user", user, box, "--", "id -u").expect(0).text, user, "who runs it")


@test
def files_by_scp_sftp_rsync_and_git(c):
    with sandbox(c) as (cli, box):
        c.write("tree/data", BYTES)
        c.write("tree/deep/er", "x")
        cli.tool("scp", "-qr", c.dir / "tree", f"{box}:/tmp/").expect(0)
        cli.tool("scp", "-q", f"{box}:/tmp/tree/data", c.dir / "back").expect(0)
        equal((c.dir / "back").read_bytes(), BYTES, "what came back")
        cli.tool("sftp", "-b", "-", box, stdin=b"cd /tmp/tree\nrename data data2\nls -l\n").expect(0)
        need("rsync", "git")
        over = f"ssh -F {cli.config}"
        c.execute(["rsync", "-a", "-e", over, f"{box}:/tmp/tree/", c.dir / "again/"], env=cli.env).expect(0)
        equal((c.dir / "again/data2").read_bytes(), BYTES, "what rsync brought")
        cli.sh(box, "cd /tmp/tree && git init -q . && git add . && git -c user.name=a -c user.email=a@b commit -qm one").expect(0)
        c.execute(["git", "clone", "-q", f"{box}:/tmp/tree", c.dir / "clone"], env={**cli.env, "GIT_SSH_COMMAND": over}).expect(0)
        equal((c.dir / "clone/deep/er").read_bytes(), b"x", "what git brought")


@test
def a_terminal_of_the_size_it_has(c):
    with sandbox(c) as (cli, box):
        with Terminal(c, verb=("ssh", box), env=cli.env, size=(31, 97)) as t:
            t.send(b"stty size; tty; echo $TERM; echo don''e\n")
            t.expect(b"31 97")
            t.expect(b"/dev/pts/")
            t.expect(b"vt100")
            t.expect(b"done")
            t.resize(41, 101)
            t.send(b"while [ \"$(stty size)\" != '41 101' ]; do :; done; echo resi''zed; exit 7\n")
            t.expect(b"resized")
            equal(t.end(), 7, "exit status")


@test
def ports_of_the_sandbox_are_reached(c):
    with sandbox(c) as (cli, box), socket.create_server(("127.0.0.1", 0)) as host:
        port, nobody, hosts = free_port(), free_port(), host.getsockname()[1]
        cli.spawn(box, f"exec python3 -c \"{ECHO}\"")
        p = cli.start_ssh("-N", "-L", f"{port}:127.0.0.1:8080", "-L", f"{nobody}:127.0.0.1:{hosts}", box)

        def says(at, what):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", at), 60) as s:
                s.sendall(what)
                return s.recv(100)
            return b""
        wait_for(lambda: says(port, b"hello") == b"hello", "the port answers")
        equal(says(nobody, b"hello"), b"", "what a port of the host says, from inside")
        host.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            host.accept()
            check(False, "somebody inside has reached a port of the host")
        p.kill()
        p.wait()


@test
def on_images_that_have_nothing(c):
    """No libraries, no users, another C library's world: and it is the host's sshd that serves."""
    alone = layer(folder("bin"), file("bin/busybox", busybox().read_bytes(), 0o755), member("bin/sh", kind=tarfile.SYMTYPE, link="busybox"))
    with Daemon(c) as d:
        cli = Ssh(d)
        query = "/v1/images/import?name=alone:1"
        image = tar_of(Image(layers=[alone], config={"Env": ["A=from the image"], "WorkingDir": "/bin"}).saved("alone:1"))
        d.api.request("POST", query, image, {"Content-Type": "application/x-tar"}).expect(201)
        box = d.create(image="alone:1")
        cli.ssh(box, "busybox id -u; pwd; echo $A").expect(0, out=b"0\n/bin\nfrom the image\n")
        cli.tool("sftp", "-b", "-", box, stdin=b"pwd\n").expect(0)
        cli.tool("scp", "-q", f"{box}:/bin/busybox", c.dir / "copy").expect(0)
        equal((c.dir / "copy").read_bytes(), busybox().read_bytes(), "the file")


@test
def over_tcp_with_a_token(c):
    with serving(c) as (d, port, token):
        (everything, _), (reads, _), (bound, _) = token(), token("read"), token(labels={"team": "a"})
        far = {"SANDBOXER_URL": f"http://127.0.0.1:{port}", "SANDBOXER_TOKEN": everything.token}
        cli = Ssh(d)
        box = cli.create()
        cli.env.update(far)
        cli.ssh(box, "cat", stdin=BYTES).expect(0, out=BYTES)
        cli.tool("sftp", "-b", "-", box, stdin=b"ls /\n").expect(0)
        cli("ssh", box, "true", env={"SANDBOXER_TOKEN": reads.token}).expect(125, says="exec")
        # What somebody may not see is as if it were not there.
        hidden = cli("ssh", box, "true", env={"SANDBOXER_TOKEN": bound.token}).expect(125)
        unknown = cli("ssh", "sbx_nothing", "true").expect(125)
        equal(hidden.notes.replace(box, "ID"), unknown.notes.replace("sbx_nothing", "ID"), "what is said")
        for request in (bound.get, bound.post):
            request(f"/v1/sandboxes/{box}/ssh", **({"body": {"public_key": "x"}} if request == bound.post else {})).expect(404, code="not_found")


# --- the record ---


def recorded(cli, box, n):
    """The records of the connections that have ended, the oldest first."""
    def rows():
        found = [row for row in cli.api.get(f"/v1/sandboxes/{box}/audit/commands?client=ssh").expect(200).json["commands"] if row["outcome"] != "running"]
        return len(found) == n and found
    return wait_for(rows, f"{n} records")[::-1]


@test
def a_requested_command_is_on_record_as_a_claim(c):
    with sandbox(c) as (cli, box):
        cli("ssh", box, "--", "cd /tmp", "&&", "TOKEN=hunter2 ls >/dev/null").expect(0)
        cli("ssh", box, "--", "true", "\udcff\n").expect(0)
        cli("ssh", box, "--", ": " + "long " * 8000).expect(0)
        cli.ssh(box, "true # is not named to the daemon").expect(0)
        # The server obeys the connection; what is claimed changes nothing there.
        cli.ssh(box, "echo other", env={**cli.env, "SANDBOXER_SSH_COMMAND": "true"}).expect(0, out=b"other\n")
        rows = recorded(cli, box, 5)
        equal([row.get("requested", "")[:30] for row in rows], ["cd /tmp && TOKEN=*** ls >/dev/", "true \ufffd\n", ": long long long long long lon", "", "true"], "the claims")
        equal([row.get("truncated", False) for row in rows], [False, False, True, False, False], "what is cut")
        check(all("/usr/sbin/sshd" in row["argv"] for row in rows), f"the programs that ran are servers: {rows}")
        shown = cli("audit", "commands", box, "--client", "ssh").expect(0).text
        check("requested: 'cd /tmp && TOKEN=*** ls >/dev/null'" in shown, f"a claim looks like a program:\n{shown}")


# --- how it ends ---


@test
def sessions_end_with_who_is_connected(c):
    with sandbox(c) as (cli, box):
        p = cli.start_ssh(box, "setsid nohup sleep 1000 >/dev/null 2>&1 & sleep 2000")
        wait_for(lambda: cli.running(box, "sleep") == 2, "both run")
        equal(cli.state(box), "active", "state")
        p.kill()
        p.wait()
        wait_for(lambda: cli.running(box, "sleep") + cli.running(box, "sshd") == 0, "nothing of it runs")
        p = cli.start_ssh(box, "sleep 3000")
        wait_for(lambda: cli.running(box, "sleep"), "another runs")
        cli("destroy", box).expect(0)
        equal(p.wait(60), REFUSED, "exit status after the end of the sandbox")


@test
def what_cannot_be_used_says_so(c):
    with sandbox(c) as (cli, box):
        cli("ssh", "sbx_nothing").expect(125, says="sbx_nothing")
        cli("pause", box).expect(0)
        cli.ssh(box, "true").expect(REFUSED, says="paused: resume it first")
        cli("resume", box).expect(0)
        cli.ssh(box, "true").expect(0)
        for bad in ("-oProxyCommand=x", "a b", "sbx-", "$(id)", "../x"):
            cli("ssh", "--", bad).expect((2, 125), says="is not the id or name of a sandbox")
        cli("destroy", box).expect(0)
        cli.ssh(box, "true").expect(REFUSED, says="destroyed|not_found|no sandbox")


# --- who tries what ---


@test
def only_the_key_that_was_named_is_let_in(c):
    with sandbox(c) as (cli, box):
        other = c.dir / "other"
        c.execute(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other]).expect(0)
        config = cli.config.read_text().replace(str(cli.env["SANDBOXER_STATE"]) + "/ssh/id_ed25519", str(other))
        wrong = c.write("wrong_config", config)
        c.execute(["ssh", "-F", wrong, box, "true"], env=cli.env).expect(REFUSED, says="Permission denied")
        c.execute(["ssh", "-F", wrong, "-o", "PreferredAuthentications=password,keyboard-interactive,none", "-o", "BatchMode=yes", box, "true"],
                  env=cli.env).expect(REFUSED, says="Permission denied")


@test
def another_host_key_is_refused(c):
    with sandbox(c) as (cli, box):
        beside = cli.create()
        keys = [cli("ssh", "--host-key", b).expect(0).text for b in (box, beside, box)]
        check(keys[0] == keys[2] != keys[1], f"a sandbox has a key of its own, and keeps it: {keys}")
        # Whoever answers for `box` with what belongs to another one is not believed.
        swapped = c.write("swapped_config", cli.config.read_text().replace("--host-key %n", f"--host-key {beside}"))
        c.execute(["ssh", "-F", swapped, box, "true"], env=cli.env).expect(REFUSED, says="Host key verification failed")
        cli.ssh(box, "true").expect(0)


@test
def nothing_goes_the_other_way(c):
    """No listening on the client's side, and its agent only when that was said twice."""
    with sandbox(c) as (cli, box):
        agent = c.dir / "agent"
        p = c.start(["ssh-agent", "-D", "-a", agent])
        wait_for(agent.exists, "the agent is there")
        env = {**cli.env, "SSH_AUTH_SOCK": str(agent)}
        asks = "echo ${SSH_AUTH_SOCK:-none}"
        c.execute(["ssh", "-F", cli.config, "-A", box, asks], env=env).expect(0, out=b"none\n")
        cli("ssh", box, asks, env=env).expect(0, out=b"none\n")
        check(cli("ssh", "-A", box, asks, env=env).expect(0).text.startswith("/tmp/ssh-"), "with -A there is an agent")
        p.terminate()
        p.wait()
        cli.ssh("-o", "ExitOnForwardFailure=yes", "-R", "0:127.0.0.1:1", box, "true").expect(REFUSED, says="forward")
        cli.ssh("-o", "ExitOnForwardFailure=yes", "-R", f"/tmp/x:{c.dir}/y", box, "true").expect(REFUSED, says="forward")


@test
def the_host_is_not_seen(c):
    with sandbox(c) as (cli, box):
        secret = c.write("secret", "of the host")
        for path in (secret, "/etc/shadow", "/etc/ssh/ssh_host_ed25519_key"):
            cli.ssh(box, f"cat {path}").expect(1)
            check(cli.tool("sftp", "-b", "-", box, stdin=f"get {path} {c.dir}/got\n".encode()).code != 0, f"{path} is not there")
        # What the server was made of is not left to its programs, and cannot be changed by those beside it.
        equal(cli.ssh(box, "ls /proc/self/fd").expect(0).text.split(), ["0", "1", "2", "3"], "descriptors")
        p = cli.start_ssh(box, "sleep 1000")
        wait_for(lambda: cli.running(box, "sleep"), "it runs")
        tampering = "for p in $(grep -lx sshd /proc/[0-9]*/comm); do for f in ${p%comm}map_files/* ${p%comm}exe; do (: >> $f) 2>/dev/null && echo $f; done; done; true"
        equal(cli.sh(box, tampering).expect(0).text, "", "files of the server that can be written")
        p.kill()
        p.wait()
        equal(cli.sh(box, "find / -xdev -newer /proc/1 -name '*sandboxer*' 2>/dev/null; ls -d /sandboxer /run/sshd 2>/dev/null; true").expect(0).text,
              "", "what is left inside")


@test
def keys_that_are_none_are_refused(c):
    with sandbox(c) as (cli, box):
        path = f"/v1/sandboxes/{box}/ssh"
        upgrade = {"Connection": "Upgrade", "Upgrade": "sandboxer-ssh"}
        good = (c.dir / "daemon/person/ssh/id_ed25519.pub").read_text()
        api = cli.api
        for key in ("", "x", good.replace("ssh-ed25519 ", "ssh-rsa "), f'command="id" {good}', f"{good}{good}", good[:40], "A" * 20000, 7):
            api.post(path, {"public_key": key}, upgrade).expect(400, code="invalid")
        api.post(path, {"public_key": good}).expect(400, code="invalid")
        api.post(path, {"public_key": good, "user": "a\nb"}, upgrade).expect(400, 404, 422, 502)
        api.post(path, {}, upgrade).expect(400, code="invalid")
        for command in ("", "x" * 20000, 7, ["ls"]):
            api.post(path, {"public_key": good, "command": command}, upgrade).expect(400, code="invalid")
        cli.ssh(box, "true").expect(0)


main()
