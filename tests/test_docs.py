"""Documentation is a program: every python block of README and docs/, and every docstring example, runs.

The blocks of one page share their names, in order, as a reader would type them. A block whose fence says `python no-run`
is shown only; a `pycon`-like block (lines with >>>) is run as a doctest with its printed output compared.
"""
import doctest
import importlib
import re
from pathlib import Path

import pytest

import rushlight as torch

ROOT = Path(__file__).resolve().parent.parent
PAGES = [page for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))] if page.is_file()]
FENCE = re.compile(r"^```python *(?P<info>[^\n]*)\n(?P<code>.*?)^```", re.M | re.S)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def modules() -> list[str]:
    """Every module's name, read off the files, so that one that cannot be imported fails its own test only."""
    names = [".".join(p.relative_to(ROOT).with_suffix("").parts) for p in (ROOT / "rushlight").rglob("*.py")]
    return sorted(name.removesuffix(".__init__") for name in names if not name.endswith("__main__"))


def run_examples(examples: list[doctest.DocTest]) -> str:
    runner = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False)
    report: list[str] = []
    for example in examples:
        runner.run(example, out=report.append)
    return "".join(report)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_the_page_runs(page, tmp_path, monkeypatch, capsys):
    text = page.read_text()
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__page__"}
    parser = doctest.DocTestParser()
    for block in FENCE.finditer(text):
        line = text[: block.start()].count("\n") + 1
        if "no-run" in block["info"]:
            continue
        if ">>>" in block["code"]:
            test = parser.get_doctest(block["code"], names, page.name, str(page), line)
            test.globs = names  # get_doctest copies; the page's blocks share
            runner = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False)
            report: list[str] = []
            runner.run(test, out=report.append, clear_globs=False)
            assert not report, "".join(report)
        else:
            # the leading newlines make a traceback point at the page's own line
            exec(compile("\n" * line + block["code"], str(page), "exec"), names)


@pytest.mark.parametrize("name", modules())
def test_the_docstring_examples_run(name):
    module = importlib.import_module(name)
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [t for t in finder.find(module, name, globs=vars(module) | {"torch": torch, "__name__": "example"}) if t.examples]
    if not found:
        pytest.skip("no examples")
    torch.manual_seed(0)
    report = run_examples(found)
    assert not report, report


# Names that only PyTorch's users know; a page that imports torch itself would not run without it.
def test_no_page_needs_pytorch():
    for page in PAGES:
        for block in FENCE.finditer(page.read_text()):
            assert not re.search(r"^\s*(import torch\b|from torch\b)", block["code"], re.M), page


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_file_that_a_page_names_exists(page):
    for name in re.findall(r"`([\w/.]+\.(?:py|md))`|\]\(([\w/.]+\.md)\)", page.read_text()):
        path = name[0] or name[1]
        places = [page.parent / path, ROOT / path, ROOT / "rushlight" / path]
        assert any(place.exists() for place in places) or path == "script.py", f"{page.name} names {path}"


# Bases that nobody makes instances of, and two old names.
WITHOUT_EXAMPLE = {"RNNBase", "RNNCellBase", "Container", "NLLLoss2d"}


def test_every_layer_shows_how_it_is_used():
    layers = {name: value for name, value in vars(torch.nn).items() if isinstance(value, type) and issubclass(value, torch.nn.Module)}
    assert {name for name, layer in layers.items() if ">>>" not in (layer.__doc__ or "")} <= WITHOUT_EXAMPLE
