"""`to_c`: the object is linked with a C program by a C compiler, where there is one, and gives what the module gives."""
import ctypes
import mmap
import shutil
import subprocess

import numpy as np
import pytest

import rushlight as torch
from rushlight.kernels import llvm
from rushlight.kernels.objects import undefined
from rushlight.kernels.standalone import CALLED

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no machine code here")
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.BatchNorm2d(8)
        self.head, self.table = torch.nn.Linear(128, 10), torch.nn.Embedding(5, 10)

    def forward(self, x, const):
        y = torch.nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        z = torch.nn.functional.gelu(self.head(y.flatten(1)) + self.table(const))
        return torch.softmax(z, -1), z.amax(-1), z


MAIN = """
#include "classify.h"
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    static float x[3 * 64], out0[30], out1[3], out2[30];
    static int64_t k[3] = {1, 2, 4};
    FILE *file = fopen("x.bin", "rb");
    if (!file || fread(x, 4, 192, file) != 192) return 1;
    void *workspace = aligned_alloc(64, CLASSIFY_WORKSPACE + 64);
    for (int turn = 0; turn < 2; turn++) {
        int64_t code = classify(x, k, out0, out1, out2, workspace);
        printf("%d", (int)code);
        for (int i = 0; i < 30; i++) printf(" %.8g", out0[i]);
        for (int i = 0; i < 3; i++) printf(" %.8g", out1[i]);
        for (int i = 0; i < 30; i++) printf(" %.8g", out2[i]);
        printf("\\n");
        k[1] = 77;
    }
    return 0;
}
"""


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
def test_link_and_call(tmp_path):
    torch.manual_seed(0)
    model, x, k = Classifier().eval(), torch.randn(3, 1, 8, 8), torch.tensor([1, 2, 4])
    program = torch.export.export(model, (x, k))
    object_file, header = torch.export.to_c(program, tmp_path / "classify.o")
    (tmp_path / "main.c").write_text(MAIN)
    x.numpy().tofile(tmp_path / "x.bin")
    subprocess.run([COMPILER, "-O1", "-Wall", "-Werror", "main.c", "classify.o", "-o", "main"], cwd=tmp_path, check=True)
    good, bad = subprocess.run(["./main"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout.splitlines()
    want = np.concatenate([part.detach().numpy().ravel() for part in model(x, k)])
    code, *values = map(float, good.split())
    assert code == 0 and np.allclose(values, want, atol=1e-6)
    assert bad.startswith("-2 ")  # an index out of range: nothing was read there
    assert undefined((tmp_path / "classify.o").read_bytes()) <= CALLED


def test_header(tmp_path):
    program = torch.export.export(Classifier().eval(), (torch.zeros(3, 1, 8, 8), torch.tensor([1, 2, 4])))
    _, header = torch.export.to_c(program, tmp_path / "my-net.o", name="infer")
    text = open(header).read()
    assert header.endswith("my-net.h")
    assert "int64_t infer(const float *x, const int64_t *const_, float *out0, float *out1, float *out2, void *workspace);" in text


def test_values_that_are_returned_twice_and_inputs(tmp_path):
    class Same(torch.nn.Module):
        def forward(self, x, unused):
            y = x + 1
            return y, x, y
    program = torch.export.export(Same(), (torch.zeros(3), torch.zeros(2)))
    torch.export.to_c(program, tmp_path / "same.o")
    if COMPILER is not None:
        main = ('#include "same.h"\n#include <stdio.h>\nint main(void) { float x[3] = {1, 2, 3}, u[2], a[3], b[3], c[3];\n'
                'same(x, u, a, b, c, 0); printf("%g %g %g", a[2], b[2], c[2]); return 0; }\n')
        (tmp_path / "main.c").write_text(main)
        subprocess.run([COMPILER, "main.c", "same.o", "-o", "main"], cwd=tmp_path, check=True)
        assert subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True).stdout == "4 3 4"


class Writes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros(()))

    def forward(self, x):
        self.n += 1
        return x + self.n


class Sorts(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.svdvals(x)


@pytest.mark.parametrize("model, text", [(Writes(), "writes to b_n"), (Sorts(), "svdvals")])
def test_what_is_no_native_code_is_named(tmp_path, model, text):
    program = torch.export.export(model, (torch.ones(3, 3),))
    with pytest.raises(NotImplementedError, match=text):
        torch.export.to_c(program, tmp_path / "x.o")
    assert not list(tmp_path.iterdir())


def test_names(tmp_path):
    program = torch.export.export(torch.nn.ReLU(), (torch.ones(3),))
    for name in ("while", "a b", "1x"):
        with pytest.raises(ValueError, match="name of a C function"):
            torch.export.to_c(program, tmp_path / "x.o", name=name)


LIBC = ctypes.CDLL(None)
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler")


def guarded(size, fill=0):
    """Memory of `size` bytes whose end is the end of a page, before one that must not be touched."""
    pages = -(-max(size, 1) // mmap.PAGESIZE)
    area = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    assert LIBC.mprotect(ctypes.c_void_p(start + pages * mmap.PAGESIZE), mmap.PAGESIZE, 0) == 0
    at = start + pages * mmap.PAGESIZE - size
    ctypes.memset(at, fill, size)
    return area, at


def calling(path, function="f"):
    """The function of an object file, linked by the C compiler: f(sizes, arrays, outputs' shapes and dtypes) -> code, outputs."""
    subprocess.run([COMPILER, "-shared", "-o", path.with_suffix(".so"), path], check=True)
    library = ctypes.CDLL(str(path.with_suffix(".so")))
    run, room = getattr(library, function), getattr(library, function + "_workspace")
    run.restype = room.restype = ctypes.c_int64

    def call(sizes, arrays, outputs=()):
        numbers = [ctypes.c_int64(size) for size in sizes]
        bytes_needed = room(*numbers)
        if bytes_needed < 0:
            null = [ctypes.c_void_p(0)] * (len(arrays) + len(outputs) + 1)
            assert run(*numbers, *null) == bytes_needed  # nothing is read or written
            return bytes_needed, []
        kept, pointers = [], []
        for array in arrays:
            area, at = guarded(array.nbytes)
            ctypes.memmove(at, np.ascontiguousarray(array).ctypes.data, array.nbytes)
            kept.append(area)
            pointers.append(at)
        for shape, dtype in outputs:
            area, at = guarded(int(np.prod(shape)) * dtype.itemsize, 77)
            kept.append((area, at, shape, dtype))
            pointers.append(at)
        area, at = guarded(-(-bytes_needed // 64) * 64)
        code = run(*numbers, *[ctypes.c_void_p(pointer) for pointer in (*pointers, at)])
        found = [np.frombuffer(ctypes.string_at(at, int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape) for _, at, shape, dtype in kept[len(arrays):]]
        return code, found
    return call


class Text(torch.nn.Module):
    """Both dims free, with attention and a table."""

    def __init__(self):
        super().__init__()
        self.table, self.head = torch.nn.Embedding(11, 8), torch.nn.Linear(8, 11)
        self.layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x):
        later = torch.ones(x.shape[1], x.shape[1]).tril() == 0
        mask = torch.zeros(x.shape[1], x.shape[1]).masked_fill(later, float("-inf"))
        return self.head(self.layer(self.table(x), src_mask=mask)), x.float().mean(1)


class Tags(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(3, 4, batch_first=True, bidirectional=True)

    def forward(self, x):
        return self.lstm(x)[0]


class Joined(torch.nn.Module):
    def forward(self, x, y):
        return torch.cat([x, y]).softmax(0), (x[:10] * 2).sum(0), y.mean()


class Pairs(torch.nn.Module):
    def forward(self, x):
        return x.reshape(-1, 2, 3).sum(1)


Dim = torch.export.Dim
BATCH = Dim("batch")
OPEN = {
    "layers": (lambda: torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3), torch.nn.Softmax(-1)), lambda n: (torch.randn(n, 4),), ({0: BATCH},),
               [(1,), (2,), (3,), (17,), (100,)], [(0,), (-5,), (1 << 62,), (1 << 45,), (-(1 << 63),)]),
    "range": (lambda: torch.nn.Linear(4, 8), lambda n: (torch.randn(n, 4),), ({0: Dim("n", min=2, max=64)},), [(2,), (64,)], [(1,), (65,)]),
    "derived": (Pairs, lambda n: (torch.randn(2 * n, 3),), ({0: 2 * Dim("half", max=50)},), [(1,), (2,), (50,)], [(51,), (0,)]),
    "image": (lambda: torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(64, 3)),
              lambda n: (torch.randn(n, 1, 8, 8),), ({0: BATCH},), [(1,), (2,), (9,)], [(0,)]),
    "two": (Joined, lambda n, m: (torch.randn(n, 3), torch.randn(m, 3)), ({0: Dim("n")}, {0: Dim("m")}), [(1, 1), (2, 1), (1, 5), (7, 7), (12, 3)], [(0, 2), (2, 0)]),
    "text": (Text, lambda n, t: (torch.randint(0, 11, (n, t)),), ({0: BATCH, 1: Dim("time")},), [(1, 1), (3, 1), (1, 6), (4, 7)], [(2, 0)]),
    "recurrent": (Tags, lambda n: (torch.randn(n, 5, 3),), ({0: BATCH},), [(1,), (3,), (8,)], [(0,)])}


@needs_compiler
@pytest.mark.parametrize("name", OPEN)
def test_free_sizes(tmp_path, name):
    torch.manual_seed(0)
    make, inputs_of, shapes, good, bad = OPEN[name]
    model = make().eval()
    program = torch.export.export(model, inputs_of(*[4, 6][:len(good[0])]), dynamic_shapes=shapes)
    torch.export.to_c(program, tmp_path / "f.o")
    call = calling(tmp_path / "f.o")
    for sizes in good:
        inputs = inputs_of(*sizes)
        with torch.no_grad():
            want = model(*inputs)
        want = [part.numpy() for part in (want if isinstance(want, tuple) else (want,))]
        code, got = call(sizes, [x.numpy() for x in inputs], [(part.shape, part.dtype) for part in want])
        assert code == 0
        for mine, theirs in zip(got, want):
            np.testing.assert_allclose(mine, theirs, atol=1e-5)
    for sizes in bad:
        assert call(sizes, [None] * len(program.checks.inputs)) == (-3, [])


@needs_compiler
def test_writes_inside_are_values(tmp_path):
    """In-place activations and sums, as residual nets have them."""
    class Residual(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.relu = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), torch.nn.ReLU(inplace=True)

        def forward(self, x):
            y = self.second(self.relu(self.first(x)))
            y += x
            return self.relu(y)
    torch.manual_seed(0)
    net, x = Residual(), torch.randn(3, 4)
    torch.export.to_c(torch.export.export(net, (torch.zeros(2, 4),), dynamic_shapes=({0: BATCH},)), tmp_path / "f.o")
    code, (got,) = calling(tmp_path / "f.o")((3,), [x.numpy()], [((3, 4), np.dtype(np.float32))])
    assert code == 0
    np.testing.assert_allclose(got, net(x).detach().numpy(), atol=1e-6)


@needs_compiler
def test_index_out_of_range_at_a_free_size(tmp_path):
    program = torch.export.export(torch.nn.Embedding(5, 3), (torch.tensor([1, 2]),), dynamic_shapes=({0: Dim("n")},))
    torch.export.to_c(program, tmp_path / "f.o")
    assert calling(tmp_path / "f.o")((3,), [np.array([1, 5, 0])], [((3, 3), np.dtype(np.float32))])[0] == -2


def test_free_sizes_in_the_header(tmp_path):
    program = torch.export.export(Joined(), (torch.randn(4, 3), torch.randn(6, 3)), dynamic_shapes=({0: Dim("rows", max=100)}, {0: Dim("x")}))
    _, header = torch.export.to_c(program, tmp_path / "join.o")
    text = open(header).read()
    assert "int64_t join_workspace(int64_t rows, int64_t x);" in text
    assert "int64_t join(int64_t rows, int64_t x, const float *x_, const float *y, float *out0, float *out1, float *out2, void *workspace);" in text
    assert " *   x_: float[rows][3]" in text and " *   out0: float[rows + x][3]" in text and " *   out1: float[3]" in text


def test_a_size_that_the_code_needs_is_named(tmp_path):
    program = torch.export.export(torch.nn.Conv2d(1, 4, 3), (torch.randn(2, 1, 8, 8),), dynamic_shapes=({2: Dim("height", min=4)},))
    with pytest.raises(NotImplementedError, match="a free size that its code needs as a number: height"):
        torch.export.to_c(program, tmp_path / "x.o")


@needs_compiler
def test_entry_points_share_their_weights(tmp_path):
    torch.manual_seed(0)
    net = torch.nn.Linear(64, 64)
    package = torch.export.export({"forward": net, "twice": lambda x: net(net(x))}, {"forward": (torch.zeros(2, 64),), "twice": (torch.zeros(2, 64),)},
                                  dynamic_shapes={"forward": ({0: BATCH},), "twice": ({0: BATCH},)})
    torch.export.to_c(package, tmp_path / "net.o")
    alone, _ = torch.export.to_c(package.programs["forward"], tmp_path / "alone.o")
    x = torch.randn(3, 64)
    shape = [((3, 64), np.dtype(np.float32))]
    for name, want in (("forward", net(x)), ("twice", net(net(x)))):
        code, (got,) = calling(tmp_path / "net.o", f"net_{name}")((3,), [x.numpy()], shape)
        assert code == 0
        np.testing.assert_allclose(got, want.detach().numpy(), atol=1e-5)
    assert (tmp_path / "net.o").stat().st_size < 2 * 64 * 64 * 4 + 16000 and (tmp_path / "alone.o").stat().st_size > 64 * 64 * 4
