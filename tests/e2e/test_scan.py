#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""sandboxer scan, run --untrusted, verify: around code that nobody trusts."""

import base64
import json
import re

from harness import REPO, check, equal, main, test

CORPUS, HELD_OUT = REPO / "tests/scan/corpus", REPO / "tests/scan/heldout"
# Of the samples that nobody saw who wrote the rules: missed and false alarms when they were first measured.
AT_FIRST = {"shell": (9, 0), "python": (3, 0), "javascript": (7, 0), "c": (8, 0)}
LANGUAGES = ("shell", "python", "javascript", "c")


def state(c):
    """The key is the test's own."""
    return {"SANDBOXER_STATE": str(c.dir / "state")}


def untrusted(c, job, *options):
    return c.cli("run", "--untrusted", job, *options, env=state(c))


def verify(c, manifest, directory):
    return c.cli("verify", manifest, directory, env=state(c))


def samples(c, side, language, where=CORPUS):
    """A corpus, where the caller may read it: the checkout may be closed to others."""
    return [c.write(f"{side}/{language}/{p.name}", p.read_bytes()) for p in sorted((where / side / language).iterdir())]


def blocked(c, paths):
    """Those of the files that have a finding of `high` or more."""
    done = c.cli("scan", "-o", "json", *map(str, paths)).expect((0, 1))
    reports = json.loads(done.out)
    equal(len(reports), len(paths), "the number of reports")
    return {r["file"] for r in reports
            if any(f["severity"] in ("high", "critical") for f in r["findings"])}


@test
def the_published_numbers_are_those_of_the_corpus(c):
    text = (REPO / "docs/scan.md").read_text()
    for language in LANGUAGES:
        row = re.search(rf"^\| {language} \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", text, re.M)
        check(row, f"docs/scan.md has no row for {language}")
        bad, good = (samples(c, side, language) for side in ("bad", "good"))
        found, alarms = blocked(c, bad), blocked(c, good)
        missed = [p.name for p in bad if str(p) not in found]
        equal(tuple(map(int, row.groups())), (len(bad), len(missed), len(good), len(alarms)),
              f"{language} (missed: {missed}; false alarms: {sorted(alarms)}): the row in docs/scan.md")


@test
def the_numbers_of_the_samples_held_out_are_published(c):
    text, total = (REPO / "docs/scan.md").read_text(), [0] * 6
    print("# | language | bad | missed at first | now | good | false alarms at first | now |")
    for language in (*LANGUAGES, "all"):
        if language == "all":
            numbers = total
        else:
            bad, good = ([c.write(f"held/{p.parent.parent.name}/{p.name.removesuffix('.txt')}", p.read_bytes())
                          for p in samples(c, side, language, HELD_OUT)] for side in ("bad", "good"))
            found, alarms = blocked(c, bad), blocked(c, good)
            check(len(bad) >= 15 and len(good) >= 15, "there are fewer samples than there were")
            missed, false = AT_FIRST[language]
            numbers = [len(bad), missed, len(bad) - len(found), len(good), false, len(alarms)]
            total = [a + b for a, b in zip(total, numbers)]
        row = f"| {language} | " + " | ".join(map(str, numbers)) + " |"
        print("#", row)
        check(f"\n{row}\n" in text, f"docs/scan.md has another row than {row}")


@test
def a_missed_or_flagged_sample_says_so(c):
    for language in LANGUAGES:
        bad, good = (samples(c, side, language) for side in ("bad", "good"))
        found, alarms = blocked(c, bad), blocked(c, good)
        for path in bad:
            equal("issed: " in path.read_text(), str(path) not in found, f"{path.name} says that it is missed")
        for path in good:
            equal("flagged: " in path.read_text(), str(path) in alarms, f"{path.name} says that it is flagged")


@test
def the_scan_tells_where_and_how_bad(c):
    bad = c.write("bad.sh", "#!/bin/sh\necho ok\n  rm -rf /\n")
    good = c.write("good.sh", "echo 'rm -rf /'\n")
    c.cli("scan", good).expect(0, out=b"")
    shown = c.cli("scan", bad, good).expect(1).text
    check("bad.sh:3:3: critical: " in shown and "(shell.rm-root)" in shown, shown)
    c.cli("scan", "--block", "critical", c.write("m.sh", "chmod -R 777 /\n")).expect(0)
    c.cli("scan", "-", stdin=b"#!/bin/sh\nrm -rf /\n").expect(1)
    c.cli("scan", "nowhere").expect(3, says="nowhere")
    c.cli("scan").expect(2)
    big = c.write("big.sh", "#" * ((16 << 20) + 1))
    c.cli("scan", big).expect(2, says="longer than")


JOB = """#!/bin/sh
echo "hello $1" > greeting
mkdir -p bin && printf '#!/bin/sh\\n' > bin/tool && chmod 755 bin/tool
ln -s ../greeting bin/link
cat < /dev/null > /tmp/elsewhere
exit 3
"""


def payload(path):
    return json.loads(base64.b64decode(json.loads(path.read_text())["payload"]))


@test
def an_untrusted_program_leaves_a_signed_output(c):
    job, out = c.write("job.sh", JOB), c.dir / "result"
    untrusted(c, job, "--output", out, "--", "world").expect(3)
    manifest = c.dir / "result.manifest.json"
    equal((out / "greeting").read_text(), "hello world\n", "the output")
    said = payload(manifest)
    equal([(f["path"], f["kind"], f.get("content")) for f in said["files"]],
          [("bin", "directory", None), ("bin/link", "link", None), ("bin/tool", "file", "script"),
           ("greeting", "file", "data")], "the files")
    equal((said["program"]["status"], said["preflight"]["by"]), (3, "sandboxer"), "what is on record")
    check("4 files" in verify(c, manifest, out).expect(0).text, "the number of files is not told")
    (out / "greeting").write_text("hello World\n")
    (out / "extra").write_text("")
    shown = verify(c, manifest, out).expect(1).text
    check("greeting: has different content" in shown and "extra: is not in the manifest" in shown, shown)
    manifest.write_text(manifest.read_text().replace('"sig": "', '"sig": "A'))
    verify(c, manifest, out).expect((2, 5))
    verify(c, c.dir / "nowhere", out).expect(3)
    untrusted(c, job, "--output", out).expect(125, says="is there already")
    equal(sorted(p.name for p in c.dir.glob("result*")), ["result", "result.manifest.json"], "what is left")


@test
def changes_of_an_input_are_told(c):
    for name in ("same", "edited", "gone", "sub/mode"):
        c.write(f"in/{name}", name)
    job = c.write("job.sh", "#!/bin/sh\necho x >> edited; rm gone; chmod 700 sub/mode; echo new > new\n")
    out = c.dir / "o"
    untrusted(c, job, "--input", c.dir / "in", "--output", out).expect(0)
    said = payload(c.dir / "o.manifest.json")
    equal({f["path"]: f["change"] for f in said["files"]},
          {"same": "none", "edited": "changed", "sub": "none", "sub/mode": "changed", "new": "added"}, "the changes")
    equal(said["deleted"], ["gone"], "what is deleted")
    equal((c.dir / "in/edited").read_text(), "edited", "the input itself")
    verify(c, c.dir / "o.manifest.json", out).expect(0)
    untrusted(c, job, "--input", c.dir / "nowhere", "--output", c.dir / "p").expect(125, says="nowhere")


@test
def what_the_scan_finds_does_not_run(c):
    bad = c.write("bad.sh", "#!/bin/sh\ntouch ran\nrm -rf /\n")
    untrusted(c, bad, "--output", c.dir / "out").expect(125, says="shell.rm-root")
    check(not (c.dir / "out").exists(), "there is an output")
    equal(list(c.dir.glob("out*")), [], "what is left")


@test
def what_may_not_leave_stays(c):
    for name, job, says in (("link", "ln -s /etc/passwd x", "link"), ("up", "ln -s ../../x x", "link"),
                            ("name", "touch 'a\tb'", "name"), ("pipe", "mkfifo p", "")):
        path, out = c.write(f"{name}.sh", f"#!/bin/sh\n{job}\n"), c.dir / f"{name}.d"
        untrusted(c, path, "--output", out).expect(125, says=says)
        equal(list(c.dir.glob(f"{name}.d*")), [], f"what is left of {name}")


@test
def what_still_runs_does_not_change_the_output(c):
    job = c.write("late.sh", "#!/bin/sh\n(while :; do echo x >> grow; done) &\necho done > first\n")
    out = c.dir / "late"
    untrusted(c, job, "--block", "critical", "--output", out).expect(0)
    verify(c, c.dir / "late.manifest.json", out).expect(0)


@test
def there_is_no_way_out_beside_the_output(c):
    job = c.write("job.sh", "#!/bin/sh\n:\n")
    untrusted(c, job, "--allow", "example.com").expect(125, says="no network")
    untrusted(c, job, "--mount", f"{c.dir}:/mnt:rw").expect(125, says="read-only")
    slow = c.write("slow.sh", "#!/bin/sh\nsleep 100\n")
    untrusted(c, slow, "--timeout", "1s", "--output", c.dir / "out").expect(124)
    equal(list(c.dir.glob("out*")), [], "what is left")


@test
def an_output_without_its_manifest_does_not_leave(c):
    job, out = c.write("job.sh", "#!/bin/sh\n:\n"), c.dir / "out"
    untrusted(c, job, "--output", out, "--manifest", c.dir / "nowhere/m.json").expect(125, says="the manifest")
    equal(list(c.dir.glob("out*")), [], "what is left")
    c.cli("run", "--output", out, "--", "true").expect(125, says="--untrusted")


@test
def steps_can_be_commands(c):
    job, out = c.write("job.sh", "#!/bin/sh\nrm -rf / 2>/dev/null\necho x > x\n"), c.dir / "o"
    allow, deny = "echo '{\"verdict\":\"allow\"}'", "echo '{\"verdict\":\"deny\",\"reason\":\"too odd\"}'"

    def run(*options):
        return untrusted(c, job, "--output", out, *options)

    run("--preflight-command", deny).expect(125, says="too odd")
    for broken in ("false", "true", "echo '{}'", "echo '{\"verdict\":\"maybe\"}'", "kill -9 $$", f"{allow}; exit 1"):
        run("--preflight-command", broken).expect(125, says="preflight")
    run("--step-timeout", "1s", "--preflight-command", "sleep 100").expect(125, says="timed out")
    run("--preflight-command", allow, "--postflight-command", deny).expect(125, says="too odd")
    check(not out.exists(), "there is an output")
    seen = c.dir / "seen"
    run("--preflight-command", allow, "--postflight-command", f"cat > {seen}; {allow}").expect(0)
    asked = json.loads(seen.read_text())
    equal((asked["step"], [f["path"] for f in asked["files"]]), ("postflight", ["x"]), "what the command is asked")
    equal(payload(c.dir / "o.manifest.json")["postflight"]["by"], "command", "who decided")


@test
def a_step_of_ones_own_can_only_be_stricter(c):
    allow = "echo '{\"verdict\":\"allow\"}'"
    for name, text, code in (("suid", "echo x > x; chmod 4755 x", 125), ("pipe", "mkfifo p", 125),
                             ("up", "ln -s /etc/passwd x", 125), ("big", "truncate -s 65M x", 0)):
        job, out = c.write(f"{name}.sh", f"#!/bin/sh\n{text}\n"), c.dir / f"{name}.d"
        untrusted(c, job, "--output", out, "--cap", "FSETID", "--postflight-command", allow).expect(code)
        equal(out.exists(), code == 0, f"there is an output of {name}")


main()
