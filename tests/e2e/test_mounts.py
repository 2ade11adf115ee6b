#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""--mount and --image: what the caller lends a sandbox, and how."""

import contextlib
import os
import subprocess
import tarfile

import images
from harness import check, equal, main, test

# ---- mounts ----


@test
def a_directory_is_read_only_by_default(c):
    c.write("lent/file", "content\n")
    for how in ("", ":ro"):
        lend = f"{c.dir}/lent:/lent{how}"
        c.sh("cat /lent/file", "--mount", lend).expect(0, out=b"content\n")
        c.sh("touch /lent/new", "--mount", lend).expect(1, says="Read-only")
        c.sh("echo x > /lent/file", "--mount", lend).expect((1, 2), says="Read-only")
    equal(os.listdir(c.dir / "lent"), ["file"], "the directory")


@test
def a_writable_directory_takes_writes_as_the_caller(c):
    c.write("lent/file", "old\n")
    for user in ("0", "1000") if not c.root else ("0",):
        c.sh(f"echo new{user} > /lent/file && echo made > /lent/made{user}", "--user", user,
             "--mount", f"{c.dir}/lent:/lent:rw").expect(0)
        equal((c.dir / "lent/file").read_text(), f"new{user}\n", "the old file")
        made = (c.dir / f"lent/made{user}").stat()
        equal((made.st_uid, made.st_gid), (c.uid, c.uid), "owner of the new file")


@test
def a_file_is_mounted_alone(c):
    path = c.write("lent/one", "1\n")
    c.write("lent/two", "2\n")
    c.sh("cat /data/one; ls /data", "--mount", f"{path}:/data/one").expect(0, out=b"1\none\n")
    c.sh("echo x > /data/one", "--mount", f"{path}:/data/one").expect((1, 2), says="Read-only")
    c.sh("echo x > /data/one", "--mount", f"{path}:/data/one:rw").expect(0)
    equal(path.read_text(), "x\n", "the file")


@test
def mounts_can_be_many_and_nested(c):
    for name in ("a", "b", "c"):
        c.write(f"{name}/name", f"{name}\n")
    flags = ["--mount", f"{c.dir}/a:/m/one", "--mount", f"{c.dir}/b:/m/two/deep/er:rw",
             "--mount", f"{c.dir}/c:/srv/c"]
    c.sh("cat /m/one/name /m/two/deep/er/name /srv/c/name", *flags).expect(0, out=b"a\nb\nc\n")


@test
def a_mount_inside_another_does_not_show_on_the_host(c):
    c.mkdir(c.dir / "outer/inner")
    c.write("other/name", "other\n")
    c.sh("cat /o/inner/name", "--mount", f"{c.dir}/outer:/o", "--mount", f"{c.dir}/other:/o/inner").expect(
        0, out=b"other\n")
    equal(os.listdir(c.dir / "outer/inner"), [], "the source")


@test
def a_missing_target_in_the_source_is_not_created_there(c):
    c.mkdir(c.dir / "outer")
    c.write("other/name", "other\n")
    c.sh("cat /o/inner/name", "--mount", f"{c.dir}/outer:/o", "--mount", f"{c.dir}/other:/o/inner").expect((0, 125))
    equal(os.listdir(c.dir / "outer"), [], "the source")


@test
def a_link_in_a_lent_directory_leads_nowhere_outside(c):
    secret = c.write("secret", "secret\n")
    c.mkdir(c.dir / "lent")
    os.symlink(secret, c.dir / "lent/absolute")
    os.symlink("../secret", c.dir / "lent/relative")
    c.sh("cat /lent/absolute || cat /lent/relative", "--mount", f"{c.dir}/lent:/lent").expect(1, out=b"")


@test
def a_target_through_a_link_in_another_mount_stays_inside(c):
    """The launcher must not follow a link of the image or of a mount out of the sandbox."""
    outside = c.mkdir(c.dir / "outside")
    c.mkdir(c.dir / "lent")
    os.symlink(str(outside), c.dir / "lent/link")
    c.write("other/name", "other\n")
    c.run("--mount", f"{c.dir}/lent:/lent:rw", "--mount", f"{c.dir}/other:/lent/link/new", "--", "true").expect(
        (0, 125))
    equal(os.listdir(outside), [], "the directory outside")


@test
def lent_files_carry_no_power(c):
    """Neither a set-user-id program nor a device works through a mount."""
    path = c.write("lent/id", open("/usr/bin/id", "rb").read(), 0o755)
    os.chmod(path, 0o4755)
    c.sh("/lent/id -u; grep ' /lent ' /proc/self/mountinfo | grep -c nosuid", "--user", "1000",
         "--mount", f"{c.dir}/lent:/lent").expect(0, out=b"1000\n1\n")


@test(only="plain", because="root may read everything")
def the_caller_lends_only_what_it_may_read(c):
    c.run("--mount", "/etc/shadow:/shadow", "--", "cat", "/shadow").expect((1, 125), out=b"")
    c.sh("ls /root-of-host", "--mount", "/root:/root-of-host").expect((1, 2, 125), out=b"")


# ---- images ----


@test
def a_directory_is_an_image(c):
    root = images.directory(c)
    c.sh("cat /etc/marker; echo $(id -u); ls /usr/bin/env", "--image", root).expect(
        (1, 2), out=b"from the image\n0\n")


@test
def an_image_gets_its_proc_dev_sys_and_tmp(c):
    c.sh("test -e /proc/self && echo > /dev/null && test -d /sys/kernel && echo x > /tmp/x && echo good",
         "--image", images.directory(c)).expect(0, out=b"good\n")


@test
def an_image_is_never_written_to(c):
    root = images.directory(c)
    before = sorted(str(p) for p in root.rglob("*"))
    c.sh("echo new > /etc/marker; echo x > /made; cat /etc/marker /made", "--image", root).expect(0, out=b"new\nx\n")
    equal((root / "etc/marker").read_text(), "from the image\n", "the marker")
    equal(sorted(str(p) for p in root.rglob("*")), before, "the directory")


@test
def an_archive_is_an_image(c):
    owner = 0 if c.root else c.uid
    for name, compress in (("image.tar", ""), ("image.tar.gz", "gz")):
        path = images.archive(c, name, owner=owner, compress=compress)
        c.sh("cat /etc/marker; echo $(id -u)", "--image", path, "--squash-owners").expect(
            0, out=b"from the image\n0\n")


@test
def an_archive_keeps_its_owners_where_it_can(c):
    path = images.archive(c, extra=[images.member("etc/theirs", b"x", owner=1234, mode=0o600)])
    if c.root:
        c.sh("stat -c %u:%g /etc/theirs /etc/marker", "--image", path).expect(0, out=b"1234:1234\n0:0\n")
    else:
        c.sh("true", "--image", path).expect(125, says=("^sandboxer: ", "owner"))
    c.sh("stat -c %u:%g /etc/theirs", "--image", path, "--squash-owners").expect(0, out=b"0:0\n")


@test
def a_user_of_the_image_has_a_name(c):
    root = images.directory(c)
    c.sh("id -u; echo $HOME; pwd", "--image", root, "--user", "maker").expect(
        0, out=b"1234\n/home/maker\n/home/maker\n")


@test
def names_in_an_archive_may_be_written_in_any_way(c):
    extra = [images.member("./dot", b"1"), images.member("a//b///c", b"2")]
    path = images.archive(c, extra=extra)
    c.sh("cat /dot /a/b/c", "--image", path, "--squash-owners").expect(0, out=b"12")


@test
def a_hard_link_in_an_archive_stays_inside(c):
    path = images.archive(c, extra=[images.member("shadow", kind=tarfile.LNKTYPE, link="/etc/shadow")])
    c.sh("cat /shadow", "--image", path, "--squash-owners").expect((1, 125), out=b"")


@test
def a_write_through_a_link_in_an_archive_stays_inside(c):
    outside = c.mkdir(c.dir / "outside")
    extra = [images.member("link", kind=tarfile.SYMTYPE, link=str(outside)), images.member("link/planted", b"x")]
    result = c.sh("true", "--image", images.archive(c, extra=extra), "--squash-owners")
    check(result.code in (0, 125), str(result))
    equal(os.listdir(outside), [], "the directory outside")


@contextlib.contextmanager
def mounted(*arguments):
    """A mount of the harness's own namespace, for as long as the block lasts."""
    subprocess.run(["mount", *map(str, arguments)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(arguments[-1])], check=True)


@test(only="root", because="only root mounts file systems for a test")
def state_may_lie_on_tmpfs_or_overlay(c):
    """An unpacked image is a lower layer wherever the state directory is."""
    image, state = images.archive(c), c.mkdir(c.dir / "state")
    lower, upper, work = (c.mkdir(c.dir / name) for name in ("lower", "upper", "work"))
    for how in (("-t", "tmpfs", "none", state),
                ("-t", "overlay", "-o", f"lowerdir={lower},upperdir={upper},workdir={work}", "none", state)):
        with mounted(*how):
            state.chmod(0o700)
            c.run("--image", image, "--", "sh", "-c", "echo x > /new && cat /new",
                  env={"SANDBOXER_STATE": str(state)}).expect(0, out=b"x\n")


@test
def the_host_is_not_above_any_root(c):
    for how in ((), ("--writable",), ("--image", images.directory(c))):
        inside = c.run("-q", *how, "--", "ls", "/").expect(0).out
        equal(c.run("-q", *how, "--", "ls", "/..").expect(0).out, inside, f"/.. with {how}")


@test(only="root", because="the host's directories belong to nobody whom a plain user's sandbox knows")
def writable_system_directories_keep_their_writes_to_themselves(c):
    c.sh("echo mine > /usr/bin/made && cat /usr/bin/made && rm /usr/bin/env && ls /usr/bin/env", "--writable").expect(
        2, out=b"mine\n")
    equal([os.path.exists("/usr/bin/made"), os.path.exists("/usr/bin/env")], [False, True], "the host's /usr/bin")


@test
def an_archive_without_a_daemon_leaves_no_state_directory(c):
    path, state = images.archive(c), c.dir / "share/state"
    env = {"SANDBOXER_STATE": str(state), "SANDBOXER_NO_DAEMON": "1"}
    c.run("--image", path, "--squash-owners", "--", "/bin/cat", "/etc/marker", env=env).expect(0, b"from the image\n")
    check(not state.exists(), f"{state} was made, with {list(state.iterdir()) if state.exists() else None}")
    c.run("--image", path, "--squash-owners", "--", "/bin/nothing", env=env).expect(127)
    check(not state.exists(), f"{state} was made by a run that failed")
    c.own(state.parent).chmod(0o755)
    c.mkdir(state).chmod(0o700)
    c.run("--image", path, "--squash-owners", "--", "/bin/true", env=env).expect(0)
    equal(list(state.iterdir()), [], "a state directory that was there stays, with what was in it")


main()
