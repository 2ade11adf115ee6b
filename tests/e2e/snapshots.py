# SPDX-License-Identifier: Apache-2.0
"""What tests of snapshots on images share: an image of busybox, and how it looks from inside."""

import urllib.parse

from harness import equal
from images import member
from registry import Image, base_layer, file, folder, layer, tar_of, upper_layer

CONFIG = "images: {free_min: 0}"
RUN = {"Env": ["COLOUR=blue", "PATH=/bin"], "WorkingDir": "/srv", "User": "1234:1234", "Labels": {"a": "b"},
       "Entrypoint": ["/bin/sh", "-c"], "Cmd": ["echo $COLOUR in $(pwd)"]}

# Everything that the busybox of the image can tell of what is there, but for what no two sandboxes have in common.
LOOK_AT_IMAGE = r"""
cd / && find etc srv opt tmp -print | sort | while read -r f; do
    case $f in etc/hosts | etc/hostname | etc/machine-id | etc/resolv.conf) continue ;; esac
    stat -c '%n %f %u:%g %Y' "$f"; [ -f "$f" ] && sha256sum <"$f"; [ -L "$f" ] && readlink "$f"
done; exit 0
"""
CHANGE = "cd / && echo new >etc/new && rm etc/passwd srv/new && echo other >etc/other && mkdir -p opt/a/b && echo b >opt/a/b/c && " \
    "ln opt/a/b/c opt/a/linked && ln -s c opt/a/b/link && chmod 640 etc/new && touch -d '2001-02-03 04:05:06' etc/new"
REPLACE = "cd / && rm -r opt/a && mkdir opt/a && echo again >opt/a/again && rm etc/new && mkdir etc/new && echo in >etc/new/in"


def image_import(d, image, name="box:1"):
    query = urllib.parse.urlencode({"name": name})
    d.api.request("POST", f"/v1/images/import?{query}", tar_of(image.saved(name)),
                  {"Content-Type": "application/x-tar"}).expect(201)


def busy(d, box, script, **options):
    """As root, unless it is said who."""
    answer = d.api.run(box, ["/bin/busybox", "sh", "-c", script], **options).expect(200).json
    equal((answer["exit_code"], answer["stderr"]), (0, ""), f"{script[:60]}")
    return answer["stdout"]


def root(d, box, script):
    return busy(d, box, script, user="0")


def look_at_image(d, box):
    return root(d, box, LOOK_AT_IMAGE)


def applets():
    return layer(folder("bin"), *[member(f"bin/{a}", kind=b"2", link="busybox")
                                  for a in ("find", "stat", "sort", "readlink", "sha256sum")])


def image(config=None, marker="first"):
    return Image(layers=[base_layer(), upper_layer(), applets(), layer(folder("etc"), file("etc/marker", marker))],
                 config=config or RUN)
