#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Many runs: one after the other and at once. Nothing accumulates, nothing is mixed up."""

from harness import equal, main, test

SEQUENTIAL, PARALLEL, ROUNDS = 300, 20, 3


@test(seconds=600)
def one_after_the_other(c):
    for i in range(SEQUENTIAL):
        c.run("--", "echo", i).expect(0, out=f"{i}\n".encode())


@test(seconds=600)
def all_at_once(c):
    for _ in range(ROUNDS):
        started = [c.start_sh(f"read x; echo {i} $x > ~/f; cat ~/f; exit {i}", "-q") for i in range(PARALLEL)]
        for i, process in enumerate(started):  # all are alive before the first may go on
            process.stdin.write(f"word{i}\n".encode())
            process.stdin.flush()
        for i, process in enumerate(started):
            out, err = process.communicate(timeout=60)
            equal((process.returncode, out, err), (i, f"{i} word{i}\n".encode(), b""), f"run {i}")


@test
def one_ends_and_the_others_do_not_notice(c):
    started = [c.start_sh("echo up; read x; echo $x") for _ in range(6)]
    for process in started:
        equal(process.stdout.readline(), b"up\n", "first line")
    started[0].kill()
    started[1].terminate()
    started[2].stdin.close()
    for process in started[:3]:
        process.wait(20)
    for process in started[3:]:
        out, _ = process.communicate(b"still here\n", timeout=30)
        equal((process.returncode, out), (0, b"still here\n"), "a neighbour")


main()
