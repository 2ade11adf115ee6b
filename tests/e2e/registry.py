# SPDX-License-Identifier: Apache-2.0
"""Images made by hand, and a registry that serves them the way a test wants it."""

import gzip
import hashlib
import http.server
import io
import json
import tarfile
import threading

from images import PASSWD, busybox, member

OCI = "application/vnd.oci.image."
APPLETS = ("sh", "cat", "echo", "id", "ls", "pwd", "env", "true")


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def layer(*members):
    """A layer's archive, not compressed."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data) if data else None)
    return out.getvalue()


def squeeze(data):
    """The same bytes at any time."""
    return gzip.compress(data, mtime=0)


def folder(name):
    return member(f"{name}/", kind=tarfile.DIRTYPE)


def file(name, data, mode=0o644):
    return member(name, data if isinstance(data, bytes) else data.encode(), mode=mode)


def base_layer():
    links = [member(f"bin/{a}", kind=tarfile.SYMTYPE, link="busybox") for a in APPLETS]
    return layer(folder("bin"), file("bin/busybox", busybox().read_bytes(), 0o755), *links, folder("etc"),
                 file("etc/passwd", PASSWD), file("etc/gone", "lower"), folder("srv"), file("srv/old", "lower"))


def upper_layer():
    return layer(file("etc/.wh.gone", b""), folder("srv"), file("srv/.wh..wh..opq", b""), file("srv/new", "upper"))


CONFIG = {"Env": ["COLOUR=blue", "PATH=/bin"], "WorkingDir": "/srv",
          "Entrypoint": ["/bin/sh", "-c"], "Cmd": ["echo $COLOUR in $(pwd)"]}


class Image:
    """Its blobs by digest, its manifest last."""

    def __init__(self, layers=None, config=None, pack=squeeze, architecture="amd64"):
        self.blobs = {}
        self.plain = layers if layers is not None else [base_layer(), upper_layer()]
        self.config = {"architecture": architecture, "os": "linux", "config": config or CONFIG,
                       "rootfs": {"type": "layers", "diff_ids": [digest(x) for x in self.plain]}}
        descriptors = [self.add(pack(x), "layer.v1.tar+gzip") for x in self.plain]
        config = self.add(json.dumps(self.config).encode(), "config.v1+json")
        self.manifest = json.dumps({"schemaVersion": 2, "mediaType": OCI + "manifest.v1+json", "config": config,
                                    "layers": descriptors}).encode()
        self.layers = [d["digest"] for d in descriptors]

    def add(self, data, kind):
        self.blobs[digest(data)] = data
        return {"mediaType": OCI + kind, "digest": digest(data), "size": len(data)}

    def layout(self, name=None):
        """As the files of an OCI layout."""
        entry = {"mediaType": OCI + "manifest.v1+json", "digest": digest(self.manifest), "size": len(self.manifest)}
        if name:
            entry["annotations"] = {"org.opencontainers.image.ref.name": name}
        blobs = {**self.blobs, digest(self.manifest): self.manifest}
        files = {f"blobs/sha256/{d[7:]}": data for d, data in blobs.items()}
        files["oci-layout"] = b'{"imageLayoutVersion":"1.0.0"}'
        files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()
        return files

    def saved(self, tag):
        """As the files of `docker save`."""
        files = {f"{digest(x)[7:19]}/layer.tar": x for x in self.plain}
        manifest = [{"Config": "config.json", "RepoTags": [tag], "Layers": list(files)}]
        return {**files, "config.json": json.dumps(self.config).encode(),
                "manifest.json": json.dumps(manifest).encode()}


def tar_of(files):
    return layer(*[file(name, data) for name, data in files.items()])


def index(*images):
    """A manifest for several platforms."""
    return json.dumps({"schemaVersion": 2, "mediaType": OCI + "index.v1+json", "manifests": [
        {"mediaType": OCI + "manifest.v1+json", "digest": digest(i.manifest), "size": len(i.manifest),
         "platform": {"os": "linux", "architecture": i.config["architecture"]}} for i in images]}).encode()


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        """Clients leave when they like."""


class Registry:
    """Serves `tags` and `blobs` on a port of its own; `seen` are (path, headers) of all requests."""

    def __init__(self):
        self.tags, self.blobs, self.seen = {}, {}, []
        self.token = self.basic = None      # what it wants to see
        self.realm = None
        self.redirect = None                # blobs are elsewhere: a function of the digest
        self.once = False                   # a token is good for one request
        self.cut = {}                       # digest: bytes after which the connection breaks, each once
        self.slow = {}                      # digest: an event; until then half of it comes, bit by bit
        self.gone = False                   # … and it is not there any more then
        self.answer = {}                    # path: (status, headers, body)
        self.server = Server(("127.0.0.1", 0), self.handler())
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def host(self):
        return f"localhost:{self.server.server_port}"

    @property
    def url(self):
        return f"http://{self.host}"

    def put(self, name, image):
        self.blobs.update(image.blobs)
        self.blobs[digest(image.manifest)] = image.manifest
        self.tags[name] = image.manifest
        return image

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def paths(self, part):
        return [path for path, _ in self.seen if part in path]

    def handler(registry):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def say(self, status, body=b"", **headers):
                self.send_response(status)
                for key, value in headers.items():
                    self.send_header(key.replace("_", "-"), value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def let_in(self):
                got = self.headers.get("Authorization", "")
                if registry.token and got != f"Bearer {registry.token}":
                    self.say(401, WWW_Authenticate=f'Bearer realm="{registry.realm or registry.url}/token",'
                             f'service="test",scope="repository:x:pull"')
                elif registry.basic and got != registry.basic:
                    self.say(401, WWW_Authenticate='Basic realm="test"')
                else:
                    if registry.once:
                        registry.token += "+"
                    return True
                return False

            def dribble(self, data, until):
                half, step = len(data) // 2, len(data) // 32
                sent = 0
                while not until.wait(0.05):
                    if sent < half:
                        self.wfile.write(data[sent:sent + step])
                        self.wfile.flush()
                        sent += step
                self.wfile.write(data[sent:])

            def send_blob(self, name):
                data = registry.blobs.get(name)
                if data is None:
                    return self.say(404)
                if registry.redirect:
                    return self.say(307, Location=registry.redirect(name))
                start, status, more = 0, 200, {}
                asked = self.headers.get("Range")
                if asked:
                    start, status = int(asked[6:-1]), 206
                    more = {"Content_Range": f"bytes {start}-{len(data) - 1}/{len(data)}"}
                cuts, slow = registry.cut.get(name), registry.slow.get(name)
                if not cuts and not slow:
                    return self.say(status, data[start:], **more)
                self.send_response(status)
                self.send_header("Content-Length", str(len(data) - start))
                self.end_headers()
                if slow:
                    return self.dribble(data[start:], slow)
                self.wfile.write(data[start:start + cuts.pop(0)])
                self.wfile.flush()
                self.close_connection = True
                if registry.gone:
                    registry.blobs.pop(name)
                return None

            def do_GET(self):
                registry.seen.append((self.path, dict(self.headers)))
                path = self.path.split("?")[0]
                if path in registry.answer:
                    status, headers, body = registry.answer[path]
                    return self.say(status, body, **headers)
                if path == "/token":
                    return self.say(200, json.dumps({"token": registry.token}).encode())
                if path.startswith("/elsewhere/"):
                    return self.say(200, registry.blobs[path[len("/elsewhere/"):]])
                if not self.let_in():
                    return None
                parts = path.split("/")
                if parts[-2] == "blobs":
                    return self.send_blob(parts[-1])
                found = registry.tags.get(parts[-1]) or registry.blobs.get(parts[-1])
                return self.say(200, found) if found else self.say(404)

        return Handler
