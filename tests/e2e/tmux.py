# SPDX-License-Identifier: Apache-2.0
"""A program on a screen of tmux: what a person would see.

    with Screen(c, 80, 24, [c.program(), "approvals", "watch"], env) as s:
        s.shows("waiting")
        s.type("q")
"""

import contextlib
import itertools
import shlex
import shutil

from harness import Skip, check, wait_for

numbers = itertools.count()


class Screen:
    def __init__(self, c, columns, rows, argv, env):
        if not shutil.which("tmux"):
            raise Skip("no tmux")
        self.c = c
        self.socket = str(c.dir / f"tmux{next(numbers)}")  # a server that ends may still have the last one
        variables = [f"{name}={value}" for name, value in env.items()]
        # The last line says how it ended, and in which state it left the terminal.
        line = f"{shlex.join(['env', *variables, *map(str, argv)])}; echo status $?; stty -a | grep -o -- '-\\?icanon'; exec cat"
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", columns, "-y", rows, line, env={"TERM": "screen"})

    def tmux(self, *argv, env=None):
        return self.c.execute(["tmux", "-S", self.socket, *argv], env=env).expect(0)

    def text(self):
        return self.tmux("capture-pane", "-p", "-S", "-200").out.decode()

    def lines(self):
        return [line.rstrip() for line in self.text().splitlines()]

    def shows(self, words):
        try:
            wait_for(lambda: words in self.text(), f"{words!r} on the screen")
        except AssertionError as e:
            raise AssertionError(f"{e}\n{self.text()}") from None

    def misses(self, words):
        check(words not in self.text(), f"{words!r} is on the screen:\n{self.text()}")

    def type(self, key):
        self.tmux("send-keys", key)

    def resize(self, columns, rows):
        self.tmux("resize-window", "-x", columns, "-y", rows)

    def pid(self, name):
        panes = self.tmux("list-panes", "-F", "#{pane_pid}").text.split()
        return int(self.c.execute(["pgrep", "-P", panes[0], name]).expect(0).text.split()[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(AssertionError):
            self.tmux("kill-server")
