"""Download a pinned release, check its digest, unpack it."""
import hashlib
import tarfile
import urllib.request

URL = "https://releases.example.org/jq/1.7/jq-linux.tar.gz"
SHA256 = "4dd2d8a0661df0b22f1bb9a1f9830f06b6f3b8f7d91211a1ef5d7c4f06a8b4a5"

name, _ = urllib.request.urlretrieve(URL)
with open(name, "rb") as f:
    if hashlib.sha256(f.read()).hexdigest() != SHA256:
        raise SystemExit("the download is damaged")
with tarfile.open(name) as t:
    t.extractall("tools", filter="data")
