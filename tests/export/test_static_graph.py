"""Graphs that are built first: placeholders, variables, gradients, optimizers and sessions, and the errors by their first words."""
import pytest

import rushlight as torch

static = torch.static
F = torch.nn.functional


@pytest.fixture
def net():
    """A small regression: x, y, w, b, prediction, loss."""
    with static.Graph().as_default() as graph:
        x = static.placeholder(torch.float32, [None, 2], name="x")
        y = static.placeholder(torch.float32, [None, 1], name="y")
        w = static.variable(torch.tensor([[0.5], [-0.5]]), name="w")
        b = static.variable(torch.zeros(1), name="b")
        out = torch.tanh(x @ w + b)
        yield graph, x, y, w, b, out, ((out - y) ** 2).mean()


X, Y = torch.tensor([[0.5, 1.0], [1.0, -1.0]]), torch.tensor([[1.0], [-1.0]])


def ready(graph):
    session = static.Session(graph=graph)
    with graph.as_default():
        session.run(static.global_variables_initializer())
    return session


@pytest.mark.parametrize("make, theirs", [
    (lambda: static.GradientDescentOptimizer(0.5), lambda p: torch.optim.SGD(p, lr=0.5)),
    (lambda: static.MomentumOptimizer(0.1, 0.9), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
    (lambda: static.AdamOptimizer(0.05), lambda p: torch.optim.Adam(p, lr=0.05))], ids=["sgd", "momentum", "adam"])
def test_training_is_that_of_the_dynamic_way(net, make, theirs):
    graph, x, y, w, b, out, loss = net
    train = make().minimize(loss)
    session = ready(graph)
    weight, bias = torch.nn.Parameter(torch.tensor([[0.5], [-0.5]])), torch.nn.Parameter(torch.zeros(1))
    optimizer = theirs([weight, bias])
    for _ in range(5):
        optimizer.zero_grad()
        want = ((torch.tanh(X @ weight + bias) - Y) ** 2).mean()
        want.backward()
        optimizer.step()
        none, got = session.run([train, loss], {x: X, y: Y})
        assert none is None and torch.allclose(got, want.detach(), rtol=1e-4)
    assert torch.allclose(session.run(w), weight.detach(), rtol=1e-4)


def test_only_ancestors_run_and_any_tensor_is_fed(net):
    graph, x, y, w, b, out, loss = net
    session = static.Session(graph=graph)
    assert session.run(out * 2, {out: [[3.0]]}).tolist() == [[6.0]]  # no variable is read
    assert session.run(x.sum(), {x: X}).item() == X.sum().item()


def test_fetches_keep_their_structure(net):
    graph, x, y, w, b, out, loss = net
    session = ready(graph)
    got = session.run({"a": w, "deep": (b, [loss, static.group(w)]), "name": "w:0"}, {x: X, y: Y})
    assert list(got) == ["a", "deep", "name"] and type(got["deep"]) is tuple
    assert got["deep"][1][1] is None and torch.equal(got["a"], got["name"])


def test_gradients(net):
    graph, x, y, w, b, out, loss = net
    gx, gw = static.gradients(loss, [x, w])
    again, = static.gradients(gx.sum(), [x])
    assert static.gradients(loss, [static.placeholder(torch.float32, [], name="q")]) == [None]
    session = ready(graph)
    got = session.run([gx, gw, again], {x: X, y: Y})
    leaf = X.clone().requires_grad_()
    weight = torch.tensor([[0.5], [-0.5]], requires_grad=True)
    first = torch.autograd.grad(((torch.tanh(leaf @ weight) - Y) ** 2).mean(), [leaf, weight], create_graph=True)
    second, = torch.autograd.grad(first[0].sum(), [leaf])
    for mine, theirs in zip(got, (*first, second)):
        assert torch.allclose(mine, theirs.detach(), atol=1e-6)


def test_sizes_are_learned_when_it_runs(net):
    graph, x, *_ = net
    flat, ones = x.reshape(x.shape[0] * 2), torch.flatten(x, 1) + torch.ones_like(x)
    soft, norm = F.softmax(x, dim=1), F.layer_norm(x, (2,))
    session = static.Session(graph=graph)
    for rows in (1, 3, 7):
        values = torch.randn(rows, 2)
        got = session.run([flat, ones, soft, norm], {x: values})
        for mine, theirs in zip(got, (values.reshape(rows * 2), values + 1, F.softmax(values, dim=1), F.layer_norm(values, (2,)))):
            assert torch.allclose(mine, theirs)
    with pytest.raises(TypeError, match="made from a size that is not known yet"):
        x @ torch.zeros(2, x.shape[0])


def test_random_values_are_drawn_anew():
    with static.Graph().as_default() as graph:
        x = static.placeholder(torch.float32, [1000], name="x")
        dropped = F.dropout(x, 0.5, True)
    session = static.Session(graph=graph)
    one, two = (session.run(dropped, {x: torch.ones(1000)}) for _ in range(2))
    assert not torch.equal(one, two) and 300 < int((one == 0).sum()) < 700


def test_control_dependencies():
    with static.Graph().as_default() as graph:
        count = static.variable(0.0, name="count")
        up = static.assign_add(count, 1.0)
        with graph.control_dependencies([up]):
            out = count * 0 + 5
    session = ready(graph)
    assert session.run(out) == 5 and session.run(count) == 1


def test_errors(net):
    graph, x, y, w, b, out, loss = net
    session = static.Session(graph=graph)
    with pytest.raises(static.FailedPreconditionError, match="uninitialized value w"):
        session.run(out, {x: X})
    session = ready(graph)
    with pytest.raises(static.InvalidArgumentError, match=r"You must feed a value for placeholder tensor 'y' with dtype float and shape \[\?,1\]"):
        session.run(loss, {x: X})
    with pytest.raises(ValueError, match=r"Cannot feed value of shape \(1, 3\) for Tensor x:0, which has shape \(None, 2\)"):
        session.run(out, {x: torch.ones(1, 3)})
    with pytest.raises(ValueError, match="Variable w already exists, disallowed. Did you mean to set reuse=True"):
        static.variable(1.0, name="w")
    with pytest.raises(TypeError, match="as a Python bool is not allowed"):
        bool(x.sum() > 0)
    with pytest.raises(TypeError, match="has no value while its graph is built"):
        x.sum().item()
    with static.Graph().as_default():
        other = static.placeholder(torch.float32, [], name="z")
    with pytest.raises(ValueError, match="is not an element of this graph"):
        session.run(other)
    with pytest.raises(ValueError, match="is not an element of this graph"):
        x + other
    with pytest.raises(ValueError, match="No gradients provided for any variable"):
        static.GradientDescentOptimizer(0.1).minimize(x.sum())
    graph.finalize()
    with pytest.raises(RuntimeError, match="Graph is finalized and cannot be modified"):
        x + 1
    session.close()
    with pytest.raises(RuntimeError, match="Attempted to use a closed Session"):
        session.run(w)


def test_default_session():
    with static.Graph().as_default() as graph:
        w = static.variable(1.0, name="w")
        up, init = static.assign_add(w, 1.0), static.global_variables_initializer()
    with pytest.raises(ValueError, match=r"Cannot evaluate tensor using `eval\(\)`: No default session is registered"):
        w.eval()
    with static.Session(graph=graph) as session:
        init.run()
        assert up.eval() == 2.0 and w.eval(session=session) == 2.0


def test_what_cannot_be_fed():
    with static.Graph().as_default() as graph:
        a = static.placeholder(torch.float32, [1], name="a")
        init = static.global_variables_initializer()
    with static.Graph().as_default():
        z = static.placeholder(torch.float32, [1], name="z")
    session = static.Session(graph=graph)
    for key in (z, 3, init):
        with pytest.raises(TypeError, match="Cannot interpret feed_dict key as Tensor"):
            session.run(a, {key: [1.0]})


def test_ops_that_read_values_are_refused():
    """They would compute with what stands for the values."""
    static = torch.static
    for function in (torch.unique, torch.nonzero, torch.geqrf, lambda x: torch.isin(x, torch.ones(1)), lambda x: torch.histc(x, 3), lambda x: torch.zeros(2, 2).copy_(x)):
        with static.Graph().as_default():
            x = static.placeholder(torch.float32, [2, 2], name="x")
            with pytest.raises(TypeError, match="has no value while its graph is built"):
                function(x)


def test_writes_through_views():
    """What shares memory with what was written is never read as it was."""
    static = torch.static

    def row(x):
        y = x * 1
        y[0].mul_(3)
        return y

    def before(x):
        y = x * 1
        view = y[0]
        y.add_(1)
        return view

    def item(x):
        y = x * 1
        y[:, 1] += 2
        return y

    for function in (row, before, item):
        with pytest.raises(NotImplementedError, match="graphs have no writes through views"):
            static.function(function)(torch.ones(2, 2))

    def only_view(x):
        y = (x * 1).view(-1)
        y.relu_()
        return y.add_(1)
    assert static.function(only_view)(torch.tensor([[-1.0, 2.0]])).tolist() == [1.0, 3.0]
