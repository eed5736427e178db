"""`torch.library`: ops of the user's own, written in Python, that graphs take as one node.

A custom op is a function with, at will, a fake form that gives its results' shapes while a graph is captured, and a backward.
`Definition` is the one record of an op; `custom_op`, `Library` and the `register_` functions write it.  Read `Definition` first.
"""
import ast
import functools
import inspect
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any

from . import ops
from .autograd.function import Function
from .core.modes import grad_enabled
from .core.pytree import tree_flatten, tree_unflatten
from .tensor import Tensor

DEFINITIONS: dict[str, "Definition"] = {}  # by qualified name, "namespace::name"


class Definition:
    """One op: its signature, kernel, fake form and backward. `op` is the function that `torch.ops` has."""

    def __init__(self, name: str, signature: inspect.Signature, schema: str, mutates: Sequence[str] = ()):
        self.name, self.signature, self.schema, self.mutates = name, signature, schema, tuple(mutates)
        self.kernel: Callable | None = None
        self.fake: Callable | None = None
        self.backward: Callable | None = None
        self.setup_context: Callable | None = None

        def op(*args: Any, **kwargs: Any) -> Any:
            return self.run(self.kernel or self.unimplemented, args, kwargs)

        def fake(*args: Any, **kwargs: Any) -> Any:
            if self.fake is None:
                raise NotImplementedError(f"{name}: no fake form is registered, which a graph needs to know the shapes of its results; "
                                          "use register_fake")
            if self.mutates:
                raise NotImplementedError(f"{name} writes to its arguments, which a graph cannot hold")
            return self.run(self.fake, args, kwargs)

        op.__name__ = op.__qualname__ = name.partition("::")[2]
        op._rushlight_allowed, op._rushlight_fake, op.default = True, fake, op  # type: ignore[attr-defined]
        op._schema, op._rushlight_definition = f"{name}{schema}", self  # type: ignore[attr-defined]
        self.op = op

    def unimplemented(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"Could not run '{self.name}' with arguments from the 'CPU' backend. It is defined, but has no "
                                  "implementation: give it one with torch.library.impl or register_kernel.")

    def run(self, form: Callable, args: tuple, kwargs: dict) -> Any:
        """Call a form of the op; recorded as one node where a gradient may be asked for."""
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        args, kwargs = bound.args, bound.kwargs
        leaves, spec = tree_flatten(args)
        call = Call(self, form, spec, kwargs)
        if grad_enabled() and any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in leaves):
            return Custom.apply(*leaves, call)
        return call.compute(leaves)


class Call:
    """One call of a form of an op, but for the tensors."""

    def __init__(self, definition: Definition, form: Callable, spec: Any, kwargs: dict):
        self.definition, self.form, self.spec, self.kwargs = definition, form, spec, kwargs

    def compute(self, leaves: Sequence[Any]) -> Any:
        """The results, none of which may be an input or a part of one."""
        result = self.form(*tree_unflatten(list(leaves), self.spec), **self.kwargs)
        for at, item in enumerate(result if isinstance(result, (tuple, list)) else (result,)):
            if isinstance(item, Tensor) and any(isinstance(leaf, Tensor) and (item is leaf or item._is_view() and item._base is leaf)
                                                for leaf in leaves):
                raise RuntimeError(f"{self.definition.name}: The output of this custom operator (1) must not also be an input to this custom "
                                   "operator and (2) may not alias any inputs to this custom operator or other returns. The most common way "
                                   f"to trigger this error is if we have y = custom_op(x) and y and x are the same Tensor. Output {at} does: "
                                   "return y.clone() instead")
        return result


class Custom(Function):
    """The node of a call of a custom op."""

    @staticmethod
    def forward(ctx: Any, *values: Any) -> Any:
        *leaves, call = values
        definition, args, result = call.definition, tree_unflatten(leaves, call.spec), call.compute(leaves)
        ctx.call, ctx.needs_input_grad = call, tuple(tree_unflatten(ctx.needs_input_grad[:len(leaves)], call.spec))
        if isinstance(result, (tuple, list)):
            ctx.mark_non_differentiable(*(item for item in result if isinstance(item, Tensor) and not item.is_floating_point()))
        if definition.setup_context is not None:
            keywords = {"keyword_only_inputs": call.kwargs} if call.kwargs else {}
            definition.setup_context(ctx, args, **keywords, output=result)
        return tuple(result) if isinstance(result, list) else result

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        definition, spec = ctx.call.definition, ctx.call.spec
        if definition.backward is None:
            raise RuntimeError(f"Trying to backward through {definition.name.replace('::', '.')}.default but no autograd formula was registered. "
                               "Please use register_autograd to add one.")
        found = definition.backward(ctx, *gradients)
        found = found if isinstance(found, tuple) else (found,)
        if len(found) != len(spec.children):
            raise RuntimeError(f"{definition.name}: expected backward to return {len(spec.children)} gradients, one for each input, got {len(found)}")
        flat: list[Any] = []
        for gradient, child in zip(found, spec.children):
            flat += [gradient] if child.kind is None else gradient if gradient is not None else [None] * child.num_leaves
        return *flat, None


class Namespace(types.SimpleNamespace):
    """`torch.ops.name`: the custom ops of one namespace."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"'_OpNamespace' object has no attribute '{name}'")


def define_op(name: str, signature: inspect.Signature, schema: str, mutates: Sequence[str] = ()) -> Definition:
    namespace, separator, short = name.partition("::")
    if not separator or not namespace.isidentifier() or not short.split(".")[0].isidentifier():
        raise ValueError(f"expected the qualified name of an op, 'namespace::name', got {name!r}")
    place = vars(ops).setdefault(namespace, Namespace())
    if not isinstance(place, Namespace):
        raise ValueError(f"the namespace {namespace!r} is Rushlight's own; choose another one")
    definition = DEFINITIONS[name] = Definition(name, signature, schema, mutates)
    setattr(place, short, definition.op)
    return definition


def definition_of(op: Any) -> Definition:
    """The record of an op given as its qualified name, as what `custom_op` made, or as the function in `torch.ops`."""
    found = DEFINITIONS.get(op.removesuffix(".default")) if isinstance(op, str) else getattr(op, "_rushlight_definition", None)
    if found is None:
        raise RuntimeError(f"{op}: no custom op of this name; define it first with torch.library.custom_op or torch.library.define")
    return found


KINDS = {Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str", complex: "Scalar"}


def kind_of(annotation: Any, where: str) -> str:
    """A Python annotation as a type of PyTorch's schemas."""
    if annotation in KINDS:
        return KINDS[annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        inner = [kind for kind in arguments if kind is not type(None)]
        if len(inner) == 1 and len(inner) < len(arguments):
            return kind_of(inner[0], where) + "?"
        if set(inner) == {int, float, bool}:
            return "Scalar"
    if isinstance(origin, type) and issubclass(origin, Sequence) and arguments and (origin is not tuple or arguments[1:] == (...,)):
        return kind_of(arguments[0], where) + "[]"
    if annotation is inspect.Parameter.empty:
        raise ValueError(f"infer_schema(func): {where} must have a type annotation.")
    if getattr(annotation, "__name__", "") in ("dtype", "device", "layout", "memory_format"):
        return {"dtype": "ScalarType", "device": "Device", "layout": "Layout", "memory_format": "MemoryFormat"}[annotation.__name__]
    raise ValueError(f"infer_schema(func): {where} has unsupported type {annotation}")


def infer_schema(prototype_function: Callable, /, *, mutates_args: Any = (), op_name: str | None = None) -> str:
    """The schema of a function, from its annotations.

    mutates_args: the names of the tensors that it writes to. ValueError for an annotation that no schema has.

    >>> import rushlight as torch
    >>> def scaled(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor: ...
    >>> torch.library.infer_schema(scaled, mutates_args=())
    '(Tensor x, float factor=2.0) -> Tensor'
    """
    signature = inspect.signature(prototype_function, eval_str=True)
    parts, star = [], False
    for at, parameter in enumerate(signature.parameters.values()):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ValueError("infer_schema(func): *args and **kwargs are not supported")
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        kind = kind_of(parameter.annotation, f"Parameter {parameter.name}")
        if parameter.name in mutates_args:
            kind = kind.replace("Tensor", f"Tensor(a{at}!)")
        default = "" if parameter.default is parameter.empty else "=" + repr(parameter.default).replace("'", '"')
        parts.append(f"{kind} {parameter.name}{default}")
    unknown = [] if mutates_args == "unknown" else [name for name in mutates_args if name not in signature.parameters]
    if unknown:
        raise ValueError(f"{unknown} in mutates_args were not found in the custom op's signature")
    result = signature.return_annotation
    if result is None or result is type(None):
        shown = "()"
    elif typing.get_origin(result) is tuple and ... not in typing.get_args(result):
        shown = "(" + ", ".join(kind_of(one, "Return") for one in typing.get_args(result)) + ")"
    else:
        shown = kind_of(result, "Return")
    return f"{op_name or ''}({', '.join(parts)}) -> {shown}"


def parsed(schema: str) -> inspect.Signature:
    """The signature of a schema's text, `(Tensor x, float scale=1.0, *, bool flip=False) -> Tensor`."""
    inside, arrow, _ = schema.rpartition("->")
    inside = inside.strip()
    if not arrow or not inside.startswith("(") or not inside.endswith(")"):
        raise RuntimeError(f"expected a schema such as '(Tensor x, float scale=1.0) -> Tensor', got {schema!r}")
    parts, depth = [""], 0
    for character in inside[1:-1]:
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    parameters = []
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    for part in filter(None, map(str.strip, parts)):
        if part == "*":
            kind = inspect.Parameter.KEYWORD_ONLY
            continue
        text, equals, default = part.partition("=")
        value = inspect.Parameter.empty if not equals else ast.literal_eval(default.strip())
        parameters.append(inspect.Parameter(text.split()[-1], kind, default=value))
    return inspect.Signature(parameters)


class CustomOpDef:
    """What `custom_op` makes of a function: call it, and register its other forms."""

    def __init__(self, definition: Definition, function: Callable):
        self._definition, self._rushlight_definition, self._opoverload = definition, definition, definition.op
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._opoverload(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._definition.name})>"

    def register_fake(self, fn: Callable) -> Callable:
        """Decorate the function that makes tensors like the results, without computing: what graphs are captured with."""
        return register_fake(self, fn)

    def register_kernel(self, device_types: Any, fn: Callable | None = None) -> Callable:
        """Decorate another implementation for a device type; only 'cpu' is ever called."""
        return register_kernel(self, device_types, fn)

    def register_autograd(self, backward: Callable, /, *, setup_context: Callable | None = None) -> None:
        """Give the op a backward: see `torch.library.register_autograd`."""
        register_autograd(self, backward, setup_context=setup_context)

    def register_vmap(self, func: Callable | None = None) -> Callable:
        """Accepted: `vmap` runs a custom op once for each sample, which needs no rule."""
        return func if func is not None else lambda function: function


def custom_op(name: str, fn: Callable | None = None, /, *, mutates_args: Any, device_types: Any = None, schema: str | None = None,
              tags: Any = None) -> Any:
    """A decorator that makes a Python function an op: graphs take it as one node, whatever it does.

    name: 'namespace::name'. mutates_args: the names of the tensors that it writes to, usually (). schema: instead of the annotations.

    >>> import rushlight as torch
    >>> @torch.library.custom_op("docs::cube", mutates_args=())
    ... def cube(x: torch.Tensor) -> torch.Tensor:
    ...     return torch.from_numpy(x.numpy() ** 3)
    >>> @cube.register_fake
    ... def _(x):
    ...     return torch.empty_like(x)
    >>> cube.register_autograd(lambda ctx, g: g * 3 * ctx.x ** 2, setup_context=lambda ctx, inputs, output: setattr(ctx, "x", inputs[0]))
    >>> x = torch.tensor([2.0], requires_grad=True)
    >>> torch.compile(lambda x: cube(x) + 1, fullgraph=True)(x).backward()
    >>> x.grad, torch.ops.docs.cube(x.detach())
    (tensor([12.]), tensor([8.]))
    """
    def decorate(function: Callable) -> CustomOpDef:
        text = schema or infer_schema(function, mutates_args=mutates_args)
        writes = [name for name in inspect.signature(function).parameters] if mutates_args == "unknown" else list(mutates_args)
        definition = define_op(name, inspect.signature(function), text, writes)
        if device_types is None or "cpu" in ([device_types] if isinstance(device_types, str) else device_types):
            definition.kernel = function
        return CustomOpDef(definition, function)
    return decorate if fn is None else decorate(fn)


def register_fake(op: Any, func: Callable | None = None, /, *, lib: Any = None, allow_override: bool = False) -> Callable:
    """Decorate the function that gives an op's results in shape and dtype only."""
    def decorate(function: Callable) -> Callable:
        definition_of(op).fake = function
        return function
    return decorate if func is None else decorate(func)


def register_kernel(op: Any, device_types: Any, func: Callable | None = None, /, *, lib: Any = None) -> Callable:
    """Decorate the function that computes an op on the device types; those besides 'cpu' are never called."""
    definition = definition_of(op)

    def decorate(function: Callable) -> Callable:
        if device_types is None or "cpu" in ([device_types] if isinstance(device_types, str) else device_types):
            definition.kernel = function
        return function
    return decorate if func is None else decorate(func)


def register_autograd(op: Any, backward: Callable, /, *, setup_context: Callable | None = None, lib: Any = None) -> None:
    """Give an op a backward: `backward(ctx, *gradients)` returns one gradient, or None, for each positional input.

    setup_context: `(ctx, inputs, output)`, called after forward to save what backward needs.
    """
    definition = definition_of(op)
    definition.backward, definition.setup_context = backward, setup_context


def register_vmap(op: Any, func: Callable | None = None, /, *, lib: Any = None) -> Callable:
    """Accepted: `vmap` runs a custom op once for each sample, which needs no rule."""
    definition_of(op)
    return func if func is not None else lambda function: function


def define(qualname: str, schema: str, *, lib: Any = None, tags: Any = ()) -> None:
    """Declare an op by its schema; `impl` and the `register_` functions add the rest.

    >>> import rushlight as torch
    >>> torch.library.define("docs::twice", "(Tensor x) -> Tensor")
    >>> @torch.library.impl("docs::twice", "cpu")
    ... def twice(x):
    ...     return x * 2
    >>> torch.ops.docs.twice(torch.ones(2))
    tensor([2., 2.])
    """
    define_op(qualname, parsed(schema), schema)


CPU_KEYS = ("cpu", "default", "CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd")


def impl(qualname: Any, types: Any, func: Callable | None = None, *, lib: Any = None) -> Callable:
    """Decorate the implementation of a defined op for device types or dispatch keys; those besides the CPU's are never called."""
    definition = definition_of(qualname)

    def decorate(function: Callable) -> Callable:
        if any(key in CPU_KEYS for key in ([types] if isinstance(types, str) else types)):
            definition.kernel = function
        elif "Meta" in types:
            definition.fake = function
        return function
    return decorate if func is None else decorate(func)


class Library:
    """The ops of one namespace: `define` them by schema and `impl`ement them. kind: 'DEF', 'FRAGMENT' or 'IMPL'."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = ""):
        if kind not in ("DEF", "FRAGMENT", "IMPL"):
            raise ValueError(f"Unsupported kind: {kind}; expected 'DEF', 'FRAGMENT' or 'IMPL'")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Declare an op, as `name(Tensor x) -> Tensor`; returns its name."""
        name, parenthesis, rest = schema.partition("(")
        define(f"{self.ns}::{name.strip()}", parenthesis + rest)
        return name.strip()

    def impl(self, op_name: Any, fn: Callable, dispatch_key: str = "", *, with_keyset: bool = False, allow_override: bool = False) -> None:
        """Implement an op of this namespace for a dispatch key; 'Meta' is its fake form."""
        impl(f"{self.ns}::{op_name}" if isinstance(op_name, str) and "::" not in op_name else op_name,
             dispatch_key or self.dispatch_key or "default", fn)


__all__ = ["CustomOpDef", "Library", "custom_op", "define", "impl", "infer_schema", "register_autograd", "register_fake", "register_kernel",
           "register_vmap"]
