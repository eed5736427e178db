"""`GraphModule`: a graph with the objects that it refers to, callable.

`.graph` is the program, `.code` the same as Python text that runs, and calling runs that text.  It cannot be an
`nn.Module` (a row of its own), so it offers the same reading methods over whatever modules and tensors it holds.
"""

import copy
import itertools
import linecache
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from .graph import Graph

_serial = itertools.count()


class Holder:
    """A named place for attributes with a module's reading methods; the inner nodes of dotted targets."""

    training = True

    def named_children(self) -> Iterator[tuple[str, Any]]:
        for name, value in vars(self).items():
            if hasattr(value, "named_modules"):
                yield name, value

    def children(self) -> Iterator[Any]:
        return (child for _, child in self.named_children())

    def named_modules(self, memo: set | None = None, prefix: str = "", remove_duplicate: bool = True) -> Iterator:
        memo = set() if memo is None else memo
        if self in memo:
            return
        memo.add(self)
        yield prefix, self
        for name, child in self.named_children():
            yield from child.named_modules(memo, f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator[Any]:
        return (module for _, module in self.named_modules())

    def named_tensors(self, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """Every attribute of this and the held modules that has a shape, by its dotted name."""
        for name, value in vars(self).items():
            dotted = f"{prefix}.{name}" if prefix else name
            if isinstance(value, Holder):
                yield from value.named_tensors(dotted)
            elif hasattr(value, "named_parameters"):
                yield from ((f"{dotted}.{key}", item) for key, item in value.named_parameters())
                yield from ((f"{dotted}.{key}", item) for key, item in value.named_buffers())
            elif hasattr(value, "requires_grad"):
                yield dotted, value

    def named_parameters(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator:
        seen: set[int] = set()
        for name, value in self.named_tensors(prefix):
            if value.requires_grad and id(value) not in seen:
                seen.add(id(value))
                yield name, value

    def parameters(self, recurse: bool = True) -> Iterator[Any]:
        return (value for _, value in self.named_parameters())

    def named_buffers(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator:
        return ((name, value) for name, value in self.named_tensors(prefix) if not value.requires_grad)

    def buffers(self, recurse: bool = True) -> Iterator[Any]:
        return (value for _, value in self.named_buffers())

    def state_dict(self) -> dict[str, Any]:
        return {name: value.detach() for name, value in self.named_tensors()}

    def get_submodule(self, target: str) -> Any:
        module: Any = self
        for part in target.split(".") if target else ():
            if not hasattr(module, part):
                raise AttributeError(f"{type(module).__name__} has no attribute `{part}`")
            module = getattr(module, part)
        return module

    def train(self, mode: bool = True) -> "Holder":
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self) -> "Holder":
        return self.train(False)


class GraphModule(Holder):
    """A callable graph.

    `root` is a module or a dict from dotted names to objects; what the graph's `get_attr` and `call_module` nodes
    name is taken from it.

    >>> import operator
    >>> from rushlight.graph import Graph, GraphModule
    >>> graph = Graph()
    >>> x = graph.placeholder("x")
    >>> _ = graph.output(graph.call_function(operator.add, (x, graph.get_attr("one"))))
    >>> gm = GraphModule({"one": 1}, graph)
    >>> gm(2)
    3
    >>> print(gm.code.strip())
    def forward(self, x):
        one = self.one
        add = x + one;  x = one = None
        return add
    """

    _forward: Callable | None

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule"):
        self.__class__ = type(class_name, (type(self),), {}) if class_name != type(self).__name__ else type(self)
        self.training = getattr(root, "training", True)
        self.meta: dict[str, Any] = {}
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                self._take(root, node.target, node)
        self.graph = graph

    def _take(self, root: Any, target: str, node: Any = "") -> None:
        if isinstance(root, dict):
            if target not in root:
                raise RuntimeError(f"Node {node} referenced target {target} but that target was not provided in ``root``!")
            value = root[target]
        else:
            value = root
            for part in target.split("."):
                value = getattr(value, part)
        self.add_submodule(target, value)

    def add_submodule(self, target: str, value: Any) -> bool:
        """Hold `value` (a module, tensor or any object) under a dotted name."""
        owner, parts = self, target.split(".")
        for part in parts[:-1]:
            if not hasattr(owner, part):
                setattr(owner, part, Holder())
            owner = getattr(owner, part)
        if not hasattr(owner, parts[-1]) or isinstance(owner, Holder):
            setattr(owner, parts[-1], value)
        return True

    @property
    def graph(self) -> Graph:
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        self._graph = graph
        graph.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        return self._code

    def recompile(self) -> Any:
        """Make `forward` again from the graph; call it after changing the graph."""
        code = self._graph.python_code("self")
        self._code, self._names, self._forward = code.src, code.globals, None
        return code

    def _defined(self) -> Callable:
        """The function of the code, made when it is first called: what runs natively never asks for it."""
        # The text is registered so that tracebacks and pdb show it.
        filename = f"<rushlight graph {next(_serial)}>"
        linecache.cache[filename] = (len(self._code), None, self._code.splitlines(True), filename)
        scope = dict(self._names)
        exec(compile(self._code, filename, "exec"), scope)
        made = scope["forward"]
        weakref.finalize(made, linecache.cache.pop, filename, None).atexit = False
        return made

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self._forward is None:
            self._forward = self._defined()
        return self._forward(self, *args, **kwargs)

    __call__ = forward

    def print_readable(self, print_output: bool = True, include_stride: bool = False, include_device: bool = False,
                       colored: bool = False) -> str:
        """The module as a class with shapes and source lines in comments."""
        source = self._graph.python_code("self", verbose=True).src
        text = f"class {type(self).__name__}(torch.nn.Module):\n" + "".join(
            f"    {line}\n" if line else "\n" for line in source.splitlines())
        if print_output:
            print(text)
        return text

    def delete_all_unused_submodules(self) -> None:
        """Drop held modules that no node calls."""
        used = {node.target.split(".")[0] for node in self._graph.nodes if node.op in ("get_attr", "call_module")}
        for name, _ in list(self.named_children()):
            if name not in used:
                delattr(self, name)

    def __deepcopy__(self, memo: dict) -> "GraphModule":
        held = {name: copy.deepcopy(value, memo) for name, value in vars(self).items() if name not in RESERVED}
        other = object.__new__(type(self))
        vars(other).update(held)
        other.training, other.meta = self.training, dict(self.meta)
        other.graph = self._graph.copy()
        return other

    def __repr__(self) -> str:
        lines = [f"  ({name}): " + repr(child).replace("\n", "\n  ") for name, child in self.named_children()]
        inner = "\n" + "\n".join(lines) + "\n" if lines else ""
        return f"{type(self).__name__}({inner})\n\n\n\n{self._code}\n# To see more debug info, please use `graph_module.print_readable()`"


RESERVED = ("training", "meta", "_graph", "_code", "_names", "_forward")
