#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Debian package: built without a network, judged by lintian, and in an empty Debian installed, used as README
shows, upgraded while a sandbox runs, removed and purged.

Later tests use what earlier ones leave in BUILD/wide: the packages, and the Debian that they are installed in."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))

from debian import Debian, unpack  # noqa: E402
from harness import BUILD, REPO, Skip, check, equal, main, test, wait_for  # noqa: E402
from readme import commands, tour  # noqa: E402

WORK = BUILD / "wide"
TREE = WORK / "debian"
BUILD_SECONDS = 1200
VERSION = re.search(r"^ *version: '(.*)',$", (REPO / "meson.build").read_text(), re.M)[1]
NEXT = ".".join([*VERSION.split(".")[:2], str(int(VERSION.split(".")[2]) + 1)])
STATE = "/var/lib/sandboxer"
BEGAN = """sh -c 'cut -d" " -f1,22 /proc/$(cat /tmp/pid)/stat'"""  # pid and time of its start
ROOT = {"only": "root", "because": "an empty Debian needs root"}

# What is not the package's: records of dpkg, apt and the log; files that programs of the base system regenerate.
REGENERATED = re.compile(r"/(var/(lib/(dpkg|apt|systemd|private|pam|ucf|dbus)|cache|log)|etc/(\.pwd\.lock|(passwd|group|g?shadow|subuid|subgid)-?"
                         r"|ld\.so\.cache|machine-id|mtab)|root|home|tmp|run|proc|sys|dev|mnt)(/|$)")


def package(version):
    found = sorted((WORK / version).glob(f"sandboxer_{version}-1_*.deb"))
    check(found, f"the package of version {version} is not built; see {WORK / version}/build.log")
    return found[0]


def build(version, *options):
    out = WORK / version
    shutil.rmtree(out, ignore_errors=True)
    made = subprocess.run([REPO / "tools/package", "--version", version, *options, out], capture_output=True, text=True,
                          check=False, timeout=BUILD_SECONDS)
    equal(made.returncode, 0, f"the status of tools/package: {made.stderr[-3000:]}\nstatus")
    return package(version)


def field(deb, name):
    return subprocess.run(["dpkg-deb", "-f", deb, name], check=True, capture_output=True, text=True).stdout.strip()


def contents(deb):
    """Path -> mode and owner, of what the package installs."""
    listed = subprocess.run(["dpkg-deb", "-c", deb], check=True, capture_output=True, text=True).stdout
    rows = (line.split(None, 5) for line in listed.splitlines())
    return {row[5].split(" -> ")[0][1:]: (row[0], row[1]) for row in rows}


@test(seconds=BUILD_SECONDS, **ROOT)
def the_package_is_built_without_a_network(c):
    deb = build(VERSION)
    log = (WORK / VERSION / "build.log").read_text()
    # meson is silent about what it runs; only that build puts a library below debian/ of the fresh tree.
    check(re.search(r"-isystem \S*/debian/openssl/openssl-3\.5", log), "OpenSSL was not built from the source package")
    equal(field(deb, "Version"), f"{VERSION}-1", "its version")
    for name in ("btrfs-progs", "libc6", "libsqlite3-0", "libcurl3-gnutls", "libyaml-0-2", "libzstd1"):
        check(re.search(rf"\b{name}\b", field(deb, "Depends")), f"it does not depend on {name}: {field(deb, 'Depends')}")
    check(re.search(r"musl \(= .*openssl \(= 3\.5", field(deb, "Built-Using")), field(deb, "Built-Using"))


@test(seconds=BUILD_SECONDS, **ROOT)
def the_package_of_the_next_version_is_built(c):
    build(NEXT, "--quick")


@test(**ROOT)
def the_package_holds_what_a_system_needs(c):
    there = contents(package(VERSION))
    for path in ("/usr/bin/sandboxer", "/usr/libexec/sandboxer/sandboxerd", "/usr/libexec/sandboxer/sandboxer-init",
                 "/usr/libexec/sandboxer/sandboxer-attacks", "/usr/share/sandboxer/profiles/base.yaml",
                 "/usr/share/sandboxer/policies/default.yaml", "/usr/share/sandboxer/apparmor/sandboxer",
                 "/usr/share/man/man1/sandboxer-run.1.gz", "/usr/share/man/man8/sandboxerd.8.gz",
                 "/usr/share/bash-completion/completions/sandboxer", "/usr/share/zsh/site-functions/_sandboxer",
                 "/usr/share/fish/vendor_completions.d/sandboxer.fish", "/lib/systemd/system/sandboxerd.service",
                 "/lib/systemd/system/sandboxerd.socket", "/usr/lib/systemd/user/sandboxerd.service",
                 "/usr/lib/systemd/user/sandboxerd.socket", "/usr/lib/sysusers.d/sandboxer.conf",
                 "/usr/lib/tmpfiles.d/sandboxer.conf", "/etc/sandboxer/sandboxer.yaml",
                 "/usr/share/doc/sandboxer/copyright", "/usr/share/doc/sandboxer/changelog.gz",
                 "/usr/share/doc/sandboxer/docs/install.md"):
        check(path in there, f"{path} is not in the package")
    wrong = {path: what for path, what in there.items() if what[1] != "root/root" or re.search("[sStT]|w.$", what[0])}
    equal(wrong, {}, "files of other owners, with special modes, or writable by others")
    check(not [path for path in there if "test" in path.rsplit("/", 1)[1].split(".")[0].split("-")], f"tests are in it: {there}")


@test(seconds=300, **ROOT)
def lintian_has_no_complaints(c):
    changes = next((WORK / VERSION).glob("*.changes"))
    said = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", changes], capture_output=True, text=True, check=False)
    equal(said.returncode, 0, f"the status of lintian:\n{said.stdout}{said.stderr}\nstatus")
    complaints = [line for line in said.stdout.splitlines() if line.startswith(("E:", "W:"))]
    equal(complaints, [], "complaints")


@test(seconds=900, **ROOT)
def an_empty_debian_is_there(c):
    if not shutil.which("debootstrap"):
        raise Skip("debootstrap is not installed; './dev check-wide' installs it")
    WORK.mkdir(parents=True, exist_ok=True)
    unpack(WORK, TREE)
    with Debian(c, TREE) as debian:
        debian("apt-get -q update && apt-get -q install --no-install-recommends python3-minimal curl ca-certificates").expect(0)
        debian("useradd --create-home user").expect(0)
        (TREE / "before").write_text("\n".join(all_files(debian)))


def all_files(debian):
    found = debian("find / -xdev -mindepth 1").expect(0).out.decode().splitlines()
    return sorted(path for path in found if not REGENERATED.match(path))


def copy_in(deb, debian):
    """To where tools/package puts it in a checkout, which root's home stands for."""
    shutil.rmtree(TREE / "root/build", ignore_errors=True)
    made = TREE / "root/build/package"
    made.mkdir(parents=True)
    shutil.copy(deb, made)


def installed(c):
    if not (TREE / "before").exists():
        raise Skip("there is no empty Debian")
    return Debian(c, TREE)


def apt_install(debian):
    (line,) = commands("sudo apt install")
    return debian(f'sudo() {{ "$@"; }}\n{line}').expect(0)


def daemon(debian):
    """The pids of daemons inside."""
    return debian("for p in /proc/[0-9]*; do case $(readlink $p/exe) in */sandboxerd*) echo ${p#/proc/};; esac; done").expect(0).text.split()


def end_daemon(debian):
    debian("kill -TERM $(for p in /proc/[0-9]*; do case $(readlink $p/exe) in */sandboxerd*) echo ${p#/proc/};; esac; done)")
    wait_for(lambda: not daemon(debian), "the daemon ends")


@test(seconds=900, **ROOT)
def the_package_is_installed_and_the_tour_is_true(c):
    with installed(c) as debian:
        copy_in(package(VERSION), debian)
        apt_install(debian)
        equal(daemon(debian), [], "daemons that the installation started, although no systemd runs")
        check(not debian.path(STATE).exists(), "the installation made a state directory")
        debian("getent passwd sandboxer sandboxer-egress sandboxer-fetch").expect(0)
        debian("/usr/libexec/sandboxer/sandboxerd --check-config").expect(0)
        debian("sandboxer run -- true", user="user").expect(0)
        debian("sandboxer doctor").expect((0, 1))
        box = ""
        debian("mkdir -p src/base")
        for command, expected, status in tour():
            result = debian(f"export id={box}; {{ {command} ; }} 2>&1; s=$?; echo id=$id >&2; exit $s")
            said = "".join(line + "\n" for line in result.out.decode().splitlines() if "note: not enforced" not in line)
            equal((said, result.code), (expected, status), command)
            box = re.search(r"^id=(.*)$", result.notes, re.M)[1]
        who = debian("stat -c %U /var/lib/sandboxer/daemon").expect(0).text
        equal(who, "sandboxer", "the owner of the control plane's state")
        end_daemon(debian)


@test(seconds=900, **ROOT)
def an_upgrade_leaves_a_running_sandbox_alone(c):
    with installed(c) as debian:
        box = debian("sandboxer create -q").expect(0).text
        debian(f"sandboxer exec -d {box} -- sh -c 'echo $$ >/tmp/pid; echo begun; n=0; while :; do n=$((n + 1)); echo $n >/tmp/n; sleep 0.2; done'").expect(0)
        debian(f"sandboxer exec {box} -- sh -c 'echo kept >/tmp/file'").expect(0)
        began = wait_for(lambda: debian(f"sandboxer exec {box} -- {BEGAN}").text, "the background process has begun")
        copy_in(package(NEXT), debian)
        upgraded = apt_install(debian)
        check("a daemon of the old version is running" in upgraded.out.decode() + upgraded.notes, f"it does not say so:\n{upgraded}")
        end_daemon(debian)
        equal(debian("sandboxer list -q >/dev/null; sandboxer version | tr -s ' '").text.splitlines()[:2], [f"sandboxer: {NEXT}", f"sandboxerd: {NEXT}"], "the versions")
        equal(debian(f"sandboxer exec {box} -- cat /tmp/file").expect(0).text, "kept", "a file that was written before")
        equal(debian(f"sandboxer exec {box} -- {BEGAN}").expect(0).text, began, "the start of the background process")
        now = int(debian(f"sandboxer exec {box} -- cat /tmp/n").expect(0).text)
        wait_for(lambda: int(debian(f"sandboxer exec {box} -- cat /tmp/n").expect(0).text or 0) > now, "the background process continues")
        debian(f"echo new >new && sandboxer cp new {box}:/tmp/new && sandboxer cp {box}:/tmp/file back && grep kept back").expect(0)
        equal(debian(f"sandboxer logs {box}").expect(0).text, "begun", "the output of the background process")
        debian(f"sandboxer destroy {box}").expect(0)
        end_daemon(debian)


@test(seconds=900, **ROOT)
def a_purge_keeps_the_data_that_it_names(c):
    with installed(c) as debian:
        box = debian("sandboxer create -q").expect(0).text
        debian(f"sandboxer exec {box} -- sh -c 'echo kept >/root/file'; sandboxer exec -d {box} -- sleep 1000").expect(0)
        debian("apt-get -q remove sandboxer").expect(0)
        equal(daemon(debian), [], "daemons that run without the package")
        equal(debian("readlink /proc/[0-9]*/exe | grep memfd:sandboxer").text, "", "supervisors of sandboxes that run without the package")
        purged = debian("apt-get -q purge sandboxer").expect(0)
        check(f"rm -rf {STATE}" in purged.out.decode(), f"it does not name the data:\n{purged}")
        debian("apt-get -q autoremove --purge").expect(0)
        left = set(all_files(debian)) - set((TREE / "before").read_text().splitlines()) - {"/before"}
        equal(sorted(path for path in left if not path.startswith(STATE)), [], "what is left but for the data")
        check(STATE in left, "the data is gone")
        copy_in(package(VERSION), debian)
        apt_install(debian)
        debian(f"sandboxer resume {box} && sandboxer exec {box} -- grep kept /root/file && sandboxer destroy {box}").expect(0)
        end_daemon(debian)
        debian("apt-get -q purge sandboxer").expect(0)
        debian(f"rm -rf {STATE}").expect(0)
        left = set(all_files(debian)) - set((TREE / "before").read_text().splitlines()) - {"/before"}
        equal([path for path in left if "sandboxer" in path], [], "what is left")
    shutil.rmtree(TREE)


if os.getuid() == 0 and "--as" not in sys.argv:
    sys.argv += ["--as", "root"]
main()
