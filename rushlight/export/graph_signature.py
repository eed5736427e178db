"""What an exported graph takes and gives: one spec per placeholder and per output, under PyTorch's names."""

import enum
from typing import Any, NamedTuple

InputKind = enum.Enum("InputKind", "USER_INPUT PARAMETER BUFFER CONSTANT_TENSOR CUSTOM_OBJ TOKEN")
OutputKind = enum.Enum("OutputKind", "USER_OUTPUT LOSS_OUTPUT BUFFER_MUTATION PARAMETER_MUTATION GRADIENT_TO_PARAMETER "
                                     "GRADIENT_TO_USER_INPUT USER_INPUT_MUTATION TOKEN")


class TensorArgument(NamedTuple):
    """A tensor: the name of its node."""

    name: str


class ConstantArgument(NamedTuple):
    """A plain value that was fixed at export."""

    name: str
    value: Any


class SymIntArgument(NamedTuple):
    """A size: the name of its node."""

    name: str


class InputSpec(NamedTuple):
    """One placeholder. `target` is the qualified name of a parameter, buffer or constant."""

    kind: Any
    arg: Any
    target: str | None
    persistent: bool | None = None

    def __str__(self) -> str:
        target = "" if self.target is None else f" target={self.target!r}"
        return f"{self.arg.name}: {self.kind.name}{target}{'' if self.persistent is None else f' persistent={self.persistent}'}"


class OutputSpec(NamedTuple):
    """One output of the graph. `target` names what a mutation writes to."""

    kind: Any
    arg: Any
    target: str | None = None

    def __str__(self) -> str:
        return f"{self.arg.name}: {self.kind.name}{'' if self.target is None else f' target={self.target!r}'}"


class ExportGraphSignature:
    """The specs of all placeholders and outputs, in order."""

    def __init__(self, input_specs: list[InputSpec], output_specs: list[OutputSpec], mutated: tuple[str, ...] = ()):
        self.input_specs, self.output_specs = input_specs, output_specs
        self.mutated = mutated  # the placeholders that the graph writes into

    def _targets(self, kind: Any) -> dict[str, str]:
        return {spec.arg.name: spec.target for spec in self.input_specs if spec.kind is kind}

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(self.inputs_to_parameters.values())

    @property
    def buffers(self) -> tuple[str, ...]:
        return tuple(self.inputs_to_buffers.values())

    @property
    def non_persistent_buffers(self) -> set[str]:
        return {spec.target for spec in self.input_specs if spec.kind is InputKind.BUFFER and not spec.persistent}

    @property
    def inputs_to_parameters(self) -> dict[str, str]:
        return self._targets(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> dict[str, str]:
        return self._targets(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> dict[str, str]:
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        return tuple(self.inputs_to_lifted_tensor_constants.values())

    @property
    def user_inputs(self) -> tuple:
        return tuple(plain(spec.arg) for spec in self.input_specs if spec.kind is InputKind.USER_INPUT)

    @property
    def user_outputs(self) -> tuple:
        return tuple(plain(spec.arg) for spec in self.output_specs if spec.kind is OutputKind.USER_OUTPUT)

    @property
    def buffers_to_mutate(self) -> dict[str, str]:
        """Name of the value -> buffer. Here the graph writes into the buffer itself, so both are the buffer's."""
        names = self.inputs_to_buffers
        return {name: names[name] for name in self.mutated if name in names} | {
            spec.arg.name: spec.target for spec in self.output_specs if spec.kind is OutputKind.BUFFER_MUTATION}

    @property
    def user_inputs_to_mutate(self) -> dict[str, str]:
        names = self.user_inputs
        return {name: name for name in self.mutated if name in names} | {
            spec.arg.name: spec.target for spec in self.output_specs if spec.kind is OutputKind.USER_INPUT_MUTATION}

    @property
    def backward_signature(self) -> None:
        return None

    @property
    def assertion_dep_token(self) -> None:
        return None

    def __str__(self) -> str:
        return "\n".join(["", "# inputs", *map(str, self.input_specs), "", "# outputs", *map(str, self.output_specs), ""])

    __repr__ = __str__


def plain(argument: Any) -> Any:
    return argument.value if isinstance(argument, ConstantArgument) else argument.name
