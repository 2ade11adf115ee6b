# SPDX-License-Identifier: Apache-2.0
"""The tours of the documents: commands after `$`, then what they print, then [exit status]."""

import re

from harness import REPO

TEXT = (REPO / "README.md").read_text()


def tour(page="README.md"):
    """(command, expected output, expected status) of every console block of a page."""
    for block in re.findall(r"```console\n(.*?)```", (REPO / page).read_text(), re.S):
        for step in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, rest = step.partition("\n")
            status = re.search(r"^\[(\d+)\]\n", rest, re.M)
            yield command, re.sub(r"^\[\d+\]\n", "", rest, flags=re.M), int(status[1]) if status else 0


def fits(output, expected):
    """Whether an output is the expected one. `…` there is any text of a line, and on a line of its own any lines."""
    lines = (r"(?:.*\n)*" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n" for line in expected.splitlines())
    return re.fullmatch("".join(lines), output) is not None


def commands(beginning):
    """The indented lines of README that begin so, without their comments."""
    return [line.strip().partition("  #")[0].strip() for line in TEXT.splitlines() if line.startswith(f"    {beginning}")]
