"""What is computed of other operands on the way to a result has the result's dtype: multiples and products of small integers do not wrap."""
import pytest

import rushlight as torch

CASES = {
    "add": (lambda x, b, d, t: torch.add(x, b, alpha=2), [201, -199, 255]), "sub": (lambda x, b, d, t: torch.sub(x, b, alpha=2), [-199, 201, -253]),
    "rsub": (lambda x, b, d, t: torch.rsub(b, x, alpha=2), [-199, 201, -253]), "add_": (lambda x, b, d, t: x.clone().add_(b, alpha=2), [201, -199, 255]),
    "integers": (lambda x, b, d, t: torch.add(x.long(), b, alpha=3), [301, -299, 382]), "doubles": (lambda x, b, d, t: torch.add(d, x, alpha=0.1), [1.1] * 3),
    "bools": (lambda x, b, d, t: torch.add(x.int(), t, alpha=2), [3, 1, 3]), "of bools": (lambda x, b, d, t: torch.add(t, t, alpha=2), [True, False, True]),
    "one number": (lambda x, b, d, t: torch.add(x, b[0], alpha=3), [301] * 3), "addcmul": (lambda x, b, d, t: torch.addcmul(x, b, b, value=2), [20001, 20001, 32259]),
    "addcdiv": (lambda x, b, d, t: torch.addcdiv(d, x, 3 * x, value=0.3), [1 + 0.3 / 3] * 3),
    "addr": (lambda x, b, d, t: torch.addr(x[:1, None], b, b[:1], alpha=2).flatten(), [20001, -19999, 25401])}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_the_result_has_its_range(case, compiled):
    run, want = CASES[case]
    run = torch.compile(run) if compiled else run
    small = torch.tensor([100, -100, 127], dtype=torch.int8)
    got = run(torch.ones(3), small, torch.ones(3, dtype=torch.float64), torch.tensor([True, False, True])).tolist()
    assert got == want and (type(got[0]) is bool) == (case == "of bools")


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_have_their_own_dtypes(compiled):
    x, d = torch.ones(2, requires_grad=True), torch.ones(2, dtype=torch.float64, requires_grad=True)
    step = lambda x, d: torch.add(d, x, alpha=0.5) + torch.addcmul(d, x, x, value=0.25)  # noqa: E731
    (torch.compile(step) if compiled else step)(x, d).sum().backward()
    assert x.grad.dtype is torch.float32 and d.grad.dtype is torch.float64
    assert x.grad.tolist() == [1, 1] and d.grad.tolist() == [2, 2]
