#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Daytona's interface on the wire: who may not, what is malformed, what is too much, who stops reading, and what a restart leaves."""

import base64
import contextlib
import hmac
import socket
import struct
import tarfile
import time
import urllib.parse

from daytona import Box, Served
from harness import BUILD, Skip, check, equal, main, test, wait_for
from images import archive, member


def key_of(s, *argv):
    return s.key(*argv)["DAYTONA_API_KEY"]


def plainly(answer, status, code=None):
    """Daytona's error: the status is in the body, too."""
    answer.expect(status)
    equal(answer.json["statusCode"], status, f"the status of {answer}")
    check(answer.json["message"] and answer.json["source"].startswith("DAYTONA_"), f"a message: {answer}")
    if code:
        equal(answer.json["code"], code, "the code")


@test
def keys(c):
    with Served(c) as s:
        key = key_of(s)
        box = s.create(key, name="mine")
        paths = (("GET", "sandbox"), ("GET", f"sandbox/{box.id}"), ("DELETE", f"sandbox/{box.id}"), ("POST", f"sandbox/{box.id}/stop"),
                 ("GET", "snapshots"), ("GET", f"toolbox/{box.id}/files?path=/"), ("GET", f"toolbox/{box.id}/process/pty/create-connect?id=x"))
        for wrong in (None, "wrong", "sbx_x", key[:-1]):
            for method, path in paths:
                plainly(s.api(method, path, key=wrong), 401, "UNAUTHORIZED")
        plainly(s.ask("GET", "/daytona/sandbox", X_API_KEY=key), 401)
        # Another's sandbox is not there, by its id and by its name.
        others = key_of(s, "--label", "team=other")
        for which in (box.id, "mine"):
            for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/stop"), ("POST", "/start"), ("POST", "/fork"), ("POST", "/autostop/1")):
                plainly(s.api(method, f"sandbox/{which}{path}", key=others), 404)
            plainly(s.api("PUT", f"sandbox/{which}/labels", {"labels": {"team": "other"}}, key=others), 404)
            plainly(s.api("POST", f"toolbox/{which}/process/execute", {"command": "id"}, key=others), 404)
            plainly(s.api("GET", f"toolbox/{which}/files/download?path=/etc/passwd", key=others), 404)
        equal(s.api("GET", "sandbox", key=others).expect(200).json["items"], [], "what another key lists")
        # A name is that of one's own, whatever became of its labels, as long as it lives.
        for which in ("min", "m" * 5000, "mine%20", box.id[:-1], box.id[:8], box.id[4:9]):
            plainly(s.api("GET", f"sandbox/{which}", key=key), 404)
        theirs = s.create(others, name="mine")
        s.api("PUT", f"sandbox/{box.id}/labels", {"labels": {"a": "b"}}, key=key).expect(200)
        for who, one in ((others, theirs), (key, box)):
            equal(s.api("GET", "sandbox/mine", key=who).expect(200).json["id"], one.id, "by its name")
            s.api("DELETE", "sandbox/mine", key=who).expect(200)
            wait_for(lambda one=one: s.api("GET", f"sandbox/{one.id}", key=key).status == 404, "it is gone")
        plainly(s.api("GET", "sandbox/mine", key=key), 404)
        box = s.create(key, name="mine")
        # What a key must see on its sandboxes it cannot take off them.
        own = s.create(others)
        s.api("PUT", f"sandbox/{own.id}/labels", {"labels": {"a": "b", "team": "mine"}}, key=others).expect(200)
        equal(s.api("GET", f"sandbox/{own.id}", key=others).expect(200).json["labels"], {"team": "other", "a": "b"}, "its labels")
        # Verbs count.
        reader = key_of(s, "--verb", "read")
        s.api("GET", f"sandbox/{box.id}", key=reader).expect(200)
        for method, path in (("DELETE", f"sandbox/{box.id}"), ("POST", f"sandbox/{box.id}/stop"), ("POST", f"toolbox/{box.id}/process/execute"),
                             ("GET", f"toolbox/{box.id}/files/download?path=/etc/passwd"), ("GET", f"toolbox/{box.id}/git/status?path=x")):
            plainly(s.api(method, path, {} if method == "POST" else None, key=reader), 403, "FORBIDDEN")


@test
def a_name_that_starts_an_id_is_a_name(c):
    """Names are chosen freely: one that begins like the id of another sandbox never stands for that one."""
    with Served(c) as s:
        key = key_of(s)
        victim, other = s.create(key), s.create(key)
        for name in (victim.id[4:9], victim.id[4], victim.id[4:-1], "sbx"):
            for method, path in (("GET", ""), ("POST", "/stop"), ("DELETE", "")):
                plainly(s.api(method, f"sandbox/{name}{path}", key=key), 404)
            plainly(s.api("POST", f"toolbox/{name}/process/execute", {"command": "id"}, key=key), 404)
            named = s.create(key, name=name)
            equal(s.api("GET", f"sandbox/{name}", key=key).expect(200).json["id"], named.id, "by its name")
            named.run("touch /tmp/mine")
            equal(s.api("POST", f"toolbox/{name}/process/execute", {"command": "ls /tmp"}, key=key).expect(200).json["result"].strip(), "mine", "what is in it")
            s.api("DELETE", f"sandbox/{name}", key=key).expect(200)
            wait_for(lambda named=named: s.api("GET", f"sandbox/{named.id}", key=key).status == 404, "it is gone")
        for box in (victim, other):
            equal(s.api("GET", f"sandbox/{box.id}", key=key).expect(200).json["state"], "started", "those that were not meant")


@test
def what_is_malformed(c):
    with Served(c) as s:
        key = key_of(s)
        box = s.create(key)
        for body in (b"{", b"[]", b'"x"', {"labels": []}, {"labels": {"a": 1}}, {"env": {"A": {}}}, {"autoStopInterval": -1}, {"autoStopInterval": "x"}, {"ttlMinutes": 1e9},
                     {"cpu": -1}, {"cpu": 1000}, {"memory": "much"}, {"snapshot": 7}, {"name": "x" * 300}, {"name": "a\nb"},
                     {"buildInfo": {"dockerfileContent": "RUN x"}}, {"domainAllowList": "not a host!"}, {"networkBlockAll": True, "domainAllowList": "a.example"}):
            answer = s.api("POST", "sandbox", body, key=key)
            check(400 <= answer.status < 500 or answer.status == 501, f"{body}: {answer}")
        for path in ("autostop/x", "autostop/-1", "autostop/99999999999999999999", "autodelete/-2", "ttl/x"):
            plainly(s.api("POST", f"sandbox/{box.id}/{path}", key=key), 400)
        for query in ("labels=x", "labels=[]", "labels=%7B%22a%22:1%7D", "cursor=x", "limit=x", "limit=100000", "states=odd"):
            plainly(s.api("GET", f"sandbox?{query}", key=key), 400)
        plainly(s.api("GET", "sandbox?minCpu=1", key=key), 501)
        plainly(s.api("GET", "nowhere", key=key), 404)
        plainly(s.api("GET", f"toolbox/{box.id}/nowhere", key=key), 404)
        for body in ({}, {"command": ""}, {"command": 7}, {"command": "x" * (200 << 10)}, {"command": "a\0b"}, {"command": "true", "timeout": -1}, {"command": "true", "envs": {"A=B": "c"}}):
            plainly(box.ask("POST", "process/execute", body), 400)
        plainly(box.ask("POST", "process/code-run", {"code": "1", "language": "cobol"}), 400)
        for path in ("process/session", "process/pty"):
            plainly(box.ask("POST", path, {"sessionId": "x" * 100, "id": "x" * 100}), 400)
        for path in ("process/pty/create-connect?id=x", "process/interpreter/execute"):
            plainly(box.ask("GET", path), 400)
        for path in ("files/info", "files/download", "files/info?path=", "files/folder?path=x&mode=9"):
            plainly(box.ask("POST" if "folder" in path else "GET", path), 400)
        for body in ({}, {"paths": []}, {"paths": "x"}, {"paths": [7]}, {"paths": ["/" + "x" * 5000]}):
            plainly(box.ask("POST", "files/bulk-download", body), 400)
        # What git would take for an option.
        for verb, body in (("clone", {"url": "--upload-pack=touch /tmp/hacked", "path": "x"}), ("checkout", {"path": ".", "branch": "--orphan"}), ("push", {"path": ".", "remote": "--exec=x"})):
            plainly(box.ask("POST", f"git/{verb}", body), 400)
        equal(box.run("ls /tmp/hacked")["exitCode"], 2, "nothing was run")
        # Words of a query and a body are data, whatever a shell would make of them.
        odd = "/tmp/$(touch x);`id` '\"\n"
        plainly(box.ask("GET", "files/search?path=%2Ftmp%2F%24%28touch%20x%29&pattern=%24%28id%29"), 404)
        plain = odd.translate({i: None for i in range(32)})
        equal(box.ask("POST", "files/replace", {"files": [plain], "pattern": "$(id)", "newValue": "`id`"}).expect(200).json[0]["success"], False, "an odd name")
        box.ask("POST", "files/replace", {"files": [plain + "\n"], "pattern": "a", "newValue": "b"}).expect(403)  # the policy's pattern for paths
        equal(box.run("ls /home/user/x /tmp/x; pwd")["result"].splitlines()[-1], "/home/user", "it still works")


def form(*parts):
    body = b"".join(b'--b\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n' % (name, b'; filename="%s"' % file if file else b"", data) for name, file, data in parts)
    return body + b"--b--\r\n"


@test
def uploads(c):
    with Served(c) as s:
        box = s.create(key_of(s))
        kind = {"Content_Type": "multipart/form-data; boundary=b"}
        path, file = b"files[0].path", b"files[0].file"
        good = form((path, None, b"/tmp/../tmp/a"), (file, b"a", b"data"))
        box.ask("POST", "files/bulk-upload", good, **kind).expect(200)
        equal(box.ask("GET", "files/download?path=/tmp/a").expect(200).data, b"data", "what was uploaded")
        for body in (good[:-10], good[:40], b"x" + good, form((file, b"a", b"data")), form((path, None, b"")), form((b"other", None, b"x")), form((path, None, b"/x" * 5000), (file, b"a", b"x"))):
            plainly(box.ask("POST", "files/bulk-upload", body, **kind), 400 if b"/x/x" not in body else 413)
        plainly(box.ask("POST", "files/bulk-upload", good, Content_Type="text/plain"), 400)
        # It is the sandbox's user who writes, in the sandbox.
        for place in (b"/proc/1/mem", b"/proc/self/x", *((b"/etc/passwd", b"../../../../etc/shadow") if c.root else ())):
            answer = box.ask("POST", "files/bulk-upload", form((path, None, place), (file, b"a", b"x")), **kind)
            check(400 <= answer.status < 500, f"{place}: {answer}")
        plainly(box.ask("GET", "files/download?path=../../../../etc/shadow"), box.ask("GET", "files/download?path=/etc/shadow").status)
        box.ask("POST", "files/upload-v2?path=/tmp/whole", b"as it is", Content_Type="application/octet-stream").expect(200)
        equal(box.ask("GET", "files/download?path=/tmp/whole").expect(200).data, b"as it is", "without a form")


def numbered(*files):
    """Files of a form as (number, path, data); a path or data of None is left out. First as TypeScript's client sends them, then as Python's."""
    paths = [(b"files[%b].path" % n, None, path) for n, path, _ in files]
    parts = [(b"files[%b].file" % n, b"name", data) for n, _, data in files]
    mixed = [one for pair in zip(paths, parts, strict=True) for one in pair]
    return [form(*(p for p in order if p[2] is not None)) for order in (mixed, paths + parts)]


def tree(box):
    """Everything that is in the directory of the test, hidden or not, and what the files hold."""
    return box.run("cd /tmp/up && ls -A1R . && cat a b 2>/dev/null")["result"]


@test
def uploads_of_many(c):
    with Served(c) as s:
        box = s.create(key_of(s))
        kind = {"Content_Type": "multipart/form-data; boundary=b"}
        names = (b"/tmp/up/one", b"/tmp/up/deep/er/two", b"/tmp/up/three")
        for i, body in enumerate(numbered(*((b"%d" % n, name, b"%b %d" % (name, n)) for n, name in zip((2, 0, 9999), names, strict=True)))):
            box.ask("POST", "files/bulk-upload", body, **kind).expect(200)
            for n, name in zip((2, 0, 9999), names, strict=True):
                equal(box.ask("GET", f"files/download?path={name.decode()}").expect(200).data, b"%b %d" % (name, n), f"order {i}")
            equal(box.run("cd /tmp/up; ls -A1R; stat -c %a one deep; rm -r /tmp/up")["result"].split(), [".:", "deep", "one", "three", "./deep:", "er", "./deep/er:", "two", "644", "755"], "what is there")
        # A file keeps its mode and the links to it.
        box.run("mkdir /tmp/up; cd /tmp/up; printf old >a; chmod 600 a; ln -s a b")
        box.ask("POST", "files/bulk-upload", numbered((b"0", b"/tmp/up/b", b"new"))[0], **kind).expect(200)
        equal(box.run("cd /tmp/up; stat -c %a a; readlink b; cat a")["result"].split(), ["600", "a", "new"], "through a link")


@test
def a_failed_upload_stores_nothing(c):
    with Served(c) as s:
        box = s.create(key_of(s))
        kind = {"Content_Type": "multipart/form-data; boundary=b"}
        box.run("mkdir -p /tmp/up/dir; cd /tmp/up; printf old >a")
        before = tree(box)
        a, new = (b"0", b"/tmp/up/a", b"new"), (b"1", b"/tmp/up/x/y/new", b"new")
        wrong = {
            "the same number": (a, new, (b"1", b"/tmp/up/c", b"c")),
            "another number": (a, new, (b"2", b"/tmp/up/c", None), (b"3", None, b"c")),
            "no path": (a, new, (b"2", None, b"c")),
            "no file": (a, new, (b"2", b"/tmp/up/c", None)),
            "an empty path": (a, new, (b"2", b"", b"c")),
            "a long path": (a, new, (b"2", b"/x" * 2500, b"c")),
            "a NUL": (a, new, (b"2", b"/tmp/up/c\0d", b"c")),
            "a directory": (a, new, (b"2", b"/tmp/up/dir", b"c")),
            "below a file": (a, new, (b"2", b"/tmp/up/a/c", b"c")),
            "below a file that comes": (a, new, (b"2", b"/tmp/up/x/y/new/c", b"c")),
            "no right to": (a, new, (b"2", b"/proc/self/c", b"c")),
            **{f"the number {n}": (a, new, (n, b"/tmp/up/c", b"c")) for n in (b"", b"-1", b"+2", b" 2", b"02", b"10000", b"4294967296", b"99999999999999999999", b"2x", b"2]", b"0x2")},
        }
        for what, files in wrong.items():
            for body in numbered(*files):
                answer = box.ask("POST", "files/bulk-upload", body, **kind)
                check(400 <= answer.status < 500, f"{what}: {answer}")
                plainly(answer, answer.status)
                equal(tree(box), before, f"after {what}")
        good = numbered(a, new, (b"2", b"/tmp/up/c", b"c" * 300000))
        for body in (*(form((name, b"x", b"x")) for name in (b"file", b"files.file", b"files[0]file", b"files[0].file.path", b"xfiles[0].file", b"files[0].name")),
                     *(g[:n] for g in good for n in (-1000, -9, -4)), *(g.replace(b"--b--", b"--b\r\nnonsense\r\n\r\n") for g in good)):
            plainly(box.ask("POST", "files/bulk-upload", body, **kind), 400)
            equal(tree(box), before, f"after {body[-30:]}")
        # A client that leaves before the end.
        for body in good:
            with socket.create_connection(("127.0.0.1", s.port)) as gone:
                head = f"Authorization: Bearer {box.key}\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: {len(body)}\r\n"
                gone.sendall(f"POST /daytona/toolbox/{box.id}/files/bulk-upload HTTP/1.1\r\nHost: 127.0.0.1:{s.port}\r\n{head}\r\n".encode() + body[:-9])
                wait_for(lambda: ".sandboxer-" in tree(box), "it is on its way")
            wait_for(lambda: tree(box) == before, "it is undone")
        box.ask("POST", "files/bulk-upload", good[0], **kind).expect(200)
        equal(box.run("cd /tmp/up; ls -A; cat a x/y/new; wc -c <c")["result"].split(), ["a", "c", "dir", "x", "newnew300000"], "the same, whole")


def link(box, key, path, operation="download", method="GET", expires=0):
    code = hmac.new(key.encode(), f"v1:files:{method}:{path}:{expires}".encode(), "sha256").digest()
    signature = "v1_" + base64.urlsafe_b64encode(code).decode().rstrip("=")
    return f"/daytona/toolbox/{box.id}/files/{operation}?" + urllib.parse.urlencode({"path": path, "expires": expires, "signature": signature})


@test
def links(c):
    with Served(c) as s:
        one, two = s.create(key_of(s)), s.create(key_of(s))
        keys = [s.api("GET", f"sandbox/{b.id}/signing-key", key=b.key).expect(200).json for b in (one, two)]
        check(keys[0] != keys[1], "each has a key of its own")
        later, before = int(time.time()) + 600, int(time.time()) - 600
        one.run("echo one > f"), two.run("echo two > f")
        for box, key, text in zip((one, two), keys, (b"one\n", b"two\n")):
            for expires in (0, later):
                equal(s.ask("GET", link(box, key, "f", expires=expires)).expect(200).data, text, "each its own")
        good = link(one, keys[0], "f", expires=later)
        for bad in (link(one, keys[0], "f", expires=before), link(one, keys[0], "f", expires=-1), link(one, keys[0], "f", expires="x"), link(one, keys[1], "f"),
                    link(two, keys[0], "f"), link(one, keys[0], "f", method="POST"), good.replace(str(later), str(later + 1)), good.replace("path=f", "path=g"),
                    good.replace("v1_", "v2_"), good.partition("&signature")[0], good[:-1], good.replace(one.id, "sbx_" + "0" * 20)):
            plainly(s.ask("GET", bad), 401)
        plainly(s.ask("POST", link(one, keys[0], "f", "upload-v2", "GET"), b"x", Content_Type="application/octet-stream"), 401)
        equal(one.run("cat f")["result"], "one\n", "the file as it was")


SERVER = """
import http.server
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        data = self.requestline.split(" ")[1].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
    def log_message(self, *a): pass
http.server.HTTPServer(("127.0.0.1", 8080), H).serve_forever()
"""


CHALLENGE = """
import http.server
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        open("/tmp/authorization", "a").write(self.headers.get("Authorization", "") + "\\n")
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="git"')
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *a): pass
http.server.HTTPServer(("127.0.0.1", 8081), H).serve_forever()
"""


@test
def git_gets_the_credentials_of_a_request(c):
    with Served(c) as s:
        box = s.create(key_of(s))
        if box.run("command -v git")["exitCode"] != 0:
            raise Skip("git is not installed")
        s.d.api.post(f"/v1/sandboxes/{box.id}/processes", {"argv": ["python3", "-c", CHALLENGE], "background": True}).expect(201)
        wait_for(lambda: s.d.api.get(f"/v1/sandboxes/{box.id}/ports/8081").json["open"], "the port is open")
        box.ask("POST", "git/clone", {"url": "http://127.0.0.1:8081/x.git", "path": "/tmp/x", "username": "ada", "password": "pass word"})
        sent = box.run("cat /tmp/authorization")["result"].split("\n")
        check("Basic " + base64.b64encode(b"ada:pass word").decode() in sent, f"the server got {sent}")


@test
def previews(c):
    """What stands behind the port is the server's inside, however it is spelled."""
    with Served(c) as s:
        box = s.create(key_of(s))
        s.d.api.post(f"/v1/sandboxes/{box.id}/processes", {"argv": ["python3", "-c", SERVER], "background": True}).expect(201)
        wait_for(lambda: s.d.api.get(f"/v1/sandboxes/{box.id}/ports/8080").json["open"], "the port is open")
        told = s.api("GET", f"sandbox/{box.id}/ports/8080/preview-url", key=box.key).expect(200).json
        base, token = told["url"].partition(str(s.port))[2], {"X-Daytona-Preview-Token": told["token"]}
        for path in ("", "/", "/a", "/a//b", "//", "/@scope%2Fname", "/a/../b", "/a%5Cb", "/%ff", "/a" * 40, "/x?y=%ff"):
            equal(s.ask("GET", base + path, **token).expect(200).data, (path or "/").encode(), f"what it was asked for by {path}")
            plainly(s.ask("GET", base + path, **{"X-Daytona-Preview-Token": "no"}), 401)
        for path in ("/daytona/preview", f"/daytona/preview/{box.id}", "/daytona/preview/../x/y"):
            check(s.ask("GET", path, Authorization=f"Bearer {box.key}").status in (400, 404), f"{path} is none")
        plainly(s.ask("GET", base.replace("8080", "0"), **token), 400)


@test
def images(c):
    """Programs are run as a user that few images have."""
    with Served(c) as s:
        key = key_of(s)
        box = [member(f"bin/{a}", kind=tarfile.SYMTYPE, link="busybox") for a in ("chmod", "chown", "grep", "mkdir")]
        s.d.api.request("POST", "/v1/images/import?name=web:1", archive(c, extra=box).read_bytes(), {"Content-Type": "application/x-tar"}).expect(201)
        for request in ({"snapshot": "web:1"}, {"buildInfo": {"dockerfileContent": "FROM web:1\n"}}):
            made = s.create(key, **request)
            equal(s.api("GET", f"sandbox/{made.id}", key=key).expect(200).json["snapshot"], "web:1", "what it was made from")
            if c.root:  # a plain user's has one identity
                equal(made.run("id -un; pwd; cat /etc/marker")["result"], "user\n/home/user\nfrom the image\n", f"by {request}")


@test
def networks(c):
    with Served(c) as s:
        key = key_of(s)
        box, closed = s.create(key, domainAllowList="example.com"), s.create(key)

        def blocked(one):
            listed = {item["id"]: item["networkBlockAll"] for item in s.api("GET", "sandbox", key=key).expect(200).json["items"]}
            equal(s.api("GET", f"sandbox/{one.id}", key=key).expect(200).json["networkBlockAll"], listed[one.id], "alone and in a list")
            return listed[one.id]

        equal([blocked(box), blocked(closed)], [False, True], "one with a name that it may reach, and one with none")
        for settings, wanted in (({"networkBlockAll": True}, True), ({"networkAllowList": "93.184.216.0/24"}, False), ({}, True)):
            s.api("POST", f"sandbox/{box.id}/network-settings", settings, key=key).expect(200)
            equal(blocked(box), wanted, f"after {settings}")


@test
def frames_that_lie(c):
    """A terminal's connection: what is declared and never comes, what is not masked, what is no frame."""
    with Served(c) as s:
        box = s.create(key_of(s))
        for n, bad in enumerate((b"\x82\xff" + struct.pack(">Q", 1 << 30) + b"mask", b"\x82\xff" + struct.pack(">Q", 1 << 63) + b"mask", b"\x82\x05hello",
                                 b"\xf2\x80mask", b"\x89\xfe\xff\xff" + b"mask", b"\x83\x80mask")):
            box.ask("POST", "process/pty", {"id": f"t{n}", "cols": 80, "rows": 24}).expect(201)
            with socket.create_connection(("127.0.0.1", s.port), 60) as client:
                client.sendall((f"GET /daytona/toolbox/{box.id}/process/pty/t{n}/connect HTTP/1.1\r\nHost: 127.0.0.1:{s.port}\r\nAuthorization: Bearer {box.key}\r\n"
                                "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n").encode())
                check(client.recv(12) == b"HTTP/1.1 101", "it is upgraded")
                client.sendall(bad)
                with contextlib.suppress(ConnectionError):
                    while client.recv(65536):
                        pass  # until it is closed on us
            equal(box.run("echo alive")["result"], "alive\n", f"after {bad[:12]!r}")
        with open(f"/proc/{s.d.plane}/status", encoding="ascii") as f:
            peak = next(int(line.split()[1]) for line in f if line.startswith("VmHWM"))
        check(peak < 200 << 10, f"the daemon took {peak} kB")


@test
def a_client_that_stops_reading(c):
    with Served(c) as s:
        box = s.create(key_of(s))
        box.run("head -c 80000000 /dev/zero > /tmp/big")
        body = b'{"paths":["/tmp/big","/tmp/big"]}'
        head = (f"POST /daytona/toolbox/{box.id}/files/bulk-download HTTP/1.1\r\nHost: 127.0.0.1:{s.port}\r\nAuthorization: Bearer {box.key}\r\n"
                f"Content-Length: {len(body)}\r\n\r\n").encode()
        with socket.create_connection(("127.0.0.1", s.port)) as slow:
            slow.sendall(head + body)
            check(b"multipart/form-data" in slow.recv(4096), "the answer begins")
            # Others are served meanwhile, and the daemon does not keep it all in mind.
            equal(box.run("echo alive")["result"], "alive\n", "another request")
            pid = s.d.process.pid
            with open(f"/proc/{pid}/status", encoding="ascii") as f:
                peak = next(int(line.split()[1]) for line in f if line.startswith("VmHWM"))
            check(peak < 200 << 10, f"the daemon took {peak} kB")
        wait_for(lambda: "cat" not in box.run("ps -o comm= -u user || true")["result"], "the operation ends with its client")
        equal(box.run("echo alive")["result"], "alive\n", "afterwards")


@test(seconds=90)
def what_a_restart_leaves(c):
    with Served(c) as s:
        box = s.create(key_of(s), name="kept", autoStopInterval=7)
        box.run("echo kept > kept")
        box.ask("POST", "process/session", {"sessionId": "goes on"}).expect(201)
        box.ask("POST", "process/session/goes%20on/exec", {"command": "cd /tmp; echo before"}).expect(200)
        stopped = s.create(box.key)
        stopped.run("echo files > files; sleep 777 &")
        equal(s.api("POST", f"sandbox/{stopped.id}/stop", key=box.key).expect(200).json["state"], "stopped", "it is stopped")
        s.d.stop()
        s.start()
        info = s.api("GET", "sandbox/kept", key=box.key).expect(200).json
        equal([info["id"], info["state"], info["autoStopInterval"]], [box.id, "started", 7], "it is known")
        again = box.ask("POST", "process/session/goes%20on/exec", {"command": "pwd"}).expect(200).json
        equal([again["exitCode"], again["stdout"]], [0, "/tmp\n"], "the session goes on")
        equal(len(box.ask("GET", "process/session/goes%20on").expect(200).json["commands"]), 2, "its commands")
        equal(s.api("GET", f"sandbox/{stopped.id}", key=box.key).expect(200).json["state"], "stopped", "it is still stopped")
        equal(s.api("POST", f"sandbox/{stopped.id}/start", key=box.key).expect(200).json["state"], "started", "it is started")
        equal(Box(s, stopped.id, box.key).run("cat files; pgrep -x sleep")["result"], "files\n", "with its files, without its processes")


@test(seconds=90)
def nobody_uses_it(c):
    """It is stopped, not destroyed; one that is not to outlive its use is destroyed."""
    with Served(c) as s:
        base = (BUILD / "profiles/base.yaml").read_text()
        c.write("daemon/profiles/idle.yaml", base.replace("id: profile.base", "id: profile.idle").replace("idle_reap: 0", "idle_reap: 4s").encode())
        s.d.stop()
        s.start()
        key = key_of(s)
        states = lambda: {item["id"]: item["state"] for item in s.api("GET", "sandbox", key=key).expect(200).json["items"]}  # which is no use of them
        box = s.create(key, snapshot="idle")
        box.run("echo kept > kept")
        box.ask("POST", "process/session", {"sessionId": "waits"}).expect(201)
        busy = s.create(key, snapshot="idle")
        busy.ask("POST", "process/session", {"sessionId": "works"}).expect(201)
        busy.ask("POST", "process/session/works/exec", {"command": "sleep 1000", "async": True}).expect(202)
        gone = s.create(key, snapshot="idle", autoDeleteInterval=0)
        wait_for(lambda: states() == {box.id: "stopped", busy.id: "started"},
                 f"{gone.id} is gone, the one whose session waits is stopped", seconds=40)
        busy.run("pkill sleep")
        wait_for(lambda: states() == {box.id: "stopped", busy.id: "stopped"}, "no command runs any more", seconds=40)
        equal(s.api("POST", f"sandbox/{box.id}/stop", key=key).expect(200).json["state"], "stopped", "again is fine")
        plainly(box.ask("POST", "process/execute", {"command": "true"}), 409)
        s.api("POST", f"sandbox/{box.id}/start", key=key).expect(200)
        equal(box.run("cat kept")["result"], "kept\n", "its files")


main()
