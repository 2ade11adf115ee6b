#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""The daemon's own requests are made by a process without store and rights: sandboxer-fetch."""

import base64
import contextlib
import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path

from daemon import Daemon
from harness import check, equal, main, processes, test, wait_for
from registry import Image, Registry

PASSWORD = "correct-horse-battery-staple"
# What a process that was taken over may send: each ends it, and the daemon goes on.
LIES = {
    "garbage": "b'garbage' * 10",
    "a message that is too long": "b'x' * 100000",
    "a message about no request": "head(64, 40, 77) + struct.pack('<IIII', 200, 0, 0, 0)",
    "another version": "head(67, 24, 0, version=9)",
}
LIAR = """#!/usr/bin/env python3
import socket, struct
def head(kind, size, id, version=1):
    return struct.pack('<IHHIIQ', 0x54454653, version, kind, size, 0, id)
s = socket.socket(fileno=3)
s.send({lie})
while s.recv(1 << 20):
    pass
"""


def settings(*registries):
    entries = ", ".join(f'{{host: "{r.host}", http: true, addresses: ["127.0.0.1"]}}' for r in registries)
    return f"images: {{free_min: 0, registries: [{entries}]}}"


def pull(d, ref, **more):
    return d.api.post("/v1/images/pull", {"ref": ref, **more})


def status(pid):
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def fetchers(d):
    return d.parts("sandboxer-fetch")


def libraries(program):
    return subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout


@test
def the_control_plane_has_no_http_client(c):
    check("libcurl" not in libraries(c.program("sandboxerd")), "sandboxerd is linked with libcurl")
    check("libcurl" in libraries(c.program("sandboxer-fetch")), "sandboxer-fetch is not linked with libcurl")


@test
def it_is_started_when_it_is_needed_and_has_nothing(c):
    with Registry() as r, Daemon(c, config=settings(r)) as d:
        r.put("latest", Image())
        d.works(d.create())
        equal(fetchers(d), [], "fetch processes of a daemon that made no request")
        pull(d, f"{r.host}/web").expect(201)
        pid, = fetchers(d)
        got = status(pid)
        equal((got["Seccomp"], got["NoNewPrivs"], int(got["CapEff"], 16), int(got["CapPrm"], 16)), ("2", "1", 0, 0),
              "seccomp, no_new_privs and capabilities")
        if c.root:
            uids = {got["Uid"].split()[0], status(d.plane)["Uid"].split()[0], "0"}
            equal(len(uids), 3, f"users: {uids}")
            equal(got["Groups"], "", "its groups")
        equal(os.stat(f"/proc/{pid}/environ").st_uid, 0, "owner of /proc/PID/environ: it is not dumpable")
        limits = Path(f"/proc/{pid}/limits").read_text(encoding="ascii")
        equal(next(x for x in limits.splitlines() if x.startswith("Max core file size")).split()[4:6], ["0", "0"], "core files")
        equal(Path(f"/proc/{pid}/cmdline").read_bytes(), b"sandboxer-fetch\0", "its arguments")
        equal(Path(f"/proc/{pid}/environ").read_bytes(), b"", "its environment")
        files = [os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")]
        check(not any(str(d.state) in f for f in files), f"it has files of the daemon: {files}")
        equal(fetchers(d), [pid], "it is still the same")


@test
def it_keeps_no_secret(c):
    with Registry() as r, Daemon(c, config=settings(r)) as d:
        r.put("latest", Image())
        r.basic = "Basic " + base64.b64encode(f"maker:{PASSWORD}".encode()).decode()
        pull(d, f"{r.host}/web", credentials=f"maker:{PASSWORD}").expect(201)
        pid, = fetchers(d)
        held = memory(pid)
        check(b"sandboxer-fetch" in held, "its memory can be read")
        check(PASSWORD.encode() not in held and r.basic[6:].encode() not in held, "a password is kept after its request")
        check(PASSWORD not in d.log_path.read_text(errors="replace"), "a password is in the log")


def memory(pid):
    """What it can write to."""
    held = b""
    with open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            place, rights = line.split()[:2]
            first, last = (int(x, 16) for x in place.split("-"))
            if "rw" in rights:
                with contextlib.suppress(OSError):
                    mem.seek(first)
                    held += mem.read(last - first)
    return held


@test
def a_pull_outlives_its_process(c):
    with Registry() as r, Daemon(c, config=settings(r)) as d:
        image = r.put("latest", Image())
        slow = r.slow[image.layers[0]] = threading.Event()
        got = []
        thread = threading.Thread(target=lambda: got.append(pull(d, f"{r.host}/web")))
        thread.start()
        wait_for(lambda: r.paths(image.layers[0]) and fetchers(d), "the layer is asked for")
        os.kill(fetchers(d)[0], signal.SIGKILL)
        wait_for(lambda: len(r.paths(image.layers[0])) > 1, "the layer is asked for again")
        slow.set()
        thread.join()
        got[0].expect(201)
        check("fetch.process.died" in d.log_path.read_text(), "nobody says that it died")
        check(b"sandboxer_fetch_process_deaths_total 1\n" in d.api.get("/metrics").expect(200).data, "it is not counted")
        d.works(d.create())


@test
def it_ends_with_the_control_plane(c):
    with Registry() as r, Daemon(c, config=settings(r)) as d:
        r.put("latest", Image())
        pull(d, f"{r.host}/web").expect(201)
        pid, = fetchers(d)
        d.kill(d.plane)
        wait_for(lambda: pid not in processes(), "the fetch process ends")
        d.start()
        equal(fetchers(d), [], "fetch processes of the next daemon")


@test
def one_that_lies_is_ended_and_the_daemon_goes_on(c):
    good = c.programs
    lying = c.mkdir(c.dir / "bin")
    for name in os.listdir(good):
        if name.startswith("sandboxer") and (good / name).is_file():
            shutil.copy(good / name, lying / name)
    if (good / "profiles").is_dir():
        shutil.copytree(good / "profiles", lying / "profiles")
    for what, lie in LIES.items():
        (lying / "sandboxer-fetch").unlink()
        c.write("bin/sandboxer-fetch", LIAR.format(lie=lie), 0o755)
        c.programs = lying
        try:
            with Registry() as r, Daemon(c, what.replace(" ", "-"), config=settings(r)) as d:
                r.put("latest", Image())
                got = pull(d, f"{r.host}/web").expect(502)
                check("sandboxer-fetch" in str(got), f"{what}: {got}")
                equal(r.seen, [], f"{what}: what the registry saw")
                d.works(d.create())
                wait_for(lambda: not fetchers(d), f"{what}: it is ended")
                shutil.copy(good / "sandboxer-fetch", lying / "new")
                os.rename(lying / "new", lying / "sandboxer-fetch")
                pull(d, f"{r.host}/web").expect(201)
        finally:
            c.programs = good


@test
def one_that_is_missing_is_an_error_that_says_so(c):
    good = c.programs
    poor = c.mkdir(c.dir / "bin")
    for name in os.listdir(good):
        if name.startswith("sandboxer") and name != "sandboxer-fetch" and (good / name).is_file():
            shutil.copy(good / name, poor / name)
    c.programs = poor
    try:
        with Registry() as r, Daemon(c, config=settings(r)) as d:
            r.put("latest", Image())
            got = pull(d, f"{r.host}/web").expect(502)
            check("the installation is incomplete" in str(got), f"{got}")
            d.works(d.create())
    finally:
        c.programs = good


main()
