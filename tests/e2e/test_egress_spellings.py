#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Every way to say what a sandbox may reach, at its create and later: lists, package managers, policies."""

import contextlib
import os

from client import Client
from daemon import PROFILE, PROFILES, Daemon
from egress_world import PUBLIC, PUBLIC_TOO, RESOLVER, World
from harness import Skip, check, equal, main, test

CONFIG = f"egress: {{workers: 1, resolvers: ['{RESOLVER}']}}"
NAME, OTHER = "api.example.com", "other.example.com"
VARIABLES = {"pip3": "PIP_INDEX_URL", "npm": "NPM_CONFIG_REGISTRY", "go": "GOPROXY"}


@contextlib.contextmanager
def daemon(c):
    with World() as w:
        w.dns.names.update({NAME: [PUBLIC], OTHER: [PUBLIC_TOO]})
        w.http(PUBLIC, 80)
        w.http(PUBLIC_TOO, 80)
        d = Daemon(c, config=CONFIG)
        w.inside.run(d.start)
        with d:
            yield d


def reached(d, box, *hosts):
    """Which of these answer, by the proxy and without it alike."""
    found = []
    for host in hosts:
        seen = [d.api.run(box, ["curl", "-sf", "-m", "20", *flags, f"http://{host}/"]).expect(200).json["exit_code"] == 0
                for flags in ((), ("--noproxy", "*"))]
        check(seen[0] == seen[1], f"{host}: {seen}")
        found += [host] * seen[0]
    return found


def put(d, box, body):
    return d.api.request("PUT", f"/v1/sandboxes/{box}/egress", body)


@test
def lists_of_addresses_hold_at_the_create_and_later(c):
    with daemon(c) as d:
        box = d.create(egress={"allow_out": [f"{PUBLIC}/32"]})
        equal(reached(d, box, PUBLIC, PUBLIC_TOO), [PUBLIC], "what is reached with a list of what is allowed")
        answer = put(d, box, {"deny_out": [PUBLIC]}).expect(200).json
        equal((answer["generation"], answer["in_force"]), (2, 2), "generations")
        equal(reached(d, box, PUBLIC, PUBLIC_TOO), [PUBLIC_TOO], "what is reached with a list of what is denied")
        put(d, box, {"allow_out": [PUBLIC], "deny_out": ["0.0.0.0/0"]}).expect(200)
        equal(reached(d, box, PUBLIC, PUBLIC_TOO), [PUBLIC], "what is reached if all but one is denied")
        put(d, box, {"allow": [f"{OTHER}:80"]}).expect(200)
        equal(reached(d, box, NAME, OTHER, PUBLIC), [OTHER], "what is reached with a list of names")
        other = d.create(egress={"deny_out": [PUBLIC_TOO]})
        equal(reached(d, other, PUBLIC, PUBLIC_TOO), [PUBLIC], "what another reaches")


@test
def lists_that_are_none_change_nothing(c):
    with daemon(c) as d:
        box = d.create(egress={"allow_out": [PUBLIC]})
        for lists, words in (({"allow_out": ["300.1.2.3/8"]}, "300.1.2.3/8"), ({"deny_out": ["a b"]}, "a b"),
                             ({"alow": []}, "alow"), ({"allow_out": "x"}, "allow_out"),
                             ({"packages": True}, "create request"), ({"allow": [f"{NAME}:0"]}, NAME)):
            check(words in put(d, box, lists).expect(400, code="invalid").json["detail"], f"{lists}")
        equal(d.get(box)["egress"]["generation"], 1, "the generation")
        equal(reached(d, box, PUBLIC, PUBLIC_TOO), [PUBLIC], "what is reached")


@test
def package_managers_reach_what_they_are_configured_for(c):
    found = [name for program, name in VARIABLES.items() if os.path.exists(f"/usr/bin/{program}")]
    if not found:
        raise Skip(f"none of {', '.join(VARIABLES)} is in /usr/bin")
    c.write("daemon/profiles/packages.yaml", PROFILE.format(id="profile.packages", **PROFILES["profile.pooled"]) +
            f"env: {{{found[0]}: 'http://{NAME}/simple'}}\n")
    with daemon(c) as d:
        box = Client(d).create("-p", "profile.packages", "--allow-packages")
        equal(reached(d, box, NAME, OTHER), [NAME], "what is reached")
        box = Client(d).create("-p", "profile.packages", "--allow-packages", "--allow", f"{OTHER}:80")
        equal(reached(d, box, NAME, OTHER), [NAME, OTHER], "what is reached with one more")


main()
