# SPDX-License-Identifier: Apache-2.0
"""What is known to have gone wrong in egress proxies, as data: 62 numbered cases, of which these are tried here.

A case has probes of five kinds, and each kind goes through the adapters that it can reach:

    places      authorities: connect (CONNECT it) and forward (GET http://it/)
    addresses   (address, port): transparent (dial it)
    names       DNS names, bytes as they are: dns (ask for it over UDP)
    requests    HTTP, where <A> is what comes before the path: forward, connect (in a tunnel), transparent
    hellos      first bytes of TLS to api.example.com:443: connect (in a tunnel), transparent

A probe that should end otherwise than its case says is a pair of it and the outcome. An outcome is a status or a
word; a tuple means any of them. Only what ends with a 200 may have reached an origin, and no probe may have asked for
a name that the policy does not have. Cases that take more than bytes have functions in egress_cells_*.py; `absent`
says why an adapter has no cell."""

import dataclasses
import ssl
import struct

API = "api.example.com"
NO_SPELLING = "a program dials an address: nothing is spelt"
NO_ADDRESS = "DNS asks for names, not for addresses"
NO_BYTES = "DNS carries no such bytes"
NO_TUNNEL = "forward requests are no tunnels"
NO_CONNECT = "there is no CONNECT"
REFUSED = ("reset", "closed", "unreachable")


@dataclasses.dataclass
class Case:
    number: int
    title: str
    says: object = 400
    places: tuple = ()
    addresses: tuple = ()
    names: tuple = ()
    requests: tuple = ()
    hellos: tuple = ()
    absent: dict = dataclasses.field(default_factory=dict)

    def probes(self, adapter):
        """(kind, probe, outcomes) of those that go through this adapter."""
        kinds = {"connect": ("places", "requests", "hellos"), "forward": ("places", "requests"),
                 "transparent": ("addresses", "requests", "hellos"), "dns": ("names",)}[adapter]
        usual = {"addresses": REFUSED, "names": "NXDOMAIN", "hellos": REFUSED}
        for kind in kinds:
            for probe in getattr(self, kind):
                outcome = usual.get(kind, self.says)
                if isinstance(probe, tuple) and kind != "addresses":
                    probe, outcome = probe
                yield kind, probe, outcome if isinstance(outcome, tuple) else (outcome,)


def request(line, *fields, body=b"", host=API):
    lines = [line.encode("latin-1") if isinstance(line, str) else line]
    lines += [b"Host: " + host.encode()] if host is not None else []
    lines += [f.encode("latin-1") if isinstance(f, str) else f for f in fields]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def get(*fields, path="/ok", **options):
    return request(f"GET <A>{path} HTTP/1.1", *fields, **options)


def post(*fields, **options):
    return request("POST <A>/ok HTTP/1.1", *fields, **options)


def chunks(body):
    return post("Transfer-Encoding: chunked", body=body)


def hello(name=API):
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


def hello_for(name):
    """A hello for bytes as long as the API's name, which no library would put there."""
    assert len(name) == len(API)
    return hello().replace(API.encode(), name)


def records(data, *sizes):
    """The same handshake message in several records."""
    head, rest, made = data[:3], data[5:], b""
    for size in (*sizes, len(rest)):
        part, rest = rest[:size], rest[size:]
        made += head + struct.pack("!H", len(part)) + part if part else b""
    return made


def padded(data, total):
    """The same with a padding extension (RFC 7685) that makes the message so long."""
    body = bytearray(data[9:])
    at = 34 + 1 + body[34]                                     # version, random, session id
    at += 2 + struct.unpack("!H", body[at:at + 2])[0]          # cipher suites
    at += 1 + body[at]                                         # compression methods
    more = total - len(body) - 4
    size = struct.unpack("!H", body[at:at + 2])[0] + 4 + more
    body[at:at + 2] = struct.pack("!H", size)
    body += struct.pack("!HH", 21, more) + b"\0" * more
    message = b"\1" + struct.pack("!I", len(body))[1:] + bytes(body)
    return b"".join(b"\x16\3\1" + struct.pack("!H", len(message[i:i + 16384])) + message[i:i + 16384]
                    for i in range(0, len(message), 16384))


def greased(data):
    """The same with values that mean nothing (RFC 8701): cipher suites, and extensions before and behind the others."""
    body = data[9:]
    at = 34 + 1 + body[34]                                     # version, random, session id
    n = struct.unpack("!H", body[at:at + 2])[0]
    suites, rest = body[at + 2:at + 2 + n], body[at + 2 + n:]
    methods, rest = rest[:1 + rest[0]], rest[1 + rest[0]:]
    extensions = b"\x1a\x1a\0\0" + rest[2:] + b"\xfa\xfa\0\1\0"
    body = body[:at] + struct.pack("!H", n + 4) + b"\x0a\x0a" + suites + b"\xea\xea" + methods + \
        struct.pack("!H", len(extensions)) + extensions
    message = b"\1" + struct.pack("!I", len(body))[1:] + body
    return data[:3] + struct.pack("!H", len(message)) + message


ODD = (400, 403)
SMUGGLED = b"GET <A>/secret/x HTTP/1.1\r\nHost: api.example.com\r\n\r\n"

CASES = [
    Case(1, "trailing dot", absent={"dns": "on the wire every name ends the same"}),
    Case(2, "brackets round a name",
         places=("[api.example.com]:443", "[127.0.0.1]:80", "[[::1]]:80", "[api.example.com:443", "api.example.com]:443"),
         names=(b"[api.example.com]", b"[::1]"),
         absent={"transparent": NO_SPELLING}),
    Case(3, "NUL and control bytes in a host",
         places=(b"evil.example\0.api.example.com:443", b"api.example.com\0:443", b"api.example.com\1:443",
                 b"api.example.com\t:443", "api.example.com%00:443", b"api.example.com\x7f:443",
                 "api.example.com%2eevil:443", b"api.example.com\xff:443", "api .example.com:443"),
         names=(b"evil\0.api.example.com", b"api\0.example.com", b"api.example.com\0", b"a\1.wild.example.com",
                b"a b.wild.example.com", b"a%00.wild.example.com", b"a\x7f.wild.example.com"),
         absent={"transparent": NO_SPELLING}),
    Case(4, "IPv4 in odd bases",
         places=("2130706433:80", "0x7f000001:80", "0177.0.0.1:80", "127.1:80", "0x7f.1:80", "0:80", "127.0.0.1.:80",
                 "\uff11\uff12\uff17.0.0.1:80", "\u2460\u2461\u2466.0.0.1:80", "1.2.3.4.5:80", "256.1.1.1:80",
                 "017700000001:80", "0x7f.0.0.0x1:80", "127.0.1:80", "08.8.8.8:80"),
         names=(b"2130706433", b"0x7f000001", b"127.1", b"127.0.0.1"),
         absent={"transparent": NO_SPELLING}),
    Case(5, "IPv4-mapped IPv6", says=403,
         places=("[::ffff:127.0.0.1]:80", "[::ffff:7f00:1]:80", "[::ffff:169.254.169.254]:80", "[::FFFF:10.0.0.1]:443",
                 "[0:0:0:0:0:ffff:7f00:0001]:80"),
         addresses=(("::ffff:169.254.169.254", 80), ("::ffff:10.0.0.1", 443), ("::ffff:93.184.216.34", 443)),
         absent={"dns": NO_ADDRESS}),
    Case(6, "other embeddings of IPv4", says=403,
         places=("[64:ff9b::a9fe:a9fe]:80", "[64:ff9b:1::1]:80", "[2002:7f00:1::1]:80", "[2001::1]:80",
                 "[::127.0.0.1]:80", "[::ffff:0:127.0.0.1]:80", "[2001:0:7f00:1::1]:80"),
         addresses=(("64:ff9b::a9fe:a9fe", 80), ("64:ff9b:1::1", 80), ("2002:7f00:1::1", 80), ("2001::1", 80),
                    ("::127.0.0.1", 80), ("::ffff:0:127.0.0.1", 80)),
         absent={"dns": NO_ADDRESS}),
    Case(7, "unspecified, this network", says=403,
         places=("0.0.0.0:80", "0.1.2.3:80", "[::]:80"),
         addresses=(("0.1.2.3", 80),),
         absent={"dns": NO_ADDRESS}),
    Case(8, "multicast, reserved, broadcast", says=403,
         places=("224.0.0.1:80", "239.1.2.3:80", "240.0.0.1:80", "255.255.255.255:80", "[ff02::1]:80", "[ff0e::1]:80",
                 "[fec0::1]:80", "192.0.2.1:80", "198.51.100.1:80", "203.0.113.1:80", "[2001:db8::1]:80",
                 "198.18.0.1:80", "[100::1]:80"),
         addresses=(("240.0.0.1", 80), ("255.255.255.255", 80), ("224.0.0.1", 80), ("ff0e::1", 80), ("fec0::1", 80),
                    ("192.0.2.1", 80), ("2001:db8::1", 80)),
         absent={"dns": NO_ADDRESS}),
    Case(9, "zone ids",
         places=("[fe80::1%25lo]:443", "[fe80::1%lo]:443", "[fe80::1%]:443", "fe80::1%lo:443"),
         addresses=(("fe80::1%lo", 443),),
         absent={"dns": NO_ADDRESS}),
    Case(10, "metadata outside link-local", says=403,
         places=("100.100.100.200:80", "168.63.129.16:80", "192.0.0.192:80", "[fd00:ec2::254]:80", "[fd20:ce::254]:80",
                 "metadata.google.internal:80", "169.254.169.254:80", "metadata.wild.example.com:7"),
         addresses=(("100.100.100.200", 80), ("168.63.129.16", 80), ("192.0.0.192", 80), ("fd00:ec2::254", 80),
                    ("fd20:ce::254", 80), ("169.254.169.254", 80)),
         names=(b"metadata.google.internal", (b"metadata.wild.example.com", ("NXDOMAIN", "SERVFAIL")))),
    Case(11, "our own addresses", says=403,
         places=("127.0.0.1:3128", "[::1]:3128", "localhost:3128", "10.77.0.1:443", "[fd77::1]:443",
                 "own.wild.example.com:443", "gateway.wild.example.com:443", "93.184.216.99:443"),
         addresses=(("10.77.0.1", 443), ("10.77.0.2", 443), ("fd77::1", 443), ("93.184.216.99", 443)),
         names=(b"localhost", (b"own.wild.example.com", ("NXDOMAIN", "SERVFAIL")),
                (b"gateway.wild.example.com", ("NXDOMAIN", "SERVFAIL")))),
    Case(12, "ports", says=403,
         places=("api.example.com:25", "api.example.com:22", "api.example.com:9999", "api.example.com:2379",
                 "api.example.com:2380", "api.example.com:6443", "api.example.com:10250", "api.example.com:10255",
                 ("api.example.com:0", 400), ("api.example.com:65536", 400), ("api.example.com:443x", 400),
                 ("api.example.com:-1", 400), ("api.example.com:007", 400), ("api.example.com:+443", 400),
                 ("api.example.com: 443", 400), ("api.example.com:4\u06643", 400)),
         absent={"dns": "DNS asks for names, not for ports"}),
    Case(13, "IDN and homographs",
         places=("\u0430pi.example.com:443", "api\u00ad.example.com:443", "api\u3002example.com:443",
                 "\uff41pi.example.com:443", ("xn--pi-7kc.example.com:443", 403), ("xn--.example.com:443", ODD)),
         names=("\u0430pi.example.com".encode(), "api\u3002example.com".encode(), b"xn--pi-7kc.example.com"),
         absent={"transparent": NO_SPELLING}),
    Case(14, "userinfo and delimiters",
         places=("api.example.com@evil.example:443", "user:pass@api.example.com:443", "evil.example\\@api.example.com:443",
                 "evil.example#@api.example.com:443", "api.example.com:443:443", "api.example.com:443/x@evil", ":443",
                 ("-x.example.com:443", 403), "a..b:443", "api.example.com?x:443"),
         absent={"transparent": NO_SPELLING, "dns": NO_BYTES}),
    Case(15, "public and private answers mixed"),
    Case(16, "rebinding: one lookup, and what was checked is dialled",
         absent={"dns": "it answers with addresses of its own"}),
    Case(17, "rebinding across kept connections", absent={"dns": NO_BYTES}),
    Case(18, "CNAME chains"),
    Case(19, "denied names do not leak", says=403,
         places=("c2VjcmV0.attacker.test:443", "c2VjcmV0.example.com:443", "a.b.wild.example.com:443"),
         names=(b"c2VjcmV0.attacker.test", b"c2VjcmV0.example.com", b"a.b.wild.example.com", b"wild.example.com"),
         absent={"transparent": "it looks nothing up"}),
    Case(20, "DNS forgeries"),
    Case(21, "hosts file of the sandbox",
         absent={"dns": "it reads no file; the worker is in another root"}),
    Case(22, "synthetic addresses", absent={"connect": "is given names", "forward": "is given names"}),
    Case(23, "real addresses, other resolvers", says=403,
         places=("93.184.216.34:443", "8.8.8.8:53", "8.8.8.8:853", "8.8.8.8:443", "dns.google:443"),
         addresses=(("93.184.216.34", 443), ("93.184.216.34", 80), ("8.8.8.8", 853), ("8.8.8.8", 443),
                    ("2606:2800:220:1::34", 443), ("93.184.216.53", 853)),
         names=(b"dns.google",)),
    Case(24, "SNI is not the host that was allowed",
         hellos=(hello("other.example.com"), hello("api.example.com.evil.example"), hello(None),
                 hello_for(b"193.184.216.134"), hello_for(b"api.example.co."), hello_for(b"api.example\0com"),
                 hello_for(b"*pi.example.com")),
         absent={"forward": NO_TUNNEL, "dns": NO_BYTES}),
    Case(26, "tricks with the hello",
         hellos=((hello(), "sent"), (records(hello(), 1, 40), "sent"), (padded(hello(), 4096), "sent"),
                 (hello().replace(b"\0\x0f" + API.encode(), b"\0\x0f" + API.upper().encode()), "sent"),
                 (greased(hello()), "sent"), (records(greased(hello()), 1, 2, 70), "sent"), greased(hello("other.example.com")),
                 greased(hello(None)), (padded(hello(), 20000), ("sent", *REFUSED)), b"\x80\x2e\1\3\1" + b"x" * 41, b"\x16\3\1\xff\xff" + b"x" * 70000,
                 hello()[:5] + b"\2xxxx" + b"x" * 600, b"\x16\3\1\0\5hello" + b"x" * 50, b"\x16\3\1\0\0" * 20,
                 b"\x15\3\1\0\2\1\x5a" + hello("other.example.com"),
                 b"\x14\3\3\0\1\1" + hello("other.example.com")),
         absent={"forward": NO_TUNNEL, "dns": NO_BYTES}),
    Case(27, "nothing but HTTP where requests are inspected", absent={"dns": NO_BYTES}),
    Case(31, "the verdict comes first", absent={"forward": NO_TUNNEL, "transparent": NO_CONNECT, "dns": NO_BYTES}),
    Case(32, "what is behind a refused CONNECT",
         absent={"forward": NO_CONNECT, "transparent": NO_CONNECT, "dns": NO_BYTES}),
    Case(33, "CONNECT with a body", absent={"forward": NO_CONNECT, "transparent": NO_CONNECT, "dns": NO_BYTES}),
    Case(34, "whose connection it is", absent={"dns": "names are anybody's: connections are decided"}),
    Case(35, "a new policy ends what it does not allow"),
    Case(36, "Transfer-Encoding", requests=(
        post("Content-Length: 5", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
        post("Transfer-Encoding: chunked", "Content-Length: 5", body=b"0\r\n\r\n" + SMUGGLED),
        *(post(f"Transfer-Encoding: {value}", body=b"0\r\n\r\n" + SMUGGLED) for value in
          ("chunked, identity", "xchunked", "chunked\x0b", "identity", "identity, chunked", "chunked, chunked",
           "gzip", "chunked;q=1", "\"chunked\"", "chun ked", "", ", chunked", "chunked\x00", "\xa0chunked")),
        post("Transfer-Encoding: chunked", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
        post("Transfer-Encoding: identity", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
        post("Transfer-Encoding : chunked", body=b"0\r\n\r\n"), post("Transfer-Encoding\t: chunked", body=b"0\r\n\r\n"),
        post("Content-Length: 5", " Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
        post("Content-Length: 5", "Transfer-Encoding:\r\n chunked", body=b"0\r\n\r\n"),
        post("Content-Length: 5", "X: y\rTransfer-Encoding: chunked", body=b"0\r\n\r\n"),
        post("Content-Length: 5", "X: y\nTransfer-Encoding: chunked", body=b"0\r\n\r\n"),
        (post("Content-Length: 5", "Transfer_Encoding: chunked", body=b"0\r\n\r\n"), (400, 200)),
        (post("Transfer-Encoding: CHUNKED", body=b"0\r\n\r\n"), 200), (post("transfer-encoding: Chunked", body=b"0\r\n\r\n"), 200),
        request("POST <A>/ok HTTP/1.0", "Transfer-Encoding: chunked", body=b"0\r\n\r\n")),
        absent={"dns": NO_BYTES}),
    Case(37, "Content-Length", requests=(
        *(post(f"Content-Length: {value}", body=b"hello" + SMUGGLED) for value in
          ("5, 6", "+5", "-0", "-5", "0x5", "5_0", "5;", "5.0", "", "18446744073709551621", "99999999999999999999",
           "9223372036854775808", "5 5", "5\x0b", "5\x00", "\xd9\xa5")),
        post("Content-Length: 5", "Content-Length: 6", body=b"hello" + SMUGGLED),
        post("Content-Length: 0", "content-length: 5", body=b"hello"),
        post("Content-Length : 5", body=b"hello"), post(" Content-Length: 5", body=b"hello"),
        (post("Content-Length: 5, 5", body=b"hello"), (400, 200)),
        (post("Content-Length: 5", "Content-Length: 5", body=b"hello"), (400, 200)),
        (post("Content-Length: 5 ", body=b"hello"), (400, 200)), (post("Content-Length: 005", body=b"hello"), (400, 200)),
        (post("Content-Length: 5", body=b"hello"), 200)),
        absent={"dns": NO_BYTES}),
    Case(38, "chunks", requests=tuple(chunks(body) for body in (
        b"+5\r\nhello\r\n0\r\n\r\n", b"0x5\r\nhello\r\n0\r\n\r\n", b"5_0\r\nhello\r\n0\r\n\r\n",
        b" 5\r\nhello\r\n0\r\n\r\n", b"5 \r\nhello\r\n0\r\n\r\n", b"00000000000000005\r\nhello\r\n0\r\n\r\n",
        b"10000000000000005\r\nhello\r\n0\r\n\r\n", b"ffffffffffffffff\r\nhello\r\n0\r\n\r\n", b"-5\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhelloXX0\r\n\r\n", b"5\r\nhello0\r\n\r\n", b"5\nhello\n0\n\n", b"5\r\nhello\n0\r\n\r\n",
        b"5\rhello\r\n0\r\n\r\n", b"\r\n0\r\n\r\n", b"g\r\nhello\r\n0\r\n\r\n", b"5;a=b\nhello\r\n0\r\n\r\n",
        b"5;" + b"x" * 65536 + b"\r\nhello\r\n0\r\n\r\n", b"5;\0\r\nhello\r\n0\r\n\r\n",
        b"0\r\nContent Length: 5\r\n\r\n", b"0\r\nX: y\nZ: w\r\n\r\n", b"0\r\n X: y\r\n\r\n")) + (
        (chunks(b"5\r\nhello\r\n0\r\n\r\n"), 200), (chunks(b"5;a=b\r\nhello\r\n0\r\n\r\n"), (200, 400)),
        (chunks(b"5\r\nhello\r\n0\r\nContent-Length: 50\r\nHost: evil\r\n\r\n"), (200, 400))),
        absent={"dns": NO_BYTES}),
    Case(39, "lines and fields", requests=(
        get("A: b", " c"), get("A: b\rc"), get("A: b\nC: d"), get(b"A: b\0c"), get("A : b"), get(": b"), get("A b"),
        get("A\0: b"), get("A\x01: b"), get(b"A: b\x01c"), (b"\xef\xbb\xbf" + get(), (0, 400)), get(b"\xef\xbb\xbfA: b"),
        get("A(: b"), b"GET <A>/ok\r\n\r\n", (request("GET <A>/ok HTTP/1.2"), (400, 505)),
        (request("GET <A>/ok HTTP/2.0"), (400, 505)), request("GET <A>/ok HTTP/1.1x"), request("GET <A>/ok http/1.1"),
        request("GET\t<A>/ok HTTP/1.1"), request("GET  <A>/ok HTTP/1.1"), request("GET <A>/ok  HTTP/1.1"),
        request(" GET <A>/ok HTTP/1.1"), request("GET <A>/o k HTTP/1.1"), request("G\0T <A>/ok HTTP/1.1"),
        request("GET <A>/ok HTTP/1.1 "), request(b"GET <A>/\xff HTTP/1.1"), request("GET <A>/\x7f HTTP/1.1"),
        b"GET <A>/ok HTTP/1.1\nHost: api.example.com\n\n", b"GET <A>/ok HTTP/1.1\r\nHost: api.example.com\r\n\n",
        b"\r\r\n" + get(), b"G@T <A>/ok HTTP/1.1\r\nHost: api.example.com\r\n\r\n"),
        absent={"dns": NO_BYTES}),
    Case(40, "Host", says=ODD, requests=(
        get(host=None), get("Host: api.example.com"), get("Host: evil.example"), get(host="evil.example"),
        get(host="api.example.com/x"), get(host="u@api.example.com"), get(host="api.example.com, evil.example"),
        get(host="api.example.com:8080"), get(host="api.example.com:80x"),
        get(host="api.example.com evil"), get(host=""), get(host="[api.example.com]"),
        request("GET http://evil.example/ok HTTP/1.1"), request("GET http://evil.example/ok HTTP/1.1", host="evil.example"),
        request("GET http://api.example.com:81/ok HTTP/1.1"), request("GET http://u@api.example.com/ok HTTP/1.1"),
        (get(host="api.example.com:"), 200), (get(host="API.example.com:80"), 200), (request("GET http://api.example.com/ok HTTP/1.1"), 200)),
        absent={"dns": NO_BYTES}),
    Case(41, "pipelined requests", absent={"dns": NO_BYTES}),
    Case(42, "the same rules by every way", says=403, requests=(
        request("DELETE <A>/ok HTTP/1.1"), get(path="/secret/x"), get(path="/ok?token=1"), request("PUT <A>/ok HTTP/1.1",
        "Content-Length: 0"), (get(), 200), (post("Content-Length: 0"), 200), (request("HEAD <A>/ok HTTP/1.1"), 200)),
        absent={"dns": NO_BYTES}),
    Case(43, "method override", says=(400, 403), requests=(
        request("post <A>/ok HTTP/1.1", "Content-Length: 0"), request("Get <A>/ok HTTP/1.1"),
        request("TRACE <A>/ok HTTP/1.1"), request("CONNECT evil.example:443 HTTP/1.1", host="evil.example:443"),
        get(path="/ok?_method=DELETE"), get(path="/ok?%5fmethod=DELETE"), request("DELETEX <A>/ok HTTP/1.1"), request("* <A>/ok HTTP/1.1"),
        (post("X-HTTP-Method-Override: DELETE", "Content-Length: 0"), 200),
        (post("X-Method-Override: DELETE", "X_HTTP_Method: DELETE", "Content-Length: 0"), 200)),
        absent={"dns": NO_BYTES}),
    Case(44, "encoded paths", says=ODD, requests=tuple(get(path=path) for path in (
        "/ok/%2e%2e%2fsecret/x", "/ok/%2e%2e/secret/x", "/ok/../secret/x", "/ok/%252e%252e/x", "/ok/..;/secret/x",
        "/a/%2F../secret/x", "//secret/x", "/secret//x", "/ok\\..\\secret", "/ok%5c..%5csecret", "/secret;x/y",
        "/ok;x/../secret/x", "/./secret/x", "/ok/%c0%ae%c0%ae/secret", "/ok%00/x", "/ok#/secret", "/ok%", "/ok%2",
        "/ok%zz", "/%73ecret/x", "/%53ecret/../secret/x", "/secret%2fx", "/secret/%2e", "/ok/%0d%0aX:y", "/..", "/../ok",
        "/ok%3ftoken=1/../../secret/x")) + ((get(path="/ok%7Ex"), 200), (get(path="/ok//x"), 200)),
        absent={"dns": NO_BYTES}),
    Case(45, "other schemes", requests=tuple(request(f"GET {target} HTTP/1.1") for target in (
        "https://api.example.com/ok", "ftp://api.example.com/ok", "ws://api.example.com/ok", "file:///etc/passwd",
        "file:/etc/passwd", "http:/ok", "http:///ok", "//api.example.com/ok x", "gopher://api.example.com/ok",
        "http:api.example.com", "javascript:alert(1)", "http//api.example.com/", "api.example.com/ok", "*",
        "http://api.example.com\\@evil.example/", "http://evil.example#@api.example.com/", "http://api.example.com:80:80/",
        "http://user:pass@api.example.com/", "http://api.example.com@evil.example/", "http://", "http://?x",
        "HTTP://api.example.com/ok", "Http://api.example.com/ok")),
        absent={"dns": NO_BYTES}),
    Case(46, "Upgrade", says=(400, 403), requests=(
        (get("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA"), 200),
        get("Connection: Upgrade", "Upgrade: websocket, h2c", "Sec-WebSocket-Version: 13"),
        get("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x", body=SMUGGLED),
        (get("Upgrade: h2c"), 200), (get("HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA"), 200), get("upgrade : h2c"),
        get("Connection: upgrade", "UPGRADE: TLS/1.0"), get("Connection: Upgrade", "Upgrade: h2c, websocket")),
        absent={"dns": NO_BYTES}),
    Case(47, "interim answers", absent={"dns": NO_BYTES}),
    Case(48, "framing of answers", absent={"dns": NO_BYTES}),
    Case(49, "hop-by-hop fields", absent={"dns": NO_BYTES}),
    Case(50, "resource abuse"),
    Case(60, "the audit record is whole"),
    Case(61, "policies that are none"),
    Case(62, "somebody else's connection", absent={"dns": "names are anybody's: connections are decided"}),
]
