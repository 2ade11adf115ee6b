#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""The table of attacks on the egress plane: every case through every adapter that it can reach, as the sandbox's
root and as a plain user of it, against origins and a DNS server that record what reaches them. The table is printed
at the end, a cell that cannot exist with the reason. Here the boundary is made by hand around the worker alone, whose
control plane is the test; test_egress_sandbox.py has the same in real sandboxes."""

from egress_box import Box
from egress_table import missing_cells, run_all, show_table
from egress_trial import POLICY, table
from harness import check, main, test


@test
def every_case_by_every_way(c):
    problems = []
    run_all(problems, [(c, lambda world, caller: Box(world, caller, POLICY))])
    check(not problems, "\n".join(problems))


@test
def the_table(c):
    """Every case has a cell for every adapter. Printed with what both callers saw."""
    show_table({"uid": "plain", "root": "root"})
    check(not table or not missing_cells(c.name), f"cells are missing: {missing_cells(c.name)}")


main()
