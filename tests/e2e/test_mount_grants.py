#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Files of the host in sandboxes of a daemon: `create --mount`, opened with the rights of the client, now and at each later start."""

import contextlib
import os
import shutil
import socket
import subprocess

from client import Client
from daemon import Daemon
from harness import PLAIN, check, equal, main, processes, test, wait_for
from images import archive
from tcp import Tcp, free_port
from trees import supervisor

ROOT_ONLY = {"only": "root", "because": "other users reach only root's daemon"}
OPEN = 'socket: {mode: "0666"}'
RUN = "id: profile.run\nversion: 2\nresources: {memory_mb: 256, pids: 128, disk_mb: 32}\n"


def lend(c, name="lent"):
    c.write(f"{name}/file", "content\n")
    c.write(f"{name}/dir/deep", "deep\n")
    return c.dir / name


def as_plain(c, d, *argv, uid=PLAIN):
    return subprocess.run([c.program(), *argv], user=uid, group=uid, extra_groups=[], env={**c.environment, **Client(d).env},
                          capture_output=True, check=False, cwd="/", text=True)


def inside(c, d, box, script, *flags):
    return as_plain(c, d, "exec", *flags, box, "--", "/bin/sh", "-c", script)


@contextlib.contextmanager
def mounted(*arguments):
    """A mount of the harness's own namespace, for as long as the block lasts."""
    subprocess.run(["mount", *map(str, arguments)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(arguments[-1])], check=True)


@contextlib.contextmanager
def shared_daemon(c, **more):
    """Of root's, for every user, with files of PLAIN in lent."""
    host = lend(c)
    for path in (host, host / "file", host / "dir", host / "dir/deep"):
        os.chown(path, PLAIN, PLAIN)
    os.chmod(c.dir, 0o755)
    with Daemon(c, config=OPEN, **more) as d:
        os.chmod(d.dir, 0o755)
        yield d, host


@test
def a_mount_is_the_directory_itself_and_read_only(c):
    with Daemon(c) as d:
        cli, host = Client(d), lend(c)
        box = cli.create("--mount", f"{host}:/lent")
        (host / "file").write_text("later\n")
        cli.sh(box, "cat /lent/file /lent/dir/deep").expect(0, out=b"later\ndeep\n")
        cli.sh(box, "echo x > /lent/file").expect((1, 2), says="Read-only")
        cli.sh(box, "grep ' /lent ' /proc/self/mountinfo | grep nosuid | grep -c nodev").expect(0, out=b"1\n")
        record = cli.json("get", box)
        equal(record["mounts"], [{"source": str(host), "target": "/lent", "access": "ro"}], "what get shows")
        check(f"{host} at /lent, ro" in cli("get", box).expect(0).text, "the text of get")
        equal(sorted(os.listdir(host)), ["dir", "file"], "the host")
        cli("destroy", box).expect(0)
        wait_for(lambda: os.listdir(d.state / "grants") == [], "no grant is left")


@test
def a_writable_mount_takes_writes_as_the_caller(c):
    with Daemon(c) as d:
        cli, host = Client(d), lend(c)
        one = c.write("one", "1\n")
        box = cli.create("--mount", f"{host}:/a/b:rw", "--mount", f"{one}:/one", "--mount", f"{one}:/two:rw")
        cli.sh(box, "echo new > /a/b/new; mkdir /a/b/made; echo 2 > /two; cat /one").expect(0, out=b"2\n")
        cli.sh(box, "echo 3 > /one").expect((1, 2), says="Read-only")
        equal(((host / "new").read_text(), one.read_text()), ("new\n", "2\n"), "the host")
        equal((host / "new").stat().st_uid, c.uid, "the owner")


@test
def a_mount_that_cannot_be_is_refused(c):
    with Daemon(c) as d:
        cli, host = Client(d), lend(c)
        os.mkfifo(c.dir / "pipe")
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(str(c.dir / "socket"))
            for path in ("pipe", "socket", "/dev/null"):
                cli("create", "--mount", f"{c.dir / path}:/x").expect(2, says="neither a directory nor a regular file")
        cli("create", "--mount", f"{c.dir}/none:/x").expect(3, says=f"{c.dir}/none")
        for target in ("/", "x", "/a/../b", "/proc/x", "/dev"):
            cli("create", "--mount", f"{host}:{target}").expect(2)
        cli("create", "--mount", f"{host}:/x", "--mount", f"{host}:/x:rw").expect(2, says="target of another mount")
        many = [flag for i in range(17) for flag in ("--mount", f"{host}:/m{i}")]
        cli("create", *many).expect(2, says="more than 16 mounts")
        cli.sh(cli.create(*many[:32]), "cat /m0/file /m15/file").expect(0, out=b"content\ncontent\n")
        equal([b["state"] for b in d.list()], ["active"], "what was made")


@test
def only_descriptors_grant_mounts(c):
    c.write("daemon/profiles/run.yaml", RUN)
    d, port = Daemon(c), free_port()
    d.start(args=("--listen", f"127.0.0.1:{port}"))
    with d:
        host = lend(c)
        asked = {"mounts": [{"source": str(host), "target": "/lent"}]}
        token = d.api.post("/v1/tokens", {"name": "t", "verbs": ["create", "read", "destroy", "exec"]}).expect(201).json["token"]
        for answer in (d.api.post("/v1/sandboxes", asked), Tcp(port, token).post("/v1/sandboxes", asked),
                       d.api.post("/v1/run", {"argv": ["true"], **asked})):
            check(answer.status == 403 and "sandboxer command" in answer.json["detail"], f"a path of a request: {answer}")
        d.api.post("/v1/sandboxes", {"mounts": [{"source": "lent", "target": "/lent"}]}).expect(400, code="invalid")
        env = {"SANDBOXER_URL": f"http://127.0.0.1:{port}", "SANDBOXER_TOKEN": token}
        done = c.execute([c.program(), "create", "--mount", f"{host}:/lent"], env=env)
        check(done.code == 2 and b"remote" in done.err, f"the command line: {done}")
        equal(d.list(), [], "what was made")
        cli = Client(d)
        box = cli.create("--mount", f"{host}:/lent")
        answer = d.api.post(f"/v1/sandboxes/{box}/recreate")
        check(answer.status == 403 and f"{box} is unchanged" in answer.json["detail"], f"a recreate without the files: {answer}")
        cli.sh(box, "cat /lent/file").expect(0, out=b"content\n")


@test
def what_is_made_of_a_sandbox_has_its_mounts_only_if_they_are_granted_again(c):
    with Daemon(c) as d:
        cli, host = Client(d), lend(c)
        box = cli.create("--mount", f"{host}:/lent", "--mount", f"{host}:/w:rw")
        again = cli("recreate", "-q", box).expect(0).text.strip()
        cli.sh(again, "cat /lent/file; touch /w/again").expect(0, out=b"content\n")
        check((host / "again").exists(), "the recreated one writes")
        copy = cli("fork", "-q", again).expect(0).text.strip()
        cli.sh(copy, "ls -A /lent /w").expect(0, out=b"/lent:\n\n/w:\n")
        check("mounts" not in cli.json("get", copy), "a fork has mounts")
        snapshot = d.api.post(f"/v1/sandboxes/{again}/snapshot", {}).expect(201).json["snapshot_id"]
        cli.sh(cli.create("--snapshot", snapshot), "ls -A /lent /w").expect(0, out=b"/lent:\n\n/w:\n")


def restart_inside(d, cli, box):
    cli("stop", box).expect(0)
    return cli("resume", box)


@test
def a_start_opens_the_mounts_again_or_names_them(c):
    """A path that is replaced between a stop and a resume is never followed."""
    with Daemon(c) as d:
        cli, host = Client(d), lend(c)
        box, moved = cli.create("--mount", f"{host}:/lent"), c.dir / "moved"
        restart_inside(d, cli, box).expect(0)
        cli.sh(box, "cat /lent/file").expect(0, out=b"content\n")
        cli("stop", box).expect(0)
        host.rename(moved)
        cli("resume", box).expect((1, 3, 4, 5), says=str(host))
        lend(c)  # another directory of that name
        cli("resume", box).expect(4, says=f"{host} is not the file")
        subprocess.run(["rm", "-r", host], check=True)
        host.symlink_to(moved)
        cli("resume", box).expect(5, says="symbolic link")
        host.unlink()
        host.symlink_to("/etc")
        cli("resume", box).expect(5, says="symbolic link")
        equal(cli.state(box), "paused", "after all that")
        host.unlink()
        moved.rename(host)
        cli("resume", box).expect(0)
        cli.sh(box, "cat /lent/file").expect(0, out=b"content\n")


@test
def mounts_outlive_the_daemon_and_the_processes(c):
    with Daemon(c, driver="plain") as d:
        cli, host = Client(d), lend(c)
        box = cli.create("--mount", f"{host}:/lent:rw")
        d.kill()
        d.start()
        cli.sh(box, "echo after >> /lent/file").expect(0)
        cli("pause", box).expect(0)
        d.kill()
        first = supervisor(d, box)
        os.kill(first, 9)
        wait_for(lambda: first not in processes(), "its processes are gone")
        d.start()
        cli("resume", box).expect(0)
        cli.sh(box, "cat /lent/file").expect(0, out=b"content\nafter\n")


@test
def the_mounts_of_a_sandbox_that_is_gone_are_forgotten_at_the_next_start(c):
    """As a daemon leaves them that is killed between the record of a destroy and the removal of the grant."""
    with Daemon(c) as d:
        cli, host = Client(d), lend(c)
        box, gone = cli.create("--mount", f"{host}:/lent"), "sbx_" + 20 * "a"
        own = [d.state / f"daemon/mirror/{box}.mounts", d.state / f"grants/{box}.mounts"]
        left = [file.with_name(f"{gone}.mounts") for file in own]
        d.stop()
        for file, copy in zip(own, left, strict=True):
            shutil.copyfile(file, copy)
        d.start()
        wait_for(lambda: not any(file.exists() for file in left), "the grant of a sandbox that is gone is removed")
        check(all(file.exists() for file in own), "those of a sandbox that lives stay")
        restart_inside(d, cli, box).expect(0)
        cli.sh(box, "cat /lent/file").expect(0, out=b"content\n")


@test
def a_daemon_that_dies_during_a_create_leaves_no_grant(c):
    d, host = Daemon(c), lend(c)
    d.start()
    d.stop()
    for point in ("grant.mounts", "mounts.opened", "create.recorded"):
        d.start(SANDBOXER_STOP_AT=f"{point}:1")
        create = Client(d).start("create", "--mount", f"{host}:/lent", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: d.stopped, f"{point} is reached")
        d.kill()
        create.wait()
        d.start()
        wait_for(lambda: d.list() == [], f"{point}: the sandbox is destroyed")
        wait_for(lambda: os.listdir(d.state / "grants") == [], f"{point}: no grant is left")
        d.stop()


@test
def a_file_system_that_hangs_fails_its_create_and_nothing_else(c):
    d, host = Daemon(c), lend(c)
    d.start(SANDBOXER_STOP_AT="mounts.opened:1", SANDBOXER_TEST_DEADLINE="2")
    with d:
        cli, box = Client(d), d.create()
        stuck = cli.start("create", "--mount", f"{host}:/lent", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        wait_for(lambda: d.stopped, "the mount is being opened")
        d.works(box)
        said = stuck.communicate()[1].decode()
        check(stuck.returncode and str(host) in said and "opening the mounts took longer" in said, f"the create: {said}")
        d.works(cli.create())


@test
def a_program_of_an_image_of_the_daemon_sees_mounts(c):
    c.write("daemon/profiles/run.yaml", RUN)
    with Daemon(c, config="images: {free_min: 0}") as d:
        cli, host = Client(d), lend(c)
        cli("image", "import", archive(c), "--name", "box:1").expect(0)

        def run(*argv):
            return cli("run", "--image", "box:1", *argv)
        run("--mount", f"{host}:/lent", "--", "/bin/sh", "-c", "cat /lent/file").expect(0, out=b"content\n")
        run("--mount", f"{host}:/lent:rw", "--", "/bin/sh", "-c", "echo 7 > /lent/seven").expect(0)
        equal((host / "seven").read_text(), "7\n", "on the host")
        run("--mount", f"{c.dir}/none:/lent", "--", "true").expect((3, 125), says=f"{c.dir}/none")


@test(**ROOT_ONLY)
def another_users_mount_has_that_users_rights_alone(c):
    with shared_daemon(c) as (d, host):
        (host / "of-root").write_text("secret\n")
        os.chmod(host / "of-root", 0o600)
        (host / "of-other").write_text("secret\n")
        os.chown(host / "of-other", PLAIN + 1, PLAIN + 1)
        os.chmod(host / "of-other", 0o600)
        for user, flags in (("0", ("--cap", "DAC_OVERRIDE", "--cap", "CHOWN", "--cap", "FOWNER", "--cap", "SETUID", "--cap", "FSETID")), ("1000", ())):
            made = as_plain(c, d, "create", "-q", "--user", user, *flags, "--mount", f"{host}:/lent:rw")
            equal(made.returncode, 0, f"{made}")
            box = made.stdout.strip()
            got = inside(c, d, box, "stat -c %u:%g /lent/file; cat /lent/file; echo new > /lent/new && stat -c %u /lent/new")
            equal(got.stdout, f"{user}:{user}\ncontent\n{user}\n", f"as {user}: {got}")
            equal(((host / "new").stat().st_uid, (host / "new").stat().st_gid), (PLAIN, PLAIN), "on the host")
            for name in ("of-root", "of-other"):
                got = inside(c, d, box, f"cat /lent/{name}; echo x > /lent/{name}; chmod 666 /lent/{name}; chown 0 /lent/{name}")
                check("secret" not in got.stdout and got.returncode, f"{name} as {user}: {got}")
                equal((host / name).read_text(), "secret\n", f"{name} as {user}")
            inside(c, d, box, "cp /bin/sh /lent/sh; chmod 4755 /lent/sh; chmod 2755 /lent/sh")
            if (host / "sh").exists():
                equal((host / "sh").stat().st_mode & 0o6000, 0, f"set-id bits as {user}")
                (host / "sh").unlink()
            got = inside(c, d, box, "touch /lent/by-7; echo $?; ls /lent/by-7", "--user", "7")
            check(not (host / "by-7").exists(), f"another user inside makes files on the host: {got}")
            (host / "new").unlink()
            equal(as_plain(c, d, "destroy", box).returncode, 0, "destroy")


@test(**ROOT_ONLY)
def a_user_grants_no_more_than_it_has(c):
    with shared_daemon(c) as (d, host):
        others, roots, readable = c.mkdir(c.dir / "others"), c.mkdir(c.dir / "roots"), c.mkdir(c.dir / "readable")
        for path, owner, mode in ((others, PLAIN + 1, 0o700), (roots, 0, 0o755), (readable, PLAIN + 1, 0o755)):
            os.chown(path, owner, owner)
            os.chmod(path, mode)
        for path, mode, word in ((others, "ro", str(others)), (roots, "ro", "belongs to root"), (readable, "rw", "closed to its user"),
                                 ("/etc/passwd", "ro", "belongs to root"), ("/etc/shadow", "ro", "shadow")):
            got = as_plain(c, d, "create", "-q", "--mount", f"{path}:/x:{mode}")
            check(got.returncode == 5 and word in got.stderr, f"{path}: {got}")
        got = as_plain(c, d, "create", "-q", "--mount", f"{readable}:/x", "--mount", f"{host}:/y:rw")
        equal(got.returncode, 0, f"readable for all: {got}")
        got = inside(c, d, got.stdout.strip(), "ls -A /x; touch /x/new; cat /y/file")
        check(got.stdout == "content\n" and not (readable / "new").exists(), f"{got}")
        with mounted("-t", "tmpfs", "-o", f"uid={PLAIN},mode=755", "tmpfs", c.mkdir(host / "dir/tmp")):
            (host / "dir/tmp/below").write_text("below\n")
            box = as_plain(c, d, "create", "-q", "--mount", f"{host}:/x").stdout.strip()
            check(inside(c, d, box, "cat /x/dir/tmp/below; touch /x/dir/tmp/new").stdout == "below\n", "what is mounted below")


@test(**ROOT_ONLY)
def rights_that_were_taken_away_stay_away(c):
    with shared_daemon(c) as (d, host):
        box = as_plain(c, d, "create", "-q", "--mount", f"{host}:/lent:rw").stdout.strip()
        equal(as_plain(c, d, "stop", box).returncode, 0, "stop")
        os.chown(host, PLAIN + 1, PLAIN + 1)
        os.chmod(host, 0o755)
        for who in (as_plain(c, d, "resume", box), Client(d)("resume", box)):
            said = who.stderr if isinstance(who, subprocess.CompletedProcess) else who.err.decode()
            check(str(host) in said and "closed to its user" in said, f"root's resume has the rights of the client: {said}")
        os.chown(host, PLAIN, PLAIN)
        equal(as_plain(c, d, "resume", box).returncode, 0, "resume")
        equal(inside(c, d, box, "cat /lent/file").stdout, "content\n", "afterwards")


@test(**ROOT_ONLY)
def a_sandbox_of_another_user_never_gets_a_mount(c):
    with shared_daemon(c) as (d, host):
        box = as_plain(c, d, "create", "-q", "--mount", f"{host}:/lent").stdout.strip()
        for argv in (("get", box), ("recreate", box), ("fork", box), ("exec", box, "--", "cat", "/lent/file")):
            got = as_plain(c, d, *argv, uid=PLAIN + 1)
            check(got.returncode and "content" not in got.stdout and str(host) not in got.stdout + got.stderr, f"{argv}: {got}")
        got = as_plain(c, d, "create", "-q", "--mount", f"{host}:/lent", uid=PLAIN + 1)
        check(got.returncode == 0, f"what all may read: {got}")
        os.chmod(host, 0o700)
        got = as_plain(c, d, "create", "-q", "--mount", f"{host}:/lent", uid=PLAIN + 1)
        check(got.returncode == 5 and str(host) in got.stderr, f"what is closed: {got}")


main()
