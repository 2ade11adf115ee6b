# SPDX-License-Identifier: Apache-2.0
"""A Python session that runs code in pieces, which share their variables.

Requests are lines of JSON on stdin: {"id", "code", "env_vars"}. Answers are lines on stdout: the id, a space, and
JSON with a type: stdout, stderr, result, error, number_of_executions; "end" is the last line of a request. Output of
programs that the code starts is read from pipes that replace the real descriptors, so stdout has only answers.
"""

import ast
import asyncio
import base64
import builtins
import codecs
import inspect
import json
import os
import sys
import threading
import traceback

REPRESENTATIONS = {
    "html": "_repr_html_", "markdown": "_repr_markdown_", "svg": "_repr_svg_", "png": "_repr_png_",
    "jpeg": "_repr_jpeg_", "latex": "_repr_latex_", "json": "_repr_json_", "javascript": "_repr_javascript_",
}

requests = os.fdopen(os.dup(0), encoding="utf-8")
answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
lock = threading.Lock()
current = ""  # id of the current request


def say(message):
    with lock:
        answers.write(f"{current} {message if isinstance(message, str) else json.dumps(message)}\n")
        answers.flush()


class Pipe:
    """Replaces descriptor 1 or 2: sends written data as messages."""

    MARK = b"\0kernel\0"

    def __init__(self, fd, kind):
        self.fd, self.kind, self.seen = fd, kind, threading.Event()
        self.read, write = os.pipe()
        os.dup2(write, fd)
        os.close(write)
        threading.Thread(target=self.copy, daemon=True).start()

    def copy(self):
        left, decoder = b"", codecs.getincrementaldecoder("utf-8")("replace")
        while data := os.read(self.read, 65536):
            left += data
            marked = self.MARK in left
            left = left.replace(self.MARK, b"")
            held = next((n for n in range(len(self.MARK) - 1, 0, -1) if left.endswith(self.MARK[:n])), 0)
            text = decoder.decode(left[:len(left) - held])
            left = left[len(left) - held:]
            if text:
                say({"type": self.kind, "text": text})
            if marked:
                self.seen.set()

    def drain(self):
        """Waits until all data written so far is sent."""
        self.seen.clear()
        os.write(self.fd, self.MARK)
        self.seen.wait(5)


def shown(value):
    result = {"type": "result", "text": repr(value)}
    for name, method in REPRESENTATIONS.items():
        try:
            got = getattr(value, method)() if hasattr(type(value), method) else None
        except Exception:  # a faulty method: the text representation remains
            got = None
        if isinstance(got, bytes):
            got = base64.b64encode(got).decode()
        if got is not None:
            result[name] = got
    return result


def display(*values):
    for value in values:
        say({**shown(value), "is_main_result": False})


async def run(code, names):
    """The last expression is the result, unless it is None."""
    tree = ast.parse(code, "<cell>")
    last = ast.Expression(tree.body.pop().value) if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    for part, mode in ((tree, "exec"), (last, "eval")):
        if part is None:
            continue
        value = eval(compile(part, "<cell>", mode, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
        if inspect.iscoroutine(value):
            value = await value
        if mode == "eval" and value is not None:
            names["_"] = value
            say({**shown(value), "is_main_result": True})


def fail(error):
    frames = traceback.extract_tb(error.__traceback__)
    ours = next((i for i, frame in enumerate(frames) if frame.filename == "<cell>"), len(frames))
    lines = traceback.format_list(frames[ours:]) + traceback.format_exception_only(type(error), error)
    say({"type": "error", "name": type(error).__name__, "value": str(error), "traceback": "".join(lines)})


def main():
    global current
    names = {"__name__": "__main__", "__builtins__": builtins, "display": display}
    sys.modules["__main__"].__dict__.update(names)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)
    pipes = [Pipe(1, "stdout"), Pipe(2, "stderr")]
    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, 0)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    count = 0
    for line in requests:
        request = json.loads(line)
        current = request["id"]
        before = dict(os.environ)
        os.environ.update(request.get("env_vars") or {})
        count += 1
        say({"type": "number_of_executions", "execution_count": count})
        try:
            loop.run_until_complete(run(request["code"], names))
        except BaseException as error:  # also SystemExit and KeyboardInterrupt: the session continues
            fail(error)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for pipe in pipes:
            pipe.drain()
        os.environ.clear()
        os.environ.update(before)
        say("end")


main()
