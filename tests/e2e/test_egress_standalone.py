#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""The egress proxy alone, as any program meets it: curl and raw bytes against recording origins."""

import contextlib
import json
import os
import re
import signal
import socket
import ssl
import time

from egress_world import OUTSIDE, PUBLIC, PUBLIC6, PUBLIC_TOO, Client, World, echo, swallow
from harness import check, equal, main, test, wait_for

POLICY = """
version: 1
network_policies:
  api:
    endpoints:
      - host: api.example.com
        ports: [443, 80, 7, 9999]
      - host: "*.wild.example.com"
        port: 443
    binaries: [{path: /**}]
  rest:
    endpoints:
      - host: rest.example.com
        port: 80
        protocol: rest
        access: read-only
    binaries: [{path: /**}]
  programs:
    endpoints:
      - host: programs.example.com
        port: 443
    binaries:
      - path: /usr/bin/curl
  literal:
    endpoints:
      - host: 93.184.216.35
        port: 443
    binaries: [{path: /**}]
"""
NOTHING = "version: 1\nnetwork_policies: {}\n"


def hello(name):
    """The first flight of a TLS client."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    out = ssl.MemoryBIO()
    session = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    try:
        session.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


def denials(proxy):
    return [e for e in proxy.events() if e.get("action_id") == 2]


@test
def curl_goes_where_the_policy_lets_it(c):
    with World() as w:
        w.dns.names["api.example.com"] = [PUBLIC]
        origin = w.secure(c.dir)
        proxy = w.proxy(c, POLICY)
        seen = w.execute(c, ["curl", "-sS", "--proxy", "http://127.0.0.1:3128", "--cacert", origin.certificate,
                             "https://api.example.com/x"])
        seen.expect(0, out=b"hello\n")
        check(b"GET /x HTTP/1.1" in origin.bytes, "the origin was asked")
        equal(set(w.dns.asked), {("api.example.com", "A"), ("api.example.com", "AAAA")}, "questions")
        equal(proxy.end(), 0, "exit status")


@test
def a_denial_says_what_why_and_what_next(c):
    with World() as w:
        w.secure(c.dir)
        proxy = w.proxy(c, POLICY)
        answer = proxy.connect("evil.example.net:443")
        equal(answer.status, 403, "status")
        equal(answer.json["error"], "policy_denied", "error")
        equal((answer.json["host"], answer.json["port"], answer.json["layer"]), ("evil.example.net", 443, "l4"),
              "place")
        check(answer.json["detail"] and answer.json["next_steps"], f"words in {answer.json}")
        w.nothing_got_out()
        wait_for(lambda: denials(proxy), "an audit event of the denial")


@test
def nothing_is_allowed_without_a_policy(c):
    with World() as w:
        w.http()
        proxy = w.proxy(c, None)
        equal(proxy.connect("api.example.com:443").status, 403, "CONNECT")
        equal(proxy.raw("GET http://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n").status, 403, "GET")
        w.nothing_got_out()


@test
def bytes_flow_both_ways_and_halves_close_alone(c):
    def late(connection, hear):
        total = 0
        while data := hear():
            total += len(data)
        connection.sendall(b"%d\n" % total)
    with World() as w:
        w.dns.names["api.example.com"] = [PUBLIC]
        w.origin(PUBLIC, 7, echo)
        w.origin(PUBLIC, 9999, late)
        proxy = w.proxy(c, POLICY)
        client, answer = proxy.tunnel("api.example.com:7")
        equal(answer.status, 200, "status")
        for text in (b"one", b"two" * 100):
            equal(client.send(text).exactly(len(text)), text, "echo")
        client.close()
        client, answer = proxy.tunnel("api.example.com:9999")
        client.send(os.urandom(8 << 20))
        client.socket.shutdown(socket.SHUT_WR)
        equal(client.rest().data, b"%d\n" % (8 << 20), "what came after the end")


@test
def much_is_carried_whole_to_a_slow_reader(c):
    text = os.urandom(1 << 20) * 48
    with World() as w:
        w.dns.names["api.example.com"] = [PUBLIC]
        w.origin(PUBLIC, 7, lambda connection, hear: (hear(), connection.sendall(text)))
        proxy = w.proxy(c, POLICY)
        client, _ = proxy.tunnel("api.example.com:7")
        client.send(b"go")
        time.sleep(0.3)
        got = client.exactly(len(text))
        equal(len(got), len(text), "bytes")
        check(got == text, "the same bytes")
        equal(client.closed(), "closed", "the end")


@test
def a_server_that_speaks_first_is_heard(c):
    with World() as w:
        w.dns.names["api.example.com"] = [PUBLIC]
        w.origin(PUBLIC, 7, lambda connection, hear: (connection.sendall(b"220 hi\r\n"), echo(connection, hear)))
        proxy = w.proxy(c, POLICY)
        client, _ = proxy.tunnel("api.example.com:7")
        equal(client.exactly(8), b"220 hi\r\n", "greeting")
        equal(client.send(b"EHLO").exactly(4), b"EHLO", "echo")


@test
def a_hello_must_name_the_host_that_was_allowed(c):
    with World() as w:
        w.dns.names["api.example.com"] = [PUBLIC]
        origin = w.origin(PUBLIC, 443, swallow)
        w.origin(PUBLIC_TOO, 443, swallow)
        proxy = w.proxy(c, POLICY)
        for name in ("other.example.com", "api.example.com.evil.example", None):
            client, answer = proxy.tunnel("api.example.com:443")
            equal(answer.status, 200, "status")
            equal(client.send(hello(name)).closed(), "reset", f"the end of {name}")
        equal(proxy.tunnel("93.184.216.35:443")[0].send(hello("api.example.com")).closed(), "reset", "by address")
        w.nothing_got_out(connections=False, names=False)
        codes = {e["status_detail"] if "status_detail" in e else str(e) for e in denials(proxy)}
        check(any("sni" in str(code) for code in codes) or "sni_" in str(denials(proxy)), f"audit: {codes}")
        good = hello("api.example.com")
        client, _ = proxy.tunnel("api.example.com:443")
        for byte in good:
            client.send(bytes([byte]))
        wait_for(lambda: origin.bytes == good, "the whole hello, in pieces of one byte")
        client, _ = proxy.tunnel("api.example.com:443")
        for odd in (b"\x16\x03\x01\xff\xff" + b"x" * 70000, b"\x80\x2e\x01\x03\x01" + b"x" * 41, good[:5] + b"\2xxxx"):
            client, _ = proxy.tunnel("api.example.com:443")
            client.send(odd)
            equal(client.closed(), "reset", f"what begins like TLS and is none: {odd[:8]!r}")
        check(b"xxxx" not in origin.bytes, "garbage went up")


# Spellings of a destination, and what CONNECT answers. None may cause a query or a connection.
SPELLINGS = {
    400: ["[api.example.com]:443", "[127.0.0.1]:80", "[[::1]]:80", "api.example.com\x00.evil:443",
          "evil\x01:443", "api.example.com%00:443", "2130706433:443", "0x7f000001:443", "0177.0.0.1:443",
          "127.1:443", "127.0.0.1.:443", "0x7f.1:443", "0:443", "[fe80::1%25lo]:443", "[fe80::1%lo]:443", "api.example.com:0",
          "api.example.com:65536", "api.example.com:443x", "api.example.com:-1", "api.example.com:007",
          "api.example.com:", "api.example.com", "\u0430pi.example.com:443", "api.example.com@evil.example:443",
          "a..b:443", "\uff11\uff12\uff17.0.0.1:443", ":443", "api.example.com:443:443"],
    403: ["-x.example.com:443", "127.0.0.1:443", "[::1]:443", "[::ffff:127.0.0.1]:443", "[::ffff:7f00:1]:443",
          "[::ffff:169.254.169.254]:80", "[64:ff9b::a9fe:a9fe]:80", "[64:ff9b:1::1]:80", "[2002:7f00:1::1]:80",
          "[2001::1]:80", "[::127.0.0.1]:80", "[::ffff:0:127.0.0.1]:80", "0.0.0.0:80", "0.1.2.3:80", "[::]:80",
          "224.0.0.1:80", "240.0.0.1:80", "255.255.255.255:80", "[ff02::1]:80", "[fec0::1]:80",
          "169.254.169.254:80", "100.100.100.200:80", "168.63.129.16:80", "192.0.0.192:80", "[fd00:ec2::254]:80",
          "metadata.google.internal:80", "10.0.0.1:443", "api.example.com:25", "api.example.com:22",
          "api.example.com:6443", "api.example.com:2379", "93.184.216.34:443", "10.77.0.1:443", "10.77.0.2:443",
          "wild.example.com:443", "programs.example.com:443", "xn--pi-7kc.example.com:443", "localhost:3128"],
}


@test
def no_spelling_gets_out(c):
    with World() as w:
        w.http()
        w.origin(PUBLIC, 443, swallow)
        w.origin(OUTSIDE, 443, swallow)
        proxy = w.proxy(c, POLICY)
        for status, spellings in SPELLINGS.items():
            for spelling in spellings:
                answer = proxy.connect(spelling)
                check(answer.status == status, f"{spelling!r}: {answer.status}, not {status}: {answer.data!r}")
        w.nothing_got_out()


@test
def a_dot_at_the_end_and_letters_of_any_case_are_the_same_host(c):
    with World() as w:
        w.dns.names["api.example.com"] = [PUBLIC]
        w.origin(PUBLIC, 7, echo)
        proxy = w.proxy(c, POLICY)
        for spelling in ("api.example.com.:7", "API.Example.COM:7"):
            equal(proxy.connect(spelling).status, 200, spelling)
        equal({name for name, _ in w.dns.asked}, {"api.example.com"}, "names asked for")


@test
def bad_requests_are_refused_and_nothing_behind_them_is_read(c):
    with World() as w:
        w.dns.names["api.example.com"] = [PUBLIC]
        w.origin(PUBLIC, 443, swallow)
        w.http()
        proxy = w.proxy(c, POLICY)
        good = "CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n"
        behind = "GET http://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n"
        for request, status in (
                (good + "Content-Length: 5\r\n\r\nhello", 400),
                (good + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
                (good.replace("Host: api", "Host: evil") + "\r\n", 400),
                (good.replace("com:443\r\n", "com:444\r\n").replace("CONNECT api.example.com:444", "CONNECT "
                                                                   "api.example.com:443") + "\r\n", 400),
                ("CONNECT api.example.com:443 HTTP/1.1\r\n\r\n", 400),
                ("CONNECT api.example.com:443 HTTP/2.0\r\nHost: api.example.com:443\r\n\r\n", 505),
                ("CONNECT  api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n", 400),
                ("CONNECT /x HTTP/1.1\r\nHost: x\r\n\r\n", 400),
                (good + " folded: x\r\n\r\n", 400),
                (good + "A: b\nC: d\r\n\r\n", 400),
                (good + "X: " + "x" * 20000 + "\r\n\r\n", 431),
                ("CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n", 403)):
            answer = proxy.raw(request + behind)
            equal(answer.status, status, f"status of {request[:100]!r}")
            equal(len(re.findall(rb"HTTP/1.1 \d", answer.data)), 1, f"answers to {request[:100]!r}")
        w.nothing_got_out()


@test
def addresses_are_checked_whatever_the_name_says(c):
    with World() as w:
        w.origin(PUBLIC, 443, swallow)
        w.origin(OUTSIDE, 443, swallow)
        own = w.origin("10.77.0.1", 443, swallow, inside=True)
        proxy = w.proxy(c, POLICY)
        for number, addresses in enumerate((["127.0.0.1"], [PUBLIC, "10.0.0.1"], ["::1"], [PUBLIC, "fe80::1"],
                                            ["169.254.169.254"], ["::ffff:127.0.0.1"], [OUTSIDE], ["10.77.0.1"],
                                            ["0.0.0.0"], ("CNAME", "internal.example", "192.168.0.1"),
                                            [PUBLIC, "64:ff9b::7f00:1"])):
            name = f"n{number}.wild.example.com"
            w.dns.names[name] = addresses
            answer = proxy.connect(f"{name}:443")
            error = "metadata_denied" if "169.254.169.254" in addresses else "ssrf_denied"
            equal((answer.status, answer.json["error"]), (403, error), f"answer for {addresses}")
        equal(own.connections, 0, "connections to ourselves")
        w.nothing_got_out(names=False)


@test
def our_own_public_address_is_refused_too(c):
    with World() as w:
        w.inside.ip(f"addr add {PUBLIC_TOO}/32 dev lo")
        own = w.origin(PUBLIC_TOO, 443, swallow, inside=True)
        proxy = w.proxy(c, POLICY)
        w.dns.names["a.wild.example.com"] = [PUBLIC_TOO]
        answer = proxy.connect("a.wild.example.com:443")
        equal((answer.status, answer.json["error"]), (403, "ssrf_denied"), "answer")
        w.inside.ip("addr add 93.184.216.99/32 dev lo")
        w.dns.names["b.wild.example.com"] = ["93.184.216.99"]
        wait_for(lambda: proxy.connect("b.wild.example.com:443").status == 403, "a new address is known")
        equal(own.connections, 0, "connections to ourselves")


@test
def a_name_is_asked_for_once_and_its_checked_address_is_dialled(c):
    with World() as w:
        origin = w.origin(PUBLIC, 7, echo)
        w.dns.names["api.example.com"] = [[PUBLIC], ["127.0.0.1"]]
        w.dns.ttls["api.example.com"] = 0
        proxy = w.proxy(c, POLICY)
        equal(proxy.connect("api.example.com:7").status, 200, "the first")
        equal(len(w.dns.asked), 2, "questions (A and AAAA)")
        wait_for(lambda: proxy.connect("api.example.com:7").status == 403, "the rebound one, when the answer is a second old")
        equal(len(w.dns.asked), 4, "questions, once more")
        wait_for(lambda: origin.connections, "the first has come")


@test
def an_answer_is_kept_as_long_as_its_ttl_and_judged_at_every_use(c):
    with World() as w:
        w.origin(PUBLIC, 7, echo)
        w.dns.names["api.example.com"] = [PUBLIC]
        proxy = w.proxy(c, POLICY)
        equal(proxy.connect("api.example.com:7").status, 200, "the first")
        asked = list(w.dns.asked)
        equal(set(asked), {("api.example.com", "A"), ("api.example.com", "AAAA")}, "questions")
        equal(proxy.connect("api.example.com:7").status, 200, "the second")
        equal(w.dns.asked, asked, "questions, after the second")
        before = proxy.reload(POLICY.replace("[443, 80, 7, 9999]", "[7]\n        allowed_ips: [1.2.3.4]"))
        wait_for(lambda: proxy.generation() > before, "the new policy is in force")
        equal(proxy.connect("api.example.com:7").status, 403, "by a policy that does not take the address")
        equal(w.dns.asked, asked, "questions, after the third")


@test
def names_that_do_not_resolve_are_told_from_denials(c):
    with World() as w:
        w.dns.names.update({"a.wild.example.com": "NXDOMAIN", "b.wild.example.com": "SERVFAIL",
                            "c.wild.example.com": []})
        proxy = w.proxy(c, POLICY)
        for letter in "abc":
            answer = proxy.connect(f"{letter}.wild.example.com:443")
            equal((answer.status, answer.json["error"]), (502, "resolution_failed"), letter)


@test
def an_origin_that_is_not_there_is_a_502(c):
    with World() as w:
        w.dns.names["api.example.com"] = [PUBLIC]
        proxy = w.proxy(c, POLICY)
        answer = proxy.connect("api.example.com:9999")
        equal((answer.status, answer.json["error"]), (502, "upstream_unreachable"), "answer")


@test
def addresses_are_tried_in_turn_and_ipv6_works(c):
    with World() as w:
        origin = w.origin(PUBLIC6, 7, echo)
        w.dns.names["api.example.com"] = [PUBLIC, PUBLIC6]
        proxy = w.proxy(c, POLICY)
        equal(proxy.connect("api.example.com:7").status, 200, "status")
        wait_for(lambda: origin.connections == 1, "a connection over IPv6")


@test
def rules_that_name_programs_allow_nothing_here(c):
    with World() as w:
        proxy = w.proxy(c, POLICY)
        answer = proxy.connect("programs.example.com:443")
        equal((answer.status, answer.json["error"]), (403, "identity_unknown"), "answer")
        w.nothing_got_out()


@test
def inspected_hosts_meet_the_same_rules_by_tunnel_and_by_forward(c):
    with World() as w:
        w.dns.names["rest.example.com"] = [PUBLIC]
        origin = w.http()
        proxy = w.proxy(c, POLICY)
        curl = ["curl", "-sS", "-o", "-", "-w", "%{http_code}", "--proxy", "http://127.0.0.1:3128"]
        for flags in ([], ["--proxytunnel"]):
            w.execute(c, [*curl, *flags, "http://rest.example.com/x"]).expect(0, out=b"hello\n200")
            before = origin.bytes
            seen = w.execute(c, [*curl, *flags, "-X", "DELETE", "http://rest.example.com/x"])
            check(seen.out.endswith(b"403"), f"DELETE {flags}: {seen}")
            check(b"DELETE" not in origin.bytes[len(before):], "the request went up")


@test
def a_new_policy_closes_what_it_does_not_allow_at_once(c):
    with World() as w:
        w.dns.names["api.example.com"] = [PUBLIC]
        origin = w.origin(PUBLIC, 7, echo)
        proxy = w.proxy(c, POLICY)
        client, _ = proxy.tunnel("api.example.com:7")
        equal(client.send(b"one").exactly(3), b"one", "before")
        proxy.reload(POLICY.replace("9999", "9998"))
        wait_for(lambda: proxy.connect("api.example.com:9999").status == 403, "the new policy is in force")
        equal(client.send(b"two").exactly(3), b"two", "what is still allowed goes on")
        proxy.reload(NOTHING)
        equal(client.closed(), "reset", "what is not allowed any more")
        equal(origin.bytes, b"onetwo", "what went up")
        equal(proxy.connect("api.example.com:7").status, 403, "another")


@test
def a_tunnel_that_becomes_inspected_is_closed(c):
    with World() as w:
        w.dns.names["api.example.com"] = [PUBLIC]
        w.origin(PUBLIC, 7, echo)
        proxy = w.proxy(c, POLICY)
        client, _ = proxy.tunnel("api.example.com:7")
        equal(client.send(b"one").exactly(3), b"one", "before")
        proxy.reload("version: 1\nnetwork_policies: {a: {endpoints: [{host: api.example.com, port: 7, "
                     "protocol: rest, access: full}], binaries: [{path: /**}]}}\n")
        equal(client.closed(), "reset", "the end")


def granted(limit, host="api.example.com", port=7, rest=""):
    return f"network_policies: {{grant: {{{limit}, endpoints: [{{host: {host}, port: {port}{rest}}}]}}}}\nversion: 1\n"


@test
def a_grant_ends_at_its_time_and_takes_along_what_it_let_through(c):
    with World() as w:
        w.dns.names["api.example.com"] = [PUBLIC]
        origin = w.origin(PUBLIC, 7, echo)
        ends = time.gmtime(time.time() + 10)
        proxy = w.proxy(c, granted(time.strftime("until: '%Y-%m-%dT%H:%M:%SZ'", ends)))
        client, _ = proxy.tunnel("api.example.com:7")
        equal(client.send(b"one").exactly(3), b"one", "before")
        equal(client.closed(30), "reset", "what was open")
        refused = proxy.connect("api.example.com:7")
        equal((refused.status, refused.json["error"]), (403, "policy_expired"), "another")
        check("grant" in refused.json["detail"], refused.json)
        equal(origin.bytes, b"one", "what went up")
        proxy.reload(granted("until: 2000-01-01T00:00:00Z"))
        equal(proxy.connect("api.example.com:7").json["error"], "policy_expired", "one that came too late")


@test
def a_grant_is_used_as_often_as_it_says(c):
    with World() as w:
        w.dns.names["api.example.com"] = [PUBLIC]
        w.origin(PUBLIC, 7, echo)
        proxy = w.proxy(c, granted("uses: 2"))
        first, _ = proxy.tunnel("api.example.com:7")
        second, _ = proxy.tunnel("api.example.com:7")
        refused = proxy.connect("api.example.com:7")
        equal((refused.status, refused.json["error"]), (403, "uses_spent"), "the third")
        for client in (first, second):
            equal(client.send(b"one").exactly(3), b"one", "what was let through goes on")


@test
def an_inspected_grant_is_used_by_the_request(c):
    with World() as w:
        w.dns.names["api.example.com"] = [PUBLIC]
        origin = w.http()
        proxy = w.proxy(c, granted("uses: 2", port=80, rest=", protocol: rest, access: full"))
        urls = [f"http://api.example.com/{n}" for n in range(3)]
        seen = w.execute(c, ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code} ", "--proxy", "http://127.0.0.1:3128",
                             urls[0], "-o", "/dev/null", urls[1], "-o", "/dev/null", urls[2]])
        equal(seen.out, b"200 200 403 ", "three requests")
        equal([b"GET /%d " % n in origin.bytes for n in range(3)], [True, True, False], "what went up")


@test
def a_bad_policy_fails_closed_or_is_not_taken(c):
    for flags, after in (((), 403), (("--on-bad-policy", "retain"), 200)):
        with World() as w:
            w.dns.names["api.example.com"] = [PUBLIC]
            w.origin(PUBLIC, 7, echo)
            proxy = w.proxy(c, POLICY, *flags)
            client, _ = proxy.tunnel("api.example.com:7")
            proxy.reload("version: 1\nnetwork_policies: {x: {endpoints: [{hots: a}]}}\n")
            if after == 403:
                equal(client.closed(), "reset", "the tunnel")
            else:
                wait_for(lambda proxy=proxy: proxy.says("egress.policy.failed"), "it says so")
                equal(client.send(b"x").exactly(1), b"x", "the tunnel")
            equal(proxy.connect("api.example.com:7").status, after, f"after, with {flags}")
            proxy.end()


@test
def the_record_is_begun_anew_after_it_was_moved_away(c):
    def denied_at(host):
        return [e for e in denials(proxy) if e["dst_endpoint"].get("hostname") == host]
    with World() as w:
        proxy = w.proxy(c, POLICY)
        equal(proxy.connect("first.example.net:443").status, 403, "before")
        wait_for(lambda: denied_at("first.example.net"), "the first is on record")
        moved = proxy.audit.rename(c.dir / "moved.jsonl")
        before = moved.read_text()
        proxy.process.send_signal(signal.SIGHUP)
        wait_for(lambda: proxy.generation() == 2, "the policy is read again, and that is on the new record")
        equal(proxy.audit.stat().st_mode & 0o777, 0o600, "mode")
        equal(proxy.connect("second.example.net:443").status, 403, "after")
        wait_for(lambda: denied_at("second.example.net"), "the second is on the new record")
        equal((denied_at("first.example.net"), moved.read_text()), ([], before), "the first is on the old one only")
        proxy.process.send_signal(signal.SIGHUP)
        wait_for(lambda: proxy.generation() == 3, "the same file goes on")
        check(denied_at("second.example.net"), "and nothing of it is lost")


@test
def a_record_that_cannot_be_begun_anew_goes_on(c):
    with World() as w:
        proxy = w.proxy(c, POLICY)
        wait_for(proxy.audit.exists, "the record is begun")
        moved = proxy.audit.rename(c.dir / "moved.jsonl")
        for number, make in enumerate((os.mkdir, os.mkfifo)):
            make(proxy.audit)
            proxy.log = ""
            proxy.process.send_signal(signal.SIGHUP)
            wait_for(lambda: proxy.says("egress.audit_failed"), "it says so")
            equal(proxy.connect(f"host{number}.example.net:443").status, 403, "a denial")
            wait_for(lambda number=number: f"host{number}.example.net" in moved.read_text(), "it is on the old record")
            proxy.audit.rename(c.dir / f"aside{number}")


@test
def a_sink_that_does_not_read_denies_and_holds_up_nothing(c):
    def fill(proxy):
        """Connections until ten in a row are denied, since a shorter record may still fit; how many were allowed."""
        allowed = denied = 0
        while denied < 10:
            answer = proxy.connect("api.example.com:7")
            if answer.status == 200:
                allowed, denied = allowed + 1, 0
                check(allowed < 2000, "everything is allowed")
            else:
                equal((answer.status, answer.json["error"]), (503, "audit_unavailable"), "the denial")
                denied += 1
        return allowed

    def drain(fd):
        heard = b""
        os.set_blocking(fd, False)
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(fd, 65536):
                heard += piece
        return heard

    with World() as w:
        w.dns.names["api.example.com"] = [PUBLIC]
        w.origin(PUBLIC, 7, echo)
        fifo = c.dir / "fifo"
        os.mkfifo(fifo, 0o600)
        os.chown(fifo, c.uid, c.uid)
        w.execute(c, [c.program("sandboxer-egress"), "--standalone", "--audit", fifo]).expect(1, says="no reader")
        for sink in ("-", fifo):
            fd = -1 if sink == "-" else os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
            proxy = w.proxy(c, POLICY, "--audit", sink)
            heard, allowed = b"", 0
            fd = proxy.process.stdout.fileno() if sink == "-" else fd
            for turn in range(2):
                allowed += fill(proxy)
                for _ in range(3):
                    equal(proxy.connect("api.example.com:7").status, 503, f"while nobody reads, turn {turn}")
                    forwarded = proxy.raw("GET http://api.example.com:7/ HTTP/1.1\r\nHost: api.example.com:7\r\n\r\n")
                    equal(forwarded.status, 503, "a request")
                    equal(proxy.connect("evil.example.net:443").status, 403, "what the policy denies anyway")
                heard += drain(fd)

                def again():
                    nonlocal heard, allowed
                    heard += drain(fd)
                    good = proxy.connect("api.example.com:7").status == 200
                    allowed += good
                    return good
                wait_for(again, "it goes on when the sink is read")
            equal(proxy.end(), 0, "exit status")
            heard += drain(fd)
            lines = heard.decode().splitlines(keepends=True)
            opened = sum(json.loads(line).get("type_uid") == 400101 for line in lines)
            equal(opened, allowed, "connections that were allowed, and their records")
            c.execute([c.program("sandboxer-egress"), "--verify-log"], stdin=heard).expect(0)
            if sink == fifo:
                os.close(fd)


@test
def it_does_not_start_with_a_policy_it_cannot_read(c):
    with World() as w:
        for text in ("", "version: 2\n", "version: 1\nnetwork_policies: {a: {endpoints: [{host: x}]}}\n"):
            path = c.write("bad.yaml", text)
            done = w.execute(c, [c.program("sandboxer-egress"), "--standalone", "--policy", path])
            done.expect(1, says="bad.yaml")
        w.execute(c, [c.program("sandboxer-egress"), "--standalone", "--policy", "/nowhere/x.yaml"]).expect(1)
        w.execute(c, [c.program("sandboxer-egress"), "--standalone", "--listen", "0.0.0.0:3128"]).expect(
            2, says="listen-anywhere")
        w.execute(c, [c.program("sandboxer-egress")]).expect(2)
        w.execute(c, [c.program("sandboxer-egress"), "--help"]).expect(0)


@test
def connections_go_through_another_proxy_to_the_checked_address(c):
    def connect_proxy(connection, hear):
        data = b""
        while b"\r\n\r\n" not in data:
            data += hear()
        with w.outside.run(lambda: socket.create_connection((PUBLIC, 7))) as far:
            connection.sendall(b"HTTP/1.1 200 OK\r\nX: y\r\n\r\nhi")
            while more := hear():
                far.sendall(more)
                connection.sendall(far.recv(65536))

    def socks(connection, hear):
        hear()
        connection.sendall(b"\5\0")
        hear()
        connection.sendall(b"\5\0\0\1\0\0\0\0\0\0hi")
        echo(connection, hear)
    with World() as w:
        w.dns.names["api.example.com"] = [PUBLIC]
        w.origin(PUBLIC, 7, echo)
        first = w.origin(OUTSIDE, 8080, connect_proxy)
        second = w.origin(OUTSIDE, 1080, socks)
        for url, seen, want in (("http://10.77.0.2:8080", first, b"CONNECT 93.184.216.34:7 HTTP/1.1\r\n"),
                                ("socks5://10.77.0.2:1080", second, b"\5\1\0\5\1\0\1\x5d\xb8\xd8\x22\0\7")):
            proxy = w.proxy(c, POLICY, "--upstream", url)
            client, answer = proxy.tunnel("api.example.com:7")
            equal(answer.status, 200, "status")
            equal(client.exactly(2), b"hi", "what the far end said at once")
            equal(client.send(b"four").exactly(4), b"four", "echo")
            check(seen.bytes.startswith(want), f"asked for {seen.bytes!r}")
            count = seen.connections
            equal(proxy.connect("evil.example:7").status, 403, "what is not allowed")
            equal(seen.connections, count, "connections to the upstream proxy")
            proxy.end()


@test
def many_and_dead_clients_hurt_only_themselves(c):
    with World() as w:
        w.dns.names["api.example.com"] = [PUBLIC]
        w.origin(PUBLIC, 7, echo)
        proxy = w.proxy(c, POLICY)
        idle = [proxy.open() for _ in range(300)]
        half = [proxy.open().send("CONNECT api.exa") for _ in range(100)]
        started = time.monotonic()
        client, _ = proxy.tunnel("api.example.com:7")
        equal(client.send(b"x").exactly(1), b"x", "echo")
        check(time.monotonic() - started < 9, "a good client waited")
        for other in idle + half:
            other.close()
        equal(client.send(b"y").exactly(1), b"y", "echo")


@test
def descriptors_running_out_is_survived(c):
    with World() as w:
        w.dns.names["api.example.com"] = [PUBLIC]
        w.origin(PUBLIC, 7, echo)
        limited = ["prlimit", "--nofile=64:64"]
        policy = c.write("policy.yaml", POLICY)
        process = w.start(c, [*limited, c.program("sandboxer-egress"), "--standalone", "--policy", policy,
                              "--resolver", "93.184.216.53"])

        def opened():
            return Client(w.inside.run(lambda: socket.create_connection(("127.0.0.1", 3128), 5)))

        def listens():
            try:
                opened().close()
                return True
            except OSError:
                return False
        wait_for(listens, "it listens")
        crowd = [opened() for _ in range(200)]
        time.sleep(0.5)
        before = cpu(process.pid)
        time.sleep(1)
        check(cpu(process.pid) - before < 0.3, "it spins")
        for client in crowd:
            client.close()

        def served():
            with opened() as client:
                client.send("CONNECT api.example.com:7 HTTP/1.1\r\nHost: api.example.com:7\r\n\r\n")
                return client.head().status == 200
        wait_for(served, "it serves again")
        equal(process.poll(), None, "exit status")


def cpu(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@test
def it_is_confined(c):
    with World() as w:
        proxy = w.proxy(c, POLICY)

        def read_facts():
            with open(f"/proc/{proxy.process.pid}/status", encoding="utf-8") as status:
                return dict(line.split(":\t", 1) for line in status.read().splitlines() if ":\t" in line)
        wait_for(lambda: read_facts()["Seccomp"].strip() == "2", "it is confined, before it serves but after it listens")
        facts = read_facts()
        equal(facts["NoNewPrivs"].strip(), "1", "NoNewPrivs")
        for kind in ("CapPrm", "CapEff", "CapInh", "CapAmb"):
            equal(int(facts[kind], 16), 0, kind)


@test
def signals_end_it_cleanly(c):
    with World() as w:
        for number in (signal.SIGTERM, signal.SIGINT):
            proxy = w.proxy(c, POLICY)
            proxy.process.send_signal(number)
            equal(proxy.process.wait(10), 0, "exit status")


main()
