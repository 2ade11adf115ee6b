# SPDX-License-Identifier: Apache-2.0
"""A daemon as Daytona's clients find it, and a client of our own that says whatever a test wants.

    with Served(c) as s:
        box = s.create(s.key())
        box.ask("POST", "process/execute", {"command": "true"}).expect(200)
"""

import e2b


class Served(e2b.Served):
    option = "--daytona"

    def api(self, method, path, body=None, key=None, **headers):
        auth = {"Authorization": f"Bearer {key}"} if key else {}
        return self.ask(method, f"/daytona/{path}", body, **auth, **headers)

    def create(self, key, **request):
        made = self.api("POST", "sandbox", request, key=key).expect(200).json
        return Box(self, made["id"], key)


class Box:
    """A sandbox, by what Daytona's clients know of it."""

    def __init__(self, served, sandbox, key):
        self.served, self.id, self.key = served, sandbox, key

    def ask(self, method, path, body=None, key=None, **headers):
        return self.served.api(method, f"toolbox/{self.id}/{path}", body, key=key or self.key, **headers)

    def run(self, command, **more):
        return self.ask("POST", "process/execute", {"command": command, **more}).expect(200).json
