"""Printing: texts recorded from PyTorch 2.13, and PyTorch itself on several hundred random tensors where it is installed."""
import ml_dtypes
import numpy as np
import pytest

import rushlight
from rushlight import tensor_repr
from rushlight.core import dtypes, modes
from rushlight.tensor import Parameter, wrap
from rushlight.tensor_repr import format_tensor

NAN, INF = float("nan"), float("inf")


@pytest.fixture(autouse=True)
def _default_options():
    before, default = tensor_repr.get_printoptions(), modes.get_default_dtype()
    yield
    tensor_repr.set_printoptions(**before)
    modes.set_default_dtype(default)


def text(values, kind="f4", **options):
    with tensor_repr.printoptions(**options):
        return format_tensor(wrap(np.asarray(values).astype(kind)))


TABLE = [
    (1.5, "f4", {}, "tensor(1.5000)"),
    (3, "i8", {}, "tensor(3)"),
    (True, "?", {}, "tensor(True)"),
    ([], "f4", {}, "tensor([])"),
    ([], "i8", {}, "tensor([], dtype=torch.int64)"),
    ([[], []], "f4", {}, "tensor([], size=(2, 0))"),
    (np.ones((0, 3)), "f8", {}, "tensor([], size=(0, 3), dtype=torch.float64)"),
    ([1.0, 2.0], "f4", {}, "tensor([1., 2.])"),
    ([1.5, 2.25, -3.125], "f4", {}, "tensor([ 1.5000,  2.2500, -3.1250])"),
    ([1, -20, 300], "i8", {}, "tensor([  1, -20, 300])"),
    ([1, 2], "i4", {}, "tensor([1, 2], dtype=torch.int32)"),
    ([1, 2], "u1", {}, "tensor([1, 2], dtype=torch.uint8)"),
    ([True, False], "?", {}, "tensor([ True, False])"),
    ([0.0, 0.0], "f4", {}, "tensor([0., 0.])"),
    ([NAN, 1.0, INF], "f4", {}, "tensor([nan, 1., inf])"),
    ([NAN, 1.5, -INF], "f4", {}, "tensor([   nan, 1.5000,   -inf])"),
    ([NAN, INF], "f4", {}, "tensor([nan, inf])"),
    ([1e-5, 1.0], "f4", {}, "tensor([1.0000e-05, 1.0000e+00])"),
    ([1.0, 12345678.0], "f4", {}, "tensor([1.0000e+00, 1.2346e+07])"),
    ([1e9, 1.0], "f4", {}, "tensor([1.0000e+09, 1.0000e+00])"),
    ([1e10, 2e10], "f4", {}, "tensor([1.0000e+10, 2.0000e+10])"),
    ([0.0001, 0.5], "f4", {}, "tensor([1.0000e-04, 5.0000e-01])"),
    ([100000.5, 1.0], "f4", {}, "tensor([1.0000e+05, 1.0000e+00])"),
    ([1.0, 2.5], "f8", {}, "tensor([1.0000, 2.5000], dtype=torch.float64)"),
    ([1.0, 2.5], "f2", {}, "tensor([1.0000, 2.5000], dtype=torch.float16)"),
    ([1.0, 2.5], "bf16", {}, "tensor([1.0000, 2.5000], dtype=torch.bfloat16)"),
    ([1 + 2j, -3.5 - 1j], "c8", {}, "tensor([ 1.0000+2.j, -3.5000-1.j])"),
    ([1 + 2j], "c16", {}, "tensor([1.+2.j], dtype=torch.complex128)"),
    ([[1.0, 2.0], [3.0, 4.0]], "f4", {}, "tensor([[1., 2.],\n        [3., 4.]])"),
    (np.arange(24).reshape(2, 3, 4), "i8", {},
     "tensor([[[ 0,  1,  2,  3],\n"
     "         [ 4,  5,  6,  7],\n"
     "         [ 8,  9, 10, 11]],\n"
     "\n"
     "        [[12, 13, 14, 15],\n"
     "         [16, 17, 18, 19],\n"
     "         [20, 21, 22, 23]]])"),
    (np.arange(24).reshape(2, 3, 4) / 7, "f4", {},
     "tensor([[[0.0000, 0.1429, 0.2857, 0.4286],\n"
     "         [0.5714, 0.7143, 0.8571, 1.0000],\n"
     "         [1.1429, 1.2857, 1.4286, 1.5714]],\n"
     "\n"
     "        [[1.7143, 1.8571, 2.0000, 2.1429],\n"
     "         [2.2857, 2.4286, 2.5714, 2.7143],\n"
     "         [2.8571, 3.0000, 3.1429, 3.2857]]])"),
    (np.arange(16).reshape(2, 2, 2, 2), "i8", {},
     "tensor([[[[ 0,  1],\n"
     "          [ 2,  3]],\n"
     "\n"
     "         [[ 4,  5],\n"
     "          [ 6,  7]]],\n"
     "\n"
     "\n"
     "        [[[ 8,  9],\n"
     "          [10, 11]],\n"
     "\n"
     "         [[12, 13],\n"
     "          [14, 15]]]])"),
    (np.arange(1001), "i8", {}, "tensor([   0,    1,    2,  ...,  998,  999, 1000])"),
    (np.arange(40) / 3, "f4", {},
     "tensor([ 0.0000,  0.3333,  0.6667,  1.0000,  1.3333,  1.6667,  2.0000,  2.3333,\n"
     "         2.6667,  3.0000,  3.3333,  3.6667,  4.0000,  4.3333,  4.6667,  5.0000,\n"
     "         5.3333,  5.6667,  6.0000,  6.3333,  6.6667,  7.0000,  7.3333,  7.6667,\n"
     "         8.0000,  8.3333,  8.6667,  9.0000,  9.3333,  9.6667, 10.0000, 10.3333,\n"
     "        10.6667, 11.0000, 11.3333, 11.6667, 12.0000, 12.3333, 12.6667, 13.0000])"),
    (np.arange(2000).reshape(40, 50), "f4", {},
     "tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 4.7000e+01, 4.8000e+01,\n"
     "         4.9000e+01],\n"
     "        [5.0000e+01, 5.1000e+01, 5.2000e+01,  ..., 9.7000e+01, 9.8000e+01,\n"
     "         9.9000e+01],\n"
     "        [1.0000e+02, 1.0100e+02, 1.0200e+02,  ..., 1.4700e+02, 1.4800e+02,\n"
     "         1.4900e+02],\n"
     "        ...,\n"
     "        [1.8500e+03, 1.8510e+03, 1.8520e+03,  ..., 1.8970e+03, 1.8980e+03,\n"
     "         1.8990e+03],\n"
     "        [1.9000e+03, 1.9010e+03, 1.9020e+03,  ..., 1.9470e+03, 1.9480e+03,\n"
     "         1.9490e+03],\n"
     "        [1.9500e+03, 1.9510e+03, 1.9520e+03,  ..., 1.9970e+03, 1.9980e+03,\n"
     "         1.9990e+03]])"),
    (np.arange(1200).reshape(10, 10, 12), "i8", {},
     "tensor([[[   0,    1,    2,  ...,    9,   10,   11],\n"
     "         [  12,   13,   14,  ...,   21,   22,   23],\n"
     "         [  24,   25,   26,  ...,   33,   34,   35],\n"
     "         ...,\n"
     "         [  84,   85,   86,  ...,   93,   94,   95],\n"
     "         [  96,   97,   98,  ...,  105,  106,  107],\n"
     "         [ 108,  109,  110,  ...,  117,  118,  119]],\n"
     "\n"
     "        [[ 120,  121,  122,  ...,  129,  130,  131],\n"
     "         [ 132,  133,  134,  ...,  141,  142,  143],\n"
     "         [ 144,  145,  146,  ...,  153,  154,  155],\n"
     "         ...,\n"
     "         [ 204,  205,  206,  ...,  213,  214,  215],\n"
     "         [ 216,  217,  218,  ...,  225,  226,  227],\n"
     "         [ 228,  229,  230,  ...,  237,  238,  239]],\n"
     "\n"
     "        [[ 240,  241,  242,  ...,  249,  250,  251],\n"
     "         [ 252,  253,  254,  ...,  261,  262,  263],\n"
     "         [ 264,  265,  266,  ...,  273,  274,  275],\n"
     "         ...,\n"
     "         [ 324,  325,  326,  ...,  333,  334,  335],\n"
     "         [ 336,  337,  338,  ...,  345,  346,  347],\n"
     "         [ 348,  349,  350,  ...,  357,  358,  359]],\n"
     "\n"
     "        ...,\n"
     "\n"
     "        [[ 840,  841,  842,  ...,  849,  850,  851],\n"
     "         [ 852,  853,  854,  ...,  861,  862,  863],\n"
     "         [ 864,  865,  866,  ...,  873,  874,  875],\n"
     "         ...,\n"
     "         [ 924,  925,  926,  ...,  933,  934,  935],\n"
     "         [ 936,  937,  938,  ...,  945,  946,  947],\n"
     "         [ 948,  949,  950,  ...,  957,  958,  959]],\n"
     "\n"
     "        [[ 960,  961,  962,  ...,  969,  970,  971],\n"
     "         [ 972,  973,  974,  ...,  981,  982,  983],\n"
     "         [ 984,  985,  986,  ...,  993,  994,  995],\n"
     "         ...,\n"
     "         [1044, 1045, 1046,  ..., 1053, 1054, 1055],\n"
     "         [1056, 1057, 1058,  ..., 1065, 1066, 1067],\n"
     "         [1068, 1069, 1070,  ..., 1077, 1078, 1079]],\n"
     "\n"
     "        [[1080, 1081, 1082,  ..., 1089, 1090, 1091],\n"
     "         [1092, 1093, 1094,  ..., 1101, 1102, 1103],\n"
     "         [1104, 1105, 1106,  ..., 1113, 1114, 1115],\n"
     "         ...,\n"
     "         [1164, 1165, 1166,  ..., 1173, 1174, 1175],\n"
     "         [1176, 1177, 1178,  ..., 1185, 1186, 1187],\n"
     "         [1188, 1189, 1190,  ..., 1197, 1198, 1199]]])"),
    ([1.23456789], "f4", {"precision": 2}, "tensor([1.23])"),
    ([1.0, 2.0], "f4", {"sci_mode": True}, "tensor([1.0000e+00, 2.0000e+00])"),
    ([1e-8, 1.0], "f4", {"sci_mode": False}, "tensor([0.0000, 1.0000])"),
    (np.arange(20), "i8", {"linewidth": 30},
     "tensor([ 0,  1,  2,  3,  4,\n"
     "         5,  6,  7,  8,  9,\n"
     "        10, 11, 12, 13, 14,\n"
     "        15, 16, 17, 18, 19])"),
    (np.arange(10), "i8", {"threshold": 5, "edgeitems": 2}, "tensor([0, 1,  ..., 8, 9])"),
    (np.arange(10) / 3, "f4", {"profile": "short"}, "tensor([0.00, 0.33, 0.67, 1.00, 1.33, 1.67, 2.00, 2.33, 2.67, 3.00])"),
    (np.arange(6), "i8", {"threshold": 2, "edgeitems": 0}, "tensor([...], size=(6,))"),
]


@pytest.mark.parametrize("values, kind, options, expected", TABLE)
def test_recorded(values, kind, options, expected):
    kind = ml_dtypes.bfloat16 if kind == "bf16" else kind
    assert text(values, kind, **options) == expected


class Scale(Parameter):
    pass


def test_flags():
    needing = wrap(np.ones(2, "f4"))
    needing._requires_grad = True
    assert format_tensor(needing) == "tensor([1., 1.], requires_grad=True)"
    assert format_tensor(Parameter(needing)) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    assert format_tensor(Scale(needing, False)) == "Parameter containing:\nParameter(Scale([1., 1.]))"
    assert format_tensor(wrap(np.ones(2, "f4")), tensor_contents="...") == "tensor(...)"


def test_default_dtype_is_not_named():
    modes.set_default_dtype(dtypes.float64)
    assert text([1.0], "f8") == "tensor([1.])"
    assert text([1.0], "f4") == "tensor([1.], dtype=torch.float32)"
    assert text([1j], "c16") == "tensor([0.+1.j])"
    assert text([], "f8") == "tensor([])"


def test_a_function_is_named():
    class AddBackward0:
        pass
    tensor = wrap(np.ones((2, 2), "f4"))
    tensor._requires_grad, tensor._node = True, AddBackward0()
    assert format_tensor(tensor) == "tensor([[1., 1.],\n        [1., 1.]], grad_fn=<AddBackward0>)"


def test_options():
    tensor_repr.set_printoptions(profile="short")
    assert tensor_repr.get_printoptions() == {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80, "sci_mode": None}
    tensor_repr.set_printoptions(profile="default", precision=7)
    assert tensor_repr.get_printoptions()["precision"] == 7
    with tensor_repr.printoptions(sci_mode=True):
        assert tensor_repr.get_printoptions()["sci_mode"] is True
    assert tensor_repr.get_printoptions()["sci_mode"] is None


def random_case(random):
    """A tensor's values, its kind, and options, of a wide mix."""
    shape = tuple(random.integers(0, 6, size=random.integers(0, 5))) if random.random() < 0.7 else (
        tuple(int(size) for size in random.choice([1, 2, 3, 7, 11, 40, 300, 1001], size=random.integers(1, 3))))
    if np.prod(shape, dtype=float) > 20_000:
        shape = (1001,)
    values = np.asarray(random.standard_normal(shape))
    style = random.integers(0, 8)
    if style == 1:
        values = values * 10.0 ** random.integers(-9, 12)
    elif style == 2:
        values = np.round(values * 10)
    elif style == 3:
        values = np.exp(values * 8)
    elif style == 4:
        values = np.where(random.random(shape) < 0.3, random.choice([NAN, INF, -INF, 0.0, -0.0]), values)
    elif style == 5:
        values = values * 0
    elif style == 6:
        values = np.where(random.random(shape) < 0.3, random.choice([NAN, INF, -INF]), np.round(values * 10))
    kind = random.choice(["f4", "f8", "f2", "bf16", "i8", "i4", "u1", "?", "c8"])
    if kind in ("i8", "i4", "u1", "?"):
        values = np.nan_to_num(values, nan=0, posinf=0, neginf=0).clip(-1e9, 1e9)
    if kind == "c8":
        values = values + 1j * random.standard_normal(shape)
    options = [{}, {}, {}, {"precision": 2}, {"sci_mode": True}, {"sci_mode": False}, {"linewidth": 40}, {"edgeitems": 1, "threshold": 5},
               {"edgeitems": 0, "threshold": 5}, {"profile": "short"}, {"profile": "full"}][random.integers(0, 11)]
    return values, str(kind), options


@pytest.mark.filterwarnings("ignore")
def test_equals_pytorch():
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(0)
    compared = 0
    for _ in range(900):
        values, kind, options = random_case(random)
        with np.errstate(all="ignore"):
            array = np.asarray(values).astype(ml_dtypes.bfloat16 if kind == "bf16" else kind)
        theirs = torch.from_numpy(array.astype("f4")).bfloat16() if kind == "bf16" else torch.from_numpy(array)
        try:
            torch.set_printoptions(profile="default")
            torch.set_printoptions(**options)
            expected = repr(theirs)
        except IndexError:  # PyTorch fails on some empty tensors of many dims
            continue
        finally:
            torch.set_printoptions(profile="default")
        with tensor_repr.printoptions(**{"profile": "default"} | options):
            assert format_tensor(wrap(array)) == expected
        compared += 1
    assert compared > 700


def test_huge_expanded_tensors_are_shown_without_being_made():
    assert repr(rushlight.zeros(1).expand(2 ** 40)) == "tensor([0., 0., 0.,  ..., 0., 0., 0.])"
    assert repr(rushlight.zeros(1, 1).expand(100_000, 100_000)).count("...") == 6 + 1
