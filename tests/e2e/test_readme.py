#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""The tours of README, the quickstarts and the cookbook, run as they stand there: commands after `$`, then what they
print, then [exit status]. Error texts of the troubleshooting page are those of the programs."""

import os
import re
import signal
import subprocess
import sys

from client import Client, listener
from daemon import Daemon
from harness import REPO, check, equal, main, processes, test, wait_for
from readme import TEXT, commands, fits, tour
from tcp import free_port

CONVERSION = r"%[-#0-9.*]*(?:zu|llu|lld|l?[a-z])"  # of a format
QUICKSTARTS = [f"docs/quickstart-{reader}.md" for reader in ("developer", "platform", "security")]
LISTENER = "127.0.0.1:7700"  # of the pages; here a free port takes its place


@test
def the_tour_is_true(c):
    play_tour(c, "README.md")


@test
def the_quickstarts_are_true(c):
    for page in QUICKSTARTS:
        play_tour(c, page)


@test
def the_cookbook_is_true(c):
    play_tour(c, "docs/cookbook.md")


def play_tour(c, page):
    place = c.mkdir(c.dir / page.replace("/", "-"))
    c.mkdir(place / "src")
    c.mkdir(place / "src/base")  # what README shows to a sandbox; the checkout may be closed to the caller
    steps = list(tour(page))
    equal(len(steps) > 5, True, f"a tour with steps in {page}")
    address = f"127.0.0.1:{free_port()}"
    env = {"PATH": f"{c.programs}:/usr/bin:/bin", "SANDBOXER_SOCKET": str(place / "sock"), "SANDBOXER_STATE": str(place / "state"),
           "XDG_CONFIG_HOME": str(place / "config")}
    try:
        for command, output, status in steps:
            play_step(c, place, env, *(text.replace(LISTENER, address) for text in (command, output)), status)
    finally:
        stop_daemon(place / "sock")


def play_step(c, place, env, command, output, status):
    """Runs a command, and keeps the variables that it leaves for the next one."""
    result = c.execute(["/bin/sh", "-c", f"{{ {command} ; }} 2>&1; s=$?; env -0 >&2; exit $s"], cwd=place, env=env)
    said = "".join(line + "\n" for line in result.out.decode().splitlines() if "note: not enforced" not in line)
    check((fits(said, output), result.code) == (True, status), f"{command}\nexpected [{status}]\n{output}printed [{result.code}]\n{said}")
    exported = dict(variable.split("=", 1) for variable in result.err.decode().split("\0") if "=" in variable)
    env.clear()
    env.update({name: value for name, value in exported.items() if name not in ("PWD", "OLDPWD", "SHLVL", "_")})


def stop_daemon(path):
    pid = listener(path)
    if pid:
        os.kill(pid, signal.SIGTERM)
        wait_for(lambda: pid not in processes(), "the daemon ends")


@test
def the_sandbox_that_readme_keeps_is_kept(c):
    """Its table of tasks promises a day; without a profile it would end after five minutes without use."""
    (command,) = re.findall(r"^\| keep a sandbox for a day, .* \| `sandboxer (create .*)` \|$", TEXT, re.M)
    with Daemon(c) as d:
        for profile in (REPO / "profiles").glob("*.yaml"):
            c.write(f"daemon/profiles/{profile.name}", profile.read_text())
        d.api.post("/v1/profiles/reload").expect(200)
        box = Client(d).json(*command.split())
        equal((box["ttl"], box["idle_reap"], box["expires_at"]), (86400, 0, box["ttl_expires_at"]), "its end")


@test
def the_two_commands_are_there(c):
    equal(["./dev run" in TEXT, "./dev check" in TEXT], [True, True], "./dev run and ./dev check")


@test
def the_package_can_be_installed(c):
    """The lines that tests/wide plays in an empty Debian, from the directory that they are for: a checkout."""
    (put,) = re.findall(r"^package:\n\t@tools/package (\S+)$", (REPO / "Makefile").read_text(), re.M)
    equal(put, "$(BUILD)/package", "where './dev package' puts it")
    install = (REPO / "docs/install.md").read_text()
    equal(re.findall(r"^    (sudo apt install .*)$", install, re.M), commands("sudo apt install"), "the line of docs/install.md")
    equal((commands("./dev package"), commands("sudo apt install")), (["./dev package"], ["sudo apt install ./build/package/sandboxer_*.deb"]), "the lines that build and install the package")


@test(only="root", because="the texts are the same for all")
def troubleshooting_quotes_the_programs(c):
    """Every error text of the page is a message of the sources, with values in the place of its conversions."""
    said = subprocess.run([sys.executable, REPO / "tools/prose", "--messages", REPO / "src"], capture_output=True, check=True, text=True).stdout
    messages = re.findall(r"^- (.*) \*\(\S+\.c\)\*$", said, re.M)
    quoted = re.findall(r"^    (.*)$", (REPO / "docs/troubleshooting.md").read_text(), re.M)
    equal(len(quoted) > 15, True, "quoted error texts")
    equal([text for text in quoted if not any(is_message(text, m) for m in messages)], [], "texts that no program prints")


def is_message(text, message):
    """At least half of the text is the message's own: a message of conversions alone would be any text. A field of the
    configuration may be in front of it."""
    parts = [part.replace('\\"', '"').replace("%%", "%") for part in re.split(CONVERSION, message)]
    return 2 * sum(map(len, parts)) >= len(text) and re.fullmatch(r"([a-z_]+\.[a-z_]+: )?" + ".+".join(map(re.escape, parts)), text) is not None


main()
