"""The tree methods of Module: walking parameters, buffers and submodules, and finding one by its dotted name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rushlight.nn.parameter import is_parameter


class TreeMethods:
    """The part of Module that walks the tree."""

    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]

    def _named_members(
        self, get_members_fn: Callable, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """Yield (dotted name, member) for what `get_members_fn` finds in each module; None and repeats are left out."""
        seen = set()
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        else:
            modules = iter([(prefix, self)])
        for path, module in modules:
            for name, member in get_members_fn(module):
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield path + ("." if path else "") + name, member

    def parameters(self, recurse: bool = True) -> Iterator[Any]:
        """Yield the parameters, each once, in registration order; `recurse=False` leaves out those of submodules.

        Example:
            >>> import rushlight as torch
            >>> [tuple(p.shape) for p in torch.nn.Linear(3, 2).parameters()]
            [(2, 3), (2,)]
        """
        kind = type(self)
        if kind.named_parameters is not TreeMethods.named_parameters or kind.named_modules is not TreeMethods.named_modules:
            yield from (parameter for _, parameter in self.named_parameters(recurse=recurse))
            return
        # The same walk without the names, which nobody reads here: optimizers and zero_grad come this way.
        seen: set[int] = set()
        walked: set[int] = set()
        waiting: list[Any] = [self]
        while waiting:
            module = waiting.pop()
            if id(module) in walked:
                continue
            walked.add(id(module))
            for parameter in module._parameters.values():
                if parameter is not None and id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield parameter
            if recurse:
                waiting.extend(child for child in reversed(module._modules.values()) if child is not None)

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """Yield (dotted name, parameter)."""
        yield from self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Any]:
        """Yield the buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """Yield (dotted name, buffer)."""
        yield from self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def children(self) -> Iterator[Any]:
        """Yield the direct submodules, each once."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """Yield (name, direct submodule), each once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Any]:
        """Yield this module and all below it, each once."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """Yield (dotted name, module) for this module and all below it, parents first.

        Example:
            >>> import rushlight as torch
            >>> [name for name, _ in torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh()).named_modules()]
            ['', '0', '1']
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                path = prefix + ("." if prefix else "") + name
                yield from module.named_modules(memo, path, remove_duplicate)

    def get_submodule(self, target: str) -> Any:
        """The submodule with the dotted name `target`; AttributeError if there is none."""
        found: Any = self
        if target == "":
            return found
        for name in target.split("."):
            if not hasattr(found, name):
                raise AttributeError(found._get_name() + f" has no attribute `{name}`")
            found = getattr(found, name)
            if not isinstance(found, TreeMethods):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return found

    def set_submodule(self, target: str, module: Any, strict: bool = False) -> None:
        """Put `module` in the place with the dotted name `target`; with `strict` the place must exist already."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        path, _, name = target.rpartition(".")
        if not isinstance(module, TreeMethods):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        if not path:
            parent: Any = self
        else:
            parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(parent._get_name() + f" has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), TreeMethods):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Any:
        """The parameter with the dotted name `target`; AttributeError if there is none."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(module._get_name() + f" has no attribute `{name}`")
        parameter = getattr(module, name)
        if not is_parameter(parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return parameter

    def get_buffer(self, target: str) -> Any:
        """The buffer with the dotted name `target`; AttributeError if there is none."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(module._get_name() + f" has no attribute `{name}`")
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return getattr(module, name)
