"""The proof that a program holds for all the sizes that were declared free, as far as trying can tell.

Relations that forward asked about are tried over the declared range; then the graph itself is run at other sizes.
What does not hold is an error with the fix to paste in, or, for AUTO, fixes the size.  Checks at run time stay, so an
unproved program refuses inputs but never computes wrong.  Read `prove` first.
"""

import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..core import modes
from ..core.generator import default_generator
from ..recurrent import LengthError
from ..tensor import Tensor, wrap
from .checks import OPPOSITE, evaluate, show
from .dynamic_shapes import INFINITY, NUMBER, Root, UserError
from .program import call
from .targets import DERIVATIVES

LARGEST = 1 << 24  # elements of an input that is tried
MOST_TOGETHER = 6  # equal sizes of which every combination is tried


def prove(builder: Any, module: Any) -> list:
    """Check the roots against relations and graph; the relations that must be checked at run time."""
    sizes, tracer = builder.sizes, builder.tracer
    if not sizes.roots:
        return []
    relations, problems, fixes = [], [], {}
    by_source = {}
    for (leaf, dim), use in sizes.uses.items():
        traced = tracer.by_leaf.get(leaf)
        if dim == NUMBER:
            by_source[id(tracer.by_number.get(leaf))] = use
        elif traced is not None:
            by_source[id(tracer.sources.step("shape", traced.source, dim))] = use
    for kind, left, right, answer, line in tracer.relations:
        left, right = convert(left, by_source), convert(right, by_source)
        roots = [root for root in sizes.roots if root in roots_of(left) | roots_of(right)]
        if roots and (kind, left, right, answer) not in relations:
            relations.append((kind, left, right, answer))
            judge(kind, left, right, answer, roots, problems, fixes)
    run_at_other_sizes(builder, module, problems, fixes)
    if problems:
        names = dict.fromkeys(name for name, _ in problems)
        text = "\n".join(f"  - {problem}" for problem in dict.fromkeys(text for _, text in problems))
        suggested = "\n".join(f"  {fix}" for fix in dict.fromkeys(fixes.values()))
        raise UserError(f"Constraints violated ({', '.join(names)})!\n{text}" + (f"\nSuggested fixes:\n{suggested}" if suggested else ""))
    return [item for item in relations if not trivial(item, sizes)]


def convert(expression: Any, by_source: dict) -> Any:
    """An expression over sources as one over roots."""
    if type(expression) is not tuple:
        return expression
    if expression[0] == "source":
        use = by_source[id(expression[1])]
        value: Any = use.root if use.factor == 1 else ("mul", use.root, use.factor)
        return value if not use.offset else ("add", value, use.offset)
    return (expression[0], *(convert(part, by_source) for part in expression[1:]))


def roots_of(expression: Any) -> set:
    if isinstance(expression, Root):
        return {expression}
    return set().union(*map(roots_of, expression[1:])) if type(expression) is tuple else set()


def valued(expression: Any, values: dict) -> Any:
    if isinstance(expression, Root):
        return values[expression]
    if type(expression) is tuple:
        return (expression[0], *(valued(part, values) for part in expression[1:]))
    return expression


def holds(relation: tuple, values: dict) -> bool:
    kind, left, right, answer = relation
    try:
        return bool(evaluate((kind, valued(left, values), valued(right, values)), {})) is answer
    except ArithmeticError:
        return False


def tries(root: Root) -> list[int]:
    """Values of the declared range: all of a short one, else its ends, the example's neighbours, and a spread."""
    low, high = int(max(root.min, 2)), root.max
    if high - low <= 300:
        return list(range(int(low), int(high) + 1))
    top = int(min(high, max(4 * root.hint, 1 << 20)))
    near = range(max(low, root.hint - 60), root.hint + 60)
    return sorted({*range(low, low + 100), *near, *(low + (top - low) * at // 97 for at in range(98)), top, top - 1})


def judge(kind: str, left: Any, right: Any, answer: bool, roots: list, problems: list, fixes: dict) -> None:
    """Try one relation; note what is wrong with it."""
    relation = (kind, left, right, answer)
    hints = {root: root.hint for root in roots}
    if len(roots) == 2 and kind == "eq" and answer:
        one, two = roots
        if isinstance(left, Root) and isinstance(right, Root):
            return unequal(one, two, problems, fixes)
    for root in roots:
        good = [value for value in tries(root) if holds(relation, {**hints, root: value})]
        if len(good) == len(tries(root)):
            continue
        if len(roots) > 1:
            continue  # two free sizes related otherwise: checked at run time
        if good == [root.hint]:
            fixed(root, problems, fixes)
            continue
        if root.kind != "DIM":
            continue  # checked at run time
        narrower(root, good, tries(root), show(name_roots((kind if answer else OPPOSITE[kind], left, right)), Names()), problems, fixes)
    return None


def narrower(root: Root, good: list[int], tried: list[int], guard: str | None, problems: list, fixes: dict) -> None:
    """A declared size works in a part of its range only: a shorter range, or every so manieth value."""
    place = place_of(root)
    outside = "the specified range" + (f" {root.min} <= {root.name} <= {root.max}" if root.max != INFINITY else f" {root.min} <= {root.name}" if root.min else "")
    if good == [value for value in tried if good[0] <= value <= good[-1]]:
        low, high = good[0] if good[0] > tried[0] else root.min, good[-1] if good[-1] < tried[-1] else root.max
        guard = guard or " and ".join(([f"{low} <= {place}"] if good[0] > tried[0] else []) + ([f"{place} <= {high}"] if good[-1] < tried[-1] else []))
        limit = f", max={high}" if high != INFINITY else ""
        fixes[root] = f"{root.name} = Dim('{root.name}', min={low}{limit})"
    else:
        step = next((step for step in range(2, 65) if all(value % step == good[0] % step for value in good)
                     and all(value in good for value in tried if value % step == good[0] % step)), None)
        if step is not None:
            rest = good[0] % step
            guard = guard or f"({place} % {step}) == {rest}"
            limit = f", max={int(root.max) // step}" if root.max != INFINITY else ""
            fixes[root] = (f"_{root.name} = Dim('_{root.name}', min={max(-(-int(root.min) // step), 1)}{limit})\n"
                           f"  {root.name} = {step}*_{root.name}{f' + {rest}' if rest else ''}")
        else:
            guard = guard or f"{place} in {good}"
            fixes[root] = f"{root.name} = Dim.AUTO"
    problems.append((root.name, f"Not all values of {root.name} = {place} in {outside} satisfy the generated guard {guard}."))


class Names(dict):
    """Names of roots as they are."""

    def __missing__(self, name: str) -> str:
        return name


def name_roots(expression: Any) -> Any:
    if isinstance(expression, Root):
        return place_of(expression)
    return (expression[0], *map(name_roots, expression[1:])) if type(expression) is tuple else expression


def place_of(root: Root) -> str:
    return root.lead.place


def fixed(root: Root, problems: list, fixes: dict) -> None:
    """The code works for one value only."""
    if root.kind == "AUTO":
        root.static = True
        return
    lead = root.lead
    value = lead.size(root.hint)
    name = root.name if root.kind == "DIM" else place_of(root)
    problems.append((name, f"You marked {name} as dynamic but your code specialized it to be a constant ({value}). If you're using mark_dynamic, "
                           "either remove it or use maybe_mark_dynamic. If you're using Dim.DYNAMIC, replace it with either Dim.STATIC or Dim.AUTO."))
    if root.kind == "DIM":
        fixes[root] = f"{name} = {root.hint}"


def unequal(one: Root, two: Root, problems: list, fixes: dict) -> None:
    """Two free sizes must be equal."""
    if one.hint != two.hint:
        fixed(one, problems, fixes)
        return fixed(two, problems, fixes)
    if one.kind != "DIM" or two.kind != "DIM":
        join(one, two)
        return None
    problems.append((two.name, f"The values of {two.name} = {place_of(two)} and {one.name} = {place_of(one)} must always be equal."))
    fixes[two] = f"{two.name} = {one.name}"
    return None


def join(one: Root, two: Root) -> None:
    """Make two sizes one; the named one stays."""
    keep, gone = (two, one) if two.kind == "DIM" else (one, two)
    keep.min, keep.max = max(keep.min, gone.min), min(keep.max, gone.max)
    for use in gone.uses:
        use.root = keep
        keep.uses.append(use)
    gone.uses = []
    gone.joined = keep


def run_at_other_sizes(builder: Any, module: Any, problems: list, fixes: dict) -> None:
    """Run the graph with each free size changed: where no other value works, or some do not, that is a problem."""
    roots = [root for root in builder.sizes.roots if root.uses and not getattr(root, "static", False) and root not in fixes]
    failing = [root for root in roots if not works(builder, module, [root])]
    while failing:
        root = failing.pop()
        for others in companions(root, roots, failing):
            if works(builder, module, [root, *others]):
                lead, *rest = sorted((root, *others), key=roots.index)
                for other in rest:
                    unequal(getattr(lead, "joined", lead), other, problems, fixes)
                failing = [one for one in failing if one not in others]
                break
        else:
            if root.uses and not works(builder, module, [root]):
                fixed(root, problems, fixes)
    for root in roots:
        if root.kind == "DIM" and root.uses and root not in fixes and len(roots) == 1:
            part_of_range(builder, module, root, problems, fixes)


def companions(root: Root, roots: list, failing: list) -> Iterator[tuple]:
    """The sizes that may have to change together with one: another, then several that are equal to it and do not work alone either."""
    others = [other for other in roots if other is not root and root.uses and other.uses]
    yield from ((other,) for other in others)
    equal = [other for other in others if other in failing and other.hint == root.hint]
    for count in range(len(equal), 1, -1) if len(equal) <= MOST_TOGETHER else ():
        yield from itertools.combinations(equal, count)
    if len(equal) > MOST_TOGETHER:
        yield tuple(equal)


def part_of_range(builder: Any, module: Any, root: Root, problems: list, fixes: dict) -> None:
    """Find a size of the declared range for which the graph fails: first the next one and the least, then those around."""
    low, high = max(int(root.min), 2), root.max
    first = [value for value in (root.hint + 1, root.hint - 1, low) if low <= value <= high and value != root.hint]
    if all(run(builder, module, {root: value}) for value in first[:1] + first[-1:]):
        return
    near = sorted({*range(low, low + 10), *range(root.hint - 8, root.hint + 9)})
    tried = [value for value in near if low <= value <= high]
    good = [value for value in tried if value == root.hint or run(builder, module, {root: value})]
    if good != tried:
        narrower(root, good, tried, None, problems, fixes)


def works(builder: Any, module: Any, roots: list) -> bool:
    """Whether the graph runs when these sizes change by the same amount; True if none could be tried."""
    tried = False
    for move in (1, 3, 7, -1, -2):
        values = {root: root.hint + move for root in roots}
        if not all(max(root.min, 2) <= value <= root.max for root, value in values.items()):  # 1 broadcasts
            continue
        tried = True
        if run(builder, module, values):
            return True
    if not tried:
        for root in roots:
            values = {root: value for value in tries(root)[:1] if value != root.hint}
            if values and run(builder, module, values):
                return True
        return not any(root.max > root.min for root in roots)
    return False


def run(builder: Any, module: Any, values: dict) -> bool:
    """Run the graph on copies of the example inputs, resized; whether it ran."""
    inputs: list = []
    for tensor in (*builder.state.values(), *builder.constants.values()):
        inputs.append(tensor.detach().clone())
    for at, leaf in enumerate(builder.leaves):
        if not isinstance(leaf, Tensor):
            use = builder.sizes.uses.get((at, NUMBER))
            inputs.append(leaf if use is None or use.root not in values else use.size(values[use.root]))
            continue
        shape = list(leaf._array.shape)
        for dim in range(len(shape)):
            use = builder.sizes.uses.get((at, dim))
            if use is not None and use.root in values:
                shape[dim] = use.size(values[use.root])
        if np.prod(shape, dtype=float) > LARGEST:
            return True
        source = leaf._array if leaf._array.size else np.zeros(1, leaf._array.dtype)
        inputs.append(wrap(np.resize(source, shape), leaf._dtype))
    state = default_generator.remember()
    differentiates = any(node.op == "call_function" and node.target in DERIVATIVES for node in module.graph.nodes)
    try:
        with modes.set_grad_enabled(differentiates), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call(module.forward, inputs)
    except (AssertionError, LengthError):  # the values of the example do not fit another size: that says nothing about the size
        return True
    except Exception:
        return False
    finally:
        default_generator.go_back(state)
    return True


def trivial(relation: tuple, sizes: Any) -> bool:
    """Whether a relation holds for everything that passes the ranges, joined and fixed sizes: it needs no check."""
    kind, left, right, answer = relation
    roots = roots_of(left) | roots_of(right)
    if any(hasattr(root, "joined") or getattr(root, "static", False) for root in roots):
        return False
    if len(roots) != 1:
        return False
    (root,) = roots
    return root.max != INFINITY and root.max - root.min <= 300 and all(
        holds(relation, {root: value}) for value in range(int(root.min), int(root.max) + 1))
