"""The line that a warning names is one where the name means the variable that holds the graph, and one that has run."""
import runpy

import pytest

LOOP = """
import rushlight as torch
from rushlight.diagnostics import track_graphs
w = torch.ones(4, requires_grad=True)
def steps():
    for _ in range(5):
        loss = (w * 2).sum()
        loss.backward()
        yield loss
"""
METHOD = """
class Other:
    def add(self, loss):
        self.total += loss  # another's
def other():
    total = 0
    total += 1
    return total
"""
CASES = {
    "a module's variable, same names below": """
total = 0
with track_graphs(warn=False) as tracker:
    for loss in steps():
        total = total + loss  # here
""" + METHOD + "total += 1\n",
    "an attribute of the class, a variable elsewhere": METHOD + """
class Meter:
    def __init__(self):
        self.total = 0
    def add(self, loss):
        self.total = self.total + loss  # here
meter = Meter()
total = 0
with track_graphs(warn=False) as tracker:
    for loss in steps():
        meter.add(loss)
total += 1
""",
    "an attribute written outside its class": METHOD + """
class Meter:
    total = 0
meter = Meter()
with track_graphs(warn=False) as tracker:
    for loss in steps():
        meter.total += loss  # here
""",
    "a function's variable": METHOD + """
total = 0
total += 1
def train():
    total = 0
    def inner():
        total = 1
        total += 1
    with track_graphs(warn=False) as tracker:
        for loss in steps():
            total += loss  # here
    return tracker
tracker = train()
total += 1
""",
    "a global written in a function": METHOD + """
total = 0
def add(loss):
    global total
    total += loss  # here
with track_graphs(warn=False) as tracker:
    for loss in steps():
        add(loss)
total = total + 1
""",
    "a list filled by a function": METHOD + """
total = []
def add(loss):
    total.append(loss)  # here
def not_this(total):
    total.append(loss)
with track_graphs(warn=False) as tracker:
    for loss in steps():
        add(loss)
total.append(1)
""",
}


@pytest.mark.parametrize("case", CASES)
def test_the_line_is_one_that_holds_the_variable(case, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(LOOP + CASES[case], encoding="utf-8")
    report = runpy.run_path(str(script))["tracker"].report
    entries = [entry for entry in report if "total" in entry.holder]
    assert [entry.line.endswith("# here") for entry in entries] == [True], report
