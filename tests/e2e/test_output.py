#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Output: every byte, in order, at the reader's pace, and an honest end when the reader leaves."""

import hashlib
import os
import signal
import subprocess
import threading
import time

from harness import check, equal, main, test, wait_for

GIB = 1 << 30
MIB = 1 << 20
LINE = b"0123456789abcdef0123456789abcde\n"     # 32 bytes, so that a block repeats
BLOCK = LINE * (MIB // len(LINE))
FLOOD = "yes 0123456789abcdef0123456789abcde"


def digest(stream):
    total, count = hashlib.sha256(), 0
    while data := stream.read(MIB):
        total.update(data)
        count += len(data)
    return count, total.hexdigest()


def resident(pid):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    return 0  # it has just ended


@test(seconds=600)
def a_gigabyte_reaches_a_slow_reader(c):
    process = c.start_sh(f"{FLOOD} | head -c {GIB}", stdin=subprocess.DEVNULL)
    count = most = 0
    while data := process.stdout.read(MIB):
        check(data == BLOCK[:len(data)], f"bytes changed near {count}")
        count += len(data)
        if count % (64 * MIB) == 0:
            time.sleep(0.05)  # this reader is slow
            most = max(most, resident(process.pid))
    equal(count, GIB, "bytes")
    equal(process.wait(20), 0, "exit status")
    check(most < 64 * MIB, f"the CLI grew to {most} bytes")


@test
def a_reader_who_does_not_read_stops_the_writer(c):
    """Back-pressure is the pipe's own: nothing in between swallows megabytes."""
    path = c.write("count", "0")
    script = ("import os, select\nn = 0\nos.set_blocking(1, False)\n"
              "while select.select([], [1], [], 1)[1]:\n n += os.write(1, b'x' * 4096)\n"
              "open('/count', 'w').write(str(n))")
    process = c.start([c.program(), "run", "--mount", f"{path}:/count:rw", "--", "/usr/bin/python3", "-c", script],
                      stdin=subprocess.DEVNULL)
    wait_for(lambda: path.read_text() not in ("", "0"), "the writer is stopped", 60)
    check(int(path.read_text()) < 8 * MIB, f"{path.read_text()} bytes went nowhere")
    equal(len(process.stdout.read()), int(path.read_text()), "bytes that came at last")
    equal(process.wait(20), 0, "exit status")


@test
def a_reader_who_leaves_is_noticed(c):
    """The program gets SIGPIPE, as without a sandbox."""
    process = c.start(["/bin/sh", "-c", '"$0" run -- yes | head -c 1000000 | wc -c; wait', c.program()],
                      stdin=subprocess.DEVNULL)
    equal(process.stdout.read(), b"1000000\n", "bytes")
    equal(process.wait(30), 0, "exit status")


@test
def the_status_tells_of_the_broken_pipe(c):
    process = c.start([c.program(), "run", "--", "yes"], stdin=subprocess.DEVNULL)
    check(process.stdout.read(100000), "no output")
    process.stdout.close()
    equal(process.wait(30), 128 + signal.SIGPIPE, "exit status")


@test
def both_streams_carry_binary_exactly(c):
    data = os.urandom(48 * MIB)
    path = c.write("random", data)
    want = (len(data), hashlib.sha256(data).hexdigest())
    process = c.start_sh("cat /random & cat /random >&2; wait", "-q", "--mount", f"{path}:/random", stdin=subprocess.DEVNULL)
    got = {}
    readers = [threading.Thread(target=lambda name=name: got.update({name: digest(getattr(process, name))}))
               for name in ("stdout", "stderr")]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(120)
    equal(got, {"stdout": want, "stderr": want}, "streams")
    equal(process.wait(20), 0, "exit status")


@test
def a_full_pipe_on_one_stream_does_not_stop_the_other(c):
    process = c.start_sh(f"({FLOOD} | head -c {8 * MIB}) >&2 & echo first; wait; echo last", "-q",
                         stdin=subprocess.DEVNULL)
    equal(process.stdout.readline(), b"first\n", "stdout, while nobody reads stderr")
    equal(digest(process.stderr)[0], 8 * MIB, "bytes on stderr")
    equal(process.stdout.read(), b"last\n", "stdout")
    equal(process.wait(20), 0, "exit status")


@test
def input_and_output_at_once(c):
    data = os.urandom(32 * MIB)
    result = c.run("--", "cat", stdin=data, seconds=120).expect(0)
    check(result.out == data, f"{len(result.out)} bytes came back, or others")


@test
def much_input_that_nobody_reads_does_not_hang(c):
    c.run("--", "true", stdin=b"x" * (16 * MIB)).expect(0)


@test
def the_last_words_are_not_lost(c):
    for _ in range(20):
        result = c.sh("head -c 300000 /dev/zero; echo end >&2", "-q").expect(0, err=b"end\n")
        equal(len(result.out), 300000, "bytes")


@test
def a_stream_that_cannot_be_written_is_an_error(c):
    """Never a made-up success."""
    with open("/dev/full", "wb") as full:
        result = c.run("--", "echo", "lost", stdout=full)
    check(result.code != 0, f"exit status 0 though the output was lost\n{result}")
    check("sandboxer: " in result.notes, f"stderr says nothing\n{result}")


@test
def closed_streams_are_no_trap(c):
    """Descriptors 0 to 2 may be closed in the caller: nothing else may end up in their place."""
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        process = c.start(["/bin/sh", "-c", f'"$0" run -- sh -c "echo out; echo err >&2" {closed}; echo status $?',
                           c.program()], stdin=subprocess.DEVNULL)
        out, err = process.communicate(timeout=30)
        check(b"status " in out, f"with {closed}: {out!r} {err!r}")
        check(b"out" in out or ">&-" in closed, f"with {closed}: {out!r} {err!r}")


@test
def a_file_as_stdout_keeps_everything(c):
    path = c.write("out")
    with open(path, "ab") as out:
        out.write(b"before\n")
        out.flush()
        c.sh(f"{FLOOD} | head -c {4 * MIB}", stdout=out).expect(0)
    check(path.read_bytes() == b"before\n" + BLOCK * 4, f"the file differs, it has {path.stat().st_size} bytes")


@test
def stdout_and_stderr_may_be_one_file(c):
    result = c.sh("echo one; echo two >&2; echo three", "-q", stderr=subprocess.STDOUT).expect(0)
    equal(sorted(result.out.split()), [b"one", b"three", b"two"], "lines")


main()
