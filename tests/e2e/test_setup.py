#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""`setup`: configurations of MCP clients, and what the real clients read from them."""

import json
import os
import shutil
import tomllib

from daemon import Daemon
from harness import check, equal, main, test
from mcp import Lines
from npm import modules

CODEX = ("@openai/codex@0.169.0",)
CLAUDE = ("@anthropic-ai/claude-code@2.1.327",)
GEMINI = ("@google/gemini-cli@0.61.0",)
INSTALL_SECONDS = 170
ONLY = {"only": "root", "because": "the judges are the same for everybody", "seconds": 400}
FILES = {
    "claude-code": (".mcp.json", ".claude.json"),
    "cursor": (".cursor/mcp.json", ".cursor/mcp.json"),
    "codex": (".codex/config.toml", ".codex/config.toml"),
    "gemini": (".gemini/settings.json", ".gemini/settings.json"),
    "vscode": (".vscode/mcp.json", ".config/Code/User/mcp.json"),
}
MINE = '{ // mine\r\n\t"inputs": [ ],\r\n\t"servers": {\r\n\t\t"x": { "command": "y" }, // keep\r\n\t}\r\n}\r\n'


class Place:
    """A project and a home of the test's own."""

    def __init__(self, c):
        self.c = c
        self.project, self.home = c.mkdir(c.dir / "project"), c.mkdir(c.dir / "home")
        self.env = {"HOME": str(self.home), "CODEX_HOME": "", "CLAUDE_CONFIG_DIR": "", "XDG_CONFIG_HOME": ""}

    def __call__(self, *argv):
        return self.c.cli("setup", *argv, env=self.env, cwd=self.project)

    def result(self, *argv):
        said = self(*argv, "-o", "json").expect(0)
        return json.loads(said.out)

    def names(self):
        return sorted(os.listdir(self.project))


@test
def each_client_gets_its_file(c):
    p = Place(c)
    for client, (project, user) in FILES.items():
        for scope, path in (("project", p.project / project), ("user", p.home / user)):
            options = [client, f"--{scope}", "--workspace", str(p.project) + ":ro", "--allow", "a.example.com:443", "--allow-packages"]
            said = p.result(*options)
            equal((said["client"], said["scope"], said["file"], said["backup"], said["result"]), (client, scope, str(path), "", "written"), "first")
            equal(path.stat().st_mode & 0o777, 0o600 if scope == "user" else 0o644, "mode")
            before = path.read_bytes()
            equal(p.result(*options)["result"], "unchanged", "second")
            equal(path.read_bytes(), before, "bytes")
            check(str(p.project) + ":ro" in before.decode() and "--allow-packages" in before.decode(), before)
            equal(p.result(client, f"--{scope}", "--remove")["result"], "removed", "remove")
            check(b"sandboxer mcp" not in path.read_bytes() and b"command" not in path.read_bytes(), path.read_bytes())
            equal(p.result(client, f"--{scope}", "--remove")["result"], "the server is not there", "again")


@test
def the_entry_starts_this_program(c):
    p = Place(c)
    p("claude-code", "--name", "mine", "-p", "profile.base").expect(0)
    entry = json.loads((p.project / ".mcp.json").read_bytes())["mcpServers"]["sandboxer"]
    equal(entry, {"type": "stdio", "command": c.program(), "args": ["mcp", "--workspace", ".", "--profile", "profile.base", "--name", "mine"]}, "entry")
    p("claude-code", "--server", "unix:/run/x/sock").expect(0)
    args = json.loads((p.project / ".mcp.json").read_bytes())["mcpServers"]["sandboxer"]["args"]
    equal(args, ["mcp", "--workspace", ".", "--server", "unix:/run/x/sock"], "a daemon")
    policy = c.write("project/policy.yaml", "version: 1\n")
    p("claude-code", "--policy", "policy.yaml").expect(0)
    equal(json.loads((p.project / ".mcp.json").read_bytes())["mcpServers"]["sandboxer"]["args"][-2:], ["--policy", str(policy)], "a policy")
    p.env["SANDBOXER_SOCKET"] = "/nowhere"
    p("claude-code").expect(0, says="SANDBOXER_SOCKET is set here")
    link = c.own_link(c.mkdir(c.dir / "bin") / "sandboxer", c.program())
    said = c.cli("setup", "claude-code", "--print", "-o", "json", env={**p.env, "PATH": f"{link.parent}:/usr/bin:/bin"}, cwd=p.project).expect(0)
    equal(json.loads(json.loads(said.out)["text"])["mcpServers"]["sandboxer"]["command"], str(link), "the name in PATH")


@test
def all_other_bytes_stay(c):
    p = Place(c)
    path = c.write("project/.vscode/mcp.json", MINE)
    os.chmod(path, 0o640)
    p("vscode").expect(0)
    text = path.read_bytes().decode()
    start = MINE.index("keep") + 4
    check(text.startswith(MINE[:start]) and text.endswith(MINE[start:]) and "\n" not in text.replace("\r\n", ""), text)
    equal((path.parent / "mcp.json.bak-sandboxer").read_bytes().decode(), MINE, "the copy")
    equal([path.stat().st_mode & 0o777, (path.parent / "mcp.json.bak-sandboxer").stat().st_mode & 0o777], [0o640] * 2, "modes")
    equal(p.result("vscode", "--remove")["backup"], str(path) + ".bak-sandboxer-2", "the second copy")
    equal(path.read_bytes().decode(), MINE, "as before")


@test
def only_a_readable_file_is_changed(c):
    p = Place(c)
    for client, name, text, words in (
            ("claude-code", ".mcp.json", '{\n  "a": 1,\n}', r"mcp.json: line 3: a comma is in front of the end"),
            ("claude-code", ".mcp.json", "// x\n{}", "line 1: .*comments are not allowed"),
            ("gemini", ".gemini/settings.json", '{"mcpServers": []}', "line 1: 'mcpServers' is not an object"),
            ("codex", ".codex/config.toml", "a = 1\nmcp_servers = {}\n", "line 2: .*inline table"),
            ("codex", ".codex/config.toml", "a = \n", "line 1: expected a value")):
        path = c.write(f"project/{name}", text)
        for options in ([], ["--remove"]):
            p(client, "--project", *options).expect(2, says=words)
        equal((path.read_text(), os.listdir(path.parent).count(path.name + ".bak-sandboxer")), (text, 0), "untouched")
    c.write("project/.gemini/settings.json", '{"mcpServers": {"sandboxer": {"httpUrl": "http://x"}}}')
    p("gemini").expect(4, says="starts no program")


@test
def no_link_of_a_project_is_followed(c):
    p = Place(c)
    secret = c.write("home/secret.json", "{}")
    c.own_link(p.project / ".mcp.json", secret)
    c.own_link(p.project / ".cursor", p.home)
    p("claude-code").expect(5, says="symbolic link")
    p("cursor").expect(5, says="symbolic link")
    equal((secret.read_text(), os.listdir(p.home)), ("{}", ["secret.json"]), "untouched")
    c.own_link(p.home / ".claude.json", secret)
    p("claude-code", "--user").expect(0)
    check((p.home / ".claude.json").is_symlink() and "sandboxer" in secret.read_text(), "a user's own link stays, its target is changed")


@test
def mistakes_are_named(c):
    p = Place(c)
    p("emacs").expect(2, says="'emacs' is not one of: claude-code cursor codex gemini vscode")
    p().expect(2)
    p("codex", "--user", "--project").expect(2, says="do not go together")
    p("codex", "--print", "--remove").expect(2, says="do not go together")
    p("codex", "--allow", "https://a.example.com").expect(2, says="is a URL")
    p("codex", "--server", "ftp://x").expect(2)
    p("codex", "--server", "http://127.0.0.1:7700").expect(2, says="unix:PATH")
    p("codex", "--policy", "nowhere.yaml").expect(2, says="nowhere.yaml")
    p("codex", "--name", "Not A Name").expect(2, says="--name")
    p("codex", "--workspace", "nowhere").expect(2, says="--workspace: nowhere: No such file")
    p("codex", "--workspace", "/etc/passwd:ro").expect(2, says="not a directory")
    p("codex", "--workspace", "/" + "x" * 4095).expect(2, says="the path is longer than 4095 bytes")
    c.mkdir(c.dir / "${HOME}")
    p("gemini", "--workspace", str(c.dir / "${HOME}")).expect(2, says="'\\$'")
    p("codex", "--allow", "a\nb").expect(2, says="control character")
    p("cursor", "--user").expect(2, says="--workspace DIR, or use --project")
    equal((p.names(), os.listdir(p.home)), ([], []), "nothing is made")


@test
def print_changes_nothing(c):
    p = Place(c)
    for client in FILES:
        check("sandboxer" in p(client, "--print").expect(0, says="for ").text, client)
    equal((p.names(), os.listdir(p.home)), ([], []), "nothing is made")


class Started(Lines):
    """The server as a client starts it: in the project."""

    def __init__(self, p, d, words):
        super().__init__(p.c, d, **p.env)
        self.words, self.project = words, p.project

    def __enter__(self):
        self.process = self.c.start(self.words, env=self.env, cwd=self.project)
        self.listen()
        self.begin()
        return self


def entry_of(client, p):
    path = p.project / FILES[client][0]
    if path.suffix == ".toml":
        return tomllib.loads(path.read_text())["mcp_servers"]["sandboxer"]
    servers = json.loads(path.read_bytes())
    return servers["servers" if client == "vscode" else "mcpServers"]["sandboxer"]


@test
def each_entry_starts_a_session_with_the_project(c):
    p = Place(c)
    c.write("project/here.txt", "mine\n")
    c.write("daemon/profiles/work.yaml", "id: profile.work\nversion: 1\nworkspace: {mode: mirror, access: rw}\n")
    with Daemon(c) as d:
        for client in FILES:
            p(client, "--project", "--profile", "profile.work").expect(0)
            entry = entry_of(client, p)
            words = [word.replace("${workspaceFolder}", str(p.project)) for word in (entry["command"], *entry["args"])]
            with Started(p, d, words) as m:
                equal(m.tool("sandbox_exec", command="cat here.txt")["stdout"], "mine\n", client)


# The real clients: without a network, as far as they read their configuration. Some start what they find there, which
# must not start a daemon.


def say(c, p, argv, socket="/nowhere/sock"):
    path = f"{os.path.dirname(shutil.which('node'))}:/usr/bin:/bin"
    ours = {"SANDBOXER_SOCKET": str(socket), "SANDBOXER_NO_DAEMON": "1"}
    return c.execute(argv, env={**{k: v for k, v in p.env.items() if v}, "PATH": path, "TMPDIR": str(p.home), **ours}, cwd=p.project, seconds=90)


@test(**ONLY)
def codex_reads_it(c):
    place, p = modules(CODEX, INSTALL_SECONDS), Place(c)
    c.write("home/.codex/config.toml", 'model = "x" # mine\n\n[mcp_servers.other]\ncommand = "true"\n')
    p("codex", "--allow-packages").expect(0)
    listed = say(c, p, [place / "node_modules/.bin/codex", "mcp", "list", "--json"]).expect(0)
    servers = {s["name"]: s["transport"] for s in json.loads(listed.out)}
    equal(sorted(servers), ["other", "sandboxer"], "servers")
    equal([servers["sandboxer"][k] for k in ("command", "args")], [c.program(), ["mcp", "--workspace", ".", "--allow-packages"]], "ours")
    p("codex", "--remove").expect(0)
    equal([s["name"] for s in json.loads(say(c, p, [place / "node_modules/.bin/codex", "mcp", "list", "--json"]).expect(0).out)], ["other"], "removed")


@test(**ONLY)
def claude_code_reads_it(c):
    place, p = modules(CLAUDE, INSTALL_SECONDS), Place(c)
    claude = next(iter(place.glob("node_modules/@anthropic-ai/claude-code-*/claude")), None)
    check(claude, "the package has no program")
    with Daemon(c) as d:
        for scope, words in (("project", "Project config"), ("user", "User config")):
            p("claude-code", f"--{scope}").expect(0)
            shown = say(c, p, [claude, "mcp", "get", "sandboxer"], d.socket).expect(0).text
            check(words in shown and c.program() in shown and "mcp --workspace ." in shown, shown)
            check(scope == "project" or "Connected" in shown, shown)
            p("claude-code", f"--{scope}", "--remove").expect(0)
    check("No MCP servers" in say(c, p, [claude, "mcp", "list"]).text, "removed")


@test(**ONLY)
def gemini_reads_it(c):
    place, p = modules(GEMINI, INSTALL_SECONDS), Place(c)
    c.write("project/.gemini/settings.json", '{\n  // mine\n  "ui": {"hideTips": true}\n}\n')
    p("gemini").expect(0)
    shown = say(c, p, [place / "node_modules/.bin/gemini", "mcp", "list"])
    check(f"sandboxer: {c.program()} mcp --workspace . (stdio)" in shown.text + shown.notes, shown)


main()
