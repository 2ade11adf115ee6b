#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images: from archives and registries, good ones and bad ones, and sandboxes made of them."""

import base64
import contextlib
import gzip
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import tarfile
import threading
import urllib.parse
from pathlib import Path

from daemon import Cut, Daemon
from harness import Skip, check, equal, main, test, wait_for
from images import archive, busybox, member
from registry import Image, Registry, base_layer, digest, file, folder, index, layer, tar_of
from tcp import free_port
from terminal import Terminal
from volumes import volume

# What the image has there, and what each sandbox has of its own.
ETC = "hostname\nhosts\nmachine-id\npasswd\nresolv.conf"


def settings(*registries, more="free_min: 0"):
    entries = ", ".join(f'{{host: "{r if isinstance(r, str) else r.host}", http: true, addresses: ["127.0.0.1"]}}'
                        for r in registries)
    return f"images: {{{more}, registries: [{entries}]}}"


def cli(d, *argv, **options):
    env = {"SANDBOXER_STATE": str(d.state), "SANDBOXER_SOCKET": str(d.socket), **options.pop("env", {})}
    return d.c.cli(*argv, env=env, **options)


def image_import(d, data, name="test:1", **query):
    query = urllib.parse.urlencode({"name": name, **query} if name else query)
    return d.api.request("POST", f"/v1/images/import?{query}", data, {"Content-Type": "application/x-tar"})


def pull(d, ref, **more):
    return d.api.post("/v1/images/pull", {"ref": ref, **more})


def refs(d):
    return [i["ref"] for i in d.api.get("/v1/images").expect(200).json["images"]]


def remove(d, ref):
    return d.api.delete("/v1/images?" + urllib.parse.urlencode({"ref": ref}))


def inspect(d, ref):
    return d.api.get("/v1/images/inspect?" + urllib.parse.urlencode({"ref": ref}))


def stored(d):
    """Names of the layers on disk; nothing is unfinished, or it is swept in a moment."""
    wait_for(lambda: not os.listdir(d.state / "storage/tmp"), "nothing is unfinished")
    return sorted(os.listdir(d.state / "storage/layers"))


def listens(d):
    with socket.socket(socket.AF_UNIX) as s:
        return s.connect_ex(str(d.socket)) == 0


def restart(d):
    """After a kill, if it is still there; a thread that waits for the disk keeps the socket for a moment."""
    if d.alive:
        d.kill()
    else:
        d.wait()
    wait_for(lambda: not listens(d), "nobody listens")
    d.start()


def says(d, box, script):
    answer = d.api.run(box, ["/bin/sh", "-c", script]).expect(200).json
    equal(answer["exit_code"], 0, f"exit status of {script!r}: {answer}")
    return answer["stdout"].strip()


# ---- archives -----------------------------------------------------------------------------------------


@test
def a_root_file_system_becomes_an_image(c):
    path = archive(c, compress="gz")
    with Daemon(c, config=settings()) as d:
        cli(d, "image", "import", path, "--name", "box:1").expect(0, out=b"box:1 imported\n")
        equal(cli(d, "image", "list", "-q").expect(0).text, "box:1", "the list")
        box = cli(d, "create", "--image", "box:1", "-q").expect(0).text
        equal(says(d, box, "cat /etc/marker"), "from the image", "what the image holds")
        says(d, box, "echo new >/etc/marker && cat /etc/marker")
        remove(d, "box:1").expect(409, code="conflict")
        check(box in cli(d, "image", "remove", "box:1").expect(4).notes, "the user of an image is named")
        other = d.create(image="box:1")
        equal(says(d, other, "cat /etc/marker"), "from the image", "what another one wrote")
        cli(d, "image", "verify", "box:1").expect(0)
        d.destroy(box)
        d.destroy(other)
        cli(d, "image", "remove", "box:1").expect(0)
        equal((refs(d), stored(d)), ([], []), "what is left")


@test
def an_image_need_not_name_its_users(c):
    """As those that hold a program and nothing else."""
    alone = layer(folder("bin"), file("bin/busybox", busybox().read_bytes(), 0o755), member("bin/sh", kind=tarfile.SYMTYPE, link="busybox"))
    with Daemon(c, config=settings()) as d:
        for name, config in (("alone:1", {"Env": []}), ("alone:2", {"User": "root"})):
            image_import(d, tar_of(Image(layers=[alone], config=config).saved(name)), name=name).expect(201)
            equal(says(d, d.create(image=name), "busybox id -u"), "0", f"who runs in {name}")


@test
def every_kind_of_archive(c):
    image = Image()
    tree = c.mkdir(c.dir / "layout")
    for name, data in image.layout("v1").items():
        c.write(f"layout/{name}", data)
    ways = {
        "layout:dir": [tree],
        "layout:tar": [c.write("layout.tar", tar_of(image.layout()))],
        "layout:zstd": [c.write("layout.tar.zst", subprocess.run(["zstd", "-qc"], input=tar_of(image.layout()),
                                                               stdout=subprocess.PIPE, check=True).stdout)],
        "saved:1": [c.write("saved.tar", tar_of(image.saved("saved:1")))],
        "stdin:1": ["-"],
    }
    with Daemon(c, config=settings()) as d:
        for name, source in ways.items():
            stdin = gzip.compress(tar_of(image.saved("other:1"))) if source == ["-"] else b""
            cli(d, "image", "import", *source, "--name", name, stdin=stdin).expect(0)
            equal(inspect(d, name).expect(200).json["config"], image.config, f"the configuration of {name}")
        equal(image_import(d, tar_of(image.saved("called:7")), name="").expect(201).json["ref"], "called:7",
              "the name that the archive has")
        equal(len(stored(d)), 2, "layers: they are all the same")
        box = d.create(image="saved:1")
        equal(says(d, box, "echo $COLOUR; pwd; ls /etc /srv"), f"blue\n/srv\n/etc:\n{ETC}\n\n/srv:\nnew",
              "what is inside")
        d.destroy(box)
        for name in refs(d):
            remove(d, name).expect(200)
        equal(stored(d), [], "what is left")


def several(*images):
    """As the files of `docker save` of several: (names, image)."""
    files, manifest = {}, []
    for i, (names, image) in enumerate(images):
        parts = image.saved("")
        manifest.append({**json.loads(parts.pop("manifest.json"))[0], "RepoTags": names, "Config": f"{i}.json"})
        files.update({f"{i}.json": parts.pop("config.json"), **parts})
    return {**files, "manifest.json": json.dumps(manifest).encode()}


@test
def an_archive_of_several_images(c):
    one, two, three = (Image([base_layer(), layer(file("etc/which", which))], config={"Env": [f"N={which}"]}) for which in ("one", "two", "three"))
    path = c.write("several.tar", tar_of(several((["one:1", "one:latest"], one), (["host.example/two:2"], two), (["three:3"], three))))
    everything = ["one:1", "one:latest", "host.example/two:2", "three:3"]
    with Daemon(c, config=settings()) as d:
        equal(cli(d, "image", "import", path).expect(0).text.splitlines(), [f"{r} imported" for r in everything], "what is said")
        equal(sorted(refs(d)), sorted(everything), "what is there")
        equal(len(stored(d)), 4, "layers")
        for ref, image, says_ in (("one:latest", one, "one"), ("host.example/two:2", two, "two")):
            equal(inspect(d, ref).expect(200).json["config"], image.config, f"the configuration of {ref}")
            equal(says(d, d.create(image=ref), "cat /etc/which; echo $N"), f"{says_}{says_}", ref)
        answer = json.loads(cli(d, "image", "import", path, "-o", "json").expect(0).out)
        equal((answer["ref"], answer["also"]), (everything[0], everything[1:]), "as JSON")
        equal(cli(d, "image", "import", path, "-q").expect(0).text.splitlines(), everything, "quiet")
    with Daemon(c, name="other", config=settings()) as d:
        equal(cli(d, "image", "import", path, "--name", "host.example/two:2").expect(0).text, "host.example/two:2 imported", "one of them")
        equal(refs(d), ["host.example/two:2"], "what is there")
        check("one:1" in cli(d, "image", "import", path, "--name", "four:4").expect(3).notes, "one that is not in it")
        # What came before one that is broken is there, and is said to be.
        bad = several((["one:1"], one), (["bad:1"], Image([b"x" * 2048])), (["three:3"], three))
        answer = image_import(d, tar_of(bad), name="").expect(400)
        check("bad:1" in answer.json["detail"], f"{answer}")
        equal(sorted(refs(d)), ["host.example/two:2", "one:1"], "what is there")
        # A layout, as skopeo fills it.
        layout = {**one.layout("v1"), **two.layout("v2")}
        layout["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [
            json.loads(x.layout(name)["index.json"])["manifests"][0] for x, name in ((one, "v1"), (two, "v2"))]}).encode()
        equal(cli(d, "image", "import", c.write("layout.tar", tar_of(layout)), "-q").expect(0).text.split(), ["v1:latest", "v2:latest"], "a layout")
        equal(inspect(d, "v2").expect(200).json["config"], two.config, "the configuration of the second")
        equal(image_import(d, tar_of(layout), name="v2").expect(201).json["ref"], "v2:latest", "one of a layout")
        check("v1" in image_import(d, tar_of(layout), name="v3").expect(404).json["detail"], "one that is not in it")
        nameless = several((["one:1"], one), ([], two))
        check("name" in image_import(d, tar_of(nameless), name="").expect(400).json["detail"], "one without a name")


@test
def a_layer_that_comes_twice(c):
    # The upper one brings back what was removed in between. Docker saves it once, and a link for the other.
    twice = layer(file("etc/twice", "x"))
    image = Image([base_layer(), twice, layer(file("etc/.wh.twice", ""), file("etc/between", "x")), twice])
    names = ["base", "first", "between", "second"]
    files = [file(f"{n}/layer.tar", data) for n, data in zip(names, image.plain) if n != "second"]
    files += [file("config.json", json.dumps(image.config).encode()), file("manifest.json", json.dumps([
        {"Config": "config.json", "RepoTags": ["links:1"], "Layers": [f"{n}/layer.tar" for n in names]}]).encode())]
    link = lambda target: member("second/layer.tar", kind=tarfile.SYMTYPE, link=target)
    etc = "\n".join(sorted([*ETC.split(), "between", "gone", "twice"]))
    with Registry() as r, Daemon(c, config=settings(r)) as d:
        image_import(d, layer(link("../first/layer.tar"), *files), name="").expect(201)
        equal(says(d, d.create(image="links:1"), "ls /etc"), etc, "what is inside")
        for target in ("../../first/layer.tar", "/first/layer.tar", "/etc/passwd", "layer.tar", "../none/layer.tar"):
            got = image_import(d, layer(link(target), *files), name="bad:1")
            check(got.status == 400 and "second/layer.tar" in got.json["detail"], f"{target}: {got}")
        r.put("latest", image)
        pull(d, f"{r.host}/web").expect(201)
        cli(d, "image", "verify", f"{r.host}/web").expect(0)
        box = d.create(image=f"{r.host}/web")
        d.api.post(f"/v1/sandboxes/{box}/commit", {"image": "kept:1"}).expect(201)
        restart(d)
        equal(says(d, d.create(image="kept:1"), "ls /etc"), etc, "what is inside of a commit, after a restart")


def with_history(image, size):
    """The same, with a configuration of that many bytes."""
    image.config["history"] = [{"created_by": "x" * (size - len(json.dumps(image.config)) - 64)}]
    return image


def change_store(d, statement, rows):
    """While nobody uses it."""
    with contextlib.closing(sqlite3.connect(d.state / "daemon/sandboxer.db")) as db:
        db.executemany(statement, rows)
        db.commit()


@test
def any_number_of_images_can_be_started_with(c):
    """Though an archive of some kilobytes can name its configuration, which may be large, many times."""
    names = [f"many:{i}" for i in range(144)]
    parts = [(names[i::3], with_history(Image([layer(file("which", str(i)))]), 1 << 20)) for i in range(3)]
    with Daemon(c, config=settings()) as d:
        image_import(d, tar_of(several(*parts)), name="").expect(201)
        d.stop()
        change_store(d, "INSERT INTO layers VALUES (?, 'sha256:1', 1, 1, 1)", [(f"sha256-{i:064x}",) for i in range(20_000)])
        d.start()
        equal(sorted(refs(d)), sorted(names), "images after a restart")
        cli(d, "image", "verify", names[-1]).expect(0)
        huge = with_history(Image(), (1 << 20) + 4096)
        check("configuration" in image_import(d, tar_of(huge.saved("huge:1"))).expect(413).json["detail"], "one that is too large")


@test
def an_image_says_how_it_is_run(c):
    d = Daemon(c, config=settings())
    c.write("daemon/profiles/profile.run.yaml", "id: profile.run\nversion: 1\n")
    with d:
        image_import(d, tar_of(Image().saved("run:1"))).expect(201)
        cli(d, "run", "--image", "test:1").expect(0, out=b"blue in /srv\n")
        cli(d, "run", "--image", "test:1", "--", "/bin/sh", "-c", "pwd; exit 3").expect(3, out=b"/srv\n")
        cli(d, "run", "--image", "test:1", "-w", "/etc", "-e", "COLOUR=red", "--", "/bin/sh", "-c",
            "echo $COLOUR $(pwd)").expect(0, out=b"red /etc\n")
        cli(d, "run", "--image", "absent:1").expect(125, says="no absent:1 here")
        # the limits, users and hostnames of a create
        cli(d, "run", "--image", "test:1", "--memory", "64M", "--pids", "20", "--disk", "8M", "--hostname", "box.test", "--cap", "CHOWN", "--",
            "/bin/sh", "-c", "cat /proc/sys/kernel/hostname; dd if=/dev/zero of=/big bs=1M count=16 2>/dev/null || echo full").expect(
                0, out=b"box.test\nfull\n")
        cli(d, "run", "--image", "test:1", "--memory", "1K", "--", "true").expect(125, says="memory_mb")
        cli(d, "run", "--image", "test:1", "--mount", "/usr/lib:/mnt", "--", "/bin/sh", "-c", "test -e /mnt/os-release && ! echo x >/mnt/x").expect(0)
        cli(d, "run", "--image", "test:1", "--strict", "--", "true").expect(125, says="--strict cannot be used with the stored image")
        d.api.post("/v1/sandboxes", {"image": "absent:1"}).expect(404, code="not_found")
        d.api.post("/v1/sandboxes", {"image": "No Such"}).expect(400, code="invalid")
        image_import(d, tar_of(Image(config={"User": "maker"}).saved("run:1")), "user:1").expect(201)
        if c.root:
            cli(d, "run", "--image", "user:1", "--", "/bin/id", "-u").expect(0, out=b"1234\n")


@test
def a_profile_names_an_image(c):
    d = Daemon(c, config=settings())
    c.write("daemon/profiles/profile.imaged.yaml", "id: profile.imaged\nversion: 1\nimage: test:1\n")
    with d:
        d.api.post("/v1/sandboxes", {"profile": "profile.imaged"}).expect(404, code="not_found")
        image_import(d, tar_of(Image().saved("x:1"))).expect(201)
        box = d.create(profile="profile.imaged")
        equal(says(d, box, "cat /srv/new"), "upper", "what is inside")


def marked(name, *attributes, data="x"):
    info, data = file(name, data) if data else folder(name)
    info.pax_headers = {f"SCHILY.xattr.{a}": f"of {name}" for a in attributes}
    return info, data


def hostile():
    """Layers that want more than is theirs: name, archive, what becomes of it."""
    link = member("out", kind=tarfile.SYMTYPE, link="/")
    sparse = member("sparse", kind=tarfile.GNUTYPE_SPARSE)
    return [
        ("dots", layer(file("../../escaped", "x")), 403),
        ("through a link", layer(link, file("out/tmp/escaped", "x")), 403),
        ("hard link outside", layer(member("passwd", kind=tarfile.LNKTYPE, link="../../../../etc/passwd")), 403),
        ("hard link through a link", layer(link, member("p", kind=tarfile.LNKTYPE, link="out/etc/passwd")), 403),
        ("sparse", layer(sparse), 501),
        ("a whiteout of the parent", layer(file("d/.wh...", b"")), 400),
        ("not an archive", b"x" * 4096, 400),
        ("cut off", base_layer()[:5000], 400),
        ("other ids", layer(member("f", owner=70000)), 400 if os.geteuid() == 0 else 403),
        ("an attribute's name without end", layer(marked("f", "user." + "x" * 300)), 400),
        ("an attribute's name with an end in it", layer(marked("f", "user.a\0b")), 400),
        ("deep", layer(folder("/".join("a" * 200))), 413),
    ]


@test
def hostile_layers_reach_nothing(c):
    with Daemon(c, config=settings()) as d:
        for name, data, status in hostile():
            got = image_import(d, tar_of(Image([data]).saved("bad:1")))
            wanted = {status} if name != "other ids" else {400, 403}
            check(got.status in wanted, f"{name}: {got}, not {status}")
            equal((refs(d), stored(d)), ([], []), f"what is left of '{name}'")
        equal(sorted(set(os.listdir(d.state)) - {"storage.btrfs"}), ["daemon", "grants", "secrets", "storage"], "what is in the state directory")
        # Devices and FIFOs are left out, and what is marked for overlayfs is not.
        devices = [member("null", kind=tarfile.CHRTYPE, device=(1, 3)), member("pipe", kind=tarfile.FIFOTYPE),
                   file("setuid", "x", 0o4755)]
        info, data = folder("marked")
        info.pax_headers = {f"SCHILY.xattr.{k}": "y" for k in (
            "user.overlay.opaque", "user.overlay.redirect", "user.overlay.overlay.opaque", "trusted.overlay.redirect", "trusted.x",
            "system.posix_acl_access", "security.capability", "security.selinux", "user", "")}
        image_import(d, tar_of(Image([base_layer(), layer(*devices, (info, data))]).saved("odd:1"))).expect(201)
        box = d.create(image="test:1")
        equal(says(d, box, "ls /null /pipe 2>/dev/null; ls /setuid"), "/setuid", "what was taken")


def attributes(path):
    return {p: {n: os.getxattr(path / p, n).decode() for n in os.listxattr(path / p)} for p in ("f", "d", "bare")}


@test
def extended_attributes_are_kept(c):
    """Those of people, by images, copies, snapshots, exports and commits; none that the kernel or overlayfs listens to."""
    image = Image([base_layer(), layer(folder("srv"), marked("srv/f", "user.note", "security.capability", "trusted.x"),
                                       marked("srv/d", "user.dir", "user.overlay.origin", data=None), file("srv/bare", "x"))])
    want = {"f": {"user.note": "of srv/f"}, "d": {"user.dir": "of srv/d"}, "bare": {}}
    with Daemon(c, driver="memory", config=settings()) as d, Daemon(c, name="other", config=settings()) as other:
        image_import(d, tar_of(image.saved("x:1"))).expect(201)
        layers = d.state / "storage/layers"
        equal(attributes(layers / f"sha256-{digest(image.plain[1])[7:]}" / "fs/srv"), want, "in the image")
        cli(d, "image", "verify", "test:1").expect(0)
        box = d.create(image="test:1")
        says(d, box, "cd /srv; echo more >>f; echo more >>bare; /bin/busybox chmod 700 d")
        snap = cli(d, "snapshot", box, "-q").expect(0).text
        cli(d, "commit", box, "made:1").expect(0)
        made = [x for x in os.listdir(layers) if x.startswith("lay_")]
        equal([attributes(layers / x / "fs/srv") for x in made], [want, want], "in what was captured")
        cli(d, "snapshots", "export", snap, c.dir / "file").expect(0)
        cli(other, "snapshots", "import", c.dir / "file").expect(0)
        there = other.state / "storage/layers"
        kept = [attributes(there / x / "fs/srv") for x in os.listdir(there) if (there / x / "fs/srv/d").exists()]
        equal(kept, [want, want], "on another machine, of the image and above it")


@test
def bombs_do_not_fill_the_disk(c):
    bomb = Image([layer(file("zeros", bytes(8 << 20)))])
    with Registry() as r, Daemon(c, config=settings(r, more="free_min: 0, max_bytes: 1M")) as d:
        r.put("latest", bomb)
        pull(d, f"{r.host}/bomb").expect(413, code="too_big")
        image_import(d, tar_of(bomb.layout())).expect(413, code="too_big")
        image_import(d, b"\0" * (2 << 20)).expect(413, code="too_big")
        equal((refs(d), stored(d)), ([], []), "what is left")
    with Daemon(c, "full", config=settings(more="free_min: 1024T")) as d:
        answer = image_import(d, tar_of(Image().saved("x:1"))).expect(413, code="too_big")
        check("free_min" in answer.json["detail"], f"says what to change: {answer}")


@test(only="root", because="only root mounts file systems")
def a_full_disk_loses_no_image(c):
    """Of blocks, and of files: a layer that does not fit is refused, and what is there stays whole."""
    d = Daemon(c, config=settings())
    for place in ("storage", "images"):
        (d.state / place).mkdir(parents=True, mode=0o700, exist_ok=True)
    d.state.chmod(0o711)
    large = tar_of(Image(layers=[base_layer(), layer(file("large", os.urandom(6 << 20)))]).saved("large:1"))
    many = tar_of(Image(layers=[base_layer(), layer(*(file(f"f{i}", "") for i in range(3000)))]).saved("many:1"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=7m,mode=0700", "none", d.state / "storage"], check=True)
    try:
        with d:
            image_import(d, tar_of(Image().saved("small:1")), "small:1").expect(201)
            had = stored(d)
            refused = image_import(d, large, "large:1").expect(500, code="system")
            check("No space left" in refused.json["detail"], f"{refused}")
            subprocess.run(["mount", "-o", "remount,nr_inodes=500", d.state / "storage"], check=True)
            refused = image_import(d, many, "many:1").expect(500, code="system")
            check("No space left" in refused.json["detail"], f"{refused}")
            equal(refs(d), ["small:1"], "images")
            equal(stored(d), had, "layers")
            cli(d, "image", "verify", "small:1").expect(0)
            subprocess.run(["mount", "-o", "remount,size=64m,nr_inodes=50000", d.state / "storage"], check=True)
            image_import(d, large, "large:1").expect(201)
            restart(d)
            for ref in ("small:1", "large:1"):
                cli(d, "image", "verify", ref).expect(0)
                d.create(image=ref)
    finally:
        subprocess.run(["umount", d.state / "storage"], check=True)


@test
def the_layers_of_an_image_are_counted_together(c):
    """Packed by a registry's word, and unpacked: each of them alone would fit."""
    def image(count, data):
        return Image([layer(file(f"f{i}", data(500_000) + bytes([i]))) for i in range(count)])

    with Registry() as r, Daemon(c, config=settings(r, more="free_min: 0, max_bytes: 1M")) as d:
        for name, made in (("packed", image(3, os.urandom)), ("unpacked", image(20, bytes))):
            r.put(name, made)
            check("max_bytes" in pull(d, f"{r.host}/web:{name}").expect(413, code="too_big").json["detail"], name)
            equal((refs(d), stored(d), parts(d)), ([], [], []), f"what is left of one that is too large {name}")
        equal(r.paths(r.put("packed", image(3, os.urandom)).layers[0]), [], "what is too large is not asked for")
        image_import(d, tar_of(image(3, bytes).layout())).expect(413, code="too_big")
        equal((refs(d), stored(d)), ([], []), "what is left")
        # What others need stays.
        image_import(d, tar_of(image(1, bytes).layout()), "one:1").expect(201)
        image_import(d, tar_of(image(3, bytes).layout())).expect(413, code="too_big")
        equal((refs(d), len(stored(d))), (["one:1"], 1), "what is left")
        cli(d, "image", "verify", "one:1").expect(0)
        image_import(d, tar_of(image(2, bytes).layout()), "two:1").expect(201)
        exact = [layer(file(f"f{i}", bytes(size))) for i, size in enumerate((300_000, 400_000, (1 << 20) - 700_000))]
        image_import(d, tar_of(Image(exact).layout()), "exact:1").expect(201)
        image_import(d, tar_of(Image([*exact, layer(file("one", b"x"))]).layout()), "more:1").expect(413, code="too_big")
    with Daemon(c, "entries", config=settings()) as d:
        full = [layer(*(file(f"{i}/{k}", "") for k in range(40_000))) for i in range(2)]
        image_import(d, tar_of(Image(full).layout())).expect(201)
        d.stop()
        change_store(d, "UPDATE layers SET entries = ?", [(1_000_001,)])
        d.start()
        answer = image_import(d, tar_of(Image(full).layout()), "other:1").expect(413, code="too_big")
        check("files" in answer.json["detail"], f"{answer}")


@test(only="root", because="only root mounts file systems")
def layers_that_come_at_the_same_time_do_so_together(c):
    """Three are unpacked at a time, on a disk that has no room for what each of them alone may hold."""
    d = Daemon(c, config=settings(more="free_min: 0, max_bytes: 12M"))
    (d.state / "storage").mkdir(parents=True, mode=0o700)
    d.state.chmod(0o711)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m,mode=0700", "none", d.state / "storage"], check=True)
    try:
        with d:
            for size, status in ((10, 413), (4, 201)):
                image = Image([layer(*(file(f"{i}{k}", bytes(1 << 20)) for k in range(size))) for i in range(3)])
                answer = image_import(d, tar_of(image.layout())).expect(status)
                check(status == 201 or "max_bytes" in answer.json["detail"], f"{answer}")
                equal(len(stored(d)), 3 if status == 201 else 0, "layers")
    finally:
        subprocess.run(["umount", d.state / "storage"], check=True)


def parts(d):
    """What was fetched, and is on its way."""
    return os.listdir(d.state / "daemon/images")


def room(path):
    fs = os.statvfs(path)
    return fs.f_bavail * fs.f_frsize


@test
def what_is_left_free_stays_free(c):
    """Whatever comes or goes, and in pieces that would all fit: the disk has 24 MB more than it must keep."""
    mega, plain = 1 << 20, lambda data: data
    with volume(c, "ext4", 128) as top, Registry() as r:
        spare = (room(top) - 24 * mega) // mega
        large, sum_of_three = (Image([layer(file(f"{n}", os.urandom(n * mega))) for n in sizes], pack=plain) for sizes in ((40,), (18, 19, 20)))
        r.put("large", large)
        r.put("three", sum_of_three)
        with Daemon(c, config=settings(r, more=f"free_min: {spare}M"), driver="memory", state=top / "state") as d:

            def refused(answer, status=413, code="too_big"):
                check("free_min" in answer.expect(status, code=code).json["detail"], f"{answer}")
                equal((refs(d), stored(d), parts(d)), ([], [], []), "what is left")
                wait_for(lambda: room(top) > (spare + 20) * mega, "what did not fit is gone")

            refused(pull(d, f"{r.host}/web:large"))
            equal(r.paths(large.layers[0]), [], "what does not fit is not asked for")
            refused(pull(d, f"{r.host}/web:three"))
            check(r.paths("/blobs/")[2:], "what might fit is")
            refused(image_import(d, tar_of(large.saved("x:1"))))
            refused(image_import(d, tar_of(Image([layer(file("14", os.urandom(14 * mega)))]).saved("x:1"))))
            # A part that nobody fetches goes, and is there again for who pulls within a day.
            c.own(Path(shutil.copy(c.write("part", "x" * 1000), d.state / f"daemon/images/{'0' * 64}.part")))
            restart(d)
            equal(len(parts(d)), 1, "parts after a restart")
            equal(d.api.post("/v1/images/prune").expect(200).json["bytes"], 1000, "bytes that were removed")
            equal(parts(d), [], "parts")
            # What sandboxes wrote.
            box = d.create()
            says(d, box, "head -c 28M /dev/urandom >/tmp/random")
            for verb in ("snapshot", "fork", "pause"):
                refused(d.api.post(f"/v1/sandboxes/{box}/{verb}", {}), 507, "storage_full")
                d.works(box)
            # Snapshots on their way out and in.
            says(d, box, "head -c 14M /dev/urandom >/tmp/random")
            snap = cli(d, "snapshot", box, "-q").expect(0).text
            cli(d, "snapshots", "export", snap, c.dir / "file").expect(range(1, 6), says="free_min")
            d.api.request("POST", "/v1/snapshots/import", os.urandom(14 * mega), {"Content-Type": "application/octet-stream"}).expect(413)


@test
def what_is_no_image_is_refused(c):
    image = Image()
    two = image.saved("a:1")
    two["manifest.json"] = json.dumps(json.loads(two["manifest.json"]) * 2).encode()
    missing = image.saved("a:1")
    missing.pop(next(iter(missing)))
    broken = image.layout()
    name = next(n for n in broken if n.startswith("blobs/"))
    broken[name] = b"something else"
    with Daemon(c, config=settings()) as d:
        image_import(d, tar_of(two)).expect(404)
        for what, data in (("a missing layer", tar_of(missing)),
                           ("a wrong blob", tar_of(broken)), ("nothing", b""), ("gzip", gzip.compress(b"x"))):
            got = image_import(d, data)
            check(got.status == 400, f"{what}: {got}")
        image_import(d, tar_of(image.layout()), name="").expect(400)
        image_import(d, tar_of(image.layout()), name="Bad Name").expect(400)
        image_import(d, tar_of(image.layout()), name="a:1@" + digest(b"")).expect(400)
        equal((refs(d), stored(d)), ([], []), "what is left")


# ---- registries ---------------------------------------------------------------------------------------


@test
def an_image_comes_from_a_registry(c):
    with Registry() as r, Daemon(c, config=settings(r)) as d:
        image = r.put("v1", Image())
        got = pull(d, f"{r.host}/team/web:v1").expect(201).json
        equal((got["config"], got["digest"]), (image.config, digest(image.manifest)), "the image")
        before = len(r.paths("/blobs/"))
        r.put("v2", Image(config={"Cmd": ["/bin/true"]}))
        notes = cli(d, "image", "pull", f"{r.host}/team/web:v2").expect(0).notes
        check("pulling: manifest" in notes and notes.count("\n") < 8, f"how far it is, in a few lines: {notes}")
        equal(len(r.paths("/blobs/")), before + 1, "blobs fetched: layers that are here are not")
        for quiet in ("-q", "-ojson"):
            equal(cli(d, "image", "pull", f"{r.host}/team/web:v2", quiet).expect(0).notes, "", f"with {quiet}")
        cli(d, "image", "pull", f"{r.host}/team/web@{digest(image.manifest)}").expect(0)
        pull(d, f"{r.host}/team/web:v3").expect(404, code="not_found")
        pull(d, "web").expect(400, code="invalid")
        box = d.create(image=f"{r.host}/team/web:v1")
        equal(says(d, box, "cat /srv/new"), "upper", "what is inside")


@test
def an_image_for_several_platforms(c):
    with Registry() as r, Daemon(c, config=settings(r)) as d:
        here, there = Image(), Image(config={"Cmd": ["/x"]}, architecture="s390x")
        for image in (there, here):
            r.put("only", image)
        r.tags["all"] = index(there, here)
        equal(pull(d, f"{r.host}/web:all").expect(201).json["architecture"], "amd64", "what is chosen")
        equal(pull(d, f"{r.host}/web:all", platform="linux/s390x").expect(201).json["architecture"], "s390x",
              "what was asked for")
        pull(d, f"{r.host}/web:all", platform="linux/riscv64").expect(404, code="not_found")
        pull(d, f"{r.host}/web:all", platform="linux").expect(400, code="invalid")


@test
def who_wants_a_token_gets_one_and_nobody_else(c):
    with Registry() as r, Registry() as other, Daemon(c, config=settings(r, other)) as d:
        r.put("latest", Image())
        other.blobs.update(r.blobs)
        r.token = other.token = "s3cret"
        r.realm = other.url
        r.redirect = lambda name: f"{other.url}/elsewhere/{name}"
        creds = c.write("creds", "maker:pa55\n", 0o600)
        cli(d, "image", "pull", f"{r.host}/web", "--creds-file", creds).expect(0)
        asked, basic = other.paths("/token"), "Basic " + base64.b64encode(b"maker:pa55").decode()
        check("scope=repository:web:pull" in asked[0] and "service=test" in asked[0], f"what is asked for: {asked}")
        for path, headers in other.seen:
            equal(headers.get("Authorization"), basic if path.startswith("/token") else None, f"what {path} sees")
        for path, headers in r.seen:
            check(headers.get("Authorization") in (None, "Bearer s3cret"), f"{path}: {headers}")
        check(other.paths("/elsewhere/"), "a redirect is followed")
        log = d.log_path.read_text()
        check("pa55" not in log and "s3cret" not in log and basic[6:] not in log, "secrets are not logged")


@test
def a_token_that_expires_is_asked_for_again(c):
    """Whenever a layer is gone on with, and not for ever where no token is good."""
    image = Image([base_layer()])
    with Registry() as r, Daemon(c, config=settings(r)) as d:
        r.put("latest", image)
        r.token, r.once = "t", True
        r.cut[image.layers[0]] = [100_000, 100_000, 100_000]
        pull(d, f"{r.host}/web").expect(201)
        remove(d, f"{r.host}/web").expect(200)
        r.answer["/token"] = (200, {}, b'{"token":"never good"}')
        r.seen.clear()
        pull(d, f"{r.host}/web").expect(403, code="denied")
        equal(len(r.paths("/token")), 1, "tokens that were asked for")


@test
def who_wants_a_password_gets_it(c):
    creds = c.write("creds", "maker:pa55", 0o600)
    with Registry() as r, Daemon(c, config=settings(r)) as d:
        r.put("latest", Image())
        r.basic = "Basic " + base64.b64encode(b"maker:pa55").decode()
        pull(d, f"{r.host}/web").expect(403, code="denied")
        pull(d, f"{r.host}/web", credentials="maker:wrong").expect(403, code="denied")
        pull(d, f"{r.host}/web", credentials="maker:pa55").expect(201)
        check("Authorization" not in r.seen[0][1], "a password is not sent unasked")
    if not c.root:  # root's control plane is somebody else, who cannot read it
        with Registry() as r, Daemon(c, "kept", config=settings(r).replace("http: true",
                                                                           f'http: true, creds_file: "{creds}"')) as d:
            r.put("latest", Image())
            r.basic = "Basic " + base64.b64encode(b"maker:pa55").decode()
            pull(d, f"{r.host}/web").expect(201)


@test
def registries_lead_nowhere_they_must_not(c):
    with Registry() as r, Registry() as hidden, Daemon(c, config=settings(r)) as d:
        r.put("latest", Image())
        hidden.blobs.update(r.blobs)
        pull(d, f"127.0.0.1:{r.server.server_port}/web").expect(403, code="denied")   # not the name that is allowed
        refused = pull(d, f"{hidden.host}/web").expect(403, code="denied")           # https to what is not public
        check("images.registries" in refused.json["detail"], f"no remedy: {refused.json}")
        for to in (f"{hidden.url}/elsewhere/", "http://169.254.169.254/", "http://127.0.0.1:1/",
                   f"https://127.0.0.1:{hidden.server.server_port}/", "https://[::1]/", "https://10.0.0.1/",
                   "ftp://localhost/", "file:///etc/passwd?", "https://metadata.google.internal/",
                   "http://0x7f.1/", "https://user:pw@localhost/"):
            r.redirect = lambda name, to=to: to + name
            got = pull(d, f"{r.host}/web")
            check(got.status in (400, 403, 502), f"{to}: {got}")
        r.redirect = lambda name: f"{r.url}/v2/web/blobs/{name}"
        pull(d, f"{r.host}/web").expect(502)                                         # for ever
        r.redirect, r.token = None, "t"
        for realm in (hidden.url, "https://169.254.169.254", "file:///etc", "http://localhost:1"):
            r.realm = realm
            got = pull(d, f"{r.host}/web")
            check(got.status in (400, 403, 502), f"{realm}: {got}")
        equal(hidden.seen, [], "what a place saw that nobody allowed")
        equal(refs(d), [], "images")


@test
def what_a_registry_sends_is_checked(c):
    with Registry() as r, Daemon(c, config=settings(r)) as d:
        image = r.put("latest", Image())
        good = r.blobs[image.layers[1]]
        for bad in (good[:-1] + b"x", good + b"x", gzip.compress(b"x"), b""):
            r.blobs[image.layers[1]] = bad
            got = pull(d, f"{r.host}/web")
            check(got.status in (502, 413), f"a wrong layer: {got}")
            equal(refs(d), [], "images")
        r.blobs[image.layers[1]] = good
        for what, body in (("huge", b" " * (5 << 20)), ("no json", b"{"), ("a list", b"[]"), ("v1", b'{"fsLayers":[]}'),
                           ("empty", b"")):
            r.tags["bad"] = body
            r.answer["/v2/web/manifests/bad"] = (200, {}, body)
            got = pull(d, f"{r.host}/web:bad")
            check(got.status in (400, 413, 501), f"{what}: {got}")
        r.answer["/v2/web/manifests/" + digest(b"x")] = (200, {}, b"y")
        pull(d, f"{r.host}/web@{digest(b'x')}").expect(502)
        pull(d, f"{r.host}/web").expect(201)


@test
def a_pull_goes_on_where_it_was(c):
    with Registry() as r, Daemon(c, config=settings(r)) as d:
        image = r.put("latest", Image())
        big = image.layers[0]
        r.cut[big] = [100_000]
        pull(d, f"{r.host}/web").expect(201)
        ranges = [h.get("Range") for p, h in r.seen if p.endswith(big)]
        check(len(ranges) == 2 and ranges[0] is None and ranges[1].startswith("bytes="), f"ranges: {ranges}")
        equal(os.listdir(d.state / "daemon/images"), [], "what is kept of the download")
        remove(d, f"{r.host}/web").expect(200)
        # What a daemon that was killed had fetched is not fetched again.
        r.seen.clear()
        kept, r.cut[big], r.gone = dict(r.blobs), [200_000], True
        pull(d, f"{r.host}/web").expect(404)
        r.blobs, r.gone = kept, False
        r.seen.clear()
        restart(d)
        pull(d, f"{r.host}/web").expect(201)
        equal([h.get("Range") for p, h in r.seen if p.endswith(big)], ["bytes=200000-"], "what was asked for")
        cli(d, "image", "verify", f"{r.host}/web").expect(0)


@test
def what_a_crash_left_of_a_pull_is_not_believed(c):
    with Registry() as r, Daemon(c, config=settings(r)) as d:
        image = r.put("latest", Image())
        for left in (b"\0" * 1000, b"\0" * len(r.blobs[image.layers[0]]), b"x" * (len(r.blobs[image.layers[0]]) + 1)):
            path, owner = d.state / "daemon/images" / f"{image.layers[0][7:]}.part", os.stat(d.state / "daemon/images")
            path.write_bytes(left)
            os.chown(path, owner.st_uid, owner.st_gid)
            pull(d, f"{r.host}/web").expect(201)
            cli(d, "image", "verify", f"{r.host}/web").expect(0)
            remove(d, f"{r.host}/web").expect(200)
        equal(os.listdir(d.state / "daemon/images"), [], "what is kept of the download")


@test
def layers_come_at_the_same_time(c):
    image = Image([base_layer(), *(layer(file(f"f{i}", "x")) for i in range(4))])
    asked, enough, met = [], threading.Event(), []

    def hold(name):
        if name in image.layers:
            asked.append(name)
            if len(asked) == 3:
                enough.set()
            met.append(enough.wait(20))
        return f"{r.url}/elsewhere/{name}"

    with Registry() as r, Daemon(c, config=settings(r)) as d:
        r.put("latest", image)
        r.redirect = hold
        pull(d, f"{r.host}/web").expect(201)
    check(len(met) == 5 and all(met), f"the first waited for the third: {met}")


@test
def a_terminal_is_shown_a_bar(c):
    image = Image([base_layer()])
    with Registry() as r, Daemon(c, config=settings(r)) as d:
        r.put("latest", image)
        r.slow[image.layers[0]] = threading.Event()
        env = {"SANDBOXER_STATE": str(d.state), "SANDBOXER_SOCKET": str(d.socket)}
        with Terminal(c, "pull", f"{r.host}/web", verb=("image",), env=env) as t:
            t.expect(b" KiB [=")
            check(b"pulling: fetch" in t.before, f"what is said before the bar: {t.before}")
            t.expect(b"]")
            check(len(t.before) == 19 and not t.before.strip(b"= ") and t.before.endswith(b" "), f"the rest of the bar: {t.before}")
            r.slow[image.layers[0]].set()
            t.expect(b"\r\x1b[K")
            t.expect(b"web:latest pulled")
            equal(t.end(), 0, "exit status")


@test
def pulls_at_the_same_time_share_what_they_fetch(c):
    with Registry() as r, Daemon(c, config=settings(r)) as d:
        image = r.put("a", Image())
        for tag in "bcdef":
            r.put(tag, Image(config={"Cmd": [tag]}))
        got = {}
        threads = [threading.Thread(target=lambda t=t: got.update({t: pull(d, f"{r.host}/web:{t}").status}))
                   for t in "abcdef"]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        equal(got, dict.fromkeys("abcdef", 201), "answers")
        for name in image.layers:
            equal(len(r.paths(name)), 1, "times that a layer was fetched")


@test
def a_client_that_leaves_leaves_nothing(c):
    with Registry() as r, Daemon(c, config=settings(r)) as d:
        r.put("latest", Image())
        held = threading.Event()
        r.redirect = lambda name: (held.wait(20), f"{r.url}/elsewhere/{name}")[1]
        s = socket.socket(socket.AF_UNIX)
        s.connect(str(d.socket))
        body = json.dumps({"ref": f"{r.host}/web"}).encode()
        s.sendall(b"POST /v1/images/pull HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                  b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        wait_for(lambda: r.paths("/blobs/"), "the pull begins")
        s.close()
        held.set()
        r.redirect = None
        pull(d, f"{r.host}/web").expect(201)


# ---- life and death -----------------------------------------------------------------------------------

POINTS = ("layers.begin", "layers.sync", "layers.rename", "layers.renamed", "layers.done", "image.layer",
          "image.store", "store.commit.before")


@test
def a_kill_at_any_step_leaves_garbage_at_most(c):
    with Registry() as r:
        r.put("latest", Image())
        for point in POINTS:
            d = Daemon(c, point, config=settings(r)).start(SANDBOXER_DIE_AT=f"{point}:1")
            with contextlib.suppress(Cut):
                got = pull(d, f"{r.host}/web")
                check(got.status != 201 or point == "store.commit.before", f"{point}: {got}")
            restart(d)
            for ref in refs(d):
                cli(d, "image", "verify", ref).expect(0)
            pull(d, f"{r.host}/web").expect(201)
            d.api.post("/v1/images/prune").expect(200)
            cli(d, "image", "verify", f"{r.host}/web").expect(0)
            equal(len(stored(d)), 2, f"layers after a kill at {point}")
            restart(d)
            equal(refs(d), [f"{r.host}/web:latest"], "what is there after another kill")
            remove(d, f"{r.host}/web").expect(200)
            equal(stored(d), [], "what is left")
            d.clear()


@test
def damage_shows(c):
    with Daemon(c, config=settings()) as d:
        image_import(d, tar_of(Image().saved("x:1"))).expect(201)
        cli(d, "image", "verify", "test:1").expect(0)
        path = next((d.state / "storage/layers").glob("*/fs/srv/new"))
        times = path.stat()
        path.write_bytes(b"UPPER")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        cli(d, "image", "verify", "test:1").expect(4, says="is damaged")


@test
def what_cannot_be_read_loses_nothing(c):
    with Daemon(c, config=settings()) as d:
        image_import(d, tar_of(Image().saved("x:1"))).expect(201)
        image_import(d, tar_of(Image(layers=[base_layer()]).saved("x:1")), "other:1").expect(201)
        had = stored(d)

        def set_config(text):
            d.stop()
            change_store(d, "UPDATE images SET config = ? WHERE ref = 'test:1'", [(text,)])
            d.start()

        set_config("{")
        equal(refs(d), ["other:1"], "what can be read")
        check("image.unreadable" in d.log_path.read_text(), "it is in the log")
        d.api.post("/v1/images/prune").expect(409, code="conflict")
        remove(d, "other:1").expect(200)
        equal(stored(d), had, "layers, which may be those of the other one")
        set_config(json.dumps(Image().config))
        cli(d, "image", "verify", "test:1").expect(0)
        equal(stored(d), had, "layers")
        # What can be read need not be what came.
        set_config(json.dumps(Image(config={"User": "maker"}).config))
        cli(d, "image", "verify", "test:1").expect(4, says="configuration")


@test
def sandboxes_keep_their_layers_after_a_restart(c):
    with Daemon(c, config=settings()) as d:
        image_import(d, tar_of(Image().saved("x:1"))).expect(201)
        box = d.create(image="test:1")
        image_import(d, tar_of(Image(config={"Cmd": ["/x"]}, layers=[base_layer()]).saved("x:1"))).expect(201)
        restart(d)
        d.api.post("/v1/images/prune").expect(200)
        equal(len(stored(d)), 2, "layers: the sandbox still stands on one")
        equal(says(d, box, "cat /srv/new"), "upper", "what is inside")
        d.destroy(box)
        equal(d.api.post("/v1/images/prune").expect(200).json["layers"], 1, "layers removed")


# ---- a real registry ----------------------------------------------------------------------------------


@test
def a_real_registry_and_skopeo_agree(c):
    for name in ("docker-registry", "skopeo"):
        if not shutil.which(name):
            raise Skip(f"{name} is not installed")
    port = free_port()
    c.write("registry.yaml", f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: "
            f"{c.mkdir(c.dir / 'registry')}}}}}\nhttp: {{addr: 127.0.0.1:{port}}}\n")
    for name, data in Image().layout("v1").items():
        c.write(f"layout/{name}", data)
    policy = c.write("policy.json", '{"default":[{"type":"insecureAcceptAnything"}]}')
    c.start([shutil.which("docker-registry"), "serve", "registry.yaml"])
    wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, "the registry serves")

    def skopeo(*argv):
        return c.execute(["skopeo", "--policy", policy, "--tmpdir", c.tmp, *argv], env={"HOME": str(c.dir)}).expect(0)

    host = f"localhost:{port}"
    skopeo("copy", "-q", "--dest-tls-verify=false", "oci:layout:v1", f"docker://{host}/team/web:gzip")
    skopeo("copy", "-q", "--dest-tls-verify=false", "--dest-compress", "--dest-compress-format", "zstd",
           "oci:layout:v1", f"docker://{host}/other/web:zstd")
    skopeo("copy", "-q", "--dest-tls-verify=false", "--format", "v2s2", "oci:layout:v1", f"docker://{host}/team/web:v2s2")
    skopeo("copy", "-q", "oci:layout:v1", "docker-archive:saved.tar:localhost/saved:7")
    with Daemon(c, config=settings(host)) as d:
        for name in ("team/web:gzip", "other/web:zstd", "team/web:v2s2"):
            cli(d, "image", "pull", f"{host}/{name}").expect(0)
            theirs = json.loads(skopeo("inspect", "--config", "--raw", "--tls-verify=false", f"docker://{host}/{name}").out)
            equal(inspect(d, f"{host}/{name}").expect(200).json["config"], theirs, f"the configuration of {name}")
        cli(d, "image", "import", "saved.tar").expect(0, out=b"localhost/saved:7 imported\n")
        box = d.create(image="localhost/saved:7")
        equal(says(d, box, "cat /srv/new; ls /etc"), f"upper{ETC}", "what is inside")
        d.destroy(box)
        for ref in refs(d):
            remove(d, ref).expect(200)
        equal(stored(d), [], "what is left")


main()
