#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Bad input: a status, one clear sentence on stderr that names the culprit, and nothing made."""

import os
import tarfile

import images
from harness import Skip, check, main, test

# flags, what stderr must say besides `sandboxer: `
FLAGS = [
    (["--no-such-flag", "--", "true"], "no-such-flag"),
    (["-Z", "--", "true"], "Z"),
    (["--memory"], "memory"),
    (["--"], ""),
    ([], ""),
    (["--memory", "64M"], ""),
    (["--memory=", "--", "true"], "memory"),
    (["--env", "=x", "--", "true"], "env"),
    (["--env", "", "--", "true"], "env"),
]

LIMITS = [("--memory", v) for v in ("0", "-1", "lots", "64Q", "", " 64M", "99999999999999999999G", "1e3", "0x10", "nan")]
LIMITS += [("--disk", v) for v in ("0", "-1", "much", "")]
LIMITS += [("--pids", v) for v in ("0", "-5", "1.5", "many", "", "99999999999999999999")]
LIMITS += [("--cpu", v) for v in ("0", "-1", "fast", "", "0.0", "nan", "inf", "1e9")]
LIMITS += [("--timeout", v) for v in ("0", "0s", "-1s", "soon", "", "5 parsecs", "99999999999999999999h")]
LIMITS += [("--hostname", v) for v in ("", "a" * 65, "under/slash", "new\nline")]
LIMITS += [("--cap", v) for v in ("SYS_ADMIN", "ALL", "", "NET_RAW", "chown,kill")]
LIMITS += [("--user", v) for v in ("", "-1", "4294967295", "99999999999", "1000:", ":5", "1000:x", "no-such-user",
                                   "1000:1000:1000")]
LIMITS += [("--workdir", v) for v in ("/no/such/directory", "/etc/passwd", "")]

MOUNTS = [
    ("/no/such/source:/x", "/no/such/source"),
    ("{dir}:relative", "relative"),
    ("{dir}:/a/../../b", r"\.\."),
    ("{dir}:/a/..", r"\.\."),
    ("{dir}:/x:rw:ro", ""),
    ("{dir}:/x:maybe", "maybe"),
    ("{dir}", ""),
    ("{dir}:", ""),
    (":/x", ""),
    ("", ""),
    ("{dir}:/", "/"),
    ("{dir}:/proc", "/proc"),
    ("{dir}:/proc/self", "/proc"),
    ("{dir}:/sys/fs", "/sys"),
    ("{dir}:/dev", "/dev"),
    ("{dir}/file/below:/x", ""),
    ("{dir}:/x/" + "long" * 2000, ""),
]


def refused(c, *argv, code=125, says="", **options):
    """The one sentence starts with our name and has no more than a few lines after it."""
    result = c.run(*argv, **options).expect(code, out=b"", says=(r"^sandboxer: ", says))
    check(result.err.count(b"\n") <= 12, f"too many words\n{result}")
    check(b"\x1b" not in result.err, f"a terminal escape went through\n{result}")
    return result


def each(rows, attempt):
    """Tries all rows before it fails, so that one run shows everything."""
    problems = []
    for row in rows:
        try:
            attempt(row)
        except AssertionError as problem:
            problems.append(f"{row!r}: {problem}")
    check(not problems, f"{len(problems)} of {len(rows)} rows:\n" + "\n".join(problems))


@test
def flags(c):
    each(FLAGS, lambda row: refused(c, *row[0], says=row[1]))


@test
def limits_and_names(c):
    each(LIMITS, lambda row: refused(c, *row, "--", "true", says=row[0].strip("-") if row[0] != "--workdir" else ""))


@test
def mounts(c):
    c.write("file")
    each(MOUNTS, lambda row: refused(c, "--mount", row[0].format(dir=c.dir), "--", "true", says=row[1]))


@test
def no_verb_or_an_unknown_one(c):
    c.cli("frobnicate").expect(2, says=("^sandboxer: ", "frobnicate"))
    check(c.cli().code != 0, "no arguments at all is a success")


@test
def an_escape_sequence_in_a_name_is_not_passed_on(c):
    refused(c, "--image", "/no/\x1b[31msuch", "--", "true")
    refused(c, "--\x1b[31mflag", "--", "true")
    refused(c, "--", "/no/\x1b[31msuch", code=127)


@test
def missing_image(c):
    refused(c, "--image", "/no/such/image", "--", "true", says="/no/such/image")
    refused(c, "--image", "/no/such.tar", "--", "true", says="/no/such.tar")
    refused(c, "--image", "", "--", "true")


@test
def an_image_that_is_none(c):
    refused(c, "--image", c.write("text", "this is no archive\n" * 100), "--", "true")
    refused(c, "--image", c.write("text.tar", "this is no archive\n" * 100), "--", "true", says="text.tar")
    refused(c, "--image", c.write("empty.tar"), "--", "true")
    refused(c, "--image", c.write("half.tar.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00half"), "--", "true")
    refused(c, "--image", "/dev/zero", "--", "true")


@test
def a_truncated_archive(c):
    whole = images.archive(c).read_bytes()
    for size in (700, 100_000, len(whole) - 700_000):
        refused(c, "--image", c.write("cut.tar", whole[:size]), "--squash-owners", "--", "/bin/true")


@test
def an_unreadable_archive(c):
    if c.root:
        raise Skip("root reads everything")
    path = c.write("secret.tar", images.archive(c).read_bytes())
    path.chmod(0)
    refused(c, "--image", path, "--", "/bin/true", says="secret.tar")


@test
def an_archive_that_climbs(c):
    for name in ("../planted", "a/../../planted", "/../planted", ".."):
        path = images.archive(c, "climb.tar", extra=[images.member(name, b"x")])
        refused(c, "--image", path, "--squash-owners", "--", "/bin/true", says=r"\.\.")
        check(not (c.dir / "planted").exists() and not (c.dir.parent / "planted").exists(), "it got out")


@test
def an_archive_with_devices(c):
    for kind in (tarfile.CHRTYPE, tarfile.BLKTYPE):
        path = images.archive(c, "device.tar", extra=[images.member("dev/node", kind=kind, device=(1, 3))])
        result = c.run("--image", path, "--squash-owners", "--", "/bin/ls", "/dev/node")
        check(result.code in (1, 125), f"the device is there\n{result}")
        if result.code == 125:
            result.expect(125, says=("^sandboxer: ", "node"))


@test
def a_directory_that_may_not_be_entered(c):
    if c.root:
        raise Skip("root enters everything")
    closed = c.mkdir(c.dir / "closed")
    closed.chmod(0)
    refused(c, "--image", closed, "--", "true", says="closed")
    refused(c, "--mount", f"{closed}/x:/x", "--", "true", says="closed")


@test
def a_workdir_of_the_image_that_is_missing(c):
    refused(c, "--image", images.directory(c), "--workdir", "/gone", "--", "/bin/true", says="/gone")


@test
def a_command_of_the_image_that_is_missing(c):
    refused(c, "--image", images.directory(c), "--", "/usr/bin/python3", code=127, says="python3")
    refused(c, "--image", images.directory(c, "again"), "--", "python3", code=127, says="python3")


@test
def a_command_that_may_not_be_run(c):
    path = c.write("plain-file", "#!/bin/sh\n", 0o644)
    refused(c, "--mount", f"{path}:/file", "--", "/file", code=126, says="/file")
    refused(c, "--", "/usr", code=126, says="/usr")


@test
def long_and_many_arguments(c):
    c.run("--", "true", "x" * 100_000).expect((0, 125))
    c.run("--", "true", *["y" * 50] * 5000).expect((0, 125))
    c.run(*["--env", "A=b"] * 500, "--", "true").expect((0, 125))
    c.run("--env", "BIG=" + "x" * 100_000, "--", "true").expect((0, 125))
    for result in (c.run("--", "a" * 5000), c.run("--", "/" + "a" * 300)):
        result.expect((125, 126, 127), says="^sandboxer: ")


@test
def a_broken_installation_is_said(c):
    """The CLI alone, without the programs it needs."""
    lonely = c.mkdir(c.dir / "lonely")
    with open(c.program(), "rb") as program:
        c.write("lonely/sandboxer", program.read(), 0o755)
    result = c.execute([lonely / "sandboxer", "run", "--", "true"])
    check(result.code in (0, 125) and (result.code == 0 or "sandboxer: " in result.notes), str(result))
    check(os.listdir(lonely) == ["sandboxer"], "it made something")


main()
