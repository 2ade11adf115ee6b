# SPDX-License-Identifier: Apache-2.0
"""Clients that call tools over REST, and masters who decide what waits.

    peer = Peer(d.api)
    box = peer.create()
    decide(d, peer.held(), "approve", master_token(d)).expect(200)
"""

from harness import check, equal


class Peer:
    """A session of a client, and the interface as it has it."""

    def __init__(self, api, client="test"):
        self.api = api
        made = api.post("/v1/peers", {"client": client}).expect(201).json
        self.id, self.token, self.role = made["id"], made["token"], made["role"]

    def request(self, method, path, body=None):
        return self.api.request(method, path, body, {"Sandboxer-Peer": self.token})

    def create(self, **request):
        return self.request("POST", "/v1/sandboxes", request).expect(201).json["sandbox_id"]

    def held(self):
        """A call that waits: its id."""
        answer = self.request("GET", "/v1/sandboxes").expect(403, code="denied").json
        equal((answer["kind"], answer["rpc_code"]), ("require_approval", -32002), "the verdict")
        check(answer["audit_id"].startswith("aud_"), f"no audit id: {answer}")
        return answer["request_id"]


def master_token(d):
    return d.api.post("/v1/tokens", {"name": "m", "verbs": ["read"], "role": "master"}).expect(201).json["token"]


def decide(d, request, how, token=None, **body):
    return d.api.post(f"/v1/approvals/{request}/{how}", body, {"Sandboxer-Master": token} if token else {})
