#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""`./dev uninstall` removes what `./dev install` put there, and nothing else."""

import json
import os
import subprocess
from pathlib import Path

from harness import BUILD, REPO, check, equal, main, test


def files_below(top):
    return sorted(str(path.relative_to(top)) for path in top.rglob("*") if not path.is_dir())


def prefix():
    options = subprocess.run(["meson", "introspect", "--buildoptions", BUILD], check=True, capture_output=True, text=True).stdout
    return next(option["value"] for option in json.loads(options) if option["name"] == "prefix")


@test(only="root", because="meson writes its log into the build directory")
def only_what_was_installed_is_removed(c):
    top = c.mkdir(c.dir / "dest")
    ours = Path(f"{top}{prefix()}")
    mine = [ours / "bin/another", ours / "share/sandboxer/profiles/mine.yaml", ours / "share/man/man1/another.1"]
    for file in mine:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("mine")
    before = files_below(top)
    subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", top], check=True, capture_output=True)
    check(os.access(ours / "bin/sandboxer", os.X_OK) and len(files_below(top)) > 100, "it is installed")
    for _ in range(2):  # the second time nothing is there
        subprocess.run([REPO / "tools/uninstall", BUILD, top], check=True, capture_output=True)
        equal(files_below(top), before, "the files that are left")
        left = [str(path.relative_to(top)) for path in top.rglob("sandboxer*") if path.is_dir()]
        equal(left, [str((ours / "share/sandboxer").relative_to(top))], "directories of ours: only the one with a file of mine")


@test(only="root", because="it is the same for all")
def both_are_targets_of_dev(c):
    said = subprocess.run([REPO / "dev", "--help"], check=True, capture_output=True, text=True).stdout
    check(" install " in said and " uninstall " in said, said)
    rule = (REPO / "Makefile").read_text().partition("\nuninstall:")[2].partition("\n\n")[0]
    check("-Dprefix=$(PREFIX)" in rule and "tools/uninstall $(BUILD) $(DESTDIR)" in rule, f"the rule: {rule}")


main()
