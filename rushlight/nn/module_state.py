"""The state methods of Module: `state_dict` and `load_state_dict`, with their hooks and their strict errors."""

from __future__ import annotations

import itertools
import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Mapping
from typing import Any

from rushlight.core.modes import no_grad
from rushlight.nn.parameter import Parameter, is_lazy, is_parameter
from rushlight.tensor import Tensor

EXTRA_STATE = "_extra_state"


class IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What `load_state_dict` returns: the names it missed and the names it could not place."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


IncompatibleKeys.__name__ = "_IncompatibleKeys"


class StateMethods:
    """The part of Module that saves and loads state."""

    _version: int | None = 1
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]

    def get_extra_state(self) -> Any:
        """State to save beside the tensors: define it together with `set_extra_state`."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called. "
            "Please file an issue at https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml "
            "to report this bug."
        )

    def set_extra_state(self, state: Any) -> None:
        """Take back what `get_extra_state` gave."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called. "
            "Please file an issue at https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml "
            "to report this bug."
        )

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Put this module's own parameters and persistent buffers into `destination`."""
        for name, parameter in self._parameters.items():
            if parameter is not None:
                destination[prefix + name] = parameter if keep_vars or is_lazy(parameter) else parameter.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars or is_lazy(buffer) else buffer.detach()
        if type(self).get_extra_state is not StateMethods.get_extra_state:
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """The parameters and persistent buffers of this module and all below it, by dotted name, in an OrderedDict.

        The values share storage with the module and have no history; `keep_vars=True` gives the parameters themselves.

        Example:
            >>> import rushlight as torch
            >>> list(torch.nn.Sequential(torch.nn.Linear(2, 1)).state_dict())
            ['0.weight', '0.bias']
        """
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.state_dict for details.",
                FutureWarning,
                stacklevel=2,
            )
            given = dict(zip(("destination", "prefix", "keep_vars"), args))
            destination = given.get("destination", destination) if destination is None else destination
            prefix = given.get("prefix", prefix) if prefix == "" else prefix
            keep_vars = given.get("keep_vars", keep_vars) if keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self.__dict__.get("_state_dict_pre_hooks", {}).values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars)
        for hook in self.__dict__.get("_state_dict_hooks", {}).values():
            replaced = hook(self, destination, prefix, metadata)
            if getattr(hook, "_from_public_api", False):
                if replaced is not None:
                    raise RuntimeError("state_dict post-hook must return None")
            elif replaced is not None:
                destination = replaced
        return destination

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Copy this module's own entries out of `state_dict`, noting in the three lists what did not fit."""
        for hook in self.__dict__.get("_load_state_dict_pre_hooks", {}).values():
            before = (state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
            hook(self, *before) if hook.with_module else hook.hook(*before)
        buffers = {k: v for k, v in self._buffers.items() if k not in self._non_persistent_buffers_set}
        members = {k: v for k, v in itertools.chain(self._parameters.items(), buffers.items()) if v is not None}
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, member in members.items():
            key = prefix + name
            if key in state_dict:
                self._load_member(name, key, member, state_dict[key], assign, error_msgs)
            elif strict:
                missing_keys.append(key)
        extra = prefix + EXTRA_STATE
        if type(self).set_extra_state is not StateMethods.set_extra_state:
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra:
                    name, dot, _ = key[len(prefix) :].partition(".")
                    if name not in self._modules if dot else name not in members:
                        unexpected_keys.append(key)

    def _load_member(
        self, name: str, key: str, member: Any, value: Any, assign: bool, error_msgs: list[str]
    ) -> None:
        if not isinstance(value, Tensor):
            error_msgs.append(
                f'While copying the parameter named "{key}", '
                "expected torch.Tensor or Tensor-like object from checkpoint but "
                f"received {type(value)}"
            )
            return
        lazy = is_lazy(member)
        if not lazy and len(member.shape) == 0 and len(value.shape) == 1:
            value = value[0]  # before version 0.4 a scalar was saved with one dimension
        if not lazy and value.shape != member.shape:
            error_msgs.append(
                f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
                f"the shape in current model is {member.shape}."
            )
            return
        if member.device.type == "meta" and value.device.type != "meta" and not assign:
            warnings.warn(
                f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the "
                "current model, which is a no-op. (Did you mean to pass `assign=True` to assign items in the state "
                "dictionary to their corresponding key in the module instead of copying them in place?)",
                stacklevel=4,
            )
            return
        try:
            with no_grad():
                if not assign:
                    member.copy_(value)
                    return
                if is_parameter(member):
                    if is_parameter(value):
                        value.requires_grad_(member.requires_grad)
                    else:
                        value = Parameter(value, requires_grad=member.requires_grad)
                setattr(self, name, value)
        except Exception as error:
            action = "swapping" if assign else "copying"
            error_msgs.append(
                f'While {action} the parameter named "{key}", '
                f"whose dimensions in the model are {member.size()} and "
                f"whose dimensions in the checkpoint are {value.size()}, "
                f"an exception occurred : {error.args}."
            )

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Copy parameters and buffers from `state_dict` into this module and all below it.

        Args:
            state_dict: values by dotted name; cast to the module's dtypes.
            strict: RuntimeError, listing them, if names are missing or unexpected; else they are only returned.
            assign: keep the given tensors instead of copying them.

        Raises:
            RuntimeError: shapes that differ, always; what did fit has been loaded.
            TypeError: `state_dict` is no mapping.

        Example:
            >>> import rushlight as torch
            >>> layer = torch.nn.Linear(2, 1)
            >>> layer.load_state_dict(torch.nn.Linear(2, 1).state_dict())
            <All keys matched successfully>
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)
        if metadata is not None:
            state_dict._metadata = metadata  # type: ignore[attr-defined]
        _load_tree(self, state_dict, "", metadata, assign, strict, missing, unexpected, errors)
        if strict:
            if unexpected:
                names = ", ".join(f'"{k}"' for k in unexpected)
                errors.insert(0, f"Unexpected key(s) in state_dict: {names}. ")
            if missing:
                names = ", ".join(f'"{k}"' for k in missing)
                errors.insert(0, f"Missing key(s) in state_dict: {names}. ")
        if errors:
            listed = "\n\t".join(errors)
            error = RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{listed}")
            for hint in _renamings(missing, unexpected):
                error.add_note(hint)  # a note, so that the message stays PyTorch's
            raise error
        return IncompatibleKeys(missing, unexpected)


def _renamings(missing: list[str], unexpected: list[str]) -> list[str]:
    """What probably happened to names that are missing: a common prefix, or names spelt alike."""
    for name in missing[:1]:
        for found in unexpected:
            prefix = found.removesuffix(name)
            if found != prefix and prefix.endswith(".") and all(prefix + other in unexpected for other in missing):
                return [f'every missing name is there with "{prefix}" in front: strip it from the keys']
            prefix = name.removesuffix(found)
            if name != prefix and prefix.endswith(".") and all(other.removeprefix(prefix) in unexpected for other in missing):
                return [f'every missing name is there without its "{prefix}": add it to the keys']
    import difflib  # slow to load, for an error's text
    pairs = [(name, difflib.get_close_matches(name, unexpected, 1, 0.75)) for name in missing[:20]]
    return [f'"{name}" is missing: was it saved as "{near[0]}"?' for name, near in pairs if near]


def _load_tree(
    module: Any,
    state_dict: Any,
    prefix: str,
    metadata: Any,
    assign: bool,
    strict: bool,
    missing: list[str],
    unexpected: list[str],
    errors: list[str],
) -> None:
    local = {} if metadata is None else metadata.get(prefix[:-1], {})
    if assign:
        local["assign_to_params_buffers"] = assign
    # Always as if strict: the lists are returned also when they are no error.
    module._load_from_state_dict(state_dict, prefix, local, True, missing, unexpected, errors)
    for name, child in module._modules.items():
        if child is not None:
            below = prefix + name + "."
            inside = {k: v for k, v in state_dict.items() if k.startswith(below)}
            _load_tree(child, inside, below, metadata, assign, strict, missing, unexpected, errors)
    incompatible = IncompatibleKeys(missing, unexpected)
    for hook in module.__dict__.get("_load_state_dict_post_hooks", {}).values():
        if hook(module, incompatible) is not None:
            raise AssertionError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new values, "
                "if incompatible_keys need to be modified, it should be done inplace."
            )
