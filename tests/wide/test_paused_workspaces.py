#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Workspaces of sandboxes that were stopped for as long as they may be: a minute is the least that ttl.paused takes."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))

from agents import Agents  # noqa: E402
from harness import check, equal, main, test, wait_for  # noqa: E402
from mcp import Lines  # noqa: E402
from workspaces import read_kept  # noqa: E402

EDIT = "echo edited >a.txt; rm b.txt; echo made >made.txt"


@test
def what_a_person_declined_stays_out_of_the_directory(c):
    with Agents(c, paused="60s") as a:
        a("--sync", "never", "--", "sh", "-c", EDIT).expect(0, says="is kept, stopped")
        with Lines(c, a.daemon, ["--workspace", str(a.host)], **a.env) as m:
            m.begin()
            m.tool("sandbox_exec", command=EDIT)
        boxes = wait_for(lambda: set(a.boxes().values()) == {"paused"} and [*a.boxes()], "both are stopped")
        equal(len(boxes), 2, "the sandboxes")
        wait_for(lambda: a.boxes() == {}, "they expire", seconds=240)
        equal([a.read("a.txt"), a.read("b.txt"), (a.host / "made.txt").exists()], ["host a\n", "host b\n", False], "the directory")
        for box in boxes:
            kept = a.daemon.get(box)["kept"]
            check("3 changes" in kept["reason"], f"the reason: {kept}")
            equal([read_kept(a.daemon, a.cli, kept["snapshot_id"], f"/workspace/{name}.txt") for name in ("a", "made")], ["edited", "made"], "the snapshot")


main()
