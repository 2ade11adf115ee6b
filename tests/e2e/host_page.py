# SPDX-License-Identifier: Apache-2.0
"""A web server on the loopback of the machine that sandboxes run on, and what a program inside gets of it."""

import contextlib
import http.server
import threading

from tcp import Tcp


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"the host's page")

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def page():
    """A server on this machine's loopback, by its port."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def reads(api, box, port, host="127.0.0.1"):
    """What a program inside gets of the server on the host's loopback, by the proxy."""
    return api.request("POST", f"/v1/sandboxes/{box}/processes",
                       {"argv": ["sh", "-c", f'curl -s -m 20 -x "$HTTP_PROXY" --noproxy "" http://{host}:{port}/']},
                       **({"Accept": "application/json"} if isinstance(api, Tcp) else {"headers": {"Accept": "application/json"}}))
