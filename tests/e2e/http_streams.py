# SPDX-License-Identifier: Apache-2.0
"""Streams of HTTP/1.1 requests that programs are known to read differently, and others that all must read alike.

`bad()` has (title, bytes): the first request in it must be refused, whole, whatever stands behind it. `fine()` has
those that pass. In both `<A>` is what comes before a path: nothing for a server, http://api.example.com for a proxy.
`mutated()` makes any number of others from those, the same for the same seed."""

import itertools
import re

HOST = b"Host: api.example.com\r\n"
SMUGGLED = b"GET <A>/smuggled HTTP/1.1\r\n" + HOST + b"\r\n"
CONTROLS = [bytes([b]) for b in (*range(9), 11, 12, *range(14, 32), 127)]


def get(*fields, path=b"/ok", host=HOST, version=b"HTTP/1.1"):
    return b"GET <A>" + path + b" " + version + b"\r\n" + host + b"".join(f + b"\r\n" for f in fields) + b"\r\n"


def post(*fields, body=b"", version=b"HTTP/1.1"):
    return b"POST <A>/ok " + version + b"\r\n" + HOST + b"".join(f + b"\r\n" for f in fields) + b"\r\n" + body


def line(first, *fields):
    return first + b"\r\n" + HOST + b"".join(f + b"\r\n" for f in fields) + b"\r\n"


# ---- what must be refused ---------------------------------------------------------------------------

LENGTHS = [b"", b"+5", b"-5", b"-0", b"+0", b"0x5", b"0X5", b"5h", b"5;", b"5.0", b"5e0", b"5,", b",5", b"5,5", b"5, 5",
           b"5,6", b"5 5", b"05", b"00", b"000000000000000005", b"5_0", b"0b101", b"0o5", b"'5'", b'"5"', b"(5)", b"5\t",
           b"\t5", b"\x0b5", b"5\x0b", b"\x0c5", b"5\x0c", b"5\0", b"\0005", b"\xa05", b"5\xa0", b"\xd9\xa5", b"\xef\xbc\x95",
           b"9223372036854775808", b"18446744073709551615", b"18446744073709551616", b"18446744073709551621",
           b"184467440737095516160", b"99999999999999999999999999", b"infinity", b"nan", b"five", b"5%", b"5#", b"%35",
           b"5/5", b"5:5", b"5=5", b"*", b"-", b"+", b"--5", b"++5", b"\x855", b"5\\", b"$5", b"5\x1a"]
CODINGS = [b"", b"identity", b"gzip", b"deflate", b"compress", b"br", b"trailers", b"chunked, gzip", b"gzip, chunked",
           b"chunked, identity", b"identity, chunked", b"chunked, chunked", b"chunked,", b",chunked", b", chunked", b",",
           b"chunked,,", b"xchunked", b"chunkedx", b"x-chunked", b"chunked-x", b"chunked;", b"chunked;q=1", b"chunked; a=b",
           b'"chunked"', b"'chunked'", b"chun ked", b"chunked chunked", b"ch\0unked", b"chunked\0", b"\0chunked",
           b"chunked\x0b", b"\x0bchunked", b"\x0cchunked", b"chunked\x0c", b"\xa0chunked", b"chunked\xa0", b"\x85chunked",
           b"chunked\x85", b"\tchunked", b"chunked\t", b"chunked\\", b"chunked/1",
           b"(chunked)", b"chunked (x)", b"cow", b"true", b"5", b"chunked=1", b"chunked:", b": chunked", b"chunked\x7f",
           b"chunked\x01", b"\x1fchunked", b"c", b"hunked", b"chunke", b"chunked\xef\xbb\xbf", b"\xef\xbb\xbfchunked"]
FRAMING_NAMES = [b"%s ", b"%s\t", b" %s", b"\t%s", b"%s\0", b"\0%s", b"%s\x0b", b"\x0b%s", b"%s\xa0", b"\xa0%s", b"%s\x7f",
                 b"\xef\xbb\xbf%s", b"%s:", b":%s", b"\"%s\"", b"%s,", b"%s;", b"(%s)", b"%s\\", b"%s/", b"%s=", b"@%s"]


def framing():
    for value in LENGTHS:
        yield b"Content-Length: " + value, post(b"Content-Length: " + value, body=b"hello" + SMUGGLED)
    for value in CODINGS:
        yield b"Transfer-Encoding: " + value, post(b"Transfer-Encoding: " + value, body=b"0\r\n\r\n" + SMUGGLED)
    for shape in FRAMING_NAMES:
        for name, value, body in ((b"Content-Length", b"5", b"hello"), (b"Transfer-Encoding", b"chunked", b"0\r\n\r\n")):
            yield shape % name, post(shape % name + b": " + value, body=body + SMUGGLED)
    length, coding = b"Content-Length: 5", b"Transfer-Encoding: chunked"
    for fields in ((length, coding), (coding, length), (length, length), (length, b"Content-Length: 6"),
                   (b"Content-Length: 0", length), (length, b"content-length: 5"), (length, b"CONTENT-LENGTH: 6"),
                   (coding, coding), (coding, b"transfer-encoding: identity"), (b"Transfer-Encoding: identity", coding),
                   (length, b"Content_Length: 6"), (length, b"Transfer_Encoding: chunked"), (b"Content_Length: 5",),
                   (b"Transfer_Encoding: chunked",), (coding, b"Content_Length: 5"), (length, b"X: y", length),
                   (coding, b"X: y", length), (length, b"Content-Length:", coding), (length, b"Transfer-Encoding:"),
                   (coding, b"Content-Length:"), (b"Content-Length: 5\r\n 6",), (b"Transfer-Encoding:\r\n chunked", length),
                   (b"Transfer-Encoding: x\r\n chunked", length), (length, b"\tTransfer-Encoding: chunked"),
                   (b"X: y\rTransfer-Encoding: chunked", length), (b"X: y\nTransfer-Encoding: chunked", length),
                   (b"X: y\r\rTransfer-Encoding: chunked", length), (b"X: y\n\rTransfer-Encoding: chunked", length),
                   (b"X: y\0\r\nTransfer-Encoding: chunked", length), (b"X\r: y", length), (b"X\n: y", length)):
        yield b" + ".join(fields), post(*fields, body=b"0\r\n\r\n" + SMUGGLED)
    for fields in ((coding,), (coding, length)):
        yield b"HTTP/1.0 + " + b" + ".join(fields), post(*fields, body=b"0\r\n\r\n" + SMUGGLED, version=b"HTTP/1.0")
    for name in (b"host", b"Content-Length", b"TRANSFER-ENCODING", b"close, content-length", b"x,host ,y"):
        yield b"Connection: " + name, post(b"Connection: " + name, length, body=b"hello" + SMUGGLED)


def lines():
    good = b"GET <A>/ok HTTP/1.1\r\nHost: api.example.com\r\nX: y\r\nZ: w\r\n\r\n"
    ends = [m.start() for m in re.finditer(b"\r\n", good)]
    for at, end in itertools.product(ends, (b"\n", b"\r", b"\r\r\n", b"\n\r", b"\r \n", b" \r\n\n", b"\x0b", b"\x0c", b"\x85",
                                            b"\xe2\x80\xa8", b"\0\r\n", b"\r\0\n", b"\n\n")):
        if end[0] < 0x80 or at < ends[2]:  # in a value they are but bytes
            yield b"line end %r at %d" % (end, at), good[:at] + end + good[at + 2:] + SMUGGLED
    for fold in (b" ", b"\t", b"  ", b" \t", b" x: y", b"\tx: y", b" :"):
        yield b"fold %r first" % fold, b"GET <A>/ok HTTP/1.1\r\n" + fold + b"\r\n" + HOST + b"\r\n" + SMUGGLED
        yield b"fold %r" % fold, get(b"X: y", fold) + SMUGGLED
        yield b"fold %r behind nothing" % fold, get(b"X:", fold, b"Z: w") + SMUGGLED
    for before in (b"\r\n", b"\n", b"\r", b" ", b"\t", b"\0", b"\xef\xbb\xbf", b"\r\n\r\n", b"x\r\n", b"\r\r\n", b"\x16\x03\x01"):
        yield b"before: %r" % before, before + get() + SMUGGLED


def first_lines():
    for text in (b"GET  <A>/ok HTTP/1.1", b"GET <A>/ok  HTTP/1.1", b"GET\t<A>/ok HTTP/1.1", b"GET <A>/ok\tHTTP/1.1",
                 b" GET <A>/ok HTTP/1.1", b"GET <A>/ok HTTP/1.1 ", b"GET <A>/ok HTTP/1.1\t", b"GET <A>/ok", b"GET <A>/ok ",
                 b"GET", b"GET ", b"GET HTTP/1.1", b"GET  HTTP/1.1", b"<A>/ok HTTP/1.1", b" ", b"GET\x0b<A>/ok HTTP/1.1",
                 b"GET\x0c<A>/ok HTTP/1.1", b"GET\xa0<A>/ok HTTP/1.1", b"GET <A>/o k HTTP/1.1", b"GET <A>/ok HTTP/1.1 x",
                 b"GET <A>/ok HTTP/1.1 HTTP/1.1", b"GET <A>/ok x HTTP/1.1", b"GET\0 <A>/ok HTTP/1.1", b"GET <A>/ok\r HTTP/1.1"):
        yield text, line(text) + SMUGGLED
    for version in (b"HTTP/0.9", b"HTTP/1.2", b"HTTP/1.9", b"HTTP/2.0", b"HTTP/2", b"HTTP/3", b"HTTP/1.10", b"HTTP/1.01",
                    b"HTTP/01.1", b"HTTP/1.1x", b"HTTP/1.1.1", b"HTTP/1.", b"HTTP/.1", b"HTTP/1", b"HTTP/", b"HTTP", b"HTTP /1.1",
                    b"HTTP/1,1", b"HTTP/1. 1", b"HTTP/-1.1", b"HTTP/+1.1", b"HTTP/1.1\0", b"HTTP/\xd9\xa1.1", b"http/1.1",
                    b"Http/1.1", b"HTTPS/1.1", b"HTTP\\1.1", b"ICY/1.1", b"XHTTP/1.1", b"HTTP/1.1;", b"HTTP/11", b"HTTP/1x1"):
        yield version, line(b"GET <A>/ok " + version) + SMUGGLED
    for byte in (*CONTROLS, b" ", b"\xff", b'"', b"(", b")", b",", b"/", b":", b";", b"<", b"=", b">", b"?", b"@", b"[", b"\\",
                 b"]", b"{", b"}"):
        yield b"method with %r" % byte, line(b"G" + byte + b"T <A>/ok HTTP/1.1") + SMUGGLED
    for byte in (*CONTROLS, b'"', b"<", b">", b"\\", b"#", b"\x80", b"\xff", b"\xc3\xa9", b"\xe2\x80\xae"):
        yield b"target with %r" % byte, line(b"GET <A>/o" + byte + b"k HTTP/1.1") + SMUGGLED
    for target in (b"ok", b"?ok", b"#", b"api.example.com/ok", b"api.example.com:80", b"http:/ok", b"http:///ok", b"http//x/", b"://x",
                   b"http://", b"http://?x", b"http://u@api.example.com/", b"http://u:p@api.example.com/", b"HTTP://api.example.com/",
                   b"http://api.example.com:x/", b"http://api.example.com:80:80/", b"http://api.example.com:0/",
                   b"http://api.example.com:65536/", b"http://api.example.com:080/", b"http://[::1/", b"http://[x]/", b"http://::1/",
                   b"http://a%2eb/", b"http://a b/", b"http://api.example.com\\@x/", b"http://api.example.com#@x/", b"*", b"*/ok", b"-",
                   b"1http://api.example.com/", b"ht+tp://api.example.com/", b"//", b"mailto:x"):
        if target != b"//":
            yield target, line(b"GET " + target + b" HTTP/1.1") + SMUGGLED


def fields():
    for byte in (*CONTROLS, b" ", b"\xff", b"\xc3\xa9", b'"', b"(", b")", b",", b"/", b";", b"<", b"=", b">", b"?", b"@", b"[", b"\\",
                 b"]", b"{", b"}"):
        yield b"name with %r" % byte, get(b"X" + byte + b"Y: z") + SMUGGLED
    for byte in (b for b in CONTROLS if b != b"\t"):
        yield b"value with %r" % byte, get(b"X: y" + byte + b"z") + SMUGGLED
        yield b"value that begins with %r" % byte, get(b"X:" + byte + b"z") + SMUGGLED
        yield b"value that ends with %r" % byte, get(b"X: y" + byte) + SMUGGLED
    for field in (b": y", b" : y", b":", b"X", b"X y", b"=", b"\xff: y", b"X : y", b"X\t: y", b"X  : y", b" X: y", b"\tX: y", b"X Y: z"):
        yield field, get(field) + SMUGGLED
        yield b"last: " + field, get(b"A: b", field) + SMUGGLED
    for value in (b"200-ok", b"100-continue, 100-continue", b"", b"100-continue;", b"x"):
        yield b"Expect: " + value, post(b"Expect: " + value, b"Content-Length: 5", body=b"hello" + SMUGGLED)
    yield b"Expect twice", post(b"Expect: 100-continue", b"Expect: x", b"Content-Length: 5", body=b"hello" + SMUGGLED)
    for value in (b'"close"', b"a b", b"close;", b"close\0", b"(x)", b"x/y", b"@"):
        yield b"Connection: " + value, get(b"Connection: " + value) + SMUGGLED


def hosts():
    for value in (b"", b" ", b"\t", b"api.example.com/", b"api.example.com/ok", b"u@api.example.com", b"u:p@api.example.com",
                  b"api.example.com, evil.example", b"api.example.com,evil.example", b"api.example.com evil.example",
                  b"api.example.com\tevil.example", b"api.example.com:x", b"api.example.com:0",
                  b"api.example.com:65536", b"api.example.com:99999999999", b"api.example.com:-80", b"api.example.com:+80",
                  b"api.example.com: 80", b"api.example.com :80", b"api.example.com:080", b"api.example.com:80:80", b"[api.example.com]",
                  b"[::1", b"::1", b"[::1]x", b"[fe80::1%25lo]", b"[fe80::1%lo]", b"[]", b"[:]x", b"a%2eb", b"a\0b", b"a\x01b",
                  b"a\x7fb", b"a\xffb", b"\xd0\xb0pi.example.com", b"http://api.example.com", b"api.example.com#x", b"api.example.com?x",
                  b"api.example.com\\x", b"*", b"a;b", b"a=b", b"a'b", b"(a)", b"a" * 300, b"api.example.com;", b"a..b", b".", b"..",
                  b".api.example.com", b"api.example.com.."):
        yield b"Host: " + value, get(host=b"Host: " + value + b"\r\n") + SMUGGLED
    for name in (b"Host ", b" Host", b"Host\t", b"Host\0", b"H ost", b"Ho\nst", b"\"Host\"", b"Host:"):
        yield name, get(host=name + b": api.example.com\r\n") + SMUGGLED
    yield b"no Host", get(host=b"") + SMUGGLED
    for more in (b"Host: api.example.com", b"host: evil.example", b"HOST:", b" Host: evil.example", b"\tHost: evil.example"):
        yield b"Host + " + more, get(more) + SMUGGLED
        yield more + b" + Host", get(host=more + b"\r\n" + HOST) + SMUGGLED


CHUNKS = [b"+5\r\nhello\r\n0\r\n\r\n", b"-5\r\nhello\r\n0\r\n\r\n", b"0x5\r\nhello\r\n0\r\n\r\n", b"5_0\r\nhello\r\n0\r\n\r\n",
          b" 5\r\nhello\r\n0\r\n\r\n", b"5 \r\nhello\r\n0\r\n\r\n", b"\t5\r\nhello\r\n0\r\n\r\n", b"5\t\r\nhello\r\n0\r\n\r\n",
          b"\x0b5\r\nhello\r\n0\r\n\r\n", b"5\0\r\nhello\r\n0\r\n\r\n", b"00000000000000005\r\nhello\r\n0\r\n\r\n",
          b"10000000000000005\r\nhello\r\n0\r\n\r\n", b"ffffffffffffffff\r\nhello\r\n0\r\n\r\n", b"8000000000000005\r\nhello\r\n0\r\n\r\n",
          b"100000000000000000005\r\nhello\r\n0\r\n\r\n", b"5h\r\nhello\r\n0\r\n\r\n", b"g\r\nhello\r\n0\r\n\r\n", b"\r\n5\r\nhello\r\n0\r\n\r\n",
          b"5.0\r\nhello\r\n0\r\n\r\n", b"5,5\r\nhello\r\n0\r\n\r\n", b"5\r\nhelloXX0\r\n\r\n", b"5\r\nhello0\r\n\r\n", b"5\r\nhello\n0\r\n\r\n",
          b"5\r\nhello\r0\r\n\r\n", b"5\r\nhell\r\n0\r\n\r\n", b"5\nhello\r\n0\r\n\r\n", b"5\rhello\r\n0\r\n\r\n", b"5\r\rhello\r\n0\r\n\r\n",
          b"5\n\rhello\r\n0\r\n\r\n", b"5\r\nhello\r\n0\n\r\n", b"5\r\nhello\r\n0\r\n\n", b"5\r\nhello\r\n0\r\r\n", b"5\r\nhello\r\n0\n\n",
          b"5\r\nhello\r\n-0\r\n\r\n", b"5\r\nhello\r\n+0\r\n\r\n", b"5\r\nhello\r\n0x0\r\n\r\n", b"5\r\nhello\r\n 0\r\n\r\n",
          b"5;\nhello\r\n0\r\n\r\n", b"5;a=b\nhello\r\n0\r\n\r\n", b"5;a\rb\r\nhello\r\n0\r\n\r\n", b"5;\0\r\nhello\r\n0\r\n\r\n",
          b"5;\x01\r\nhello\r\n0\r\n\r\n", b"5;a=\"\nx\"\r\nhello\r\n0\r\n\r\n", b"5;a=\"\r\nx\"\r\nhello\r\n0\r\n\r\n",
          b"5;" + b"x" * 65536 + b"\r\nhello\r\n0\r\n\r\n", b"5;=\r\nhello\r\n0\r\n\r\n", b"5 ;a\r\nhello\r\n0\r\n\r\n",
          b"5;a b\r\nhello\r\n0\r\n\r\n", b"5a=b;\r\nhello\r\n0\r\n\r\n", b";a\r\nhello\r\n0\r\n\r\n", b"\xef\xbb\xbf5\r\nhello\r\n0\r\n\r\n",
          b"5\r\nhello\r\n0\r\nX\r\n\r\n", b"5\r\nhello\r\n0\r\n X: y\r\n\r\n", b"5\r\nhello\r\n0\r\nX : y\r\n\r\n",
          b"5\r\nhello\r\n0\r\nX: y\n\r\n", b"5\r\nhello\r\n0\r\nX: y\r\r\n\r\n", b"5\r\nhello\r\n0\r\n: y\r\n\r\n",
          b"5\r\nhello\r\n0\r\nX: a\0b\r\n\r\n", b"5\r\nhello\r\n0\r\nContent-Length: 5\r\n\r\n",
          b"5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n", b"5\r\nhello\r\n0\r\nContent Length: 5\r\n\r\n",
          b"5\r\nhello\r\n0\r\nX: " + b"y" * 65536 + b"\r\n\r\n", b"\0\r\nhello\r\n0\r\n\r\n", b"\xd9\xa5\r\nhello\r\n0\r\n\r\n"]


def chunks():
    for body in CHUNKS:
        yield b"chunks: %r" % body[:40], post(b"Transfer-Encoding: chunked", body=body + SMUGGLED)


def bad():
    return [(title.decode("latin-1"), data) for make in (framing, lines, first_lines, fields, hosts, chunks)
            for title, data in make()]


# ---- what must pass ---------------------------------------------------------------------------------

FINE = [get(), get(path=b"/"), get(b"X:"), get(b"X: y\tz"), get(b"X:y"), get(b"X: \t y \t"), get(b"X: \xff\xc3\xa9"), get(b"X_Y: z"),
        get(b"!#$%&'*+-.^_`|~: y"), get(*(b"X%d: y" % i for i in range(60))), get(b"X: " + b"y" * 3000), get(b"Connection: close"),
        get(b"Connection: keep-alive"), get(b"Connection: x-y", b"X-Y: z"), get(path=b"/a?b=c&d=%20'()*,;:@!$[]{}|^`"),
        get(path=b"/%41%7e"), get(path=b"/a//b"), get(path=b"/a/./b"), get(path=b"/a/../b"), get(path=b"/" + b"x" * 2000),
        get(host=b"Host: API.Example.COM\r\n"), get(host=b"Host: api.example.com:80\r\n"), get(host=b"Host:api.example.com  \r\n"),
        get(b"Content-Length: 0"), get(b"Content-Length: 5") + b"hello", get(b"Transfer-Encoding: chunked") + b"5\r\nhello\r\n0\r\n\r\n",
        line(b"HEAD <A>/ok HTTP/1.1"), line(b"DELETE <A>/ok HTTP/1.1"), line(b"OPTIONS <A>/ok HTTP/1.1"), line(b"PUT <A>/ok HTTP/1.1",
        b"Content-Length: 3") + b"abc", line(b"PATCH <A>/ok HTTP/1.1", b"Content-Length: 0"), line(b"PROPFIND <A>/ok HTTP/1.1"),
        line(b"DELETE <A>/ok HTTP/1.1", b"Content-Length: 2") + b"ab", line(b"GET <A>/ok HTTP/1.0"),
        line(b"GET <A>/ok HTTP/1.0", b"Connection: keep-alive"), line(b"POST <A>/ok HTTP/1.0", b"Content-Length: 5") + b"hello",
        post(b"Content-Length: 0"), post(b"Content-Length: 5", body=b"hello"), post(b"content-length:5", body=b"hello"),
        post(b"CONTENT-LENGTH:   5  ", body=b"hello"), post(b"Content-Length: 5", body=b"\r\n\r\n\0"),
        post(b"Content-Length: 27", body=b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"), post(b"Expect: 100-continue", b"Content-Length: 5", body=b"hello"),
        post(), *(post(b"Transfer-Encoding: chunked", body=body) for body in (
            b"0\r\n\r\n", b"5\r\nhello\r\n0\r\n\r\n", b"05\r\nhello\r\n00\r\n\r\n", b"A\r\n0123456789\r\n0\r\n\r\n",
            b"a\r\n0123456789\r\n0\r\n\r\n", b"1\r\nh\r\n4\r\nello\r\n0\r\n\r\n", b"5;a\r\nhello\r\n0\r\n\r\n",
            b"5;a=b\r\nhello\r\n0\r\n\r\n", b"5\r\nhello\r\n0;a=b\r\n\r\n", b"5\r\nhello\r\n0\r\nX: y\r\n\r\n",
            b"5\r\n\r\n\r\n0\r\n0\r\n\r\n", b"5\r\nhello\r\n0\r\nX: y\r\nZ: w\r\n\r\n")),
        get() + get(path=b"/2"), post(b"Content-Length: 5", body=b"hello") + get(path=b"/2"),
        post(b"Transfer-Encoding: chunked", body=b"5\r\nhello\r\n0\r\n\r\n") + get(path=b"/2"),
        post(b"Transfer-Encoding: chunked", body=b"5\r\nhello\r\n0\r\nX: y\r\n\r\n") + post(b"Content-Length: 2", body=b"ab"),
        line(b"HEAD <A>/ok HTTP/1.1") + get(path=b"/2") + post(b"Content-Length: 1", body=b"x"), get() * 5]


def fine():
    return list(FINE)


def answers():
    """Answers to a GET that all must read alike."""
    head = b"HTTP/1.1 200 OK\r\n"
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n"
    return [head + b"Content-Length: 5\r\n\r\nhello", head + b"Content-Length: 0\r\n\r\n", head + b"\r\nuntil the end", head + b"\r\n",
            b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", b"HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok",
            b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", b"HTTP/1.0 200 OK\r\n\r\nok", chunked + b"5\r\nhello\r\n0\r\n\r\n",
            chunked + b"1\r\nh\r\n4\r\nello\r\n0\r\n\r\n", chunked + b"A;a=b\r\n0123456789\r\n0\r\nX: y\r\n\r\n", chunked + b"0\r\n\r\n",
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone", b"HTTP/1.1 503 No\xe2\x80\xa6\r\nContent-Length: 1\r\n\r\nx",
            b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n",
            b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 100 Continue\r\n\r\n" + head + b"Content-Length: 2\r\n\r\nok",
            head + b"Set-Cookie: a=b\r\nSet-Cookie: c=d\r\nX:\r\nContent-Length:2\r\nConnection: close\r\n\r\nok"]


# ---- others -----------------------------------------------------------------------------------------

PIECES = [b" ", b"\t", b"\r", b"\n", b"\r\n", b"\0", b":", b",", b";", b"0", b"1", b"5", b"f", b"+", b"-", b"_", b"x", b"\xff", b"\x0b",
          b"%", b"%2e", b"%00", b"/", b"//", b"/..", b"?", b"#", b"@", b"[", b"]", b"*", b"HTTP/1.0", b"HTTP/1.1", b"http://", b"http://h",
          b"GET ", b"HEAD ", b"POST ", b"OPTIONS ", b"TRACE ", b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"Content-Length",
          b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding", b"chunked", b"identity", b"Connection: close\r\n", b"Connection: ",
          b"Connection: upgrade\r\n", b"Upgrade: x\r\n", b"Expect: 100-continue\r\n", b"keep-alive", b"close", b"Host: h\r\n", b"Host: ",
          b"hello", b"0\r\n\r\n", b"5\r\nhello\r\n", b";a=b", b"\r\n\r\n", b"X: y\r\n", b"TE: trailers\r\n", b"Trailer: x\r\n"]


def mutate(choice, data):
    """One change: a piece more, some bytes less, something twice, or in another case."""
    at, to = sorted(choice.randrange(len(data) + 1) for _ in range(2))
    to = min(to, at + choice.choice((1, 1, 2, 4, 16)))
    return choice.choice((
        lambda: data[:at] + choice.choice(PIECES) + data[at:], lambda: data[:at] + choice.choice(PIECES) + data[to:],
        lambda: data[:at] + data[to:], lambda: data[:to] + data[at:], lambda: data[:at] + data[at:to].swapcase() + data[to:],
        lambda: data[:at] + bytes([choice.randrange(256)]) + data[to:]))()


def mutated(choice, seeds):
    """Without an end."""
    while True:
        data = choice.choice(seeds)
        for _ in range(choice.choice((1, 1, 1, 2, 3))):
            data = mutate(choice, data)
        yield data
