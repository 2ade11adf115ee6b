# SPDX-License-Identifier: Apache-2.0
"""Cells of the table of attacks: the audit record, policies, rights (cases 60 to 62)."""

import contextlib
import json
import socket

from egress_box import FAILED
from egress_cases import API, REFUSED, get, request
from egress_trial import ADAPTERS, POLICY, by_program, cell, send_address, send_place, send_request, served
from harness import Failure, check, wait_for

FORGED = b'\n{"class_uid":4001,"forged":true}\n'


@cell(60, "connect", "forward", "transparent", "dns")
def audit_is_whole(t, adapter):
    before = len(t.box.events())
    names = (b'evil"},{"forged":true', b"evil\x1b[31m.example", b"evil\nforged", b"a" * 60 + FORGED[:2], b"ev\\il\".test")
    for name in names:
        if adapter == "dns":
            t.box.ask(name)
        elif adapter != "transparent":
            send_place(t, adapter, name + b":443")
    if adapter == "transparent":
        send_address(t, None, ("10.9.8.7", 443))
    if adapter != "dns":
        for path in ("/secret/%22forged%22:true", "/secret/" + "x" * 7000, "/secret/%0a%1b[31m", "/ok?token=c2VjcmV0",
                     "/secret/x?password=c2VjcmV0"):
            send_request(t, adapter, get("Authorization: Bearer c2VjcmV0", path=path))
        send_request(t, adapter, request(b'DEL"\x1b[31m <A>/x HTTP/1.1'))
        send_request(t, adapter, get(path="/secret/" + "x" * (1 << 20)))
    wait_for(lambda: len(t.box.events()) > before, "events")
    text = t.box.audit.read_bytes()
    check(all(byte >= 32 or byte == 10 for byte in text) and text.decode(), "the record is text")
    check(b"c2VjcmV0" not in text, "no secret")
    for line in text.splitlines():
        event = json.loads(line)
        check("forged" not in event and event["class_uid"] in (4001, 4002, 4003, 5019) and len(line) <= 8192,
              f"an event: {line[:300]!r}")
    t.silent({API})
    return "one line an event"


BAD_POLICIES = [b"", b" ", b"{}", b"null", b"[]", b"{\"version\":1", b"{\"version\":2,\"network_policies\":{}}",
                b"{\"version\":1,\"version\":1}", b"{\"version\":\"1\",\"network_policies\":{}}", b"x" * 100, b"[" * 5000,
                json.dumps({"version": 1, "network_policies": {"a": {"endpoints": [{"hots": "a.b", "port": 1}]}}}).encode(),
                json.dumps({"version": 1, "network_policies": {"a": {"endpoints": [{"host": "*", "port": 443}]}}}).encode(),
                json.dumps({"version": 1, "network_policies": {"a": {"endpoints": [{"host": "10.0.0.0/8", "port": 443}]}}})
                .encode(), b"{\"version\":1,\"network_policies\":{\"a\":{},\"a\":{}}}", b"\xff\xfe{}"]


GOOD_YAML = """version: 1
network_policies:
  a:
    endpoints: [{host: api.example.com, port: 443}]
    binaries: [{path: /**}]
"""
BAD_YAML = ["", "\n# nothing\n", "version: 2\n", "{}", "version: yes\n", "version: 01\n", "version: 1\nversion: 1\n",
            GOOD_YAML.replace("443", "0443"), GOOD_YAML.replace("443", "yes"), GOOD_YAML.replace("  a:", "\ta:"),
            GOOD_YAML.replace("host:", "hots:"), GOOD_YAML + "  a:\n    endpoints: []\n", GOOD_YAML + "# " + "x" * 10_000_000,
            GOOD_YAML + "---\n" + GOOD_YAML, "version: 1\nx: &x [a, a]\ny: [*x, *x]\n", "[" * 100000,
            GOOD_YAML.replace("api.example.com", "!!python/object:os.system x"), GOOD_YAML.replace("443", "443, 443"),
            GOOD_YAML.replace("api.example.com", '"*"'), GOOD_YAML.replace("api", "\x00"), "\ufeff\ufeff" + GOOD_YAML]


def yaml_is_strict(t):
    """The program alone does not start with any of these; it does with the one that they were made of."""
    for text in BAD_YAML:
        path = t.c.write("bad.yaml", text)
        done = t.world.execute(t.c, [t.c.program("sandboxer-egress"), "--standalone", "--listen", "127.0.0.2:1",
                                     "--policy", path])
        check(done.code == 1 and "bad.yaml" in done.notes, f"{text[:200]!r}: {done}")


@cell(61, *ADAPTERS)
def bad_policies(t, adapter):
    """Refused, and the one before stays; one that allows nothing allows nothing."""
    for text in BAD_POLICIES:
        try:
            t.box.set_policy(text, answer=FAILED)
        except Failure as problem:
            raise Failure(f"{text[:100]!r}: {problem}") from None
        t.box.generation -= 1
    if adapter == "connect":
        yaml_is_strict(t)
    served(t, adapter)
    t.box.set_policy({"version": 1, "network_policies": {}})
    t.mark()
    seen = t.refused(adapter, API, 80)
    t.silent()
    t.box.set_policy(POLICY)
    return f"refused; empty: {seen}"


@cell(62, "connect", "forward", "transparent")
def others(t, adapter):
    """A connection is its holder's: who has none of the rights, or cannot be found, is refused; and from outside of
    the sandbox nobody comes to its listeners."""
    t.box.program = "/usr/bin/python3"
    check(not by_program(t, adapter), "another program is let through")
    t.box.program = None
    check(not by_program(t, adapter), "nobody is let through")
    t.box.program = "/usr/bin/curl"
    for port in (3128, 3129):
        try:
            t.world.inside.run(lambda port=port: socket.create_connection(("127.0.0.1", port), 2)).close()
            raise Failure(f"port {port} is reached from another namespace")
        except ConnectionRefusedError:
            pass
    with contextlib.suppress(ConnectionError):
        with t.box.dial("127.0.0.1", 3129) as client:
            check(client.closed() in REFUSED, "the capturing port itself")
    t.silent({"prog.example.com"})
    return "refused"
