# SPDX-License-Identifier: Apache-2.0
"""A verb in a terminal that tmux emulates: its screen is what a person sees."""

import itertools
import shlex

from harness import Failure, check, wait_for


NUMBERS = itertools.count()


class Screen:
    """`sandboxer ARGV` of a client, in a terminal of so many columns and rows. A shell waits for it and notes its status:
    tmux loses the status of some children."""

    def __init__(self, cli, *argv, columns=80, rows=24, before="exec", **env):
        self.c, self.socket = cli.c, cli.c.dir / f"tmux-{next(NUMBERS)}" # a server that was killed leaves its socket later
        self.notes = {name: self.socket.with_suffix(f".{name}") for name in ("pid", "status")}
        words = shlex.join((cli.c.program(), *argv))
        inner = f"echo $$ >{self.notes['pid']}; {before} {words}"
        program = f"trap : INT HUP; sh -c {shlex.quote(inner)}; echo $? >{self.notes['status']}"
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows), "sleep 100000", env={**cli.env, **env})
        for option in (("remain-on-exit", "on"), ("status", "off")):
            self.tmux("set-option", "-g", *option)
        self.tmux("respawn-pane", "-k", program)

    def tmux(self, *argv, **options):
        return self.c.execute(["tmux", "-S", self.socket, *argv], **options).expect(0).text

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def resize(self, columns, rows):
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    @property
    def lines(self):
        return self.tmux("capture-pane", "-p").splitlines()

    def field(self, name):
        return self.tmux("display-message", "-p", f"#{{{name}}}").strip()

    @property
    def pid(self):
        return int(self.noted("pid"))

    def noted(self, name):
        wait_for(lambda: self.notes[name].exists() and self.notes[name].read_text().endswith("\n"), f"the {name} of the program")
        return self.notes[name].read_text()

    def expect(self, *words):
        """Waits until all of them are on the screen."""
        return self.when(lambda shown: all(w in shown for w in words), f"{words} on the screen")

    def gone(self, *words):
        """Waits until none of them is."""
        return self.when(lambda shown: not any(w in shown for w in words), f"a screen without {words}")

    def when(self, condition, what):
        try:
            wait_for(lambda: condition("\n".join(self.lines)), what)
        except Failure as e:
            raise Failure(f"{e}\n" + "\n".join(self.lines)) from None
        return self.lines

    def end(self):
        """Waits for the end of the program: its exit status, 128 and more for a signal."""
        status = int(self.noted("status"))
        wait_for(lambda: self.field("pane_dead") == "1", "the end")
        check(self.field("alternate_on") == "0", "the alternate screen was not left")
        return status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tmux("kill-server")
