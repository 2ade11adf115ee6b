#!/usr/bin/env python3
# parallel
"""The table of attacks on the egress plane: every case through every adapter that it can reach, as the sandbox's
root and as a plain user of it, against origins and a DNS server that record what reaches them. The table is printed
at the end, a cell that cannot exist with the reason."""

import threading
import time
import traceback

import egress_cells_http  # noqa: F401 (these register their cells)
import egress_cells_names  # noqa: F401
import egress_cells_records  # noqa: F401
import egress_cells_tunnels  # noqa: F401
from egress_box import Box
from egress_cases import CASES
from egress_cells_http import drip, start_slow
from egress_trial import ADAPTERS, POLICY, Trial, cells, run_probes, table
from egress_world import World
from harness import Failure, check, diagnose, main, test
from ocsf import flaws_of

SECTIONS = ((1, 14), (15, 23), (24, 35), (36, 50), (60, 62))


def fill(t, case, adapter):
    """One cell: what happened, or raises."""
    special = cells.get((case.number, adapter))
    t.mark()
    probes = list(case.probes(adapter))
    seen = []
    if probes:
        seen.append(run_probes(t, case, adapter))
    if special:
        t.mark()
        seen.append(special(t, adapter))
    if not seen:
        check(adapter in case.absent, f"case {case.number} has neither a probe nor a reason for {adapter}")
        return f"n/a: {case.absent[adapter]}"
    time.sleep(0.01)
    check(t.box.process.poll() is None, "the worker ended")
    return "; ".join(seen)


def run_section(c, first, last, problems):
    """Cases in a world of their own, each by every adapter."""
    with World() as world, Box(world, c, POLICY) as box:
        t = Trial(c, world, box)
        if first <= 50 <= last:
            start_slow(t)
        for case, adapter in ((case, adapter) for case in CASES if first <= case.number <= last for adapter in ADAPTERS):
            drip(t)
            try:
                table[case.number, adapter, c.name] = fill(t, case, adapter)
            except (Failure, OSError) as problem:
                table[case.number, adapter, c.name] = "FAILED"
                problems.append(f"case {case.number} by {adapter}: {problem}")
                box.set_policy(POLICY)
                t.web.script, box.program = [], "/usr/bin/curl"
        problems += flaws_of(box.events())


def run_all(c, problems):
    """Sections wait more than they work, and have nothing in common: side by side."""
    def run(first, last):
        try:
            run_section(c, first, last, problems)
        except BaseException:  # pylint: disable=broad-except
            problems.append(f"cases {first} to {last}: {traceback.format_exc()}")
    threads = [threading.Thread(target=run, args=section) for section in SECTIONS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@test
def every_case_by_every_way(c):
    problems = []
    run_all(c, problems)
    check(not problems, "\n".join(problems))


@test
def the_table(c):
    """Every case has a cell for every adapter. Printed with what both callers saw."""
    for case in CASES:
        diagnose(f"{case.number} {case.title}")
        for adapter in ADAPTERS:
            root, plain = (table.get((case.number, adapter, name), "not run") for name in ("root", "plain"))
            seen = f"uid and root: {root}" if root == plain else f"uid: {plain} | root: {root}"
            diagnose(f"    {adapter:<12}{root if root.startswith('n/a') else seen}")
    missing = [f"{case.number} {adapter}" for case in CASES for adapter in ADAPTERS
               if (case.number, adapter, c.name) not in table and len(table) > 0]
    check(not missing, f"cells are missing: {missing}")


main()
