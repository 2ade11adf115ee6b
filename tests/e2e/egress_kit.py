# SPDX-License-Identifier: Apache-2.0
"""What clients need inside a sandbox and no package has: programs built here, certificates, keys, modules."""

import hashlib
import os
import shutil
import subprocess
import tempfile

from harness import Skip
from npm import cache, modules

# Go without C: its own resolver and dialler, and no proxy. One connection of the family that is asked for.
GO = """
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
)

func main() {
	dial := func(c context.Context, _, address string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(c, os.Args[1], address)
	}
	client := http.Client{Transport: &http.Transport{Proxy: nil, DialContext: dial}}
	answer, err := client.Get(os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	io.Copy(os.Stdout, answer.Body)
	if answer.StatusCode != 200 {
		os.Exit(2)
	}
}
"""

# musl's resolver, which asks for both families at once and takes no answer but a good one.
MUSL = r"""
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
    char text[4096];
    ssize_t n;
    int r, fd = -1;

    if (argc != 4)
        return 64;
    hints.ai_family = argv[1][0] == '6' ? AF_INET6 : AF_INET;
    r = getaddrinfo(argv[2], argv[3], &hints, &found);
    if (r != 0) {
        fprintf(stderr, "%s: %s\n", argv[2], gai_strerror(r));
        return 1;
    }
    for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype, 0);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
            perror("connect");
            close(fd);
            fd = -1;
        }
    }
    if (fd < 0)
        return 2;
    snprintf(text, sizeof text, "GET /hello HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", argv[2]);
    if (write(fd, text, strlen(text)) < 0) {
        perror("write");
        return 3;
    }
    while ((n = read(fd, text, sizeof text)) > 0)
        fwrite(text, 1, (size_t)n, stdout);
    if (n < 0)
        perror("read");
    return n < 0 ? 4 : 0;
}
"""


def need(program, package):
    if not shutil.which(program):
        raise Skip(f"{package} is not installed")


def build_go(place):
    """Kept in the cache: the standard library takes its time."""
    need("go", "golang-go")
    kept = cache() / f"go-client-{hashlib.sha256(GO.encode()).hexdigest()[:12]}"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="go-") as scratch:
            source = os.path.join(scratch, "client.go")
            with open(source, "w", encoding="utf-8") as file:
                file.write(GO)
            subprocess.run(["go", "build", "-o", f"{scratch}/client", source], check=True, capture_output=True, cwd=scratch,
                           env={**os.environ, "CGO_ENABLED": "0", "GO111MODULE": "off", "GOCACHE": f"{scratch}/cache", "GOFLAGS": ""})
            shutil.copy(f"{scratch}/client", f"{kept}.{os.getpid()}")
            os.rename(f"{kept}.{os.getpid()}", kept)
    shutil.copy(kept, place / "go-client")


def build_musl(place):
    need("musl-gcc", "musl-tools")
    (place / "musl.c").write_text(MUSL)
    subprocess.run(["musl-gcc", "-static", "-O1", "-o", place / "musl-client", place / "musl.c"], check=True, capture_output=True)


def copy_modules(place):
    shutil.copytree(modules() / "node_modules/ws", place / "node_modules/ws")


def make_certificates(place, names):
    """An authority of our own and a certificate for these names: certificate.pem, key.pem, and authority.pem for clients."""
    names = ",".join(f"DNS:{name}" for name in names)
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]

    def openssl(*argv):
        subprocess.run(["openssl", *argv], check=True, capture_output=True, cwd=place)
    openssl("req", "-x509", *curve, "-days", "2", "-subj", "/CN=authority", "-keyout", "authority.key", "-out", "authority.pem")
    openssl("req", "-x509", *curve, "-days", "2", "-subj", "/CN=server", "-addext", f"subjectAltName={names}", "-addext",
            "basicConstraints=critical,CA:FALSE", "-CA", "authority.pem", "-CAkey", "authority.key", "-keyout", "key.pem", "-out",
            "certificate.pem")


def make_kit(place):
    """Fills a directory; what cannot be had is in the answer: name -> why."""
    missing = {}
    for name, build in (("go", build_go), ("musl", build_musl), ("ws", copy_modules)):
        try:
            build(place)
        except Skip as why:
            missing[name] = str(why)
    return missing
