# SPDX-License-Identifier: Apache-2.0
"""A Python session that runs code in pieces, which share their variables.

Requests are lines of JSON on stdin: {"id", "code", "env_vars"}. Answers are lines on stdout: the id, a space, and
JSON with a type: stdout, stderr, result, error, number_of_executions; "end" is the last line of a request. Output of
programs that the code starts is read from pipes that replace the real descriptors, so stdout has only answers.

IPython runs the code where it is installed. Elsewhere a small engine does, with `!`, `%pip` and IPython.display.
SIGINT ends the code that runs, and nothing else.
"""

import ast
import asyncio
import base64
import builtins
import codecs
import contextlib
import datetime
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import io
import itertools
import json
import math
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import traceback
import types
import warnings

MESSAGE_BYTES = 6 << 20  # of a message; its reader takes lines of 8 MiB
POINTS_MAX, ELEMENTS_MAX, CELLS_MAX = 20000, 1000, 100000  # of the data of a figure, of a DataFrame
KINDS = {  # of representations, and the method of an object that makes one
    "text/html": ("html", "_repr_html_"), "text/markdown": ("markdown", "_repr_markdown_"), "image/svg+xml": ("svg", "_repr_svg_"),
    "image/png": ("png", "_repr_png_"), "image/jpeg": ("jpeg", "_repr_jpeg_"), "application/pdf": ("pdf", "_repr_pdf_"),
    "text/latex": ("latex", "_repr_latex_"), "application/json": ("json", "_repr_json_"),
    "application/javascript": ("javascript", "_repr_javascript_"), "text/plain": ("text", None), "chart": ("chart", None), "data": ("data", None),
}
DEBIAN_RC = "/usr/share/matplotlib/mpl-data/matplotlibrc"
USUAL = {"np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot"}  # imported when code uses the name without an import

requests = os.fdopen(os.dup(0), encoding="utf-8", errors="replace")
answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
lock = threading.Lock()
current = ""  # id of the current request
interruptible = interrupted = False
pipes = []
loop = asyncio.new_event_loop()


# --- messages ---


def plain(value, depth=0):
    """The value as JSON can have it: numbers that are none become null, what is unknown becomes text."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if depth > 32:
        return "…"
    if isinstance(value, dict):
        return {str(k): plain(v, depth + 1) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(v, depth + 1) for v in value]
    if hasattr(value, "isoformat"):  # dates; a missing one has no number
        return value.isoformat() if value == value else None
    if type(value).__module__ == "numpy" and hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        found = value.item()
        return plain(found, depth + 1) if not type(found).__module__ == "numpy" else str(value)
    return str(value)


def encoded(message):
    try:
        return json.dumps(message, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError):
        return json.dumps(plain(message), separators=(",", ":"))


def fitting(message):
    """The message with its largest parts left out, or cut, until it can be sent."""
    text = encoded(message)
    while len(text) > MESSAGE_BYTES:
        sizes = {k: len(encoded(v)) for k, v in message.items()}
        name = max(sizes, key=sizes.get)
        if isinstance(message[name], str) and name in ("text", "value", "traceback"):
            keep = max(0, len(message[name]) * MESSAGE_BYTES // (2 * len(text)))
            message = {**message, name: f"{message[name][:keep]}… ({len(message[name]) - keep} characters more)"}
        else:
            os.write(2, f"sandboxer: the result's {name} has {sizes[name]} bytes, too many for a message, and is left out\n".encode())
            message = {k: v for k, v in message.items() if k != name}
        text = encoded(message)
    return text


def say(message):
    text = message if isinstance(message, str) else fitting(message)
    with lock:
        answers.write(f"{current} {text}\n")
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
                now = datetime.datetime.now(datetime.timezone.utc)
                say({"type": self.kind, "text": text, "timestamp": now.isoformat().replace("+00:00", "Z")})
            if marked:
                self.seen.set()

    def drain(self):
        """Waits until the data written so far is sent."""
        self.seen.clear()
        os.write(self.fd, self.MARK)
        self.seen.wait(5)


def send_output():
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    for pipe in pipes:
        pipe.drain()


def send_bundle(bundle, main):
    """Representations by their media type: one message, after what was written before."""
    result, extra = {"type": "result", "is_main_result": main}, {}
    for kind, value in bundle.items():
        if isinstance(value, bytes):
            value = base64.b64encode(value).decode()
        if kind in KINDS:
            result[KINDS[kind][0]] = value
        else:
            extra[kind] = value
    text = result.get("text")
    if isinstance(text, str) and len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        result["text"] = text[1:-1]
    if extra:
        result["extra"] = extra
    send_output()
    say(result)


def send_error(name, value, text):
    send_output()
    say({"type": "error", "name": name, "value": value, "traceback": text})


# --- figures: their picture and their data ---

drawn = set()  # figures that this piece of code has shown


def unit_of(label):
    found = re.search(r"\(([^()]+)\)|\[([^\[\]]+)\]", label or "")
    return (found[1] or found[2]) if found else None


def scale_of(axis):
    from matplotlib import category, dates
    converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
    if axis.get_scale() != "linear":
        return axis.get_scale()
    if isinstance(converter, category.StrCategoryConverter):
        return "categorical"
    if type(converter).__module__ == dates.__name__ or "Date" in type(converter).__name__:
        return "datetime"
    return "linear"


def values_of(axis, shown, given):
    """Coordinates as their axis means them. `shown` are numbers; `given` is what the code passed."""
    from matplotlib import dates
    scale = scale_of(axis)
    if scale == "datetime":
        return [dates.num2date(float(v)).isoformat() for v in shown]
    if scale == "categorical":
        return [str(v) for v in given]
    return [float(v) if math.isfinite(float(v)) else None for v in shown]


def axis_data(name, axis):
    ticks = list(axis.get_majorticklocs())[:ELEMENTS_MAX]
    labels = [label.get_text() for label in axis.get_majorticklabels()][:ELEMENTS_MAX]
    return {f"{name}_ticks": values_of(axis, ticks, labels), f"{name}_tick_labels": labels, f"{name}_scale": scale_of(axis)}


def named(label, kind, number):
    return f"{kind} {number}" if not label or str(label).startswith("_") else str(label)


def series(axes, label, shown, given, budget):
    step = max(1, -(-len(shown[0]) // max(1, budget)))
    columns = [values_of(axis, numbers[::step], raw[::step]) for axis, numbers, raw in zip((axes.xaxis, axes.yaxis), shown, given)]
    return {"label": label, "points": [list(point) for point in zip(*columns)]}


def point_elements(axes, kind, artists, budget):
    elements = []
    for number, artist in enumerate(artists[:ELEMENTS_MAX], 1):
        if kind == "line":
            shown = [artist.get_xdata(orig=False), artist.get_ydata(orig=False)]
            given = [list(artist.get_xdata(orig=True)), list(artist.get_ydata(orig=True))]
        else:
            offsets = artist.get_offsets()
            shown = given = [list(offsets[:, 0]), list(offsets[:, 1])]
        label = named(artist.get_label(), "Line" if kind == "line" else "Dataset", number)
        elements.append(series(axes, label, [list(v) for v in shown], given, budget // len(artists)))
    return elements


def bar_label(axis, place):
    """The label of the tick nearest to a bar, where ticks are named; else the bar's place."""
    from matplotlib import ticker
    if scale_of(axis) == "datetime":
        return values_of(axis, [place], [place])[0]
    named_ticks = scale_of(axis) == "categorical" or isinstance(axis.get_major_formatter(), (ticker.FixedFormatter, ticker.FuncFormatter))
    ticks = [(abs(at - place), label.get_text()) for at, label in zip(axis.get_majorticklocs(), axis.get_majorticklabels())]
    if named_ticks and ticks and min(ticks)[1]:
        return min(ticks)[1]
    return f"{place:g}"


def bar_elements(axes, containers):
    elements = []
    for number, container in enumerate(containers, 1):
        group = named(container.get_label(), "Group", number)
        for bar in itertools.islice(container, ELEMENTS_MAX - len(elements)):
            lying = container.orientation == "horizontal"
            place = bar.get_y() + bar.get_height() / 2 if lying else bar.get_x() + bar.get_width() / 2
            value = bar.get_width() if lying else bar.get_height()
            elements.append({"label": bar_label(axes.yaxis if lying else axes.xaxis, float(place)), "group": group, "value": value})
    return elements


def pie_elements(wedges):
    return [{"label": named(wedge.get_label(), "Slice", number), "angle": round(abs(float(wedge.theta2) - float(wedge.theta1)), 4), "radius": wedge.r}
            for number, wedge in enumerate(wedges[:ELEMENTS_MAX], 1)]


def box_elements(axes, boxes):
    elements = []
    for number, (stats, vertical) in enumerate(boxes[:ELEMENTS_MAX]):
        labels = [label.get_text() for label in (axes.xaxis if vertical else axes.yaxis).get_majorticklabels()]
        label = labels[number] if len(labels) == len(boxes) else stats.get("label", number + 1)
        parts = {"min": "whislo", "first_quartile": "q1", "median": "med", "third_quartile": "q3", "max": "whishi"}
        elements.append({"label": str(label), **{name: stats[part] for name, part in parts.items()}, "outliers": list(stats.get("fliers", []))[:ELEMENTS_MAX]})
    return elements


def axes_chart(axes, budget):
    from matplotlib import collections, container, lines, patches
    title = axes.get_title() or axes.get_title("left") or axes.get_title("right") or None
    chart = {"type": "unknown", "title": title, "elements": []}
    if axes.name != "rectilinear":
        return chart
    wedges = [p for p in axes.patches if isinstance(p, patches.Wedge)]
    bars = [c for c in axes.containers if isinstance(c, container.BarContainer)]
    boxes = getattr(axes, "_sandboxer_boxes", [])
    points = [a for a in axes.get_children() if isinstance(a, collections.PathCollection)
              or (isinstance(a, lines.Line2D) and all(a.get_transform().contains_branch_seperately(axes.transData)))]
    if wedges:
        return {**chart, "type": "pie", "elements": pie_elements(wedges)}
    x, y = axes.get_xlabel() or None, axes.get_ylabel() or None
    flat = {"x_label": x, "y_label": y, "x_unit": unit_of(x), "y_unit": unit_of(y)}
    if boxes:
        return {**chart, **flat, "type": "box_and_whisker", "elements": box_elements(axes, boxes)}
    if bars:
        return {**chart, **flat, "type": "bar", "elements": bar_elements(axes, bars)}
    if points:  # the first one decides
        kind = "line" if isinstance(points[0], lines.Line2D) else "scatter"
        same = [p for p in points if isinstance(p, lines.Line2D) == (kind == "line")]
        ticks = {**axis_data("x", axes.xaxis), **axis_data("y", axes.yaxis)}
        return {**chart, **flat, **ticks, "type": kind, "elements": point_elements(axes, kind, same, budget)}
    return {**chart, **flat}


def figure_chart(figure):
    shown = [a for a in figure.axes if a.get_visible() and a.get_label() != "<colorbar>"][:64]
    charts = [axes_chart(axes, POINTS_MAX // len(shown)) for axes in shown]
    if len(charts) == 1:
        return charts[0]
    title = figure._suptitle.get_text() if getattr(figure, "_suptitle", None) else None
    return {"type": "superchart" if charts else "unknown", "title": title, "elements": charts}


def figure_bundle(figure):
    picture = io.BytesIO()
    figure.savefig(picture, format="png", bbox_inches="tight")
    drawn.add(figure)
    bundle = {"image/png": picture.getvalue()}
    with contextlib.suppress(Exception), warnings.catch_warnings():  # of artists that this does not know
        warnings.simplefilter("ignore")
        bundle["chart"] = plain(figure_chart(figure))
    return bundle


def show_figures(*_, **__):
    """pyplot.show: shows the open figures that were not shown yet, and closes them."""
    pyplot = sys.modules["matplotlib.pyplot"]
    for figure in [pyplot.figure(number) for number in pyplot.get_fignums()]:
        if figure not in drawn:
            display(figure)
    pyplot.close("all")


def patch_pyplot(pyplot):
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    draw_boxes = Axes.bxp

    def bxp(self, bxpstats, positions=None, widths=None, vert=True, *more, **options):
        vertical = options["orientation"] != "horizontal" if options.get("orientation") else vert is not False
        self._sandboxer_boxes = [*getattr(self, "_sandboxer_boxes", []), *((stats, vertical) for stats in bxpstats)]
        return draw_boxes(self, bxpstats, positions, widths, vert, *more, **options)

    pyplot.switch_backend("agg")
    pyplot.show, Figure.show, Axes.bxp = show_figures, lambda figure, *_, **__: display(figure), bxp


def patch_image(module):
    """PIL: an image that is shown or saved is a result."""
    save = module.Image.save

    def save_and_show(image, fp, *more, **options):
        save(image, fp, *more, **options)
        if isinstance(fp, (str, os.PathLike)) and not sys._getframe(1).f_globals.get("__name__", "").startswith("matplotlib"):
            display(image)

    module.Image.save = save_and_show
    module.Image.show = lambda image, *_, **__: display(image)


def more_of(value):
    """Representations that the libraries of data do not make themselves."""
    figures, frames = sys.modules.get("matplotlib.figure"), sys.modules.get("pandas")
    if figures and isinstance(value, getattr(figures, "Figure", ())):
        return figure_bundle(value)
    if frames and isinstance(value, getattr(frames, "DataFrame", ())):
        rows = max(1, CELLS_MAX // max(1, len(value.columns)))
        return {"data": plain(value.head(rows).to_dict("list"))}
    return {}


class Hooks(importlib.abc.MetaPathFinder):
    """Changes modules when they are imported."""

    def __init__(self, **patches):
        self.patches = {name.replace("__", "."): patch for name, patch in patches.items()}

    def find_spec(self, name, path=None, target=None):
        patch = self.patches.pop(name, None)
        spec = importlib.machinery.PathFinder.find_spec(name, path) if patch else None
        if not spec or not spec.loader:
            return None
        load = spec.loader.exec_module

        def load_and_patch(module):
            load(module)
            with contextlib.suppress(Exception):  # of a version that has no such functions
                patch(module)

        spec.loader.exec_module = load_and_patch
        return spec


# --- engines ---


def run_task(work):
    """Runs a coroutine on the session's loop. An interrupt ends this one; others continue with the next request."""
    task = loop.create_task(work)
    try:
        return loop.run_until_complete(task)
    finally:
        task.cancel()


def import_usual(tree, names):
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    for name in used & USUAL.keys() - names.keys():
        with contextlib.suppress(ImportError):
            names[name] = importlib.import_module(USUAL[name])


def call_system(command):
    send_output()
    return subprocess.call(command, shell=True)


def make_ipython():
    """IPython's own shell, as the engine."""
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.formatters import DisplayFormatter
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets import Type
    from traitlets.config import Config

    class Hook(DisplayHook):
        def __call__(self, result=None):
            self.check_for_underscore()
            if result is None or self.quiet():
                return
            bundle, _ = self.compute_format_data(result)
            self.update_user_ns(result)
            self.fill_exec_result(result)
            send_bundle(bundle, True)

    class Publisher(DisplayPublisher):
        def publish(self, data, metadata=None, source=None, **_):
            send_bundle(data, False)

        def clear_output(self, wait=False):
            pass

    class Formatter(DisplayFormatter):
        def format(self, value, include=None, exclude=None):
            bundle, metadata = super().format(value, include, exclude)
            return {**bundle, **(more_of(value) if bundle or not metadata else {})}, metadata

    class Shell(InteractiveShell):
        displayhook_class, display_pub_class = Type(Hook), Type(Publisher)

        def init_display_formatter(self):
            self.display_formatter = Formatter(parent=self)

        def _showtraceback(self, etype, evalue, stb):
            send_error(etype.__name__, str(evalue), "\n".join(stb))

        def system(self, cmd):
            self.user_ns["_exit_code"] = call_system(self.var_expand(cmd, depth=1))

        def getoutput(self, cmd, split=True, depth=0):
            from IPython.utils.text import LSString, SList
            done = subprocess.run(self.var_expand(cmd, depth=depth + 1), shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            text = done.stdout.decode(errors="replace")
            return SList(text.splitlines()) if split else LSString(text)

        def enable_matplotlib(self, gui=None):
            return gui or "inline", "agg"

        def enable_gui(self, gui=None):
            pass

        def ask_exit(self):
            raise SystemExit

        def execute(self, code):
            with contextlib.suppress(SyntaxError, ValueError):
                import_usual(ast.parse(self.transform_cell(code)), self.user_ns)
            self.run_cell(code, store_history=True)

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "NoColor"
    shell = Shell.instance(config=config)
    shell.loop_runner = run_task
    return shell, shell.execute, sys.modules["IPython.display"].display if "IPython.display" in sys.modules else shell_display


def shell_display(*values, **options):
    from IPython.display import display as show
    show(*values, **options)


class Plain:
    """The engine where IPython is not installed."""

    NOTE = ("sandboxer: IPython is not installed in this image. `!command`, `%pip` and IPython.display work; for all else of it, "
            "install it (Debian: python3-ipython; pip: ipython)\n")

    def __init__(self):
        module = types.ModuleType("__main__")
        self.kernel, sys.modules["__main__"] = sys.modules["__main__"], module
        self.names, self.noted = module.__dict__, False
        self.names.update(__builtins__=builtins, display=self.display, __sandboxer_line=self.run_line)
        sys.meta_path.append(self)

    def note(self):
        if not self.noted:
            os.write(2, self.NOTE.encode())
        self.noted = True

    def bundle(self, value):
        bundle = {"text/plain": repr(value)}
        with contextlib.suppress(Exception):
            bundle.update(plain(value._repr_mimebundle_()) if hasattr(type(value), "_repr_mimebundle_") else {})
        for kind, (_, method) in KINDS.items():
            with contextlib.suppress(Exception):  # a faulty method: the text remains
                got = getattr(value, method)() if method and hasattr(type(value), method) else None
                if got is not None:
                    bundle[kind] = got[0] if isinstance(got, tuple) else got
        return {**bundle, **more_of(value)}

    def display(self, *values, **_):
        for value in values:
            send_bundle(self.bundle(value), False)

    # IPython.display, for those who import it

    def find_spec(self, name, path=None, target=None):
        if name in ("IPython", "IPython.display", "IPython.core.display"):
            return importlib.machinery.ModuleSpec(name, self, is_package=name != "IPython.display")
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        self.note()

        def shows(method):
            def init(self, data=None, *_, filename=None, **__):
                self.data = data if filename is None else open(filename, "rb").read()
            return {"__init__": init, method: lambda self: self.data}

        module.display, module.clear_output, module.get_ipython = self.display, lambda wait=False: None, lambda: None
        for name, method in (("HTML", "_repr_html_"), ("Markdown", "_repr_markdown_"), ("SVG", "_repr_svg_"), ("Image", "_repr_png_"), ("Latex", "_repr_latex_"),
                             ("Math", "_repr_latex_"), ("JSON", "_repr_json_"), ("Javascript", "_repr_javascript_"), ("Pretty", "__repr__")):
            setattr(module, name, type(name, (), shows(method)))

    # lines that are not Python

    def run_line(self, line):
        self.note()
        kind, _, rest = line.partition(" ")
        if kind == "%pip":
            call_system(f"'{sys.executable}' -m pip {rest}")
        elif line.startswith("!"):
            self.names["_exit_code"] = call_system(line[1:])
        elif kind != "%matplotlib":
            raise NotImplementedError(f"{kind} needs IPython, which is not installed in this image (Debian: python3-ipython; pip: ipython)")

    def parse(self, code):
        try:
            return ast.parse(code, "<cell>")
        except SyntaxError:
            changed = re.sub(r"^([ \t]*)([!%].*)$", lambda m: f"{m[1]}__sandboxer_line({m[2]!r})", code, flags=re.M)
            if changed == code:
                raise
            return ast.parse(changed, "<cell>")

    async def run(self, tree):
        """The last expression is the result, unless it is None."""
        last = ast.Expression(tree.body.pop().value) if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        for part, mode in ((tree, "exec"), (last, "eval")):
            if part is None:
                continue
            value = eval(compile(part, "<cell>", mode, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), self.names)
            if inspect.iscoroutine(value):
                value = await value
            if mode == "eval" and value is not None:
                self.names["_"] = value
                send_bundle(self.bundle(value), True)

    def execute(self, code):
        tree = self.parse(code)
        import_usual(tree, self.names)
        run_task(self.run(tree))


def fail(error):
    frames = traceback.extract_tb(error.__traceback__)
    ours = next((i for i, frame in enumerate(frames) if frame.filename == "<cell>"), len(frames))
    lines = traceback.format_list(frames[ours:]) + traceback.format_exception_only(type(error), error)
    send_error(type(error).__name__, str(error), "".join(lines))


def make_engine():
    """An object to keep, a function that runs code, and the function `display`."""
    if importlib.util.find_spec("IPython"):
        try:
            return make_ipython()
        except Exception as error:
            os.write(2, f"sandboxer: IPython cannot be used: {error}\n".encode())
    engine = Plain()
    return engine, engine.execute, engine.display


# --- requests ---


def on_interrupt(*_):
    global interrupted
    interrupted = True
    if interruptible:
        raise KeyboardInterrupt


def read_request(line):
    """None for a line that is no request: a daemon that stops may leave a part of one."""
    try:
        request = json.loads(line)
    except ValueError:
        return None
    return request if isinstance(request, dict) and "id" in request and "code" in request else None


def run_code(execute, code):
    global interruptible
    first = next((line for line in code.splitlines() if line.strip()), "")
    try:
        interruptible = True
        if interrupted:
            raise KeyboardInterrupt
        execute(textwrap.dedent(code) if first[:1].isspace() else code)
        if "matplotlib.pyplot" in sys.modules:
            show_figures()
        interruptible = False
    except BaseException as error:  # also SystemExit and KeyboardInterrupt: the session continues
        interruptible = False
        fail(error)


def main():
    global current, interrupted, display
    signal.signal(signal.SIGINT, on_interrupt)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # in the threads of the pipes: it comes before what is written to stdin later
    asyncio.set_event_loop(loop)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)
    pipes.extend([Pipe(1, "stdout"), Pipe(2, "stderr")])
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, 0)
    if not os.path.exists("/etc/matplotlibrc") and os.path.exists(DEBIAN_RC):  # where Debian's matplotlib looks, and a sandbox has its own /etc
        os.environ.setdefault("MATPLOTLIBRC", DEBIAN_RC)
    engine, execute, display = make_engine()
    sys.meta_path.insert(0, Hooks(matplotlib__pyplot=patch_pyplot, PIL__Image=patch_image))
    count = 0
    for line in requests:
        request = read_request(line)
        if not request:
            continue
        interrupted, count = False, count + 1
        current = request["id"]
        before = dict(os.environ)
        os.environ.update(request.get("env_vars") or {})
        say({"type": "number_of_executions", "execution_count": count})
        run_code(execute, request["code"])
        drawn.clear()
        send_output()
        os.environ.clear()
        os.environ.update(before)
        say("end")


main()
