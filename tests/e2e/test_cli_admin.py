#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Profiles, hosts, tokens, backups, doctor, help; and the daemon that the command line starts."""

import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3

from client import Client, listener
from daemon import PROFILES, Daemon
from harness import REPO, Skip, check, equal, main, processes, test, wait_for


# ---- what the daemon knows ----------------------------------------------------------------------------


@test
def profiles_are_listed_and_shown(c):
    with Daemon(c) as d:
        cli = Client(d)
        equal(cli.lines("profiles", "list", "-q"), sorted(PROFILES), "profiles")
        shown = cli.json("profiles", "get", "profile.pooled")
        equal((shown["available"], shown["resources"]["memory_mb"]), (True, 128), "the profile")
        cli("profiles", "get", "profile.none").expect(3, says="profile.none")


@test
def a_wrong_profile_is_told_by_line_and_field(c):
    with Daemon(c) as d:
        cli = Client(d)
        c.write("good.yaml", "id: profile.mine\nversion: 1\n")
        cli("profiles", "validate", "good.yaml").expect(0, out=b"good.yaml is valid\n")
        for text, line, field in (("id: profile.mine\nversion: 1\nttll: 3\n", 3, "ttll"),
                                  ("id: profile.mine\nversion: 1\nttl:\n  default: soon\n", 4, "ttl.default"),
                                  ("id: mine\nversion: 1\n", 1, "id"),
                                  ("id: profile.mine\nversion: 1\nnetwork:\n  default: allow\n", 4, "network.default")):
            c.write("bad.yaml", text)
            verdict = cli.json("profiles", "validate", "bad.yaml", code=1)
            problem = verdict["problems"][0]
            equal((verdict["valid"], problem.get("line"), problem.get("field")), (False, line, field), f"the verdict on {text!r}: {verdict}")
            shown = cli("profiles", "validate", "bad.yaml").expect(1).text
            check(field in shown and str(line) in shown, f"not shown: {shown}")
        c.write("bad.yaml", "id: mine\nversion: 1\nttll: 3\nttl:\n  default: soon\n")
        fields = [p["field"] for p in cli.json("profiles", "validate", "bad.yaml", code=1)["problems"]]
        equal(sorted(fields), ["id", "ttl.default", "ttll"], "every mistake")
        cli("profiles", "validate", "-", stdin=b"a: [").expect(1)
        cli("profiles", "validate", "none.yaml").expect((1, 125), says="none.yaml")


@test
def profiles_of_a_user_are_found(c):
    with Daemon(c) as d:
        cli = Client(d)
        c.write("daemon/profiles/mine.yaml", "id: profile.mine\nversion: 2\nenv: {HELLO: world}\nworkdir: /tmp\nttl: {default: 5m, max: 10m}\n")
        d.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "profile.mine" in cli.lines("profiles", "list", "-q"), "SIGHUP reads profiles again")
        box = cli.create("-p", "profile.mine")
        cli.sh(box, "echo $HELLO; pwd").expect(0, out=b"world\n/tmp\n")
        c.write("daemon/profiles/mine.yaml", "id: profile.mine\nversion: 2\nnonsense: 1\n")
        d.process.send_signal(signal.SIGHUP)
        wait_for(lambda: cli("create", "-p", "profile.mine").code != 0, "a file that became wrong is not used any more")
        check("mine.yaml" in d.tail() and "nonsense" in d.tail(), f"the log does not say why:\n{d.tail()}")
        cli.sh(box, "true").expect(0)


@test
def hosts_come_and_go(c):
    with Daemon(c) as d:
        cli = Client(d)
        equal(cli.lines("hosts", "list", "-q"), ["local"], "hosts")
        cli("hosts", "add", "build1", "me@build1.example", "--label", "gpu=no").expect(0)
        host = next(h for h in cli.json("hosts", "list")["hosts"] if h["name"] == "build1")
        equal((host["address"], host["labels"]), ("me@build1.example", {"gpu": "no"}), "the host")
        cli("hosts", "add", "build1", "again").expect(4)
        cli("hosts", "add", "bad name", "x").expect(2)
        d.stop()
        d.start()
        check("build1" in cli.lines("hosts", "list", "-q"), "a host does not survive a restart")
        cli("hosts", "remove", "build1").expect(0)
        cli("hosts", "remove", "build1").expect(3)
        cli("hosts", "remove", "local").expect((2, 4, 5))


@test
def tokens_are_made_and_revoked(c):
    with Daemon(c) as d:
        cli = Client(d)
        secret = cli("token", "create", "-q", "ci", "--verb", "read", "--ttl", "1h").expect(0).text
        check(secret.startswith("sbt_"), f"token create -q prints {secret!r}")
        token = cli.json("token", "list")["tokens"][0]
        equal((token["name"], token["verbs"], token["owner"]), ("ci", ["read"], f"uid:{c.uid}"), "the token")
        every = cli.json("token", "create", "all")
        equal(set(every["verbs"]), {"read", "create", "exec", "files", "extend", "destroy"}, "verbs that are not said")
        kept = b"".join(p.read_bytes() for p in (d.state / "daemon").iterdir() if p.is_file()) + d.log_path.read_bytes()
        check(b"ci" in kept and secret[4:].encode() not in kept and every["token"][4:].encode() not in kept, "a secret is kept")
        cli("token", "revoke", token["id"]).expect(0)
        equal(cli.lines("token", "list", "-q"), [every["id"]], "tokens")
        cli("token", "create", "x", "--verb", "fly").expect(2, says="fly")


@test(only="root", because="the control plane has a user of its own only there")
def a_backup_is_restored_as_documented(c):
    """The commands of docs/install.md, with the daemon and the places of this test; systemctl and the user of the package
    are not here."""
    page = (REPO / "docs/install.md").read_text()
    steps = re.findall(r"^    ((?:systemctl|install) .*(?:sandboxerd\.socket|/var/lib/sandboxer).*)$", page.partition("## Backup and restore")[2].partition("\n## ")[0], re.M)
    equal([step.split()[0] for step in steps], ["systemctl", "install", "install", "systemctl"], f"the steps {steps}")
    with Daemon(c) as d:
        cli = Client(d)
        box, paused = cli.create("-e", "SECRET=sealed value"), cli.create()
        cli("pause", paused).expect(0)
        backup = c.mkdir(c.dir / "backup")
        cli("backup", str(backup / "sandboxer.db"), "--with-key").expect(0)
        late = cli.create()
        cli("label", box, "late=yes").expect(0)
        before = files_of_the_store(d)
        user, group = before.pop("owner")
        d.stop()
        for name in ("daemon/sandboxer.db", "secrets/key"):
            (d.state / name).write_bytes(b"damaged")
        for step in steps:
            if step.startswith("install"):
                step = step.replace("-o sandboxer -g sandboxer", f"-o {user} -g {group}").replace("/var/lib/sandboxer", str(d.state)).replace("/var/backups", str(backup))
                c.execute(step.split()).expect(0)
        d.start()
        check(late not in cli.lines("list", "-q"), "a sandbox that is younger than the backup")
        equal(cli.json("get", box)["labels"], {}, "labels")
        cli("resume", paused).expect(0)
        cli("exec", box, "--", "sh", "-c", "echo $SECRET").expect(0, out=b"sealed value\n")
        equal(files_of_the_store(d), {**before, "owner": (user, group)}, "owners and modes")


def files_of_the_store(d):
    """Of the store and the key: owner, group and mode; owner: those of the store's directory."""
    def who(path):
        st = path.stat()
        return st.st_uid, st.st_gid
    files = [d.state / name for name in ("daemon/sandboxer.db", "secrets/key")]
    return {"owner": who(d.state / "daemon"), **{path.name: (*who(path), path.stat().st_mode & 0o777) for path in files}}


@test
def a_backup_opens_and_has_the_rows(c):
    with Daemon(c) as d:
        cli = Client(d)
        made = {cli.create("-l", f"n={n}") for n in range(3)}
        cli("destroy", min(made)).expect(0)
        c.write("copy.db", "old")
        cli("backup", "copy.db").expect(0)
        equal((c.dir / "copy.db").stat().st_mode & 0o777, 0o600, "mode")
        with contextlib.closing(sqlite3.connect(c.dir / "copy.db")) as db:
            equal(db.execute("PRAGMA integrity_check").fetchone(), ("ok",), "integrity")
            equal({row[0] for row in db.execute("SELECT id FROM sandboxes")}, made, "sandboxes")
            check(db.execute("SELECT count(*) FROM events").fetchone()[0] >= 9, "events are missing")
        piped = cli("backup", "-").expect(0).out
        check(piped.startswith(b"SQLite format 3"), f"backup - prints {piped[:20]!r}")
        cli("backup", "/nowhere/copy.db").expect((1, 125), says="/nowhere")
        equal(sorted(os.listdir(c.dir)), ["copy.db", "daemon"], "files")


@test
def doctor_and_version_know_the_daemon(c):
    with Daemon(c) as d:
        cli = Client(d)
        checks = {row["check"]: row for row in cli.json("doctor")["checks"]}
        equal((checks["daemon"]["state"], checks["profiles"]["state"]), ("ok", "ok"), "doctor")
        c.write("daemon/profiles/elsewhere.yaml", "id: profile.elsewhere\nversion: 1\nextension: ext.modal\nisolation: {level: gvisor}\n")
        cli("profiles", "reload").expect(0)
        found = {row["check"]: row for row in cli.json("doctor")["checks"]}["profiles"]
        check(found["state"] == "ok" and "1 are for backends that this build lacks" in found["found"], f"doctor: {found}")
        versions = [line.split() for line in cli.lines("version")]
        equal([name for name, _ in versions], ["sandboxer:", "sandboxerd:"], "version")
        equal(versions[0][1], versions[1][1], "the daemon's version")
    dead = c.cli("doctor", "-o", "json", env={"SANDBOXER_STATE": str(c.dir / "none"), "SANDBOXER_SOCKET": str(c.dir / "none.sock")})
    check({r["check"]: r for r in json.loads(dead.out)["checks"]}["daemon"]["state"] == "ok", "doctor without a daemon")
    equal(sorted(os.listdir(c.dir)), ["daemon"], "files that doctor made")


# ---- without a daemon ---------------------------------------------------------------------------------


@test
def every_verb_has_help(c):
    names = verbs(c)
    check(len(names) > 30, f"verbs: {names}")
    for name in names:
        text = c.cli(*name.split(), "--help").expect(0).text
        check(text.startswith(f"Usage: sandboxer {name}"), f"help of {name}: {text[:80]}")
        equal(c.cli("help", *name.split()).expect(0).text, text, f"help {name}")
    for group in ("egress", "hosts", "profiles", "token"):
        text = c.cli(group, "--help").expect(0).text
        check(f"{group} list" in text or f"{group} check" in text, f"help of {group}: {text}")
        equal(c.cli("help", group).expect(0).text, text, f"help {group}")
        c.cli(group).expect(2, out=b"", says="choose one of")
    c.cli("nonsense").expect(2, says="unknown verb 'nonsense'")
    c.cli("profiles").expect(2, says="list, get, validate")


@test
def completion_scripts_are_scripts(c):
    for shell in ("bash", "zsh", "fish"):
        script = c.cli("completion", shell).expect(0).out
        check(b"extend-ttl" in script, f"the script for {shell} does not know the verbs")
        if shutil.which(shell):
            c.execute([shell, "-n"], stdin=script).expect(0, err=b"")
    c.cli("completion", "tcsh").expect(2, says="tcsh")


@test
def bash_completes_verbs_and_options(c):
    script = c.cli("completion", "bash").expect(0).text
    ask = """
COMP_WORDS=(%s); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); COMPREPLY=()
f=$(complete -p sandboxer | sed 's/.*-F \\([^ ]*\\).*/\\1/'); $f sandboxer "${COMP_WORDS[COMP_CWORD]}" "" 2>/dev/null
printf '%%s\\n' "${COMPREPLY[@]}"
"""
    for words, wanted in (("sandboxer cre", "create"), ("sandboxer create --la", "--label"), ("sandboxer profiles va", "validate")):
        said = c.execute(["bash", "--norc"], stdin=(script + ask % words).encode(), env={"SANDBOXER_NO_DAEMON": "1"}).expect(0).text
        check(wanted in said.split(), f"{words!r} completes to {said!r}")


def verbs(c):
    """The names of all verbs, as the help lists them."""
    return re.findall(r"^  (\S+(?: \S+)?)  ", c.cli("help", "--all").expect(0).text, re.M)


@test
def every_verb_and_program_has_a_manual_page(c):
    build = (REPO / "man/meson.build").read_text()
    listed = re.findall(r"'([^']*)'", build[build.index("verbs = ["):build.index("]\n")])
    equal(sorted(listed), sorted(verbs(c)), "verbs in man/meson.build")
    for verb in listed:
        check(f"sandboxer {verb}" in c.cli("help", "--man", *verb.split()).expect(0).text.replace("\\-", "-"), verb)
    for program in (REPO / "src/cmd").glob("*.c"):
        if program.stem != "sandboxer":
            check(f"'{program.stem}.8'" in build, f"{program.stem} has no manual page")
    c.cli("help", "--man", "nonsense").expect(2, says="unknown verb 'nonsense'")


@test
def manual_pages_render_without_a_warning(c):
    if not shutil.which("groff"):
        raise Skip("groff is not installed")
    pages = [c.cli("help", "--man").expect(0).out] + [p.read_bytes() for p in (REPO / "man").glob("*.8")]
    for page in pages:
        result = c.execute(["groff", "-ww", "-Kutf8", "-man", "-Tutf8", "-P-c"], stdin=page).expect(0, err=b"")
        check(len(result.out) > 600, "an empty page")


@test
def help_and_manual_page_have_the_same_options(c):
    for verb in verbs(c):
        text = c.cli("help", *verb.split()).expect(0).text
        page = c.cli("help", "--man", *verb.split()).expect(0).text.replace("\\-", "-")
        helped = re.findall(r"^  (?:-\w, |    )--([\w-]+)", text, re.M)
        equal(re.findall(r"^(?:\\fB-\w\\fR, )?\\fB--([\w-]+)\\fR", page, re.M), helped, f"options of {verb}")
        check("help" in helped, f"options of {verb}: {helped}")


# ---- the daemon that is started when it is needed ------------------------------------------------------


def on_demand(c):
    return {"SANDBOXER_STATE": str(c.dir / "state"), "SANDBOXER_SOCKET": str(c.dir / "sock"), "SANDBOXER_PROFILES": str(c.dir / "profiles")}


def stop(c, pid):
    os.kill(pid, signal.SIGTERM)
    wait_for(lambda: pid not in processes(), "the daemon ends")


@test
def ten_at_once_start_one_daemon(c):
    env = on_demand(c)
    c.write("profiles/canary.yaml", "id: profile.sandbox-canary\nversion: 1\n")
    running = [c.start([c.program(), "create", "-q"], env=env) for _ in range(10)]
    made = set()
    for process in running:
        out, err = process.communicate(timeout=60)
        equal(process.returncode, 0, f"exit status ({err!r})")
        made.add(out.decode().strip())
    equal(len(made), 10, "sandboxes")
    pid = listener(c.dir / "sock")
    ours = [p for p, (_, name) in processes().items() if name == "sandboxerd" and str(c.dir / "state").encode() in environment(p)]
    equal(pid in ours and len(ours), 2, f"processes of the daemon ({ours}): warden and control plane, of one")
    equal(set(c.cli("list", "-q", env=env).expect(0).text.split()), made, "list")
    c.cli("destroy", *made, env=env).expect(0)
    check(os.getpgid(pid) == pid, "the daemon is not its own session's")
    stop(c, pid)


def environment(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as f:
            return f.read()
    except OSError:
        return b""


@test
def no_daemon_is_started_against_the_will(c):
    env = {**on_demand(c), "SANDBOXER_NO_DAEMON": "1"}
    c.cli("list", env=env).expect(125, says="no daemon listens")
    c.cli("list", "--server", f"unix:{c.dir}/other", env=on_demand(c)).expect(125, says="no daemon listens")
    equal(os.listdir(c.dir), [], "files")


@test
def a_daemon_that_cannot_start_says_why(c):
    env = on_demand(c)
    c.write("state/daemon", "in the way")
    result = c.cli("list", env=env).expect(125, says="sandboxerd: ")
    check("state" in result.notes, f"why: {result.notes}")


@test
def a_bad_server_is_named(c):
    for url, words in (("ftp://x", "neither http://HOST:PORT nor unix:/PATH"), ("https://x", "TLS"), ("unix:relative", "unix:/PATH"),
                       ("http://127.0.0.1:1", "127.0.0.1:1")):
        c.cli("list", "--server", url).expect((2, 125), says=words)


main()
