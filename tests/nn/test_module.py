"""Module: registration, attribute rules, the epoch, copies and printing."""
import copy
import pickle

import pytest

import rushlight as torch

nn = torch.nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, x):
        return self.first(x) * self.scale


def test_assigning_registers():
    net = Net()
    assert list(net._parameters) == ["scale"] and list(net._buffers) == ["steps"] and list(net._modules) == ["first"]
    assert net.scale is net._parameters["scale"]
    net.scale = None
    assert net.scale is None and "scale" in net._parameters
    net.first = None
    assert net.first is None and list(net.parameters()) == []


def test_a_registered_name_changes_its_kind():
    net = Net()
    net.first = nn.Parameter(torch.zeros(2))
    assert "first" in net._parameters and "first" not in net._modules
    net.plain = 3
    net.plain = nn.ReLU()
    assert "plain" in net._modules and isinstance(net.plain, nn.ReLU)


def test_writing_a_registry_directly_is_seen_by_the_attribute():
    net = Net()
    other = nn.Parameter(torch.zeros(1))
    net._parameters["scale"] = other
    assert net.scale is other
    del net._parameters["scale"]
    assert not hasattr(net, "scale")
    net._parameters = {"scale": other}
    assert net.scale is other


@pytest.mark.parametrize("action, kind, text", [
    (lambda: nn.Module(3), TypeError, r"Module.__init__\(\) takes 1 positional argument but 2 were given"),
    (lambda: nn.Module(a=3), TypeError, r"Module.__init__\(\) got an unexpected keyword argument 'a'"),
    (lambda: nn.Module()(1), NotImplementedError, r'Module \[Module\] is missing the required "forward" function'),
    (lambda: setattr(Net(), "scale", torch.ones(1)), TypeError,
     r"cannot assign 'torch.FloatTensor' as parameter 'scale' \(torch.nn.Parameter or None expected\)"),
    (lambda: setattr(Net(), "first", 3), TypeError, r"cannot assign 'int' as child module 'first' \(torch.nn.Module or None expected\)"),
    (lambda: setattr(Net(), "steps", 3), TypeError, r"cannot assign 'int' as buffer 'steps' \(torch.nn.Buffer, torch.Tensor or None expected\)"),
    (lambda: Net().register_buffer("first", None), KeyError, "attribute 'first' already exists"),
    (lambda: Net().register_buffer("a.b", None), KeyError, "buffer name can"),
    (lambda: Net().register_parameter("w", 3), TypeError, r"cannot assign 'int' object to parameter 'w' \(torch.nn.Parameter or None required\)"),
    (lambda: Net().add_module("m", 3), TypeError, "int is not a Module subclass"),
    (lambda: Net().foo, AttributeError, "'Net' object has no attribute 'foo'"),
    (lambda: delattr(Net(), "foo"), AttributeError, "foo"),
])
def test_refusals(action, kind, text):
    with pytest.raises(kind, match=text):
        action()


def test_nothing_registers_before_init():
    class Early(nn.Module):
        def __init__(self, value):
            self.member = value

    for value, text in ((nn.ReLU(), "module"), (nn.Parameter(torch.ones(1)), "parameters")):
        with pytest.raises(AttributeError, match=rf"cannot assign {text} before Module.__init__\(\) call"):
            Early(value)


def test_the_epoch_rises_with_every_change():
    net = Net()
    epochs = [net._epoch]
    for change in (
        lambda: setattr(net, "flag", 1),
        lambda: delattr(net, "flag"),
        lambda: setattr(net, "scale", nn.Parameter(torch.zeros(1))),
        lambda: net._buffers.update(steps=torch.ones(1)),
        lambda: net.eval(),
        lambda: net.register_forward_hook(lambda *_: None),
        lambda: net._forward_hooks.clear(),
        lambda: net.double(),
        lambda: setattr(net, "forward", lambda x: x),
    ):
        change()
        epochs.append(net._epoch)
    assert epochs == sorted(set(epochs))
    before = net._epoch
    net(torch.ones(1, 2)), net.eval()
    assert net._epoch == before


def test_a_call_without_hooks_is_forward_alone():
    net = Net()
    assert not net._detour
    handle = net.register_forward_hook(lambda *_: None)
    assert net._detour
    handle.remove()
    assert not net._detour


def test_copies_are_independent_and_complete():
    net = Net()
    net.register_forward_hook(lambda module, args, output: output + 1)
    twin = copy.deepcopy(net)
    x = torch.ones(1, 2)
    assert torch.equal(twin(x), net(x))
    assert twin.scale is twin._parameters["scale"] and twin.scale is not net.scale
    twin.scale = nn.Parameter(torch.zeros(1))
    assert net.scale.item() == 1 and twin.scale.item() == 0
    assert twin._modules["first"] is twin.first


def test_pickle_keeps_names_and_values():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    again = pickle.loads(pickle.dumps(model))
    assert list(again.state_dict()) == list(model.state_dict())
    assert torch.equal(again[0].weight, model[0].weight) and isinstance(again[0].weight, nn.Parameter)
    again[0].weight = nn.Parameter(torch.zeros(2, 2))
    assert again.state_dict()["0.weight"].sum().item() == 0


def test_modules_are_freed_without_the_collector():
    import gc
    import weakref

    gc.disable()
    try:
        net = Net()
        net.register_forward_hook(lambda *_: None)
        reference = weakref.ref(net)
        del net
        assert reference() is None
    finally:
        gc.enable()


def test_repr_indents_children_and_extra_lines():
    class Shown(Net):
        def extra_repr(self):
            return "size=4"

    text = repr(nn.Sequential(Shown()))
    assert text == (
        "Sequential(\n  (0): Shown(\n    size=4\n    (first): Linear(in_features=2, out_features=3, bias=True)\n  )\n)"
    )


def test_dir_lists_entries_without_digits():
    names = dir(nn.Sequential(nn.ReLU()))
    assert "0" not in names and "forward" in names
    assert {"scale", "steps", "first"} <= set(dir(Net()))


def test_compile_needs_its_layer_and_then_replaces_the_call(monkeypatch):
    net = Net()
    monkeypatch.setattr(nn.Module, "_compiler", staticmethod(lambda call, **options: lambda *args: ("compiled", call(*args))))
    net.compile(dynamic=True)
    kind, value = net(torch.ones(1, 2))
    assert kind == "compiled" and value.shape == (1, 3)
    monkeypatch.setattr(nn.Module, "_compiler", None)
    with pytest.raises(NotImplementedError, match="compile"):
        net.compile()


def test_properties_of_a_user_class_work():
    class WithProperty(nn.Module):
        def __init__(self):
            super().__init__()
            self._size = 1

        @property
        def size(self):
            return self._size

        @size.setter
        def size(self, value):
            self._size = value * 2

    module = WithProperty()
    module.size = 3
    assert module.size == 6
