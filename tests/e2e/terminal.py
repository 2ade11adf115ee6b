# SPDX-License-Identifier: Apache-2.0
"""A run on a terminal of its own."""

import contextlib
import fcntl
import os
import pty
import select
import struct
import termios
import time

from harness import Failure, check


LATE_SECONDS = 5  # what was written may come to us only after its writer has ended


class Terminal:
    """`sandboxer run -t ARGV`, or another verb, as the leader of a session; `outer` is the person's side."""

    def __init__(self, c, *argv, size=(24, 80), verb=("run", "-q", "-t"), env=None):
        self.outer, self.inner = pty.openpty()
        self.resize(*size)
        if os.getuid() == 0:
            os.fchown(self.inner, c.uid, -1)
        self.modes = termios.tcgetattr(self.inner)
        self.before = self.seen = b""
        # setsid -c makes our terminal the controlling one; it execs, so its pid is the CLI's.
        self.process = c.start(["setsid", "-c", c.program(), *verb, *argv], stdin=self.inner,
                               stdout=self.inner, stderr=self.inner, env={"TERM": "vt100", **(env or {})})

    def resize(self, rows, columns):
        fcntl.ioctl(self.outer, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        if select.select([self.outer], [], [], seconds)[0]:
            with contextlib.suppress(OSError):
                self.seen += os.read(self.outer, 65536)

    def expect(self, words, seconds=20):
        """Waits for words; what came before them is in `before`, what came after in `seen`."""
        deadline = time.monotonic() + seconds
        while words not in self.seen:
            check(time.monotonic() < deadline, f"{words!r} did not appear, but {self.seen!r}")
            before, ended = self.seen, self.process.poll() is not None
            self.read(LATE_SECONDS if ended else 0.05)
            check(self.seen != before or not ended, f"ended with {self.process.returncode}; seen {self.seen!r}")
        self.before, self.seen = self.seen.split(words, 1)

    def send(self, data):
        os.write(self.outer, data)

    def end(self, seconds=20):
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            if time.monotonic() > deadline:
                raise Failure(f"does not end; seen {self.seen!r}")
            self.read(0.02)
        code = self.process.returncode
        return code if code >= 0 else 128 - code

    def restored(self):
        return termios.tcgetattr(self.inner) == self.modes

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.inner)
        os.close(self.outer)
