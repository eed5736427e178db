

def into_a_view(x):
    z = torch.zeros(2, 3)
    z[0].add_(x[0])
    return z


def into_a_view_of_a_view(x):
    z = torch.zeros(2, 3)
    z.view(-1)[:3].copy_(x[0])
    return z, z.t()


def without_history(x):
    z, y = torch.zeros(2, 3), torch.ones(2, 3)
    with torch.no_grad():
        z.copy_(x)
    y.mul_(x)
    return z, y, y.detach()


@pytest.mark.parametrize("function", [lambda x: torch.zeros(2, 3).add_(x), lambda x: torch.zeros(2, 3).copy_(x * 2), into_a_view,
                                      into_a_view_of_a_view, without_history])
def test_a_write_gives_a_result_made_without_history_one(function):
    x = torch.randn(2, 3, requires_grad=True)
    several = lambda value: value if isinstance(value, tuple) else (value,)
    for got, want in zip(several(torch.compile(function)(x)), several(function(x)), strict=True):
        assert got.requires_grad is want.requires_grad and torch.equal(got, want)
        if want.requires_grad:
            gradients = [torch.autograd.grad(value.sum(), x, retain_graph=True)[0] for value in (got, want)]
            assert torch.equal(*gradients)
