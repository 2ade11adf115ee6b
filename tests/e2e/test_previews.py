#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""A preview cannot affect the API's origin or another preview: the fields of requests and answers, and Debian's Chromium."""

import json
import os
import shutil

import daytona
from e2b import Served as ServedByName
from harness import Skip, check, equal, main, test, wait_for
from mcp import script
from npm import modules
from tcp import free_port

DOMAIN = "sandboxes.test"
BROWSER = "/usr/bin/chromium"
PLAYWRIGHT, INSTALL_SECONDS = ("playwright-core@1.65.1",), 170

# Answers with the fields it got, as JSON; `?set=NAME: VALUE` adds a field to the answer, `/page?NAME` is that file.
SERVER = """
import http.server, json, sys, urllib.parse
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        kind, data = 'application/json', json.dumps({k.lower(): v for k, v in self.headers.items()}).encode()
        if url.path.endswith('.html') or url.path.endswith('.js'):
            kind, data = ('text/html' if url.path.endswith('.html') else 'text/javascript'), open('/tmp/' + url.path.rpartition('/')[2], 'rb').read()
        self.send_response(200)
        self.send_header('Content-Type', kind)
        for value in urllib.parse.parse_qs(url.query).get('set', []):
            self.send_header(*value.split(': ', 1))
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)
    do_POST = do_GET
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(('127.0.0.1', 8080), H).serve_forever()
"""


def quote(text):
    return "".join(c if c.isalnum() else f"%{ord(c):02X}" for c in text)


def serve_inside(s, box, **files):
    for name, text in files.items():
        s.d.api.request("PUT", f"/v1/sandboxes/{box}/files?path=/tmp/{name.replace('_', '.')}", text.encode()).expect(204)
    s.d.api.post(f"/v1/sandboxes/{box}/processes", {"argv": ["python3", "-c", SERVER], "background": True}).expect(201)
    wait_for(lambda: s.d.api.get(f"/v1/sandboxes/{box}/ports/8080").json["open"], "the port is open")


def link_to(s, box):
    """A signed link to port 8080: what a person opens in a browser."""
    return s.api("GET", f"sandbox/{box.id}/ports/8080/signed-preview-url?expiresInSeconds=600", key=box.key).expect(200).json["url"]


def set_fields(*fields):
    return "/x?" + "&".join(f"set={quote(f)}" for f in fields)


@test
def fields_of_previews_by_path(c):
    with daytona.Served(c) as s:
        key = s.key()["DAYTONA_API_KEY"]
        one, two = s.create(key), s.create(key)
        for box in (one, two):
            serve_inside(s, box.id)
        first, second = (link_to(s, box).partition(str(s.port))[2] for box in (one, two))
        got = s.ask("GET", first + set_fields("Set-Cookie: a=1; Path=/; Domain=localhost; Max-Age=600", "Service-Worker-Allowed: /",
                                              'Clear-Site-Data: "*"', "WWW-Authenticate: Basic realm=x", "X-Own: kept")).expect(200)
        for name in ("Service-Worker-Allowed", "Clear-Site-Data", "WWW-Authenticate"):
            check(name not in got.headers, f"{name} reaches the browser")
        equal((got.headers["X-Own"], got.headers["Referrer-Policy"]), ("kept", "no-referrer"), "other fields")
        policy = got.headers["Content-Security-Policy"]
        check(policy.startswith("sandbox ") and "allow-same-origin" not in policy, f"the policy is {policy}")
        cookie = got.headers["Set-Cookie"]
        check("omain=" not in cookie and cookie.endswith(f"Path=/daytona/preview/{one.id}/") and not cookie.startswith("a="), f"the cookie is {cookie}")
        pair = cookie.partition(";")[0]
        sent = {"Cookie": f"a=planted; {pair}", "Referer": f"http://127.0.0.1:{s.port}{second}/", "Authorization": "Basic eDp5"}
        inside = s.ask("GET", first + "/x", **sent).expect(200).json
        equal(inside.get("cookie"), "a=1", "the cookie inside")
        check("referer" not in inside and "authorization" not in inside, f"what goes inside: {inside}")
        inside = s.ask("GET", second + "/x", **sent).expect(200).json
        check("cookie" not in inside, f"a cookie of another sandbox goes inside: {inside}")
        s.ask("GET", "/v1/sandboxes", Cookie=f"{pair}; session={key}; Authorization={key}").expect(401)
        told = s.api("GET", f"sandbox/{one.id}/ports/8080/preview-url", key=one.key).expect(200).json
        credentials = {"X-Daytona-Preview-Token": told["token"], "X-Daytona-Organization-ID": told["token"], "X-API-Key": key, "Authorization": f"Bearer {key}"}
        inside = s.ask("GET", told["url"].partition(str(s.port))[2] + "/", **credentials).expect(200).data.decode()
        for value in (told["token"], key):
            check(value not in inside, f"a credential goes inside: {inside}")


@test
def pages_of_a_preview_have_no_origin(c):
    """Their own requests carry `Origin: null`, which counts for previews and nothing else."""
    with daytona.Served(c) as s:
        key = s.key()["DAYTONA_API_KEY"]
        box = s.create(key)
        serve_inside(s, box.id)
        link = link_to(s, box).partition(str(s.port))[2]
        equal(s.ask("GET", link + "/x", Origin="null").expect(200).headers["Access-Control-Allow-Origin"], "null", "who may read it")
        asked = s.ask("OPTIONS", link + "/x", Origin="null", Access_Control_Request_Method="PUT", Access_Control_Request_Headers="x-a").expect(204)
        equal(asked.headers["Access-Control-Allow-Headers"], "x-a", "what may be sent")
        s.ask("GET", link + "/x", Origin="https://evil.example").expect(403)
        s.ask("GET", "/v1/sandboxes", Origin="null", Authorization=f"Bearer {key}").expect(403)
        s.ask("GET", link.replace("~", "~1"), Origin="null").expect(401)


@test
def a_listener_for_other_machines_needs_tls_or_a_word(c):
    with ServedByName(c) as s:
        env = {"SANDBOXER_SOCKET": str(c.dir / "other.sock"), "SANDBOXER_STATE": str(c.dir / "other")}
        config = c.write("other.yaml", "listen: '0.0.0.0:7700'\n")
        refused = c.execute([c.program("sandboxerd"), "--check-config", "--config", config], env=env)
        check(refused.code == 1 and "listen_unencrypted" in str(refused), f"the configuration: {refused}")
        refused = c.execute([c.program("sandboxerd"), "--check-config", "--listen", "[::]:7700"], env=env)
        check(refused.code == 1 and "--listen-unencrypted" in str(refused), f"the option: {refused}")
        port = free_port()
        for words in (["--listen", f"0.0.0.0:{port}", "--listen-unencrypted"], ["--listen", f"127.0.0.2:{port}"], ["--listen", f"[::1]:{port}"]):
            c.execute([c.program("sandboxerd"), "--check-config", *words], env=env).expect(0)
        s.d.api.get("/healthz").expect(200)


ATTACK = """<!doctype html><title>wait</title><script>
(async () => {
  const seen = {};
  const attempt = async (name, act) => { try { seen[name] = String(await act()); } catch (e) { seen[name] = 'refused'; } };
  await attempt('cookie', () => { document.cookie = 'planted=1; path=/; domain=' + (location.hostname.includes('.test') ? 'sandboxes.test' : location.hostname); return document.cookie; });
  await attempt('storage', () => { localStorage.setItem('planted', '1'); return 'stored'; });
  await attempt('worker', async () => (await navigator.serviceWorker.register('worker.js?set=Service-Worker-Allowed%3A%20%2F', { scope: '/' })).scope);
  await attempt('api', async () => (await fetch('/v1/sandboxes', { credentials: 'include' })).status);
  await attempt('health', async () => (await (await fetch('/healthz')).text()).length);
  await attempt('own', async () => Object.keys(await (await fetch('echo')).json()).length > 0);
  document.title = JSON.stringify(seen);
})();
</script>"""
WORKER = "self.addEventListener('fetch', e => e.respondWith(new Response('taken over')));"

VISIT = """
const { chromium } = require('playwright-core');
(async () => {
  const [browserPath, steps] = [process.argv[2], JSON.parse(process.argv[3])];
  const browser = await chromium.launch({ executablePath: browserPath, args: [
    '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync',
    '--ignore-certificate-errors', '--host-resolver-rules=MAP *.sandboxes.test 127.0.0.1'] });
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  const page = await context.newPage();
  for (const step of steps) {
    await page.setExtraHTTPHeaders(step.headers || {});
    const response = await page.goto(step.url);
    if (step.attack) await page.waitForFunction(() => document.title.startsWith('{'), null, { timeout: 30000 });
    console.log(JSON.stringify({ status: response.status(), title: await page.title(), text: await response.text(), at: step.url }));
  }
  await browser.close();
})();
"""


def visit(c, *steps):
    """Opens the addresses one after the other, in one profile."""
    if not os.path.exists(BROWSER):
        raise Skip("chromium is not installed")
    if not shutil.which("node"):
        raise Skip("node is not installed")
    return script(c, modules(PLAYWRIGHT, INSTALL_SECONDS), "visit.js", VISIT, [BROWSER, json.dumps(steps)], HOME=str(c.dir))


@test(only="root", because="one run of a browser is enough")
def a_browser_keeps_previews_by_path_apart(c):
    with daytona.Served(c) as s:
        key = s.key()["DAYTONA_API_KEY"]
        evil, good = s.create(key), s.create(key)
        serve_inside(s, evil.id, attack_html=ATTACK, worker_js=WORKER)
        serve_inside(s, good.id)
        bad, fine = link_to(s, evil), link_to(s, good)
        plant = quote("Set-Cookie: planted=2; Path=/; Max-Age=600")
        seen = visit(c, {"url": f"{fine}/x?set={quote('Set-Cookie: own=1; Path=/; Max-Age=600')}"}, {"url": f"{bad}/attack.html?set={plant}", "attack": True},
                     {"url": f"{fine}/x"}, {"url": f"http://127.0.0.1:{s.port}/healthz"})
        tried = json.loads(seen[1]["title"])
        equal({k: v for k, v in tried.items() if k != "own"}, dict.fromkeys(("cookie", "storage", "worker", "api", "health"), "refused"), "what the page could do")
        equal(tried["own"], "true", "whether the page reads answers of its own preview")
        equal(json.loads(seen[2]["text"]).get("cookie"), "own=1", "the cookies of the other preview")
        check("referer" not in json.loads(seen[2]["text"]), "the other preview learns an address")
        check("taken over" not in seen[3]["text"] and seen[3]["status"] == 200, f"the API: {seen[3]}")


@test(only="root", because="one run of a browser is enough")
def a_browser_keeps_previews_by_name_apart(c):
    secure = free_port()
    with ServedByName(c, config=f"domain: {{name: {DOMAIN}, listen: '127.0.0.1:{secure}'}}\n") as s:
        made = [s.ask("POST", "/sandboxes", {"templateID": "base"}, X_API_Key=s.key()["E2B_API_KEY"]).expect(201).json
                for _ in range(2)]
        boxes = [m["sandboxID"] for m in made]
        serve_inside(s, boxes[0], attack_html=ATTACK, worker_js=WORKER)
        serve_inside(s, boxes[1])
        bad, fine = (f"https://8080-{b.replace('_', '-')}.{DOMAIN}:{secure}" for b in boxes)
        by = [{"X-Access-Token": m["envdAccessToken"]} for m in made]
        seen = visit(c, {"url": f"{fine}/x?set={quote('Set-Cookie: own=1; Path=/; Max-Age=600')}", "headers": by[1]},
                     {"url": f"{bad}/attack.html?set={quote('Set-Cookie: own=planted; Path=/; Max-Age=600; Domain=' + DOMAIN)}", "headers": by[0], "attack": True},
                     {"url": f"{fine}/x", "headers": by[1]})
        check("planted=1" in json.loads(seen[1]["title"])["cookie"], f"the page plants a cookie for the domain: {seen[1]['title']}")
        equal(json.loads(seen[2]["text"]).get("cookie"), "own=1", "the cookies of the other preview")


main()
