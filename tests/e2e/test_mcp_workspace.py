#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""`sandboxer mcp --workspace`: what the person grants, what a model can do with it, and what becomes of its changes."""

import json
import os
import signal
import subprocess

from agents import PROFILE, Agents
from harness import check, equal, main, test, wait_for
from mcp import META, NEW, Lines, Web, check_tool_schemas
from workspaces import read_kept

NAMED = ("sandbox_exec", "sandbox_read", "sandbox_write", "sandbox_install", "sandbox_diff", "sandbox_sync")


class Session(Lines):
    """A session with a workspace, and what `sandboxer mcp` says on stderr."""

    def __init__(self, a, *argv, directory=None):
        super().__init__(a.c, a.daemon, ["--workspace", str(directory or a.host), *argv], **a.env)
        self.error = a.c.dir / f"mcp-{id(self)}.err"

    def __enter__(self):
        with open(self.error, "wb") as error:
            self.process = self.c.start([self.c.program(), "mcp", *self.argv], env=self.env, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=error)
        self.listen()
        self.begin()
        return self

    def says(self):
        return self.error.read_text()

    def sh(self, command):
        return self.tool("sandbox_exec", command=command)["stdout"]

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(20)


def changes_of(answer):
    return {change["path"]: change["action"] for change in answer["changes"]}


# --- the story ---

@test
def a_model_works_on_a_copy_and_brings_it_back(c):
    with Agents(c) as a:
        with Session(a) as m:
            equal(a.boxes(), {}, "the sandboxes before the first use")
            tools = m.ask("tools/list")["result"]["tools"]
            check_tool_schemas(tools)
            for tool in tools:
                required = tool["inputSchema"].get("required", [])
                equal("sandbox_id" in required, tool["name"] == "sandbox_destroy", f"whether {tool['name']} needs an id")
            check({*NAMED} <= {tool["name"] for tool in tools}, "the tools")
            equal(m.sh("pwd; cat a.txt"), "/workspace\nhost a\n", "the copy")
            equal(m.tool("sandbox_diff")["changes"], [], "the changes before one is made")
            m.tool("sandbox_write", path="/workspace/new/deep.txt", content="made\n")
            m.sh("echo edited >a.txt; rm b.txt")
            want = {"a.txt": "replaced", "b.txt": "deleted", "new": "created", "new/deep.txt": "created"}
            for answer in (m.tool("sandbox_diff"), m.tool("sandbox_sync", dry_run=True)):
                equal(changes_of(answer), want, "the changes")
                equal([answer["applied"], answer["left"], answer["more"], answer["directory"]], [4, 0, 0, str(a.host)], "their numbers")
            one = m.tool("sandbox_diff", limit=1)
            equal([len(one["changes"]), one["more"]], [1, 3], "a short list")
            equal([a.read("a.txt"), a.read("b.txt"), (a.host / "new").exists()], ["host a\n", "host b\n", False], "the directory meanwhile")
            equal(changes_of(m.tool("sandbox_sync")), want, "what came back")
            equal([a.read("a.txt"), a.read("new/deep.txt"), (a.host / "b.txt").exists()], ["edited\n", "made\n", False], "the directory")
            m.sh("echo again >a.txt")
            equal(changes_of(m.tool("sandbox_sync")), {"a.txt": "replaced"}, "a second time")
            m.sh("echo edited >a.txt")
            m.tool("sandbox_sync")
            equal((a.host / "a.txt").stat().st_uid, c.uid, "the owner of the file")
            box = m.tool("sandbox_list")["sandboxes"][0]["sandbox_id"]
            equal(m.tool("sandbox_read", sandbox_id=box, path="/workspace/a.txt")["content"], "edited\n", "by its id")
            uris = [r["uri"] for r in m.ask("resources/list")["result"]["resources"]]
            check(f"sandbox://{box}" in uris, f"the resources: {uris}")
        wait_for(lambda: a.boxes() == {}, "it is gone")
        equal(m.says(), "", "what the session says at its end")

@test
def what_was_not_brought_back_is_kept_stopped(c):
    with Agents(c) as a:
        with Session(a) as m:
            m.sh("echo edited >a.txt")
        [(box, state)] = a.boxes().items()
        equal([state, a.read("a.txt")], ["paused", "host a\n"], "the sandbox and the directory")
        for words in (f"the sandbox {box} is kept, stopped", f"sandboxer sync --interactive {box}", f"sandboxer destroy {box}"):
            check(words in m.says(), f"it does not say {words!r}: {m.says()}")
        a.cli("destroy", box).expect(0)
        equal(a.read("a.txt"), "edited\n", "after the person ended it")


@test
def a_killed_client_loses_nothing(c):
    with Agents(c) as a:
        with Session(a) as m:
            m.sh("echo edited >a.txt")
            m.start("tools/call", name="sandbox_exec", arguments={"command": "sleep 7777"})
            m.kill()
        wait_for(lambda: [*a.boxes().values()] == ["paused"], "it is stopped")
        [box] = a.boxes()
        a.cli("resume", box).expect(0)
        equal(a.cli.sh(box, "cat /workspace/a.txt").expect(0).out, b"edited\n", "its file")
        with Session(a) as m:
            m.sh("true")
            m.kill()
        wait_for(lambda: [*a.boxes()] == [box], "one without changes is destroyed")
        a.cli("destroy", "--discard", box).expect(0)


@test
def only_a_sync_brings_changes_back(c):
    with Agents(c) as a:
        with Session(a) as m:
            m.sh("echo edited >a.txt; rm b.txt; echo made >made.txt")
        [box] = a.boxes()
        snapshot = a.daemon.api.delete(f"/v1/sandboxes/{box}").expect(200).json["kept"]["snapshot_id"]
        equal([a.read("a.txt"), a.read("b.txt"), (a.host / "made.txt").exists()], ["host a\n", "host b\n", False], "the directory")
        equal([read_kept(a.daemon, a.cli, snapshot, f"/workspace/{name}.txt") for name in ("a", "made")], ["edited", "made"], "the snapshot")


# Writes to a file once another process has read it.
LATE = """
import ctypes, os
libc = ctypes.CDLL(None)
fd = libc.inotify_init()
libc.inotify_add_watch(fd, b"/workspace/a.txt", 0x10)
print("watching", flush=True)
os.read(fd, 64)
open("/workspace/a.txt", "w").write("late")
print("written", flush=True)
os.read(fd, 64)
"""


@test
def a_program_that_writes_as_the_session_ends_loses_nothing(c):
    a = Agents(c)
    a.daemon.start(SANDBOXER_DELAY_AT="workspace.copied:2")  # after the comparison
    with a:
        with Session(a) as m:
            m.sh("true")
            [box] = a.boxes()
            late = a.cli.start("exec", box, "--", "python3", "-c", LATE)
            equal(late.stdout.readline(), b"watching\n", "the program")
        out = late.communicate(timeout=60)[0]
        check(b"written" not in out or a.boxes(), "a write after the comparison is lost")
        wait_for(lambda: a.boxes() == {}, "it is gone")


@test
def an_unused_session_finds_its_files(c):
    c.write("daemon/profiles/brief.yaml", PROFILE.format(memory=256, disk=64, more="").replace("agent-dev", "brief").replace("2h", "3s"))
    with Agents(c) as a:
        with Session(a, "--profile", "profile.brief") as m:
            m.sh("echo edited >a.txt")
            wait_for(lambda: [*a.boxes().values()] == ["paused"], "its lifetime is over")
            equal(m.sh("cat a.txt"), "edited\n", "afterwards")
            [box] = a.boxes()
            a.cli("pause", box).expect(0)
            m.refused("sandbox_exec", "resume", command="true")
        equal([*a.boxes().values()], ["paused"], "after the session")
        a.cli("destroy", "--discard", box).expect(0)


@test
def a_client_that_dies_at_once_leaves_nothing(c):
    with Agents(c) as a:
        for _ in range(5):
            with Session(a) as m:
                m.start("tools/call", name="sandbox_exec", arguments={"command": "true"})
                m.kill()
        wait_for(lambda: a.boxes() == {}, "they are gone")


@test
def a_daemon_that_dies_loses_nothing(c):
    with Agents(c) as a:
        with Session(a, "--name", "mine") as m:
            m.sh("echo edited >a.txt")
            a.daemon.kill()
            equal(m.process.wait(20), 125, "the exit status")
            check("sandboxer get mine" in m.says(), f"what it says: {m.says()}")
        a.daemon.start()
        with Session(a, "--name", "mine") as m:
            equal(m.sh("cat a.txt"), "edited\n", "in the next session")
            m.tool("sandbox_sync")
        wait_for(lambda: a.boxes() == {}, "it is gone")


@test
def a_name_continues_in_the_same_sandbox(c):
    with Agents(c) as a:
        with Session(a, "--name", "mine") as m:
            m.sh("echo edited >a.txt; echo kept >/root/installed || echo kept >/tmp/installed")
        equal([*a.boxes().values()], ["paused"], "between the sessions")
        with Session(a, "--name", "mine") as m, Session(a, "--name", "mine") as other:
            equal(m.sh("cat a.txt /root/installed /tmp/installed 2>/dev/null || true"), "edited\nkept\n", "of the first session")
            equal(other.sh("cat a.txt"), "edited\n", "two sessions at a time")
            m.close()
            equal(other.sh("cat a.txt"), "edited\n", "after one of them ended")
            with Session(a, "--name", "mine", directory=c.mkdir(c.dir / "elsewhere")) as wrong:
                wrong.refused("sandbox_exec", "choose another --name", command="true")
            with Session(a, "--name", "mine", directory=f"{a.host}:ro") as wrong:
                wrong.refused("sandbox_exec", "its workspace is writable", command="true")
            equal(changes_of(other.tool("sandbox_sync")), {"a.txt": "replaced"}, "what came back")
        wait_for(lambda: a.boxes() == {}, "it is gone")


@test
def a_read_only_workspace_stays_as_it_is(c):
    with Agents(c) as a:
        with Session(a, directory=f"{a.host}:ro") as m:
            equal(m.sh("cat a.txt; (echo edited >a.txt) 2>/dev/null || true"), "host a\n", "the copy")
            for name in ("sandbox_diff", "sandbox_sync"):
                m.refused(name, "granted the directory read-only")
            equal(a.read("a.txt"), "host a\n", "the directory")
            (a.host / "b.txt").write_text("changed here\n")
            equal(m.sh("cat b.txt"), "host b\n" if c.uid == 0 else "changed here\n", "a copy with root's daemon, else the directory itself")
            equal("b.txt (replaced)" in hint_of(m), c.uid == 0, "whether it is said that the copy is older")
        wait_for(lambda: a.boxes() == {}, "it is gone")


@test
def the_newest_revision_has_the_same(c):
    with Agents(c) as a:
        with Session(a) as m:
            call = lambda name, **arguments: m.ask("tools/call", name=name, arguments=arguments, _meta=META)["result"]["structuredContent"]
            equal(call("sandbox_exec", command="cat a.txt")["stdout"], "host a\n", f"in {NEW}")
            equal(call("sandbox_diff")["left"], 0, f"in {NEW}")


@test
def the_person_approves_the_network_by_granting_it(c):
    with Agents(c) as a:
        with Session(a, "--allow", "example.com:1") as m:
            equal(m.sh("echo in"), "in\n", "a command in a sandbox with the granted network")
            error = m.ask("tools/call", name="sandbox_create", arguments={"capabilities": {"network": ["example.com:1"]}})["error"]
            equal(error["data"]["kind"], "require_approval", "a network of the model's own")


@test
def a_sync_can_wait_for_a_master(c):
    rules = "version: 1\ntools:\n  sandbox_exec: {tier: 2, effect: execute}\n  sandbox_sync: {tier: 4, effect: write}\n"
    bundle = c.write("bundle.yaml", rules)
    with Agents(c, config=f"trust: {{bundle: '{bundle}'}}\n") as a:
        token = a.daemon.api.post("/v1/tokens", {"name": "m", "verbs": ["read"], "role": "master"}).expect(201).json["token"]
        with Session(a) as m:
            m.sh("echo edited >a.txt")
            request = m.ask("tools/call", name="sandbox_sync", arguments={})["error"]["data"]["request_id"]
            equal(a.read("a.txt"), "host a\n", "before the approval")
            a.cli("approvals", "approve", request, env={"SANDBOXER_MASTER": token}).expect(0)
            done = m.ask("tools/call", name="sandbox_sync", arguments={}, _meta={"sandboxer/request_id": request, "sandboxer/wait_s": 60})
            equal(changes_of(done["result"]["structuredContent"]), {"a.txt": "replaced"}, "what was approved")
            equal(a.read("a.txt"), "edited\n", "after it")
            check("deny" in json.dumps(m.ask("tools/call", name="sandbox_diff", arguments={})["error"]), "a tool without a rule")


def hint_of(m, command="true"):
    return m.tool("sandbox_exec", command=command).get("hint", "")


@test
def a_command_on_older_files_says_so(c):
    with Agents(c) as a:
        c.write("work/dir/c.txt", "host c\n")
        with Session(a) as m:
            equal(hint_of(m), "", "before a change")
            m.sh("echo inside >b.txt; echo new >new.txt")
            equal(hint_of(m), "", "after changes of the sandbox's own")
            m.tool("sandbox_sync")
            equal(hint_of(m), "", "after they came back")
            c.write("work/a.txt", "changed here\n")
            (a.host / "dir/c.txt").unlink()
            c.write("work/more.txt", "made here\n")
            hint = hint_of(m)
            for words in (str(a.host), "a.txt (replaced)", "dir/c.txt (deleted)", "more.txt (created)", "older files"):
                check(words in hint, f"no {words!r} in the hint: {hint}")
            check("b.txt" not in hint and "new.txt" not in hint, f"the hint: {hint}")
            equal(m.sh("cat a.txt dir/c.txt"), "host a\nhost c\n", "the copy")
            m.sh("echo changed here >a.txt; rm dir/c.txt; echo made here >more.txt")
            m.tool("sandbox_sync")
            equal(hint_of(m), "", "after the same changes in the sandbox")
            c.write("work/b.txt", "both\n")
            m.sh("echo inside again >b.txt")
            check("b.txt (replaced)" in hint_of(m), "a file that changed on both sides")
            for n in range(15):
                c.write(f"work/n{n}.txt", "made here\n")
            check("and 6 more" in hint_of(m), "a long list")
            own = m.tool("sandbox_create")["sandbox_id"]
            check("hint" not in m.tool("sandbox_exec", sandbox_id=own, command="true"), "a sandbox without a copy")
        [box] = a.boxes()
        a.cli("destroy", "--discard", box).expect(0)


@test
def a_directory_that_is_gone_stops_no_command(c):
    with Agents(c) as a:
        with Session(a) as m:
            m.sh("true")
            a.host.rename(a.host.with_name("moved"))
            check("is not known" in hint_of(m, "cat a.txt"), "the hint")
            equal(m.sh("cat a.txt"), "host a\n", "the copy")
            a.host.with_name("moved").rename(a.host)
        wait_for(lambda: a.boxes() == {}, "it is gone")


# --- attacks ---

@test
def a_model_cannot_leave_the_workspace(c):
    with Agents(c) as a:
        outside = c.write("outside/secret.txt", "secret\n").parent
        foreign = a.cli.create()
        with Session(a) as m:
            box = (m.sh("true"), m.tool("sandbox_list")["sandboxes"][0]["sandbox_id"])[1]
            for name in NAMED:
                extra = {"sandbox_exec": {"command": "true"}, "sandbox_read": {"path": "/etc/hostname"}, "sandbox_write": {"path": "/x", "content": ""},
                         "sandbox_install": {"manager": "npm", "packages": ["x"]}}.get(name, {})
                m.refused(name, "There is no sandbox" if name not in ("sandbox_diff", "sandbox_sync") else "has no copy", sandbox_id=foreign, **extra)
            m.refused("sandbox_destroy", "There is no sandbox", sandbox_id=foreign)
            check("error" in m.ask("resources/read", uri=f"sandbox://{foreign}"), "another sandbox of the same user is seen")
            equal([b["sandbox_id"] for b in m.tool("sandbox_list")["sandboxes"]], [box], "the list")
            m.refused("sandbox_destroy", "ends with the session", sandbox_id=box)
            m.refused("sandbox_create", "administrators", profile="profile.agent-dev", inputs={"repo": str(outside)})
            for name, argument in (("sandbox_sync", "directory"), ("sandbox_sync", "accept"), ("sandbox_sync", "force"), ("sandbox_diff", "path")):
                m.refused(name, argument, **{argument: str(outside)})
            m.refused("sandbox_write", "contains '..'", path="/workspace/../outside/secret.txt", content="inside\n")
            m.sh(f"mkdir -p {outside} && echo inside >{outside}/secret.txt; echo inside >../secret.txt")
            equal(m.tool("sandbox_diff")["changes"], [], "what is outside the copy")
            own = m.tool("sandbox_create")["sandbox_id"]
            m.refused("sandbox_sync", "has no copy", sandbox_id=own)
            m.send(method="notifications/sandboxer/workspace", params={"inputs": {"repo": str(outside)}})
            equal(m.tool("sandbox_diff")["directory"], str(a.host), "the directory")
        equal((outside / "secret.txt").read_text(), "secret\n", "a file outside")
        wait_for(lambda: [*a.boxes()] == [foreign], "the others are gone")
        web = Web(a.daemon)
        answer = web.ask("initialize", {"Sandboxer-Workspace": json.dumps({"inputs": {"repo": str(outside)}})}, protocolVersion="2025-11-25",
                         capabilities={}, clientInfo={"name": "t", "version": "1"})
        equal(answer.status, 403, "a workspace on HTTP")


@test
def a_planted_link_leads_nowhere(c):
    with Agents(c) as a:
        outside = c.write("outside/c.txt", "outside\n").parent
        c.write("work/dir/c.txt", "host c\n")
        with Session(a) as m:
            m.sh(f"ln -s /etc/passwd passwd; ln -s .. up; ln -s {outside} away; rm -r dir; ln -s {outside} dir")
            answer = m.tool("sandbox_sync")
            equal({change for change in changes_of(answer).values()} - {"refused", "deleted", "sensitive"}, set(), "the changes")
            check(answer["left"] >= 3 and "sandboxer sync --interactive" in answer["hint"], f"the answer: {answer}")
            m.sh("rm dir; mkdir dir; echo inside >dir/c.txt")
            m.tool("sandbox_sync")
        for name in ("passwd", "up", "away"):
            check(not os.path.lexists(a.host / name), f"{name} is on the host")
        equal([(outside / "c.txt").read_text(), a.read("dir/c.txt")], ["outside\n", "inside\n"], "the files")
        [box] = a.boxes()
        a.cli("destroy", "--discard", box).expect(0)


@test
def a_link_on_the_host_is_not_followed(c):
    with Agents(c) as a:
        outside = c.write("outside/c.txt", "outside\n").parent
        c.write("work/dir/c.txt", "host c\n")
        with Session(a) as m:
            m.sh("echo inside >dir/c.txt")
            (a.host / "dir").rename(a.host / "moved")
            (a.host / "dir").symlink_to(outside)
            m.tool("sandbox_sync")
        equal((outside / "c.txt").read_text(), "outside\n", "a file outside")
        [box] = a.boxes()
        a.cli("destroy", "--discard", box).expect(0)


@test
def conflicts_and_held_names_are_the_persons(c):
    with Agents(c) as a:
        c.write("work/.git/config", "[core]\n")
        with Session(a) as m:
            m.sh("echo inside >a.txt; echo inside >b.txt; mkdir -p .git/hooks; echo '#!/bin/sh' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit")
            (a.host / "a.txt").write_text("changed here\n")
            seen = changes_of(m.tool("sandbox_diff"))
            equal([seen["a.txt"], seen["b.txt"], seen[".git/hooks/pre-commit"]], ["conflict", "replaced", "sensitive"], "the changes")
            for _ in range(2):
                answer = m.tool("sandbox_sync")
                check(answer["left"] >= 2 and answer["changes"][0]["action"] in ("conflict", "sensitive"), f"the answer: {answer}")
            equal([a.read("a.txt"), a.read("b.txt")], ["changed here\n", "inside\n"], "the files")
            check(not (a.host / ".git/hooks/pre-commit").exists(), "a hook is on the host")
        [(box, state)] = a.boxes().items()
        equal(state, "paused", "the sandbox")
        a.cli("destroy", "--discard", box).expect(0)


# --- the command line ---

@test
def mistakes_are_refused_before_a_session(c):
    with Agents(c) as a:
        mcp = lambda *argv: a.cli("mcp", *argv, cwd=a.host)
        mcp("--name", "x").expect(2, says="--workspace DIR")
        mcp("--allow", "example.com").expect(2, says="--workspace DIR")
        mcp("--workspace", ".", "--session", "file").expect(2, says="--name NAME")
        mcp("--workspace", "nowhere").expect(2, says="nowhere: No such file")
        mcp("--workspace", ":ro").expect(2, says="DIR:ro")
        mcp("--workspace", "a.txt").expect(2, says="cannot use")
        mcp("--workspace", ".", "--name", "No Name").expect(2, says="name")
        equal(a.boxes(), {}, "the sandboxes")


@test
def a_profile_that_is_missing_is_told_to_the_model(c):
    with Agents(c) as a:
        with Session(a, "--profile", "profile.none") as m:
            m.refused("sandbox_exec", "profile.none", command="true")
            made = m.tool("sandbox_create")["sandbox_id"]
            equal(m.tool("sandbox_exec", sandbox_id=made, command="echo own")["stdout"], "own\n", "a sandbox of its own")


main()
