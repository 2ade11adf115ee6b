#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Kernels of the code interpreter: results, figures and their data, languages, and clients that give up.

Sandboxes have the machine's /usr: a library that is missing there is missing inside, and its tests are skipped.
"""

import base64
import contextlib
import json
import shutil
import subprocess
import tempfile
import time

from e2b import Served
from harness import Skip, check, equal, main, test, wait_for

PORT = {"E2b-Sandbox-Port": "49999"}
SLOW = {"seconds": 180}
# Debian's packages of Python are out of sight, IPython among them.
BARE = "import sys\nsys.path[:] = [p for p in sys.path if 'dist-packages' not in p]\n"


def needs(*modules):
    for module in modules:
        with tempfile.TemporaryDirectory() as home:  # some modules write there
            found = subprocess.run(["/usr/bin/python3", "-c", f"import {module}"], capture_output=True, check=False, env={"HOME": home, "PATH": "/usr/bin:/bin"})
        if found.returncode:
            raise Skip(f"/usr/bin/python3 has no module {module}")


class Code:
    """Sends code to a context of a sandbox."""

    def __init__(self, box, **request):
        self.box, self.request = box, request

    def messages(self, code, **more):
        answer = self.box.ask("POST", "/execute", {"code": code, **self.request, **more}, **PORT).expect(200)
        return [json.loads(line) for line in answer.data.splitlines()]

    def run(self, code, **more):
        """Results, what was written, and the error."""
        said = self.messages(code, **more)
        text = {kind: "".join(m["text"] for m in said if m["type"] == kind) for kind in ("stdout", "stderr")}
        for m in said:
            check(m["type"] not in text or m["timestamp"].endswith("Z"), f"when it was written: {m}")
        return [m for m in said if m["type"] == "result"], text, next((m for m in said if m["type"] == "error"), None)

    def text(self, code, **more):
        results, text, error = self.run(code, **more)
        check(not error, f"{code!r}: {error} {text}")
        return next((m["text"] for m in results if m["is_main_result"]), None)

    def wrote(self, code, **more):
        _, text, error = self.run(code, **more)
        check(not error, f"{code!r}: {error} {text}")
        return text["stdout"]

    @contextlib.contextmanager
    def begun(self, code):
        """The code runs and has written its first line; its client leaves at the end."""
        with self.box.served.open("POST", "/execute", json.dumps({"code": code, **self.request}).encode(), **self.box.headers(**PORT)) as response:
            said = [json.loads(response.readline()) for _ in range(2)]
            equal([m["type"] for m in said], ["number_of_executions", "stdout"], "the first messages")
            yield response


def sessions_of_python(s, key):
    """With IPython, if it is here, and without."""
    bare = s.create(key, envVars={"PYTHONPATH": "/tmp/bare"})
    bare.ask("POST", "/files?path=/tmp/bare/sitecustomize.py", BARE.encode(), Content_Type="application/octet-stream").expect(200)
    yield Code(bare), False
    try:
        needs("IPython")
    except Skip as why:
        print(f"# skipped: with IPython: {why}")
    else:
        yield Code(s.create(key)), True


@test(**SLOW)
def results_of_python(c):
    with Served(c) as s:
        for py, whole in sessions_of_python(s, s.key()["E2B_API_KEY"]):
            print(f"# IPython: {whole}")
            equal(py.text("'hello'"), "hello", "text has no quotes")
            equal(py.text('"it\'s"'), "it's", "text with a quote")
            equal(py.text("['a']"), "['a']", "a list keeps its quotes")
            equal(py.text("\n    x = 1\n    if x:\n        x += 1\n    x"), "2", "code that is indented as a whole")
            equal(py.text("t = '''\n  a\n\t\n'''\nt"), r"\n  a\n\t\n", "a string within keeps its blanks")
            equal(py.wrote("!echo $((6 * 7))"), "42\n", "a command")
            equal(py.wrote("if True:\n    !echo within"), "within\n", "a command within a block")
            check("pip" in "".join(py.run("%pip --version")[1].values()), "%pip")
            equal(py.run("from IPython.display import display, HTML, Markdown, JSON, clear_output\ndisplay(HTML('<b>'), Markdown('*m*'))\nJSON({'a': [1]})")[0][0]["html"], "<b>", "display")
            shown = py.run("display(HTML('<b>'), Markdown('*m*')); print('between'); JSON({'a': [1]})")[0]
            equal([[m.get("html"), m.get("markdown"), m.get("json"), m["is_main_result"]] for m in shown], [["<b>", None, None, False], [None, "*m*", None, False], [None, None, {"a": [1]}, True]], "display")
            order = [m["type"] for m in py.messages("print('a'); display(HTML('b')); print('c')")]
            equal([kind for kind in order if kind != "number_of_executions"], ["stdout", "result", "stdout"], "the order of output and results")
            equal(py.text("import asyncio\nawait asyncio.sleep(0, 7)"), "7", "await")
            equal(py.run("1/0")[2]["name"], "ZeroDivisionError", "an error")
            equal(py.run("if x y")[2]["name"], "SyntaxError", "what is no Python")
            equal(py.run("raise SystemExit(3)")[2]["name"], "SystemExit", "it goes on")
            equal(py.text("x"), "2", "names stay")
            equal(py.text("import pickle\nclass A: pass\ntype(pickle.loads(pickle.dumps(A()))).__name__"), "A", "classes can be found by name")
            equal(py.text("!false\n_exit_code"), "1", "the exit status of a command")
            error = py.run("%timeit -n1 -r1 pass")[2]
            if whole:
                equal(error, None, "a magic")
                equal(py.text("f = !echo out\nf[0]"), "out", "output of a command")
            else:
                check("IPython" in error["value"], f"what is missing: {error}")
                notes = py.run("from IPython.display import SVG\n!true")[1]["stderr"]
                equal(notes, "", "one note is enough")


@test(**SLOW)
def what_is_too_large_is_cut(c):
    with Served(c) as s:
        for py, _ in sessions_of_python(s, s.key()["E2B_API_KEY"]):
            results, text, error = py.run("'x' * 9000000")
            check(not error and 1 << 20 < len(results[0]["text"]) < 8 << 20 and "characters more" in results[0]["text"][-40:], f"{error} {results[0]['text'][-60:]}")
            results, text, error = py.run("class H:\n  def __repr__(self): return 'h'\n  def _repr_html_(self): return 'y' * 9000000\nH()")
            equal([results[0]["text"], "html" in results[0], error], ["h", False, None], "the text remains")
            check("html" in text["stderr"], f"what is left out: {text['stderr']}")
            equal(py.text("class M:\n  def _repr_mimebundle_(self, **_): return {'application/x-mine': [float('nan'), 1]}\nM()\n'after'"), "after", "it goes on")
            extra = py.run("M()")[0][0].get("extra")
            equal(extra, {"application/x-mine": [None, 1]}, "other kinds of results, without numbers that are none")


def chart(py, code, kind, **wanted):
    results, text, error = py.run(code)
    check(not error and len(results) == 1, f"{code}: {error} {results} {text}")
    equal(base64.b64decode(results[0]["png"])[:8], b"\x89PNG\r\n\x1a\n", "the picture")
    check(results[0]["text"].startswith("<Figure size "), f"its text: {results[0]['text']}")
    got = results[0]["chart"]
    equal({"type": got["type"], **{name: got[name] for name in wanted}}, {"type": kind, **wanted}, code)
    return got


@test(seconds=300)
def figures(c):
    needs("matplotlib.pyplot")
    with Served(c) as s:
        py = Code(s.create(s.key()["E2B_API_KEY"]))
        got = chart(py, """
            import datetime
            import matplotlib.pyplot as plt
            days = [datetime.date(2023, 9, n) for n in (1, 2, 3)]
            plt.figure(figsize=(10, 6))
            plt.plot(days, [1, 2, float('nan')], label='a')
            plt.plot(days, [3, 2, 1])
            plt.axhline(2)
            plt.xlabel('Time (s)'); plt.ylabel('Speed [km/h]'); plt.title('T')
            plt.show()
        """, "line", title="T", x_label="Time (s)", y_label="Speed [km/h]", x_unit="s", y_unit="km/h", x_scale="datetime", y_scale="linear")
        equal([e["label"] for e in got["elements"]], ["a", "Line 2"], "lines, without those that have no data")
        equal(got["elements"][0]["points"], [["2023-09-01T00:00:00+00:00", 1], ["2023-09-02T00:00:00+00:00", 2], ["2023-09-03T00:00:00+00:00", None]], "points")
        for axis, kind in (("x", str), ("y", (int, float))):
            check(got[f"{axis}_ticks"] and all(isinstance(t, kind) for t in got[f"{axis}_ticks"]), f"ticks: {got[f'{axis}_ticks']}")
            equal(len(got[f"{axis}_tick_labels"]), len(got[f"{axis}_ticks"]), "labels of ticks")
        chart(py, "plt.plot([1, 2], ['A', 'B']); plt.yscale; plt.show()", "line", x_scale="linear", y_scale="categorical", y_ticks=["A", "B"], title=None, x_unit=None)
        chart(py, "plt.plot([1, 2], [10, 1e9]); plt.yscale('log'); plt.show()", "line", y_scale="log")
        got = chart(py, "plt.scatter([1, 2], [3, 4], label='D'); plt.scatter([5], [6]); plt.show()", "scatter")
        equal(got["elements"], [{"label": "D", "points": [[1, 3], [2, 4]]}, {"label": "Dataset 2", "points": [[5, 6]]}], "clouds")
        chart(py, "plt.bar(['A', 'B'], [100, 200], label='Sold'); plt.show()", "bar", elements=[{"label": n, "group": "Sold", "value": v} for n, v in (("A", 100), ("B", 200))])
        chart(py, "plt.barh([1, 2], [3, 4]); plt.show()", "bar", elements=[{"label": str(n), "group": "Group 1", "value": n + 2} for n in (1, 2)])
        chart(py, "plt.pie([90, 10], labels=['No', 'Yes'], radius=2); plt.show()", "pie",
              elements=[{"label": "No", "angle": 324, "radius": 2}, {"label": "Yes", "angle": 36, "radius": 2}])
        chart(py, "plt.boxplot([[85, 90, 78, 92, 88], [95, 89, 76, 91, 84, 87]], labels=['A', 'B']); plt.show()", "box_and_whisker", elements=[
            {"label": "A", "min": 78, "first_quartile": 85, "median": 88, "third_quartile": 90, "max": 92, "outliers": []},
            {"label": "B", "min": 84, "first_quartile": 84.75, "median": 88, "third_quartile": 90.5, "max": 95, "outliers": [76]}])
        got = chart(py, "f, a = plt.subplots(1, 2); f.suptitle('S'); a[0].plot([1]); a[1].scatter([1], [2]); a[1].set_title('R'); plt.show()", "superchart", title="S")
        equal([[e["type"], e["title"]] for e in got["elements"]], [["line", None], ["scatter", "R"]], "its parts")
        chart(py, "f, a = plt.subplots(); a.add_artist(plt.Circle((0, 0), 1)); plt.title('C'); plt.show()", "unknown", title="C", elements=[])
        chart(py, "f, a = plt.subplots(subplot_kw={'projection': 'polar'}); a.plot([1, 2]); plt.show()", "unknown", elements=[])
        # As the last value, without show, and once only.
        equal([m["is_main_result"] for m in py.run("f, a = plt.subplots(); a.plot([1]); f")[0]], [True], "a figure is shown once")
        chart(py, "plt.plot([1, 2]); None", "line")
        equal(py.run("2")[0][0].get("png"), None, "it is closed")
        check("png" in py.run("f, a = plt.subplots(); a.plot([1]); f.show()")[0][0], "show of a figure")
        # More points than a message has room for.
        got = chart(py, "plt.plot(range(1000000)); plt.show()", "line")
        check(10000 < len(got["elements"][0]["points"]) <= 20000, f"{len(got['elements'][0]['points'])} points")


@test(seconds=300)
def figures_without_ipython(c):
    needs("matplotlib.pyplot", "pandas")
    with Served(c) as s:
        box = s.create(s.key()["E2B_API_KEY"], envVars={"PYTHONPATH": "/tmp/bare"})
        hide = "import sys\nclass Hide:\n  def find_spec(self, name, path=None, target=None):\n    if name == 'IPython': raise ImportError\nsys.modules['IPython'] = None\n"
        box.ask("POST", "/files?path=/tmp/bare/sitecustomize.py", hide.encode(), Content_Type="application/octet-stream").expect(200)
        py = Code(box)
        chart(py, "plt.plot([1, 2]); plt.show()", "line")
        equal(py.run("pd.DataFrame({'a': [1, None]})")[0][0]["data"], {"a": [1, None]}, "data")


@test(seconds=300)
def data_of_frames(c):
    needs("pandas", "PIL.Image")
    with Served(c) as s:
        py = Code(s.create(s.key()["E2B_API_KEY"]))
        frame = py.run("pd.DataFrame({'a': [1, None], 't': pd.to_datetime(['2020-01-01', None]), 's': ['x', 'y']})")[0][0]
        equal(frame["data"], {"a": [1, None], "t": ["2020-01-01T00:00:00", None], "s": ["x", "y"]}, "its data")
        check("<table" in frame["html"], "its HTML")
        equal(len(py.run("pd.DataFrame({'a': range(1000000)})")[0][0]["data"]["a"]), 100000, "a frame's data is cut")
        equal(py.text("pd = 7\npd"), "7", "a name of the code's own")
        equal(["png" in m for m in py.run("from PIL import Image\nImage.new('RGB', (4, 4)).show()")[0]], [True], "an image")


@test(**SLOW)
def javascript(c):
    if not shutil.which("node"):
        raise Skip("node is not installed")
    with Served(c) as s:
        box = s.create(s.key()["E2B_API_KEY"])
        js, ts = Code(box, language="JavaScript"), Code(box, language="ts")
        equal(js.text("'hello'"), "hello", "text has no quotes")
        for n in (1, 2):
            equal(js.text(f"const a = {n}; let b = a; class C {{ m() {{ return a + b }} }}\nnew C().m()"), str(2 * n), "declared again")
        equal(js.wrote("import { readFileSync as r } from 'fs'\nimport os, * as all from 'node:os'\nconsole.log(typeof r, typeof os.cpus, typeof all.cpus)"), "function function function\n", "imports")
        equal(js.text("typeof r + typeof all"), "functionobject", "names of imports stay")
        equal(js.text("const { p, q: [z = 5, ...rest] } = await Promise.resolve({ p: 1, q: [2, 3] }), d = 4\nfunction f() { return p + z + rest[0] + d }\nlet u\nf()"), "10", "patterns")
        equal(js.text("f() + d"), "14", "names behind await stay")
        equal(js.text("const p = 7; f()"), "16", "and are the same")
        equal(js.text("for (const i of [1, 2]) { const a = i }\na"), "2", "names in blocks are their own")
        equal(js.text("Promise.resolve(1)"), "Promise { 1 }", "a promise is a value")
        equal(js.text("await Promise.resolve('x')"), "x", "await")
        equal(js.text("export const e = 3; e"), "3", "exports")
        equal(js.text("(await import('node:path')).sep"), "/", "import()")
        equal(js.run("import x from 'no-such-module'")[2]["name"], "Error", "a module that is missing")
        equal(js.run("let let")[2]["name"], "SyntaxError", "what is no JavaScript")
        error = js.run("const k = 1;\nawait 0;\nnull.x")[2]
        check("cell:3" in error["traceback"], f"the line: {error}")
        equal(js.wrote("process.stdout.write('y'.repeat(20000000))"), "y" * 20000000, "much output")
        cut = js.run("'x'.repeat(20000000)")[0][0]["text"]
        check("characters more" in cut[-40:] and len(cut) < 8 << 20, f"{len(cut)} {cut[-40:]}")
        inside = box.run("sh", "-c", "test -d /usr/share/nodejs/typescript || node -e 'process.exit(require(\"module\").stripTypeScriptTypes ? 0 : 1)'")[1]
        if inside.get("exitCode", 0):
            equal(ts.run("1")[2]["name"], "TypeScriptMissing", "without the module")
            raise Skip("TypeScript: neither the module typescript nor a Node.js that strips types")
        equal(ts.wrote("const m: string = 'x'; enum E { a, b }; interface I { n: number }\nimport { EOL } from 'os'\nconsole.log(m, E.b, (<I>{ n: 2 }).n, EOL.length)"), "x 1 2 1\n", "TypeScript")
        equal(ts.text("m + E[1]"), "xb", "its names stay")


def processes(box):
    return box.rpc("process.Process/List", {}).expect(200).json["processes"]


@test(**SLOW)
def contexts_from_the_start(c):
    with Served(c) as s:
        box = s.create(s.key()["E2B_API_KEY"])

        def listed():
            return [[x["id"], x["language"], x["cwd"]] for x in box.ask("GET", "/contexts", **PORT).expect(200).json]

        usual = [["default", "python", "/home/user"], ["default.javascript", "javascript", "/home/user"]]
        equal(listed(), usual, "what there is")
        equal(processes(box), [], "none of them runs yet")
        box.ask("DELETE", "/contexts/default", **PORT).expect(204)
        equal(box.ask("POST", "/contexts/default/restart", **PORT).expect(200).json, {"id": "default", "language": "python", "cwd": "/home/user"}, "a start")
        equal(Code(box, context_id="default").text("1"), "1", "the default one by its id")
        made = box.ask("POST", "/contexts", {"language": "PYTHON", "cwd": "/tmp"}, **PORT).expect(200).json
        equal([made["language"], made["cwd"]], ["python", "/tmp"], "a new one")
        equal(listed(), [*usual, [made["id"], "python", "/tmp"]], "the newest is the last")
        for name in ("default.", "default.python", "default.PYTHON", "default.JavaScript", "default.js", "default.cobol", "default.javascript.x", "defaults", "default.xxxxxxxxxxxx"):
            box.ask("POST", "/execute", {"code": "1", "context_id": name}, **PORT).expect(404)
            box.ask("DELETE", f"/contexts/{name}", **PORT).expect(404)
        if shutil.which("node"):
            equal(Code(box, context_id="default.javascript").text("typeof require"), "function", "JavaScript's by its id")
            equal(listed()[:2], usual, "it is listed once")


FOREVER = {"python": ("import time\nx = 7; print('in'); time.sleep(777)", "x", "7"), "javascript": ("var x = 7; console.log('in'); await new Promise((r) => setTimeout(r, 777000))", "x", "7"),
           "bash": ("x=7; echo in; sleep 777; sleep 777", "echo $x", "7\n")}
BUSY = {"python": "print('in')\nwhile True: pass", "javascript": "console.log('in'); while (true);", "bash": "f() { while :; do :; done; }; echo in; f; f; touch /tmp/after"}
# Waits for somebody to write.
GATE = {"python": "print('in'); open('/tmp/go').read(); print('through')",
        "javascript": "console.log('in'); require('child_process').execSync('cat /tmp/go'); console.log('through')", "bash": "echo in; cat /tmp/go; echo through"}


def sessions(box):
    for language, program in (("python", "python3"), ("javascript", "node"), ("bash", "bash")):
        if not shutil.which(program):
            print(f"# skipped: {language}: {program} is not installed")
            continue
        yield language, Code(box, language=language)


@test(**SLOW)
def clients_that_give_up(c):
    with Served(c) as s:
        box = s.create(s.key()["E2B_API_KEY"])
        for language, code in sessions(box):
            print(f"# {language}")
            wait, look, seen = FOREVER[language]

            def looks(code=code, look=look, language=language):
                results, text, error = code.run(look)
                return [text["stdout"] if language == "bash" else results[0]["text"], error]

            for never in (wait, BUSY[language]):
                with code.begun(never):
                    pass
                equal(looks(), [seen, None], f"after {never}")
            check(box.run("test", "-e", "/tmp/after")[1]["exitCode"] == 1, "nothing of it runs on")
            # One that waits behind another is not executed; the one before it is left alone.
            box.run("sh", "-c", "rm -f /tmp/go; mkfifo -m 666 /tmp/go")
            with code.begun(GATE[language]) as response:
                body = json.dumps({"code": wait, "language": language}).encode()
                with s.open("POST", "/execute", body, **box.headers(**PORT)) as queued:
                    equal(queued.status, 200, "it is taken")
                box.run("sh", "-c", ": > /tmp/go")
                said = [json.loads(line) for line in response.read().splitlines()]
            equal([m["text"] for m in said if m["type"] == "stdout"], ["through\n"], f"the one before it: {said}")
            equal(looks(), [seen, None], "the one behind it")
            # An interrupt that comes while nothing runs.
            box.run("sh", "-c", "kill -INT $(pgrep -x 'python3|node|bash' -u user)")
            equal(looks(), [seen, None], "after an interrupt of nothing")
        left = [p for p in processes(box) if "777" in " ".join(p["config"].get("args", []))]
        equal(left, [], "what is left")


@test(**SLOW)
def a_long_request_of_a_client_that_leaves(c):
    """A part of it is in the session's input: the rest follows, or the next request were not understood."""
    with Served(c) as s:
        box = s.create(s.key()["E2B_API_KEY"])
        for language, code in sessions(box):
            box.run("sh", "-c", "rm -f /tmp/go; mkfifo -m 666 /tmp/go")
            mark = {"python": "#", "javascript": "//", "bash": "#"}[language]
            with code.begun(GATE[language]) as response:
                body = json.dumps({"code": FOREVER[language][0] + f"\n{mark}" + "x" * 300000, "language": language}).encode()
                with s.open("POST", "/execute", body, **box.headers(**PORT)) as queued:
                    equal(queued.status, 200, "it is taken")
                box.run("sh", "-c", ": > /tmp/go")
                response.read()
            equal(code.run("1" if language != "bash" else "true")[2], None, "the next one is understood")


@test(**SLOW)
def a_kernel_that_never_reads_is_not_awaited(c):
    """The daemon would keep the request of a client that has left, for as long as the sandbox likes."""
    first = "import time; time.sleep(1); open('/tmp/first', 'w').close()"
    with Served(c) as s:
        box = s.create(s.key()["E2B_API_KEY"])
        py = Code(box)
        equal(py.text("1"), "1", "it runs")
        for size, runs in ((0, True), (1 << 20, False)):  # the kernel has all of the request, or a part that it skips
            box.run("sh", "-c", "rm -f /tmp/first; kill -STOP $(pgrep -x python3 -u user)")
            body = json.dumps({"code": first + "\n#" + "x" * size}).encode()
            with s.open("POST", "/execute", body, **box.headers(**PORT)) as left:
                equal(left.status, 200, "it is taken")
            time.sleep(15)  # after this time, nothing is kept that could interrupt it
            box.run("sh", "-c", "kill -CONT $(pgrep -x python3 -u user)")
            equal(py.text("import os; os.path.exists('/tmp/first')"), str(runs), f"one of {size} bytes has run")


@test(**SLOW)
def a_daemon_that_ends_while_a_run_waits(c):
    with Served(c) as s:
        box = s.create(s.key()["E2B_API_KEY"])
        py = Code(box)
        equal(py.text("x = 1\nx"), "1", "it runs")
        with py.begun(FOREVER["python"][0]):
            body = json.dumps({"code": "x = 2"}).encode()
            with s.open("POST", "/execute", body, **box.headers(**PORT)) as queued:
                equal(queued.status, 200, "it is taken")
            wait_for(lambda: len(processes(box)) == 1, "the session")
            s.d.stop()
        s.start()
        equal([p["config"]["cmd"] for p in processes(box)], ["python3"], "the session goes on")
        box.ask("POST", "/contexts/default/restart", **PORT).expect(200)
        equal(py.text("2"), "2", "a new one")


PARTS = {"python": '{"id":"run_x","code":"x = 8', "javascript": '{"id":"run_x","code":"x = 8', "typescript": '{"id":"run_x","code":"x = 8',
         "bash": "__sandboxer_begin run_x; x=$'8' . /dev/fd/6 6<<<"}


@test(**SLOW)
def a_part_of_a_request_of_a_daemon_that_stopped(c):
    """The kernel has a line without an end, as if the daemon had stopped amid a request."""
    with Served(c) as s:
        box = s.create(s.key()["E2B_API_KEY"])
        for language, code in sessions(box):
            _, look, seen = FOREVER[language]
            code.run({"python": "x = 7", "javascript": "var x = 7", "bash": "x=7"}[language])
            (pid,) = [p["pid"] for p in processes(box)]
            part = PARTS[language]
            for line in (part, part + "\n", "\n", "[]\n", "7\n", part[: len(part) // 2]):
                box.rpc("process.Process/SendInput", {"process": {"pid": pid}, "input": {"stdin": base64.b64encode(line.encode()).decode()}}).expect(200)
                said = code.messages(look)
                check(said[-1]["type"] != "error", f"{language}: after {line!r}: {said}")
                check(seen.strip() in [m.get("text", "").strip() for m in said], f"{language}: after {line!r}: {said}")
            box.ask("DELETE", f"/contexts/default{'' if language == 'python' else '.' + language}", **PORT).expect(204)


@test(**SLOW)
def interrupts_hit_only_what_they_are_meant_for(c):
    """Runs that end at about the time at which their clients leave, with others behind them."""
    with Served(c) as s:
        box = s.create(s.key()["E2B_API_KEY"])
        for language, code in sessions(box):
            brief = {"python": "import time\nprint('in'); time.sleep(%g)", "javascript": "console.log('in'); await new Promise((r) => setTimeout(r, 1000 * %g))", "bash": "echo in; sleep %g"}[language]
            next_ = {"python": "import time\ntime.sleep(0.05); print('whole')", "javascript": "await new Promise((r) => setTimeout(r, 50)); console.log('whole')", "bash": "sleep 0.05; echo whole"}[language]
            body = json.dumps({"code": next_, "language": language}).encode()
            for i in range(20):
                with contextlib.ExitStack() as behind:
                    with code.begun(brief % (i % 10 / 1000)):
                        queued = behind.enter_context(s.open("POST", "/execute", body, **box.headers(**PORT)))
                    said = [json.loads(line) for line in queued.read().splitlines()]
                kinds = [m["type"] for m in said]
                check("error" not in kinds and "".join(m.get("text", "") for m in said) == "whole\n", f"{language}, {i}: {said}")


main()
