#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Images of as many layers as there may be, and long chains of snapshots and commits on them."""

from client import Client
from daemon import Cut, Daemon
from harness import check, equal, main, test, wait_for
from registry import Image, Registry, base_layer, file, folder, layer, tar_of
from snapshots import root
from trees import layers, same, snapshot, unfinished

MANY = 127          # what docker makes at most
FLAT = 8            # a snapshot on a higher stack gets one layer, when there is time
HIGH = 12           # on a higher one nothing is built
CONFIG = "images: {{free_min: 0, registries: [{{host: '{}', http: true, addresses: ['127.0.0.1', '::1']}}]}}"

# Every attribute and byte that the busybox of the image can tell, and what a directory lists beside what it has; but for
# what no two sandboxes have in common.
LOOK = """cd /; PATH=/bin; all() { busybox find etc srv opt "$@" | busybox grep -vxE 'etc/(hosts|hostname|machine-id|resolv.conf)'; }
all | busybox sort | busybox xargs busybox stat -c '%n %f %u:%g %Y'
all -type f | busybox sort >/dev/shm/files; busybox xargs busybox stat -c '%n %h %s' </dev/shm/files
busybox xargs busybox sha256sum </dev/shm/files; all -type l | busybox xargs -r busybox ls -l"""

# One round of a chain: of what the image has, of what was written before, and of directories in each other's place.
ROUND = """cd /; PATH=/bin; n={n}; busybox rm -f srv/f$((n + 10)) opt/w$((n - 2)); echo $n >opt/w$n; echo $n >>srv/log; echo $n >srv/f2
busybox rm -f opt/made$((n - 1))/x; busybox mkdir opt/made$n; echo $n >opt/made$n/x
case $((n % 4)) in
0) busybox rm -rf opt/d srv/tree; busybox mkdir -p opt/d/e srv/tree; echo $n >opt/d/e/f; echo $n >srv/tree/own ;;
1) busybox rm -r opt/d/e; echo $n >opt/d/e; busybox rm -rf srv/tree ;;
2) busybox rm opt/d/e; busybox mkdir opt/d/e; busybox ln srv/log opt/d/e/log$n; busybox mkdir -p srv/tree/a ;;
3) busybox rm -r opt/d; busybox ln -s e opt/d; busybox rm -rf srv/tree; echo $n >srv/tree ;;
esac"""


def look(d, box):
    return root(d, box, LOOK).splitlines()


def tall():
    """Each layer adds a file, hides one of the one before, and changes one."""
    plain = [base_layer(), layer(folder("opt"), folder("srv/tree/a"), file("srv/tree/a/deep", "deep"), file("srv/tree/top", "top"))]
    for i in range(MANY - len(plain)):
        plain.append(layer(file(f"srv/f{i}", f"{i}\n"), file("etc/marker", f"{i}"),
                           *([file(f"srv/.wh.f{i - 1}", b"")] if i % 3 == 0 and i else [])))
    return Image(layers=plain)


def shows(d, box):
    """What the image must show, by the rules it was made with."""
    last = MANY - 3
    want = sorted(f"f{i}" for i in range(last + 1) if not (i % 3 == 2 and i < last))
    got = root(d, box, "cd /srv; PATH=/bin; busybox ls; cat /etc/marker").split()
    equal(got[-1], str(last), "the uppermost layer")
    equal([x for x in got if x[0] == "f"], want, "files")


@test
def an_image_of_as_many_layers_as_there_may_be(c):
    image = tall()
    with Registry() as registry, Daemon(c, config=CONFIG.format(registry.host)) as d:
        cli = Client(d)
        registry.put("tall", image)
        ref = f"{registry.host}/x:tall"
        cli("image", "pull", ref).expect(0)
        cli("image", "import", c.write("saved.tar", tar_of(image.saved("tall:2")))).expect(0)
        cli("image", "import", c.write("layout.tar", tar_of(image.layout())), "--name", "tall:3").expect(0)
        for name in (ref, "tall:2", "tall:3"):
            shown = cli.json("image", "inspect", name)
            equal((shown["config"], len(shown["layers"])), (image.config, MANY), f"{name}")
            box = d.create(image=name)
            shows(d, box)
            d.destroy(box)
        cli("image", "verify", "tall:2").expect(0)
        more = c.write("more.tar", tar_of(Image(layers=[layer(file(f"f{i}", "")) for i in range(150)]).saved("more:1")))
        notes = cli("image", "import", more).expect(2).notes
        check("136" in notes, f"too many are refused, and it is said why: {notes}")
        # Commits add layers, and still any number of them fits.
        box = d.create(image=ref)
        for i in range(FLAT + 3):
            root(d, box, ROUND.format(n=i))
            before = look(d, box)
            cli("commit", box, f"made:{i}").expect(0)
            d.destroy(box)
            box = d.create(image=f"made:{i}")
            same(before, look(d, box), f"commit {i}")
        check(len(cli.json("image", "inspect", f"made:{FLAT + 2}")["layers"]) <= MANY + FLAT, "layers of a chain of commits")
        cli("image", "verify", f"made:{FLAT + 2}").expect(0)


@test
def a_long_chain_on_an_image(c):
    """Each round restores what the one before kept. However long that goes on, the stack is not higher."""
    d = Daemon(c, config=CONFIG.format("none.invalid"))
    d.start()
    with d:
        cli = Client(d)
        cli("image", "import", c.write("saved.tar", tar_of(tall().saved("tall:1")))).expect(0)
        box = d.create(image="tall:1")
        heights = []
        for n in range(60):
            root(d, box, ROUND.format(n=n))
            before = look(d, box)
            snap = snapshot(d, box)
            heights.append(snap["layers"])
            d.destroy(box)
            box = d.create(snapshot=snap["snapshot_id"])
            same(before, look(d, box), f"round {n}")
            d.api.delete(f"/v1/snapshots/{snap['snapshot_id']}").expect(204)
        check(FLAT < max(heights) <= HIGH, f"heights: {heights}")
        d.destroy(box)
        wait_for(lambda: not any(x.startswith("lay_") for x in layers(d)) and unfinished(d) == [], "the layers of snapshots are gone")


@test
def whoever_dies_while_layers_become_one(c):
    d = Daemon(c, config=CONFIG.format("none.invalid"))
    d.start()
    with d:
        cli = Client(d)
        cli("image", "import", c.write("saved.tar", tar_of(Image(layers=[base_layer(), layer(folder("opt"), file("srv/f2", ""))]).saved("low:1")))).expect(0)
        box = d.create(image="low:1")
        for n in range(FLAT):
            root(d, box, ROUND.format(n=n))
            box = d.create(snapshot=snapshot(d, box)["snapshot_id"])
        root(d, box, ROUND.format(n=FLAT))
        before = look(d, box)
        for point in ("flatten.begun:1", "flatten.done:1", "flatten.record:1", "flatten.stored:1", "layers.flatten:1",
                      f"layers.flatten:{FLAT}"):
            daemon_dies, failed = point.startswith("flatten"), d.log_path.read_text().count("layers.not_flattened")
            d.stop()
            d.start(SANDBOXER_DIE_AT=point)
            try:
                equal(snapshot(d, box)["layers"], FLAT + 1, f"{point}: nobody waits for that")
            except Cut:
                check(daemon_dies, f"{point}: the daemon died with its keeper")
            if daemon_dies:
                d.wait()
            else:
                wait_for(lambda: d.log_path.read_text().count("layers.not_flattened") > failed, f"{point}: its keeper died")
                d.stop()
            d.start()
            same(before, look(d, box), f"{point}: the sandbox")
            snap = max(d.api.get("/v1/snapshots").json["snapshots"], key=lambda s: s["created_at"])["snapshot_id"]
            wait_for(lambda: d.api.get(f"/v1/snapshots/{snap}").json["layers"] == 1, f"{point}: one is made the next time")
            other = d.create(snapshot=snap)
            same(before, look(d, other), f"{point}: restored")
            d.destroy(other)
            d.api.delete(f"/v1/snapshots/{snap}").expect(204)
            wait_for(lambda: unfinished(d) == [], f"{point}: nothing is left")


if __name__ == "__main__":
    main()
