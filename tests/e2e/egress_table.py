# SPDX-License-Identifier: Apache-2.0
"""Filling and printing the table of attacks: case by adapter by caller, in boxes of any kind.

    problems = []
    run_all(problems, [(c, open_box)])     # open_box(world, c): a context that gives a Box
    show_table({"root": "root", "uid": "plain"})
"""

import threading
import time
import traceback

import egress_cells_http  # noqa: F401 (these register their cells)
import egress_cells_names  # noqa: F401
import egress_cells_records  # noqa: F401
import egress_cells_tunnels  # noqa: F401
from egress_cases import CASES
from egress_cells_http import drip, start_slow
from egress_trial import ADAPTERS, POLICY, Trial, cells, run_probes, table
from egress_world import World
from harness import Failure, check, diagnose
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


def run_section(c, open_box, first, last, problems):
    """Cases in a world of their own, each by every adapter. Every line of the record is an event as OCSF has them."""
    with World() as world, open_box(world, c) as box:
        t = Trial(c, world, box)
        if first <= 50 <= last:
            start_slow(t)
        for case, adapter in ((case, adapter) for case in CASES if first <= case.number <= last for adapter in ADAPTERS):
            drip(t)
            try:
                table[case.number, adapter, c.name] = fill(t, case, adapter)
            except (Failure, OSError) as problem:
                table[case.number, adapter, c.name] = "FAILED"
                problems.append(f"case {case.number} by {adapter} as {c.name}: {problem}")
                box.set_policy(POLICY)
                t.web.script, box.program = [], "/usr/bin/curl"
        problems += flaws_of(box.events())


def run_all(problems, runs):
    """Sections wait more than they work, and have nothing in common: side by side."""
    def run(c, open_box, first, last):
        try:
            run_section(c, open_box, first, last, problems)
        except BaseException:  # pylint: disable=broad-except
            problems.append(f"cases {first} to {last}: {traceback.format_exc()}")
    threads = [threading.Thread(target=run, args=(c, open_box, *section)) for c, open_box in runs for section in SECTIONS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def show_table(columns):
    """Prints it; columns: what a caller is called there -> its name. Every case has a cell for every adapter."""
    for case in CASES:
        diagnose(f"{case.number} {case.title}")
        for adapter in ADAPTERS:
            seen = {shown: table.get((case.number, adapter, name), "not run") for shown, name in columns.items()}
            first = next(iter(seen.values()))
            if first.startswith("n/a"):
                diagnose(f"    {adapter:<12}{first}")
            elif set(seen.values()) == {first}:
                diagnose(f"    {adapter:<12}{' and '.join(seen)}: {first}")
            else:
                diagnose(f"    {adapter:<12}" + " | ".join(f"{shown}: {text}" for shown, text in seen.items()))


def missing_cells(name):
    return [f"{case.number} {adapter}" for case in CASES for adapter in ADAPTERS if (case.number, adapter, name) not in table]
