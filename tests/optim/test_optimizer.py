"""The base: groups, errors, state dicts, hooks, closures, what a failing step leaves behind."""
import copy
import warnings

import pytest

import rushlight as torch

SGD, Adam = torch.optim.SGD, torch.optim.Adam


def weight(*values):
    return torch.tensor(list(values) or [1.0, -2.0], requires_grad=True)


def with_grad(*values):
    w = weight(*values)
    w.grad = torch.ones_like(w)
    return w


def test_groups_have_their_own_options():
    a, b = with_grad(1.0), with_grad(1.0)
    optimizer = SGD([{"params": a}, {"params": [b], "lr": 0.5}], lr=0.25)
    optimizer.step()
    assert (a.item(), b.item()) == (0.75, 0.5)
    optimizer.add_param_group({"params": (p for p in [with_grad(1.0)]), "momentum": 0.5})
    assert [g["lr"] for g in optimizer.param_groups] == [0.25, 0.5, 0.25]
    optimizer.step()
    assert optimizer.param_groups[2]["params"][0].item() == 0.75
    assert "momentum_buffer" in optimizer.state[optimizer.param_groups[2]["params"][0]]


@pytest.mark.parametrize(("params", "error", "words"), [
    (lambda: [], ValueError, "optimizer got an empty parameter list"),
    (lambda: iter(()), ValueError, "optimizer got an empty parameter list"),
    (lambda: weight(), TypeError, "params argument given to the optimizer should be an iterable of Tensors or dicts, but got torch.FloatTensor"),
    (lambda: [weight() * 2], ValueError, "can't optimize a non-leaf Tensor"),
    (lambda: ["w"], TypeError, "optimizer can only optimize Tensors, but one of the params is str"),
    (lambda: [{"params": {weight()}}], TypeError, "optimizer parameters need to be organized in ordered collections"),
    (lambda: [("a", weight()), weight()], ValueError, "all optimizer params should be with/without names. Some param names are missing"),
    (lambda: [{"params": [("a", weight())]}, {"params": [weight()]}], ValueError, "all optimizer param groups should be with/without names"),
    (lambda: [{"params": [w]} for w in [weight()] * 2], ValueError, "some parameters appear in more than one parameter group"),
])
def test_bad_parameters(params, error, words):
    with pytest.raises(error, match=words):
        SGD(params(), lr=0.1)


def test_a_group_must_be_a_dict_and_give_what_is_required():
    optimizer = SGD([weight()])
    with pytest.raises(TypeError, match="param_group must be a dict, but got <class 'list'>"):
        optimizer.add_param_group([weight()])
    from rushlight.optim.optimizer import Optimizer, required
    with pytest.raises(ValueError, match="parameter group didn't specify a value of required optimization parameter lr"):
        Optimizer([weight()], {"lr": required})
    with pytest.warns(UserWarning, match="optimizer contains a parameter group with duplicate parameters"):
        w = weight()
        SGD([w, w])


def test_a_parameter_given_twice_is_updated_twice():
    w = with_grad(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optimizer = Adam([w, w], lr=0.1)
    optimizer.step()
    assert optimizer.state[w]["step"].item() == 2


def test_named_parameters_keep_their_names():
    optimizer = SGD([("a", with_grad(1.0)), ("b", with_grad(2.0))], lr=0.5)
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["a", "b"]
    optimizer.step()
    assert [p.item() for p in optimizer.param_groups[0]["params"]] == [0.5, 1.5]
    plain = SGD([weight(), weight()], lr=0.1)
    optimizer.load_state_dict(plain.state_dict())
    assert optimizer.param_groups[0]["param_names"] == ["a", "b"]


def test_repr_lists_groups_and_options():
    assert repr(SGD([weight()], lr=0.1)) == """SGD (
Parameter Group 0
    dampening: 0
    differentiable: False
    foreach: None
    fused: None
    lr: 0.1
    maximize: False
    momentum: 0
    nesterov: False
    weight_decay: 0
)"""


def test_zero_grad():
    w, v = with_grad(), weight()
    optimizer = SGD([w, v])
    kept = w.grad
    optimizer.zero_grad(set_to_none=False)
    assert w.grad is kept and kept.tolist() == [0.0, 0.0] and v.grad is None and kept._version == 1
    optimizer.zero_grad()
    assert w.grad is None


def test_a_step_counts_as_a_write():
    w = with_grad()
    before = w._version
    SGD([w], lr=0.1).step()
    assert w._version == before + 1
    y = (w * w).sum()
    SGD([w], lr=0.1).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_parameters_without_a_gradient_are_left_alone():
    w, v = with_grad(), weight()
    optimizer = Adam([w, v], lr=0.1, weight_decay=0.5)
    optimizer.step()
    assert v.tolist() == [1.0, -2.0] and list(optimizer.state) == [w]
    assert list(SGD([w]).state_dict()["state"]) == []


def test_a_closure_is_called_with_recording_on():
    w = weight(3.0)
    optimizer = SGD([w], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    with torch.no_grad():
        assert optimizer.step(closure).item() == 9.0
    assert w.item() == 0.0


def test_an_unusable_gradient_stops_the_step_before_anything_is_written():
    for make in (SGD, Adam, torch.optim.Adafactor):
        a, b = with_grad(1.0, 2.0), with_grad(3.0, 4.0)
        optimizer = make([a, b], lr=0.1)
        b.grad.data = torch.ones(3)
        with pytest.raises(RuntimeError, match=r"the gradient of a parameter is torch.float32 of shape \[3\]"):
            optimizer.step()
        assert a.tolist() == [1.0, 2.0] and a._version == 0
        b.grad = torch.ones(2)
        optimizer.step()
        assert a.tolist() != [1.0, 2.0]


def test_state_dict_numbers_parameters_across_groups_and_shares_tensors():
    a, b = with_grad(1.0), with_grad(2.0)
    optimizer = SGD([{"params": [a]}, {"params": [b]}], lr=0.1, momentum=0.9)
    optimizer.step()
    state = optimizer.state_dict()
    assert [group["params"] for group in state["param_groups"]] == [[0], [1]]
    assert state["state"][1]["momentum_buffer"] is optimizer.state[b]["momentum_buffer"]


def test_loading_checks_the_groups():
    one, two = SGD([weight()]), SGD([{"params": [weight()]}, {"params": [weight()]}])
    with pytest.raises(ValueError, match="loaded state dict has a different number of parameter groups"):
        one.load_state_dict(two.state_dict())
    with pytest.raises(ValueError, match="loaded state dict contains a parameter group that doesn't match the size of optimizer's group"):
        one.load_state_dict(SGD([weight(), weight()]).state_dict())


def test_loading_casts_state_to_the_parameter_but_not_the_step():
    source = Adam([with_grad()], lr=0.5)
    source.step()
    w = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    target = Adam([w])
    target.load_state_dict(source.state_dict())
    state = target.state[w]
    assert (state["exp_avg"].dtype, state["step"].dtype) == (torch.float64, torch.float32)
    assert target.param_groups[0]["lr"] == 0.5 and target.param_groups[0]["params"] == [w]
    w.grad = torch.ones_like(w)
    target.step()
    assert target.state[w]["step"].item() == 2


def test_state_of_old_programs_with_python_numbers_loads():
    source = Adam([with_grad()])
    source.step()
    saved = copy.deepcopy(source.state_dict())
    saved["state"][0]["step"] = 7
    del saved["param_groups"][0]["amsgrad"]
    source.load_state_dict(saved)
    source.step()
    (w,) = source.param_groups[0]["params"]
    assert source.state[w]["step"].item() == 8 and source.param_groups[0]["amsgrad"] is False


def test_hooks_run_around_a_step_and_can_be_removed():
    seen = []
    w = with_grad(1.0)
    optimizer = SGD([w], lr=0.5)
    handles = [
        torch.optim.optimizer.register_optimizer_step_pre_hook(lambda o, args, kwargs: seen.append("every before")),
        optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append(("before", args == (optimizer,), w.item()))),
        optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append(("after", w.item()))),
        torch.optim.optimizer.register_optimizer_step_post_hook(lambda o, args, kwargs: seen.append("every after")),
    ]
    optimizer.step()
    assert seen == ["every before", ("before", True, 1.0), ("after", 0.5), "every after"]
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(seen) == 4


def test_a_pre_hook_may_change_the_arguments():
    w = with_grad(1.0)
    optimizer = SGD([w], lr=0.5)
    with optimizer.register_step_pre_hook(lambda o, args, kwargs: (args, {"closure": lambda: "called"})):
        assert optimizer.step() == "called"
    optimizer.register_step_pre_hook(lambda o, args, kwargs: "nonsense")
    with pytest.raises(RuntimeError, match="must return None or a tuple of"):
        optimizer.step()


def test_state_dict_hooks():
    optimizer, seen = SGD([weight()], lr=0.1), []
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("second"))
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("first"), prepend=True)
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "extra": 1})
    state = optimizer.state_dict()
    assert seen == ["first", "second"] and state["extra"] == 1

    def faster(o, state):
        state["param_groups"][0]["lr"] = 0.7
        return state

    optimizer.register_load_state_dict_pre_hook(faster)
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append(o.param_groups[0]["lr"]))
    optimizer.load_state_dict(state)
    assert seen[-1] == 0.7


def test_an_optimizer_of_the_users_own():
    class Halving(torch.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {})

        def step(self, closure=None):
            with torch.no_grad():
                for group in self.param_groups:
                    for p in group["params"]:
                        p.mul_(0.5)

    w, seen = weight(), []
    optimizer = Halving([w])
    optimizer.register_step_post_hook(lambda *args: seen.append(1))
    optimizer.step()
    assert w.tolist() == [0.5, -1.0] and seen == [1]
    with pytest.raises(NotImplementedError):
        torch.optim.Optimizer([w], {}).step()


def test_the_line_of_the_step_is_remembered():
    w = with_grad()
    y = (w * w).sum()
    SGD([w], lr=0.1).step()
    with pytest.raises(RuntimeError) as caught:
        y.backward()
    assert "test_optimizer.py" in str(caught.value)


def test_repr_of_several_groups_has_empty_lines_between():
    assert "    weight_decay: 0\n\nParameter Group 1\n" in repr(SGD([{"params": [weight()]}, {"params": [weight()]}], lr=0.1))
