# SPDX-License-Identifier: Apache-2.0
"""bench/RESULTS.md: one section for each script of this directory, between markers that name the script.

A script replaces its own section and leaves the others as they are. `notes` is written by hand: causes of missed targets
and of rows that became worse."""
import pathlib

RESULTS = pathlib.Path(__file__).resolve().parent / "RESULTS.md"
ORDER = ("notes", "run", "daemon", "storage", "egress", "e2b")


def markers(script):
    author = "hand" if script == "notes" else f"bench/{script}"
    return f"<!-- {script}: begin. Written by {author}. -->", f"<!-- {script}: end -->"


def section(script, path=RESULTS):
    """The text between the markers of `script`; empty if there is none."""
    begin, end = markers(script)
    text = path.read_text() if path.exists() else ""
    return text.split(begin, 1)[1].split(end, 1)[0].strip("\n") if begin in text and end in text else ""


def write_section(script, text, path=RESULTS):
    assert script in ORDER
    sections = {name: section(name, path) for name in ORDER} | {script: text.strip("\n")}
    blocks = ["\n".join((begin, sections[name], end)) for name in ORDER if sections[name] for begin, end in [markers(name)]]
    path.write_text("# Benchmarks\n\nWritten by `./dev bench`. A ratio is the claim; a time is only context.\n\n"
                    + "\n\n".join(blocks) + "\n")
