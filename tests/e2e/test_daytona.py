#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Daytona's own client, as npm has it, against the daemon: nothing in it is changed.

Every method that is called is listed with what came of it.
"""

from daytona import Served
from daytona_story import STORY
from harness import check, equal, main, test
from mcp import script
from npm import STORAGE, modules, tell

SDK = ("@daytonaio/sdk@0.218.0", *STORAGE)
INSTALL_SECONDS = 170
SLOW = {"seconds": 400}


@test(**SLOW)
def the_sdk(c):
    place = modules(SDK, INSTALL_SECONDS)
    with Served(c) as s:
        said = script(c, place, "story.mjs", STORY, [], HOME=str(c.home), **s.key())
        check(len(said) > 40, f"only {len(said)} steps were taken")
        tell(said)
        equal(s.d.api.get("/v1/sandboxes").expect(200).json["sandboxes"], [], "what is left")


main()
