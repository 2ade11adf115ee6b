#!/usr/bin/env python3
# parallel
"""sandboxer scan: a look at code that nobody trusts."""

import json
import re

from harness import REPO, check, equal, main, test

CORPUS = REPO / "tests/scan/corpus"
LANGUAGES = ("shell", "python", "javascript", "c")


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
        bad, good = (sorted((CORPUS / side / language).iterdir()) for side in ("bad", "good"))
        found, alarms = blocked(c, bad), blocked(c, good)
        missed = [p.name for p in bad if str(p) not in found]
        equal(tuple(map(int, row.groups())), (len(bad), len(missed), len(good), len(alarms)),
              f"{language} (missed: {missed}; false alarms: {sorted(alarms)}): the row in docs/scan.md")


@test
def a_missed_or_flagged_sample_says_so(c):
    for language in LANGUAGES:
        bad, good = (sorted((CORPUS / side / language).iterdir()) for side in ("bad", "good"))
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


main()
