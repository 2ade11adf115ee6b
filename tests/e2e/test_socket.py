#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""The daemon's unix socket: nothing but a socket is ever replaced, and only our own is removed."""

import os
import socket
import stat

from daemon import Daemon
from harness import check, equal, main, test


def refused(d, *words):
    check(not d.spawn(), "a daemon serves on a path that is taken")
    check(d.wait() != 0, "a daemon that cannot serve ends with an error")
    text = d.log_path.read_text()
    for word in words:
        check(word in text, f"'{word}' is missing: {text[-600:]}")


def names(d):
    """What is beside the socket's path."""
    return sorted(name for name in os.listdir(d.dir) if name.startswith("sock"))


@test()
def a_file_in_its_place_is_kept(c):
    d = Daemon(c)
    d.socket.write_text("precious")
    refused(d, str(d.socket), "not a socket", "socket.path")
    equal(d.socket.read_text(), "precious", "the file")
    equal(names(d), ["sock"], "nothing is left beside it")


@test()
def a_directory_a_link_or_a_fifo_in_its_place_is_kept(c):
    d = Daemon(c)
    target = d.dir / "target"
    target.write_text("precious")
    for make, word in ((d.socket.mkdir, "a directory"), (lambda: d.socket.symlink_to(target), "a symbolic link"), (lambda: os.mkfifo(d.socket), "FIFO")):
        make()
        before = os.lstat(d.socket)
        refused(d, word)
        after = os.lstat(d.socket)
        equal((after.st_ino, after.st_mode), (before.st_ino, before.st_mode), f"what is there ({word})")
        equal(names(d), ["sock"], "nothing is left beside it")
        if stat.S_ISDIR(before.st_mode):
            d.socket.rmdir()
        else:
            d.socket.unlink()
    equal(target.read_text(), "precious", "the file that the link leads to")


@test()
def a_file_in_the_place_of_its_lock_is_kept(c):
    """A socket `poetry` has the lock `poetry.lock`, which may be somebody's file."""
    d = Daemon(c)
    lock, target = d.dir / "sock.lock", d.dir / "target"
    target.write_text("precious")
    for make in (lambda: lock.write_text("precious"), lambda: lock.symlink_to(target), lambda: os.mkfifo(lock), lock.mkdir):
        make()
        before = os.lstat(lock)
        refused(d, str(lock), "socket.path", "is not used")
        after = os.lstat(lock)
        equal((after.st_ino, after.st_mode, after.st_size), (before.st_ino, before.st_mode, before.st_size), "what is there")
        equal(names(d), ["sock.lock"], "what is beside it")
        d.log_path.unlink()
        if stat.S_ISDIR(before.st_mode):
            lock.rmdir()
        else:
            lock.unlink()
    equal(target.read_text(), "precious", "the file that the link leads to")
    lock.write_text("")  # as a daemon that was killed leaves it
    c.own(lock)
    with d:
        d.api.get("/version").expect(200)
    equal(names(d), [], "what a daemon leaves of its socket")


@test(only="root", because="a file of another user is needed")
def a_lock_of_another_user_is_kept(c):
    d = Daemon(c)
    lock = d.dir / "sock.lock"
    lock.write_text("")
    os.chown(lock, 4711, 4711)
    refused(d, str(lock), "is not an empty file of uid 0")
    check(lock.exists(), "it is removed")
    lock.unlink()


@test()
def a_socket_of_another_program_is_kept(c):
    d = Daemon(c)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(d.socket))
        other.listen()
        inode = os.stat(d.socket).st_ino
        refused(d, "listens on", str(d.socket))
        equal(os.stat(d.socket).st_ino, inode, "the socket")
        equal(names(d), ["sock"], "nothing is left beside it")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(d.socket))


@test()
def a_socket_on_which_nobody_answers_is_replaced(c):
    d = Daemon(c)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(d.socket))
    c.own(d.socket)
    with d:
        d.api.get("/version").expect(200)
    equal(names(d), [], "what a daemon leaves of its socket")


@test()
def what_took_its_place_meanwhile_is_kept(c):
    d = Daemon(c)
    with d:
        d.api.get("/version").expect(200)
        d.socket.unlink()
        d.socket.write_text("precious")
        d.stop()
        equal(d.socket.read_text(), "precious", "the file")
        d.socket.unlink()
        d.start()


@test()
def a_start_that_fails_leaves_no_socket(c):
    d = Daemon(c, config="listen: 127.0.0.1:1\n")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        d.config.write_text(d.config.read_text().replace("127.0.0.1:1\n", f"127.0.0.1:{taken.getsockname()[1]}\n"))
        refused(d, "listening on")
    equal(names(d), [], "what is left of the socket")


main()
