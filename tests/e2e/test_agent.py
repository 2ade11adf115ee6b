#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""`sandboxer agent`: the agent inside with its terminal, its workspace and its hosts, and what becomes of its changes."""

import base64
import contextlib
import hashlib
import http.server
import io
import json
import os
import signal
import tarfile
import threading

from agents import Agents
from daemon import ApiAs
from harness import PLAIN, check, equal, main, test, wait_for
from tcp import Tcp, free_port
from terminal import Terminal
from workspaces import read_kept

HELPER = "program: helper\nkeys: [HELPER_KEY, OTHER_KEY]\npass: [HELPER_URL]\nenv: {HELPER_MODE: quiet}\nlogins: [~/.helper/login]\n" \
    "files: {~/.helper/settings.json: '{\"a\": 1}'}\n"
WAITER = "#!/bin/sh\necho up\nread line\necho \"edited $line\" >a.txt\n"


# --- recipes ---

@test
def recipes_are_listed_and_files_replace_them(c):
    a = Agents(c)
    list_ = lambda code=0: {row["name"]: row for row in json.loads(a("--list", "-o", "json").expect(code).out)["agents"]}
    equal(sorted(list_()), ["claude", "codex", "gemini", "opencode"], "the recipes that are compiled in")
    a.recipe("helper", "program: helper\n")
    path = a.recipe("claude", "program: claude\nhosts: [models.example.org]\n")
    equal(list_()["claude"]["recipe"]["hosts"], ["models.example.org"], "the hosts of a replaced recipe")
    equal(list_()["claude"]["file"], str(path), "its file")
    equal(list_()["helper"]["recipe"]["program"], "helper", "a recipe of our own")
    a("--list").expect(0, says="").out.index(b"built in")


@test
def mistakes_in_recipes_are_named_by_file_line_and_field(c):
    a = Agents(c)
    cases = {"one": ("program: x\nhosts: 5\n", r"line 2: hosts: "), "two": ("hosts: []\n", "program"),
             "three": ("program: x\nkeys: [1A]\n", r"line 2: keys: '1A' is not the name of a variable"),
             "four": ("program: x\nsurprise: 1\n", r"line 2.*surprise"), "Five": ("program: x\n", "NAME.yaml")}
    for name, (text, _) in cases.items():
        a.recipe(name, text)
    listed = {row["name"]: row for row in json.loads(a("--list", "-o", "json").expect(0).out)["agents"]}
    for name, (_, words) in cases.items():
        a(name).expect(2, says=[f"the recipe '{name}' cannot be used: {a.c.dir}/agents/{name}.yaml: ", words])
        check(listed[name]["problem"], f"{name}: {listed[name]}")
    check("problem" not in listed["claude"], "the other recipes can be used")
    a("claud").expect(3, says="there is no recipe 'claud'; did you mean 'claude'?")
    (c.dir / "agents/one.yaml").chmod(0o666)
    a("one").expect(2, says="can be written by others")


@test
def arguments_are_refused_before_anything_is_made(c):
    with Agents(c) as a:
        a.recipe("helper", "program: helper\n")
        a().expect(2, says="name an agent")
        a("helper", "nowhere").expect(2, says="nowhere: No such file or directory")
        a("helper").expect(127, says="helper is not installed here")
        a("helper", "--install").expect(2, says="names no package of npm")
        a("--pass-key", "--", "true").expect(2, says="--env NAME")
        a("--install", "--", "true").expect(2, says="need a recipe")
        a("helper", "--pass-key").expect(2, says="--pass-key: no key of helper is set")
        a("helper", "--pass-login").expect(2, says="--pass-login: there is no login of helper")
        a("--resume", "nothing").expect(3)
        a("--resume", "x", "--memory", "1G").expect(2, says="--resume continues")
        equal(a.boxes(), {}, "the sandboxes")
        box = a.cli.create()
        a("--resume", box, "--", "true").expect(2, says="has no workspace")
        equal(a.boxes(), {box: "ready"}, "a sandbox without a workspace")


# --- the story ---

@test
def its_changes_come_back_and_the_sandbox_goes(c):
    with Agents(c) as a:
        a.script("helper")
        a.recipe("helper", HELPER)
        a("helper", "--sync", "auto", "--", "one", "two").expect(0, out=b"here /workspace one two\n", says=["2 changes in the workspace", "2 changes brought back"])
        equal(a.read("a.txt"), "edited\n", "the file that it edited")
        equal(a.read("made.txt"), "made\n", "the file that it made")
        equal(a.boxes(), {}, "the sandboxes")
        a("helper", str(a.host), "--sync", "auto").expect(0, out=b"here /workspace \n")
        a(".", "--sync", "auto", "--", "sh", "-c", "rm b.txt; exit 7").expect(7)
        check(not (a.host / "b.txt").exists(), "the deletion came back")
        a("--", "true").expect(0)
        equal(a.boxes(), {}, "the sandboxes without changes")


@test
def it_has_what_its_recipe_says(c):
    with Agents(c) as a:
        a.script("helper", "#!/bin/sh\necho $HELPER_MODE $HELPER_URL $EXTRA ${HELPER_KEY-none}\ncat ~/.helper/settings.json\nls ~/.helper\n")
        a.recipe("helper", HELPER)
        got = a("helper", "--env", "EXTRA=more", env={"HELPER_URL": "u", "HELPER_KEY": "secret"})
        got.expect(0, out=b'quiet u more none\n{"a": 1}\nsettings.json\n')


@test
def a_program_with_its_package_is_copied_in(c):
    with Agents(c) as a:
        c.write("npm/lib/node_modules/@x/helper/lib/word", "of the package\n")
        c.write("npm/lib/node_modules/@x/helper/cli.sh", '#!/bin/sh\ncat "$(dirname "$0")/lib/word"\n', 0o755)
        c.own_link(c.dir / "bin/helper", "../npm/lib/node_modules/@x/helper/cli.sh")
        a.recipe("helper", "program: helper\n")
        a("helper").expect(0, out=b"of the package\n")


@test
def credentials_enter_when_they_are_passed_and_are_on_no_record(c):
    with Agents(c) as a:
        a.script("helper", "#!/bin/sh\necho $HELPER_KEY\ncat ~/.helper/login\nstat -c %a ~/.helper/login\n")
        a.recipe("helper", HELPER)
        c.write("home/.helper/login", "token-of-login\n")
        got = a("helper", "--pass-key", "--pass-login", "--keep", env={"HELPER_KEY": "value-of-key"})
        got.expect(0, out=b"value-of-key\ntoken-of-login\n600\n", says=["can read HELPER_KEY; use a key with limits", "can read your login"])
        (box,) = a.boxes()
        seen = json.dumps(a.cli.json("get", box)) + str(a.cli("events", box).expect(0).out) + a.daemon.log_path.read_text()
        check("value-of-key" not in seen and "token-of-login" not in seen, "a credential is on record")
        a("--resume", box, env={"HELPER_KEY": "value-of-key"}).expect(0, out=b"\ntoken-of-login\n600\n")


# --- the end of the workspace ---

@test
def without_a_terminal_changes_stay_in_a_stopped_sandbox(c):
    with Agents(c) as a:
        a.script("helper")
        a.recipe("helper", HELPER)
        got = a("helper", "--name", "task").expect(0, says=["is kept, stopped", r"continue: +sandboxer agent --resume sbx_"])
        equal(a.read("a.txt"), "host a\n", "the file here")
        (box,) = a.boxes()
        check(box in got.notes, "the sandbox is named")
        equal(a.boxes(), {box: "paused"}, "the sandbox")
        a("--resume", "task", "--sync", "auto", "--", "again").expect(0, out=b"here /workspace again\n")
        equal((a.read("a.txt"), a.boxes()), ("edited\n", {}), "the file here, and the sandboxes")


@test
def a_conflict_is_never_lost(c):
    with Agents(c) as a:
        a.recipe("helper", "program: helper\n")
        a.script("helper", WAITER + "mkdir -p .git/hooks; echo x >.git/hooks/pre-commit\n")
        agent = a.cli.start("agent", "helper", "--sync", "auto", cwd=a.host)
        equal(agent.stdout.readline(), b"up\n", "its first line")
        (a.host / "a.txt").write_text("changed here\n")
        out, err = agent.communicate(b"go\n", timeout=60)
        check(b"conflict" in out and b"sensitive" in out and b"is kept, stopped" in err, f"{out} {err}")
        equal((agent.returncode, a.read("a.txt")), (4, "changed here\n"), "the status, and the file here")
        (box,) = a.boxes()
        a.cli("destroy", box).expect(4)
        a.cli("resume", box).expect(0)
        equal(a.cli.sh(box, "cat /workspace/a.txt").expect(0).text, "edited go", "the file inside")
        a.cli("destroy", "--discard", box).expect(0)


@test
def declined_changes_do_not_come_back_by_themselves(c):
    with Agents(c) as a:
        a("--sync", "never", "--", "sh", "-c", "echo edited >a.txt; rm b.txt; echo made >made.txt").expect(0, says="is kept, stopped")
        (box,) = a.boxes()
        kept = a.daemon.api.delete(f"/v1/sandboxes/{box}").expect(200).json["kept"]  # as every end but `sandboxer destroy`
        check("3 changes" in kept["reason"] and "deleted: 1" in kept["reason"], f"the reason: {kept}")
        equal([a.read("a.txt"), a.read("b.txt"), (a.host / "made.txt").exists()], ["host a\n", "host b\n", False], "the directory")
        equal([read_kept(a.daemon, a.cli, kept["snapshot_id"], f"/workspace/{name}.txt") for name in ("a", "made")], ["edited", "made"], "the snapshot")


@test
def a_running_agent_is_paused_when_its_time_is_over(c):
    with Agents(c) as a:
        agent = a.cli.start("agent", "--ttl", "3s", "--", "sh", "-c", "echo edited >a.txt; echo up; sleep 1000", cwd=a.host)
        equal(agent.stdout.readline(), b"up\n", "its first line")
        wait_for(lambda: [*a.boxes().values()] == ["paused"], "its time is over", seconds=60)
        agent.kill()
        agent.wait()
        (box,) = a.boxes()
        equal(a.read("a.txt"), "host a\n", "the directory")
        kept = a.daemon.api.delete(f"/v1/sandboxes/{box}").expect(200).json["kept"]
        equal([a.read("a.txt"), read_kept(a.daemon, a.cli, kept["snapshot_id"])], ["host a\n", "edited"], "the directory, and the snapshot")


@test
def it_may_work_on_the_directory_itself(c):
    with Agents(c) as a:
        a.script("helper")
        a.recipe("helper", HELPER)
        a("helper", "--workspace", "mount", "--", "x").expect(0, out=b"here /workspace x\n", says="itself, not a copy")
        equal((a.read("a.txt"), a.read("made.txt"), a.boxes()), ("edited\n", "made\n", {}), "the files here, and the sandboxes")
        equal((a.host / "made.txt").stat().st_uid, c.uid, "the owner of a new file")
        a("helper", "--workspace", "mount", "--keep", "--name", "task").expect(0, says="is kept, stopped")
        (a.host / "a.txt").write_text("changed here\n")
        a("--resume", "task", "--", "again").expect(0, out=b"here /workspace again\n", says="itself, not a copy")
        equal((a.read("a.txt"), a.boxes()), ("edited\n", {}), "the file here, and the sandboxes")
        a("helper", "--workspace", "mount", "--sync", "auto").expect(2, says="has none")
        a("helper", "--workspace", "both").expect(2, says="not one of")


@test
def a_home_is_not_taken_by_accident(c):
    with Agents(c) as a:
        a.script("helper")
        a.recipe("helper", HELPER)
        (a.home / ".netrc").write_text("key\n")
        a.cli("agent", "helper", cwd=a.home).expect(2, says="is your home")
        a.cli("agent", "--", "true", cwd=a.home).expect(2, says="is your home")
        a.cli("agent", "--", "true", env={"HOME": f"{a.home}/"}, cwd=a.home).expect(2, says="is your home")
        equal(a.boxes(), {}, "sandboxes")
        a.cli("agent", ".", "--", "cat", ".netrc", cwd=a.home).expect(0, out=b"key\n")
        a.cli("agent", a.home.name, "--", "true", cwd=a.home.parent).expect(3, says="for the directory, write './home'")


@test
def on_a_terminal_it_asks(c):
    with Agents(c) as a:
        a.script("helper", "#!/bin/sh\ntest -t 0 && test -t 1 && stty size\nread line\necho $line >a.txt\n")
        a.recipe("helper", HELPER)

        def play(answer, *more, size=(37, 111)):
            with Terminal(c, "helper", str(a.host), *more, verb=("agent",), size=size, env=a.cli.env) as t:
                t.expect(b"37 111")
                t.send(b"word\r")
                t.expect(b"1 change in the workspace")
                t.expect(b"a.txt")
                t.expect(b"[d]iscard:")
                t.send(answer)
                status = t.end()
                check(t.restored(), "the terminal is not as it was")
            return status
        equal(play(b"n\n"), 0, "status")
        (box,) = a.boxes()
        equal((a.boxes()[box], a.read("a.txt")), ("paused", "host a\n"), "after n")
        a.cli("destroy", "--discard", box).expect(0)
        equal(play(b"d\ny\n"), 0, "status")
        equal((a.boxes(), a.read("a.txt")), ({}, "host a\n"), "after d")
        equal(play(b"y\n"), 0, "status")
        equal((a.boxes(), a.read("a.txt")), ({}, "word\n"), "after y")


@test
def if_the_terminal_dies_the_sandbox_is_kept(c):
    with Agents(c) as a:
        a.script("helper", "#!/bin/sh\ntrap 'echo bye >a.txt; exit 1' HUP\necho up\nwhile :; do sleep 0.02; done\n")
        a.recipe("helper", HELPER)
        with Terminal(c, "helper", str(a.host), verb=("agent",), env=a.cli.env) as t:
            t.expect(b"up")
            os.kill(t.process.pid, signal.SIGHUP)
            t.expect(b"[d]iscard:")
            os.kill(t.process.pid, signal.SIGHUP)  # no answer is the careful one
            t.expect(b"is kept")
            t.end()
            check(t.restored(), "the terminal is not as it was")
        (box,) = a.boxes()
        equal((a.boxes()[box], a.read("a.txt")), ("paused", "host a\n"), "the sandbox, and the file here")
        a.cli("destroy", box).expect(0)
        equal(a.read("a.txt"), "bye\n", "the file here after its destroy")


@test
def a_killed_command_line_loses_nothing(c):
    with Agents(c) as a:
        a.recipe("helper", "program: helper\n")
        a.script("helper", "#!/bin/sh\necho kept >a.txt\necho up\nsleep 1000\n")
        agent = a.cli.start("agent", "helper", cwd=a.host)
        equal(agent.stdout.readline(), b"up\n", "its first line")
        agent.kill()
        agent.wait()
        (box,) = a.boxes()
        a.cli("destroy", box).expect(0)
        equal(a.read("a.txt"), "kept\n", "the file here")


# --- the network ---

class Model(http.server.BaseHTTPRequestHandler):
    """A model API on the loopback, or a registry of npm: what `answers` has, by path."""
    answers = {}
    heard = []

    def do_GET(self):  # pylint: disable=invalid-name
        self.heard.append((self.path, dict(self.headers)))
        body = self.answers.get(self.path.split("?")[0])
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


class Served:
    def __init__(self, answers):
        handler = type("Handler", (Model,), {"answers": answers, "heard": []})
        self.heard = handler.heard
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.port = self.server.server_address[1]

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


@test
def it_reaches_the_hosts_of_its_recipe_and_no_others(c):
    with Served({"/v1/models": b"a model\n"}) as model, Served({"/": b"other\n"}) as other, \
            Agents(c, config=f"egress: {{local: ['127.0.0.1:{model.port}']}}\n") as a:
        a.recipe("helper", f"program: curl\nhosts: ['127.0.0.1:{model.port}']\n")
        a("helper", "--", "-sS", f"http://127.0.0.1:{model.port}/v1/models").expect(0, out=b"a model\n")
        check(a("helper", "--", "-sS", f"http://127.0.0.1:{other.port}/").code != 0, "another port is reached")
        a("--allow", f"127.0.0.1:{model.port}", "--", "curl", "-sS", f"http://127.0.0.1:{model.port}/v1/models").expect(0, out=b"a model\n")
        equal(other.heard, [], "the requests to the other port")


def registry(*versions):
    """Of a package `helper`, whose program prints its version; the last one is the latest."""
    answers, about = {}, {}
    for version in versions:
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w:gz") as tar:
            for name, text, mode in (("package.json", json.dumps({"name": "helper", "version": version, "bin": {"helper": "cli.sh"}}), 0o644),
                                     ("cli.sh", f"#!/bin/sh\necho helper {version} $*\n", 0o755)):
                member = tarfile.TarInfo(f"package/{name}")
                member.size, member.mode = len(text), mode
                tar.addfile(member, io.BytesIO(text.encode()))
        answers[f"/helper-{version}.tgz"] = data.getvalue()
        about[version] = {"name": "helper", "version": version, "bin": {"helper": "cli.sh"},
                          "dist": {"integrity": "sha512-" + base64.b64encode(hashlib.sha512(data.getvalue()).digest()).decode(), "tarball": f"helper-{version}.tgz"}}
    return answers, {"name": "helper", "dist-tags": {"latest": versions[-1]}, "versions": about}


@contextlib.contextmanager
def npm_agents(c, config="", args=()):
    answers, about = registry("1.0.0", "2.0.0")
    with Served(answers) as npm:
        for version in about["versions"].values():
            version["dist"]["tarball"] = f"http://127.0.0.1:{npm.port}/{version['dist']['tarball']}"
        answers["/helper"] = json.dumps(about).encode()
        a = Agents(c, config=f"egress: {{local: ['127.0.0.1:{npm.port}']}}\n{config}", more=f"env: {{npm_config_registry: 'http://127.0.0.1:{npm.port}/'}}")
        a.daemon.start(args=args)
        with a:
            a.recipe("helper", "program: helper\npackage: helper\n")
            yield a, npm, ("--allow", f"127.0.0.1:{npm.port}")


@test
def a_program_is_installed_from_npm_once(c):
    with npm_agents(c) as (a, npm, grant):
        a("helper").expect(127, says="--install installs helper of npm")
        a("helper", "--install", "--sync", "auto", *grant, "--", "x").expect(0, says="installing helper@latest").out.index(b"helper 2.0.0 x\n")
        heard = len(npm.heard)
        a("helper", "--", "y").expect(0, out=b"helper 2.0.0 y\n")
        a("helper", "--version", "1.0.0", *grant).expect(0).out.index(b"helper 1.0.0\n")
        check(len(npm.heard) > heard, "the other version was not fetched")
        heard = len(npm.heard)
        a("helper", "--version", "1.0.0").expect(0, out=b"helper 1.0.0\n")
        equal(len(npm.heard), heard, "requests to the registry for what is installed")
        names = lambda: sorted(row["name"] for row in a.cli.json("snapshots", "list")["snapshots"])
        equal(names(), ["agent-helper", "agent-helper-1.0.0"], "the snapshots")
        a("helper", "--install", *grant).expect(0)
        equal(names(), ["agent-helper", "agent-helper-1.0.0"], "the snapshots after another installation")
        a("helper", "--version", "9.9.9", *grant).expect(125, says="npm could not install helper@9.9.9")
        equal(a.boxes(), {}, "the sandboxes")
        for name in names():
            a.cli("snapshots", "delete", name).expect(0)


PLANTED = "#!/bin/sh\necho planted\n"


def plant(api, text=PLANTED):
    """A snapshot that is called as an installation is, with another program in its place: its id."""
    box = api.post("/v1/sandboxes", {"profile": "profile.agent-dev"}).expect(201).json["sandbox_id"]
    done = api.post(f"/v1/sandboxes/{box}/processes", {"argv": ["sh", "-c", f"mkdir -p /opt/agents/bin && printf '{text}' >/opt/agents/bin/helper && chmod 755 /opt/agents/bin/helper"]},
                    **{"Accept": "application/json"} if isinstance(api, Tcp) else {"headers": {"Accept": "application/json"}}).expect(200).json
    equal(done["exit_code"], 0, f"{done}")
    made = api.post(f"/v1/sandboxes/{box}/snapshot", {"name": "agent-helper"}).expect(201).json
    api.delete(f"/v1/sandboxes/{box}").expect(200)
    equal(made["made_by_token"], isinstance(api, Tcp), "what is said of its maker")
    return made["snapshot_id"]


@test
def an_installation_is_one_that_its_user_made(c):
    """A snapshot of that name gets the user's keys and workspace: none of a token, which may be an agent's, and for root none of a tenant."""
    port = free_port()
    with npm_agents(c, config='socket: {mode: "0666"}\n' if c.root else "", args=("--listen", f"127.0.0.1:{port}")) as (a, _, grant):
        a.daemon.dir.chmod(0o755)
        user, bot = ApiAs(a.daemon, c.uid), Tcp(port, a.cli.json("token", "create", "bot")["token"])
        others = [bot, *([ApiAs(a.daemon, PLAIN)] if c.root else [])]
        planted = [plant(api) for api in others]
        a("helper").expect(127, says="--install installs helper of npm")
        a("helper", "--install", "--sync", "auto", *grant, "--", "x").expect(0).out.index(b"helper 2.0.0 x\n")
        planted += [plant(api) for api in others]
        a("helper", "--", "y").expect(0, out=b"helper 2.0.0 y\n")
        a("helper", "--install", *grant).expect(0)
        a("helper", "--", "z").expect(0, out=b"helper 2.0.0 z\n")
        rows = user.get("/v1/snapshots").expect(200).json["snapshots"]
        check(set(planted) < {r["snapshot_id"] for r in rows}, "an installation has removed what belongs to others")
        equal(len(rows), len(planted) + 1, "snapshots: the older installation is gone")
        mine = user.get("/v1/snapshots?name=agent-helper").expect(200).json["snapshots"]
        equal({r["owner"] for r in mine}, {f"uid:{c.uid}"}, "owners of those that the name means")
        equal(user.get("/v1/snapshots?name=other").expect(200).json["snapshots"], [], "of another name")
        a.cli("snapshots", "delete", "agent-helper").expect(4, says="3 snapshots have this name")
        for row in rows:
            a.cli("snapshots", "delete", row["snapshot_id"]).expect(0)
        equal(plant(user), user.get("/v1/snapshots/agent-helper").expect(200).json["snapshot_id"], "one that the user made")
        a("helper").expect(0, out=b"planted\n")
        a.cli("snapshots", "delete", "agent-helper").expect(0)


main()
