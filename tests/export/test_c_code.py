"""`to_c`: the object is linked with a C program by a C compiler, where there is one, and gives what the module gives."""
import shutil
import subprocess

import numpy as np
import pytest

import rushlight as torch
from rushlight.kernels import llvm
from rushlight.kernels.standalone import CALLED, undefined

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


class Powers(torch.nn.Module):
    def forward(self, x):
        return torch.lgamma(x)


@pytest.mark.parametrize("model, text", [(Writes(), "writes to b_n"), (Sorts(), "svdvals"), (Powers(), "lgamma")])
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
