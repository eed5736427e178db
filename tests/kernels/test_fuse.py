"""What shares a loop nest, and how views and shapes become indices."""

import numpy as np
import pytest

from rushlight.kernels import fuse
from rushlight.kernels.arrays import Source, broadcast_shapes, contiguous, reshape_blocks, restrided
from rushlight.kernels.emit import Emitter
from rushlight.kernels.ir import Module
from rushlight.kernels.make import Maker, Unsupported
from rushlight.kernels.rules import RULES


def source(make, *shape, name="in0"):
    return make.intern(Source, name, shape, "float32", contiguous(shape), 0)


def kernels(make, *outputs):
    planner = fuse.plan(list(outputs))
    buffers = {array: f"out{i}" for i, array in enumerate(outputs)}
    for array in planner.scheduled:
        buffers.setdefault(array, f"t{len(buffers)}")
    return [fuse.build(planner, i, buffers) for i in range(len(planner.groups))]


def test_a_row_pass_with_all_its_neighbours_is_one_kernel():
    make = Maker()
    x = source(make, 8, 32)
    y = RULES["layer_norm"](make, make.point("mul", x, 2.0), (32,))
    assert len(fuse.plan([make.float_point("exp", y), RULES["sum"](make, y, 1)]).groups) == 1


def test_sibling_reductions_share_a_pass():
    make = Maker()
    x = source(make, 8, 32)
    plan = fuse.plan([RULES["sum"](make, x, 1), RULES["amax"](make, x, 1)])
    assert len(plan.groups) == 1


def test_rows_and_columns_do_not():
    make = Maker()
    x = source(make, 8, 32)
    assert len(fuse.plan([RULES["sum"](make, x, 1), RULES["sum"](make, x, 0)]).groups) == 2


def test_unrelated_outputs_have_their_own_loops():
    make = Maker()
    a, b = source(make, 8, 32), source(make, 8, 32, name="in1")
    assert len(fuse.plan([make.point("add", a, 1.0), make.point("add", b, 1.0)]).groups) == 2


def test_equal_expressions_are_computed_once():
    make = Maker()
    x = source(make, 4)
    assert make.point("add", x, 1.0) is make.point("add", x, 1.0)


def test_contiguous_loops_collapse():
    make = Maker()
    (kernel,) = kernels(make, make.point("add", source(make, 4, 5, 6), 1.0))
    assert kernel.rows == (("i2", 120),) and kernel.vector == "i2"


def test_lanes_follow_memory():
    make = Maker()
    (rows,) = kernels(make, RULES["sum"](make, source(make, 16, 64), 1))
    (columns,) = kernels(make, RULES["sum"](make, source(make, 16, 64), 0))
    assert rows.vector == "i1" and columns.vector == "i1" and columns.rows == (("i1", 64),)


def test_reshape_blocks():
    assert reshape_blocks((6, 4), (2, 3, 4)) == [([0], [0, 1]), ([1], [2])]
    assert reshape_blocks((2, 3, 1, 4), (6, 4)) == [([0, 1], [0]), ([3], [1])]
    assert reshape_blocks((6, 4), (4, 6)) == [([0, 1], [0, 1])]


@pytest.mark.parametrize("shape", [(6, 4), (2, 12), (24,), (3, 2, 4), (4, 3, 2, 1)])
def test_restrided_agrees_with_numpy(shape):
    array = np.arange(24).reshape(2, 3, 4)
    for base in (array, array.transpose(2, 0, 1), array[:, ::-1]):
        start = (base.ctypes.data - array.ctypes.data) // 8
        seen = restrided(Source("x", base.shape, "int64", tuple(s // 8 for s in base.strides), start), shape)
        if seen is None:
            assert not np.shares_memory(base.reshape(shape), array)
            continue
        flat = array.ravel()
        got = np.array([flat[seen.offset + int(np.dot(i, seen.strides))] for i in np.ndindex(*shape)]).reshape(shape)
        np.testing.assert_array_equal(got, base.reshape(shape))


def test_shapes_broadcast():
    assert broadcast_shapes((3, 1), (4,), ()) == (3, 4)
    with pytest.raises(ValueError):
        broadcast_shapes((3,), (4,))


def test_what_kernels_cannot_do_is_said():
    make = Maker()
    with pytest.raises(Unsupported, match="without elements"):
        source(make, 0, 3)
    with pytest.raises(Unsupported, match="does not fit"):
        make.reshape(source(make, 4, 3), (5, -1))


def test_what_no_loop_changes_is_computed_before_it():
    """LLVM would not move it: the stores might be to where it is loaded from."""
    make = Maker()
    x, s = source(make, 1000), source(make, 1, name="in1")
    (kernel,) = kernels(make, make.point("mul", x, make.point("pow", s, 0.5)))
    entry, _, loops = str(Emitter(Module(), kernel, 256).write()).partition("loop1.head:")
    assert "load float," in entry and "load float," not in loops


def test_a_row_stores_last_what_it_stores_once():
    """So that it may take the place of an input that the row's loops read."""
    make = Maker()
    x, b = source(make, 8, 32), source(make, 8, name="in1")
    total = make.reduce("sum", make.point("mul", x, make.unsqueeze(b, 1)), 1)
    (kernel,) = kernels(make, total, make.point("add", b, total))
    assert [bool(stage.stores) for stage in kernel.stages] == [False, True]


def layer(make, x, n, name):
    """tanh(w x), w of n rows."""
    weight = source(make, n, x.shape[0], name=name)
    return make.float_point("tanh", RULES["sum"](make, make.point("mul", weight, x), 1))


def test_what_every_row_would_compute_anew_is_stored():
    make = Maker()
    hidden = layer(make, source(make, 16), 64, "w0")
    made = kernels(make, layer(make, hidden, 32, "w1"))
    # The sums of each layer, and then tanh of all of them in vectors: neither between rows nor at each product.
    assert [[bool(stage.folds) for stage in kernel.stages if stage.folds or stage.stores] for kernel in made] == [[True, False], [False]] * 2
    assert ["tanh" in kernel.python() for kernel in made] == [False, True] * 2


def test_a_dear_value_of_a_row_that_the_row_needs_stays_in_it():
    make = Maker()
    x = source(make, 64, 32)
    total = RULES["logsumexp"](make, x, 1, keepdim=True) if "logsumexp" in RULES else make.float_point("log", RULES["sum"](make, x, 1, keepdim=True))
    assert len(fuse.plan([make.point("sub", x, total)]).groups) == 1


def test_cheap_values_of_few_rows_are_computed_anew():
    make = Maker()
    x, weight = source(make, 16), source(make, 2, 16, name="w")
    assert len(kernels(make, RULES["sum"](make, make.point("mul", weight, make.point("add", x, 1.0)), 1))) == 1


def test_lanes_of_a_pool_go_along_its_rows_and_not_over_a_window():
    for size in (2, 3, 4):
        make = Maker()
        windows = make.permute(make.reshape(source(make, 8, 12 * size, 12 * size), (8, 12, size, 12, size)), [0, 1, 3, 2, 4])
        (kernel,) = kernels(make, make.reduce("amax", windows, (3, 4)))
        assert dict(kernel.rows).get(kernel.vector) == 12
