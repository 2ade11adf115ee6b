# SPDX-License-Identifier: Apache-2.0
"""README's tour: commands after `$`, then what they print, then [exit status]."""

import re

from harness import REPO

TEXT = (REPO / "README.md").read_text()


def tour():
    """(command, expected output, expected status) of every console block."""
    for block in re.findall(r"```console\n(.*?)```", TEXT, re.S):
        for step in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, rest = step.partition("\n")
            status = re.search(r"^\[(\d+)\]\n", rest, re.M)
            yield command, re.sub(r"^\[\d+\]\n", "", rest, flags=re.M), int(status[1]) if status else 0


def commands(beginning):
    """The indented lines of README that begin so, without their comments."""
    return [line.strip().partition("  #")[0].strip() for line in TEXT.splitlines() if line.startswith(f"    {beginning}")]
