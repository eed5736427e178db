"""`ExportedModule`: an exported program as an `nn.Module`, to run, fine-tune, compile and save."""

from collections.abc import Sequence
from typing import Any

from ..core.pytree import tree_unflatten
from ..nn.module import Module
from .graph_signature import InputKind
from .program import ExportedProgram, call


class ExportedModule(Module):
    """The program's graph as a module; parameters and buffers are the program's own, so that training it trains the program."""

    def __init__(self, program: ExportedProgram, check_guards: bool = True, modules: Sequence[str] = ()):
        super().__init__()
        self.__dict__["program"] = program
        self.__dict__["check_guards"] = check_guards
        self.__dict__["places"] = []
        for name in modules:
            self.owner(name + ".")
        signature = program.graph_signature
        shared: dict[str, Any] = {}
        for spec in signature.input_specs:
            if spec.kind is InputKind.USER_INPUT:
                continue
            owner, name = self.owner(spec.target)
            if spec.kind is InputKind.CONSTANT_TENSOR:
                value = program._constants[spec.target]
                owner.__dict__[name] = value
                self.places.append((owner.__dict__, name))
                continue
            value = program.state[spec.target]
            if spec.kind is InputKind.PARAMETER:
                owner.register_parameter(name, value)
                self.places.append((owner._parameters, name))
            else:
                owner.register_buffer(name, value, persistent=spec.persistent is not False)
                self.places.append((owner._buffers, name))
            shared[spec.target] = value
        for alias, first in program.aliases.items():
            owner, name = self.owner(alias)
            owner.register_parameter(name, shared[first])
        self.__dict__["_run"], self.__dict__["_codes"] = program.graph_module.forward, {}

    def owner(self, target: str) -> tuple[Module, str]:
        """The module that holds a qualified name, made on the way."""
        owner: Module = self
        *path, name = target.split(".")
        for part in path:
            if part not in owner._modules:
                owner.add_module(part, Module())
            owner = owner._modules[part]
        return owner, name

    @property
    def graph(self) -> Any:
        return self.program.graph

    @property
    def code(self) -> str:
        return self.program.graph_module.code

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        program = self.program
        leaves = program.checks.bind(args, kwargs)
        if self.check_guards:
            program.checks.check(leaves)
        state = [table[name] for table, name in self.places]
        results = program.write_back(list(call(self._run, [*state, *leaves])), [*state, *leaves])
        return tree_unflatten(results, program.out_spec)

    def train(self, mode: bool = True) -> Any:
        raise NotImplementedError("Calling train() is not supported yet. The mode of an exported program was fixed at export: "
                                  "export the model in the mode that is needed.")

    def eval(self) -> Any:
        raise NotImplementedError("Calling eval() is not supported yet. The mode of an exported program was fixed at export: "
                                  "export the model in the mode that is needed.")

    def _get_name(self) -> str:
        return "GraphModule"


class UnflattenedModule(ExportedModule):
    """The program as a module that has every module of the original, by its name; the graph stays one."""

    def __init__(self, program: ExportedProgram, flat_args_adapter: Any = None):
        super().__init__(program, modules=program.modules)
