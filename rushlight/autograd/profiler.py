"""`autograd.profiler`: which ops ran, how often and for how long, forward and backward, with the user's own labels between them.

Nothing on the hot path knows of it. Every op runs in a function of its own with a file name of its own (ops/generate.py), and Python's
profiling hook (`sys.setprofile`) reports when such a function begins and ends; the hook is set only while a profile runs. It costs about a
microsecond an op, so the times of tiny ops are too long by that. Events of threads that were running before the profile began are not seen.
"""
import contextlib
import json
import os
import re
import sys
import threading
import time
import warnings
from collections import namedtuple

from ..tensor import Tensor
from .node import Node, records

OP_FILE = "<rushlight op "
BACKWARD = {"propagate", "apply", "apply_graph"}  # the methods by which the engine runs a node
# What PyTorch calls an op whose node has another name than the op: a product that ends in a view, a step of one of its ops.
PARTS = {"_linear_batch": "addmm", "_bmm_batch": "bmm", "_batch_statistics": "var_mean", "_cast": "_to_copy", "_copied": "copy_",
         "_order": "argsort", "logsigmoid": "log_sigmoid", "_entropy": "mul", "_length": "linalg_vector_norm",
         "_max_indices": "max_pool2d_with_indices", "_unsafe_view": "_unsafe_view",
         "_fft_c2c": "_fft_c2c", "_fft_r2c": "_fft_r2c", "_fft_c2r": "_fft_c2r", "_prelu": "_prelu_kernel", "conj_physical": "conj_physical"}
Interval = namedtuple("Interval", "start end")  # microseconds since the profile began


def aten_name(name):
    """PyTorch's name of an op, told by the name of its node where that is given: `_sum_all` with SumBackward0 is aten::sum."""
    public = name.lstrip("_")
    record = records.get(name)
    node = getattr(record, "node_name", None)
    if name in PARTS:
        public = PARTS[name]
    elif isinstance(node, str) and node != "NotImplemented" and node.replace("Backward0", "").lower() != public.replace("_", ""):
        stem = re.sub(r"Backward(s|\d*)$", "", node)
        public = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", stem).lower()
    return "aten::" + public


def warn_unmeasured(asked, stacklevel):
    """Say which of the options (name -> value) that were asked for are not measured, at the line `stacklevel` frames up."""
    for name, value in asked.items():
        if value:
            warnings.warn(f"profile: {name}=True is not measured here; the profile holds times, counts and shapes", stacklevel=stacklevel + 1)


class Stack(threading.local):
    """The open events of one thread."""

    def __init__(self):
        self.open = []


class Recorder:
    """Collects events while it is on. One for each profile; `current` is the one that runs."""

    current = None

    def __init__(self, shapes):
        self.shapes, self.events, self.stack, self.names = shapes, [], Stack(), {}
        self.began = time.perf_counter_ns()

    def start(self):
        if Recorder.current is not None:
            raise RuntimeError("a profile is running already: stop it before another one starts")
        Recorder.current = self
        threading.setprofile(self.hook)
        sys.setprofile(self.hook)

    def stop(self):
        sys.setprofile(None)
        threading.setprofile(None)
        Recorder.current = None

    def hook(self, frame, event, argument):
        code = frame.f_code
        backward = code.co_name in BACKWARD
        if not backward and not code.co_filename.startswith(OP_FILE) or code.co_name == "<module>":
            return
        values = frame.f_locals if self.shapes or backward else {}
        if backward and not isinstance(values.get(code.co_varnames[0]), Node):
            return
        if event == "call":
            name = values[code.co_varnames[0]].name() if backward else self.name_of(code)
            self.open(name, [list(value.shape) for value in values.values() if isinstance(value, Tensor)] if self.shapes else [])
        elif event == "return":
            self.close()

    def name_of(self, code):
        name = self.names.get(code)
        if name is None:
            name = self.names[code] = aten_name(re.split(r"(?<=[^_])__", code.co_name)[0])
        return name

    def open(self, name, shapes=()):
        event = FunctionEvent(name, shapes, threading.get_ident(), self.stack.open[-1] if self.stack.open else None)
        self.events.append(event)
        self.stack.open.append(event)
        event.start = time.perf_counter_ns() - self.began

    def close(self):
        now = time.perf_counter_ns() - self.began
        if self.stack.open:  # an op that began before the profile ends inside it without an opening
            self.stack.open.pop().finish(now)


class FunctionEvent:
    """One run of an op, of a node's backward or of a labelled block. Times in microseconds."""

    def __init__(self, name, shapes, thread, parent):
        self.name = self.key = name
        self.input_shapes, self.thread, self.cpu_parent = list(shapes), thread, parent
        self.start = self.end = self.children = 0  # nanoseconds

    def finish(self, now):
        self.end = now
        if self.cpu_parent is not None:
            self.cpu_parent.children += now - self.start

    @property
    def time_range(self):
        return Interval(self.start / 1e3, self.end / 1e3)

    @property
    def cpu_time_total(self):
        return max(self.end - self.start, 0) / 1e3

    cpu_time = cpu_time_total

    @property
    def self_cpu_time_total(self):
        return max(self.end - self.start - self.children, 0) / 1e3

    def __repr__(self):
        return f"<FunctionEvent name={self.name} cpu_time={shown_time(self.cpu_time_total)} thread={self.thread} input_shapes={self.input_shapes}>"


class FunctionEventAvg:
    """All events of one name (and, where asked for, of one list of input shapes). Times in microseconds."""

    def __init__(self, key, shapes):
        self.key, self.input_shapes = key, shapes
        self.count, self.cpu_time_total, self.self_cpu_time_total = 0, 0.0, 0.0

    def add(self, event):
        self.count += 1
        self.cpu_time_total += event.cpu_time_total
        self.self_cpu_time_total += event.self_cpu_time_total

    @property
    def cpu_time(self):
        """The mean time of one run."""
        return self.cpu_time_total / self.count if self.count else 0.0

    def __repr__(self):
        return f"<FunctionEventAvg key={self.key} self_cpu_time={shown_time(self.self_cpu_time_total)} cpu_time={shown_time(self.cpu_time)} count={self.count}>"


class EventList(list):
    """A list of events or of averages, with a table."""

    @property
    def self_cpu_time_total(self):
        """Microseconds spent in all of them."""
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0):
        """One average for each name."""
        averages = {}
        for event in self:
            shapes = str(event.input_shapes) if group_by_input_shape else ""
            averages.setdefault((event.key, shapes), FunctionEventAvg(event.key, event.input_shapes if shapes else [])).add(event)
        return EventList(averages.values())

    def total_average(self):
        """The sum of all of them as one average."""
        total = FunctionEventAvg("Total", [])
        for event in self:
            total.count += getattr(event, "count", 1)
            total.cpu_time_total += event.cpu_time_total
            total.self_cpu_time_total += event.self_cpu_time_total
        return total

    def table(self, sort_by=None, row_limit=100, max_src_column_width=75, max_name_column_width=55, max_shapes_column_width=80, header=None,
              top_level_events_only=False, time_unit=None):
        """The averages as text. sort_by: an attribute of FunctionEventAvg such as "cpu_time_total", largest first."""
        rows = list(self if all(isinstance(event, FunctionEventAvg) for event in self) else self.key_averages())
        if sort_by is not None:
            if rows and not hasattr(rows[0], sort_by):
                raise AttributeError(f"table(): sort_by={sort_by!r} is no column: expected cpu_time, cpu_time_total, self_cpu_time_total or count")
            rows.sort(key=lambda row: getattr(row, sort_by), reverse=True)
        whole = sum(row.self_cpu_time_total for row in rows)
        with_shapes = any(row.input_shapes for row in rows)
        titles = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls", *(["Input Shapes"] if with_shapes else [])]
        lines = []
        for row in rows if row_limit < 0 else rows[:row_limit]:
            name = row.key if len(row.key) <= max_name_column_width else row.key[:max_name_column_width - 3] + "..."
            lines.append([name, percent(row.self_cpu_time_total, whole), shown_time(row.self_cpu_time_total), percent(row.cpu_time_total, whole),
                          shown_time(row.cpu_time_total), shown_time(row.cpu_time), str(row.count),
                          *([str(row.input_shapes)[:max_shapes_column_width]] if with_shapes else [])])
        widths = [max(len(line[at]) for line in [titles, *lines]) for at in range(len(titles))]
        rule = "  ".join("-" * width for width in widths)
        text = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in [titles, *lines]]
        return "\n".join([*([header] if header else []), rule, text[0], rule, *text[1:], rule, f"Self CPU time total: {shown_time(whole)}", ""])

    def __str__(self):
        return self.table()

    def export_chrome_trace(self, path):
        """Write the events as a file for chrome://tracing or ui.perfetto.dev."""
        events = [{"name": event.name, "ph": "X", "ts": event.time_range.start, "dur": event.cpu_time_total, "pid": os.getpid(), "tid": event.thread,
                   "args": {"Input Dims": event.input_shapes}} for event in self]
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events}, file)


def shown_time(microseconds):
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if microseconds >= size:
            return f"{microseconds / size:.3f}{unit}"
    return f"{microseconds:.3f}us"


def percent(part, whole):
    return f"{100 * part / whole:.2f}%" if whole else "NaN"


class record_function(contextlib.ContextDecorator):
    """A label for a stretch of code in a profile; context manager and decorator. Without a profile it does nothing.

    >>> import rushlight as torch
    >>> with torch.autograd.profiler.record_function("my part"):
    ...     y = torch.ones(2) + 1
    """

    def __init__(self, name, args=None):
        self.name, self.args = name, args

    def _recreate_cm(self):
        return type(self)(self.name, self.args)  # a decorated function may call itself

    def __enter__(self):
        self.recorder = Recorder.current
        if self.recorder is not None:
            self.recorder.open(self.name)
        return self

    def __exit__(self, *exc):
        if self.recorder is not None and self.recorder is Recorder.current:
            self.recorder.close()


class profile:
    """Records the ops that run inside a `with` block.

    record_shapes: keep the shapes of each op's inputs. profile_memory, with_stack, with_flops and with_modules are not measured (a warning says so).

    >>> import rushlight as torch
    >>> with torch.autograd.profiler.profile() as prof:
    ...     y = torch.ones(2, requires_grad=True).exp().sum()
    ...     y.backward()
    >>> "ExpBackward0" in [event.key for event in prof.key_averages()]
    True
    """

    def __init__(self, enabled=True, *, use_cpu=True, use_device=None, record_shapes=False, with_flops=False, profile_memory=False, with_stack=False,
                 with_modules=False, use_kineto=False):
        warn_unmeasured(dict(with_flops=with_flops, profile_memory=profile_memory, with_stack=with_stack, with_modules=with_modules), 2)
        self.enabled, self.record_shapes, self.recorder = enabled, record_shapes, None

    def __enter__(self):
        if self.enabled:
            self.recorder = Recorder(self.record_shapes)
            self.recorder.start()
        return self

    def __exit__(self, *exc):
        if self.enabled:
            self.recorder.stop()

    @property
    def function_events(self):
        """Every event that ended, in order of its begin."""
        if self.recorder is None:
            return EventList()
        return EventList(event for event in self.recorder.events if event.end)

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0):
        """One average for each name of op."""
        return self.function_events.key_averages(group_by_input_shape)

    def total_average(self):
        """The sum of all events."""
        return self.function_events.total_average()

    @property
    def self_cpu_time_total(self):
        """Microseconds in all ops."""
        return self.function_events.self_cpu_time_total

    def table(self, *args, **named):
        """The averages as text, see `EventList.table`."""
        return self.key_averages().table(*args, **named)

    def __str__(self):
        return self.table()

    def export_chrome_trace(self, path):
        """Write a file for chrome://tracing."""
        self.function_events.export_chrome_trace(path)
