"""How much of the op table a compiled training step runs natively: `python tools/native.py [--names census.csv] [--verbose]`.

Every differentiable row of the table of calls in tests/ops/samples.py becomes a step (loss, backward, a write into the inputs)
and is compiled: "native" is one program of loops, "called" one program that calls some op as Python, "by ops" a graph that
runs op by op, "refused" anything else.  With the census of names that public programs use, rows are weighed by it.
"""
import argparse
import collections
import csv
import importlib.util
import sys
import warnings
from pathlib import Path

import rushlight as torch

ROOT = Path(__file__).resolve().parent.parent


def rows():
    """(label, call, inputs) of the table."""
    spec = importlib.util.spec_from_file_location("samples", ROOT / "tests" / "ops" / "samples.py")
    module = sys.modules["samples"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ROWS


def kind_of(call, inputs):
    """How a step with this call in its loss runs."""
    tensors = [spec.make(at, torch.float32).requires_grad_() for at, spec in enumerate(inputs)]

    def step():
        for tensor in tensors:
            tensor.grad = None
        found = call(*[tensor * 1.0 for tensor in tensors])
        found = found if isinstance(found, (tuple, list)) else [found]
        parts = [part for part in found if isinstance(part, torch.Tensor) and part.requires_grad]
        loss = sum((part.abs() if part.is_complex() else part).sum() for part in parts)
        loss.backward()
        with torch.no_grad():
            for tensor in tensors:
                if tensor.grad is not None:
                    tensor.sub_(tensor.grad, alpha=0.0)
        return loss.detach()

    torch.compiler.reset()
    run = torch.compile(step)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run()
    made = run._rushlight_compiled
    entries = [entry for point in (made.start, *made.points.found.values()) if point is not None for entry in point.entries]
    if made.breaks or len(entries) != 1:
        return "refused"
    program = getattr(getattr(entries[0].run.__globals__.get("graph"), "lowered", None), "native", None)
    return "by ops" if program is None else "called" if program.calls else "native"


def weights(path):
    """The short name -> in how many public repositories it is used."""
    found: dict = collections.Counter()
    with open(path) as file:
        for row in csv.DictReader(file):
            name = row["name"].rpartition(".")[2]
            found[name] = max(found[name], int(row["repos_using"]))
    return found


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--names", help="the census of names (name, kind, repos_using, uses)")
    options.add_argument("--verbose", action="store_true", help="print how each row runs")
    chosen = options.parse_args()
    census = weights(chosen.names) if chosen.names else {}
    kinds, used, total = {}, collections.Counter(), collections.Counter()
    for label, call, inputs in rows():
        try:
            kinds[label] = kind_of(call, inputs)
        except Exception as error:
            kinds[label] = f"refused ({type(error).__name__})"
        if chosen.verbose:
            print(f"{kinds[label]:24} {label}")
    for label, kind in kinds.items():
        kind = kind.split()[0] if kind.startswith("refused") else kind
        total[kind] += 1
        used[kind] += census.get(label.split()[0].rpartition(".")[2], 0)
    print("rows of the table: " + ", ".join(f"{kind} {count} ({count / len(kinds):.0%})" for kind, count in total.most_common()))
    if census:
        whole = sum(used.values())
        print("by the census:     " + ", ".join(f"{kind} {count / whole:.0%}" for kind, count in used.most_common()))


if __name__ == "__main__":
    main()
