"""The names that programs use: of PyTorch's 600 most used ones all are here, but for those that ABSENT lists with the reason."""
import importlib
import operator
from pathlib import Path

import pytest

import rushlight
from rushlight.core.absent import NAMES as PYTORCHS

NAMES = [line for line in Path(__file__).with_name("public_names.txt").read_text().split("\n") if line and not line.startswith("#")]

# Not here, and why; a first word covers all below it.
ABSENT = {
    "torch.distributed.fsdp": "training on several machines", "torch.hub": "opens the network",
    "torch.sparse_coo_tensor": "sparse tensors",
    "torch.Tensor.coalesce": "sparse tensors", "torch.Tensor.indices": "sparse tensors", "torch.Tensor.values": "sparse tensors",
    "torch.optim.Optimizer.param_groups": "an attribute of instances",
}


def reach(name):
    found, path = rushlight, "rushlight"
    for part in name.split(".")[1:]:
        path = f"{path}.{part}"
        try:
            found = getattr(found, part)
        except AttributeError:
            found = importlib.import_module(path)
    return found


def is_absent(name):
    return any(name == word or name.startswith(word + ".") for word in ABSENT)


@pytest.mark.parametrize("name", [name for name in NAMES if not is_absent(name)])
def test_the_name_is_here(name):
    reach(name)


def test_what_is_listed_as_absent_is():
    here = []
    for name in filter(is_absent, NAMES):
        try:
            reach(name)
        except (AttributeError, ImportError, NotImplementedError):
            continue
        here.append(name)
    # a listed namespace may have some of its names; a listed name itself may not be here
    assert not [name for name in here if name in ABSENT and not any(n.startswith(name + ".") for n in NAMES)], here


def test_a_name_that_is_not_here_is_answered_with_the_nearest_that_is():
    with pytest.raises(AttributeError, match="Did you mean: 'zeros'"):
        rushlight.zerso  # noqa: B018


def test_a_module_that_is_not_built_says_so():
    assert not hasattr(rushlight, "quantization")
    with pytest.raises(AttributeError, match="no attribute 'quantization': PyTorch has this name, Rushlight has not"):
        rushlight.quantization  # noqa: B018
    for name in dir(rushlight):
        getattr(rushlight, name)


@pytest.mark.parametrize("name", ["sparse_coo_tensor", "quantize_per_tensor", "ao", "hub", "ops.aten", "nn.attention.flex_attention",
                                  "nn.quantized", "nn.functional.scaled_mm", "utils.flop_counter", "autograd.SavedTensor", "func.functionalize"])
def test_a_name_that_pytorch_has_gets_no_suggestion(name):
    place, _, last = name.rpartition(".")
    with pytest.raises(AttributeError, match=f"no attribute '{last}': PyTorch has this name, Rushlight has not") as said:
        getattr(operator.attrgetter(place)(rushlight) if place else rushlight, last)
    assert "Did you mean" not in str(said.value)


@pytest.mark.parametrize("module", PYTORCHS)
def test_the_list_of_absent_names_is_true(module):
    place = module.partition(".")[2]
    ours = operator.attrgetter(place)(rushlight) if place else rushlight
    assert not [name for name in PYTORCHS[module].split() if hasattr(ours, name)], "built: take it off the list"


def test_every_function_and_dtype_of_pytorch_is_here_or_in_the_list():
    torch = pytest.importorskip("torch")
    listed = {*PYTORCHS["rushlight"].split(), "bit", "get_file_path", "init_num_threads", "import_ir_module", "import_ir_module_from_buffer",
              "merge_type_from_type_comment", "parse_ir", "parse_schema", "parse_type_comment", "prepare_multiprocessing_environment",
              "profiler_allow_cudagraph_cupti_lazy_reinit_cuda12", "thread_safe_generator", "unify_type_list", "hub"}  # its own business
    named = [name for name in torch.__all__ if name.islower() and not name.startswith("_")]
    assert not [name for name in named if not hasattr(rushlight, name) and name not in listed]


def test_dir_and_star_show_the_public_names():
    assert {"Tensor", "nn", "optim", "zeros", "float32", "no_grad", "save"} <= set(dir(rushlight))
    assert not {"near", "MODULES", "importlib"} & set(dir(rushlight))
    assert "relu" in dir(rushlight.nn.functional) and "publish" not in dir(rushlight.nn.functional)
