"""Hooks of leaves, leaves that are frozen for a while, and chosen leaves, in whole compiled steps against PyTorch."""
import pytest

import rushlight

from .comparing import against_torch, model, observed

torch = pytest.importorskip("torch")


def trained(prepare, native=True, steps=5):
    """A step of `prepare(T, net, opt) -> step(x, y)`: no break, one program."""
    def make(T):
        net = model(T)
        opt = T.optim.Adam(net.parameters(), lr=0.02)
        return prepare(T, net, opt), observed(net, opt)
    compiled = against_torch(make, steps=steps, native=native)
    assert compiled._rushlight_compiled.start.entries and not compiled._rushlight_compiled.breaks
    return compiled


def usual(T, net, opt):
    def step(x, y):
        opt.zero_grad()
        loss = T.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss.detach()
    return step


def test_a_hook_changes_the_gradient():
    def prepare(T, net, opt):
        net[0].weight.register_hook(lambda g: g.clamp(-0.01, 0.01))
        net[2].bias.register_hook(lambda g: None)
        net[2].bias.register_hook(lambda g: g * 2)
        return usual(T, net, opt)
    trained(prepare)


def test_what_runs_after_a_gradient_was_added():
    def prepare(T, net, opt):
        def halve(p):
            p.grad.mul_(0.5)
        for p in net.parameters():
            p.register_post_accumulate_grad_hook(halve)
        return usual(T, net, opt)
    trained(prepare)


def test_an_optimizer_in_the_backward_pass():
    def prepare(T, net, opt):
        def update(p):
            with T.no_grad():
                p.sub_(p.grad, alpha=0.1)
            p.grad = None
        for p in net.parameters():
            p.register_post_accumulate_grad_hook(update)

        def step(x, y):
            loss = T.nn.functional.cross_entropy(net(x), y)
            loss.backward()
            return loss.detach()
        return step
    trained(prepare)


def test_a_hook_that_comes_or_goes_is_noticed():
    def prepare(T, net, opt):
        handles = []
        run = usual(T, net, opt)
        inner = rushlight.compile(run) if T is rushlight else run
        count = [0]

        def step(x, y):
            count[0] += 1
            if count[0] == 2:
                handles.append(net[0].weight.register_hook(lambda g: g * 0.1))
            if count[0] == 4:
                handles.pop().remove()
            return inner(x, y)
        return rushlight.compiler.disable(step) if T is rushlight else step

    def make(T):
        net = model(T)
        opt = T.optim.SGD(net.parameters(), lr=0.05)
        return prepare(T, net, opt), observed(net, opt)
    against_torch(make, steps=6, native=False)


def test_parameters_are_frozen_for_a_while():
    def prepare(T, net, opt):
        def step(x, y):
            net[0].requires_grad_(False)
            net[2].bias.requires_grad = False
            opt.zero_grad()
            loss = T.nn.functional.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
            net[0].requires_grad_(True)
            net[2].bias.requires_grad = True
            return loss.detach()
        return step
    trained(prepare)


def test_parameters_stay_frozen():
    def prepare(T, net, opt):
        def step(x, y):
            net[0].weight.requires_grad_(False)
            opt.zero_grad()
            loss = T.nn.functional.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
            return loss.detach()
        return step

    def make(T):
        net = model(T)
        opt = T.optim.SGD(net.parameters(), lr=0.05)
        see = observed(net, opt)
        return prepare(T, net, opt), lambda: [see(), [p.requires_grad for p in net.parameters()]]
    against_torch(make, steps=3, native=False)


def test_backward_into_chosen_leaves():
    def prepare(T, net, opt):
        def step(x, y):
            opt.zero_grad()
            loss = T.nn.functional.cross_entropy(net(x), y)
            loss.backward(inputs=list(net[2].parameters()))
            opt.step()
            return loss.detach()
        return step
    trained(prepare)


def test_inference_mode_and_gradients_within_no_grad():
    def prepare(T, net, opt):
        def step(x, y):
            with T.no_grad():
                hidden = net[0](x)
                with T.enable_grad():
                    out = net[2](hidden.tanh())
            with T.inference_mode():
                seen = net(x).sum()
            opt.zero_grad()
            loss = T.nn.functional.cross_entropy(out, y)
            loss.backward()
            opt.step()
            return loss.detach(), seen * 1
        return step
    trained(prepare)


def test_a_hook_of_a_tensor_made_inside():
    def prepare(T, net, opt):
        scale = 0.5

        def step(x, y):
            hidden = net[1](net[0](x))
            hidden.register_hook(lambda g: g * scale)
            out = net[2](hidden)
            out.register_hook(lambda g: g + 0.01)
            opt.zero_grad()
            loss = T.nn.functional.cross_entropy(out, y) + hidden.square().mean()
            loss.backward()
            opt.step()
            return loss.detach()
        return step
    trained(prepare)


def test_the_gradient_of_a_tensor_made_inside_is_kept():
    def prepare(T, net, opt):
        def step(x, y):
            hidden = net[0](x)
            hidden.retain_grad()
            opt.zero_grad()
            loss = T.nn.functional.cross_entropy(net[2](net[1](hidden)), y)
            loss.backward()
            opt.step()
            return loss.detach(), hidden.grad, hidden.grad.abs().mean()
        return step
    trained(prepare)


def test_a_tensor_with_hooks_that_leaves_the_function_keeps_its_history():
    def make(T):
        net = model(T)
        seen = []

        def forward(x, y):
            hidden = net[0](x)
            hidden.register_hook(lambda g: g * 2)
            return net[2](net[1](hidden))
        run = rushlight.compile(forward) if T is rushlight else forward

        def step(x, y):
            for p in net.parameters():
                p.grad = None
            run(x, y).square().mean().backward()
            return net[0].weight.grad, seen
        return rushlight.compiler.disable(step) if T is rushlight else step, observed(net)
    against_torch(make, steps=3, native=False)


def test_a_write_into_a_tensor_with_hooks():
    """It is no leaf, so writing into it is allowed; the graph breaks there."""
    def make(T):
        net = model(T)

        def step(x, y):
            for p in net.parameters():
                p.grad = None
            hidden = net[0](x)
            hidden.register_hook(lambda g: g * 2)
            hidden.mul_(0.5)
            loss = T.nn.functional.cross_entropy(net[2](net[1](hidden)), y)
            loss.backward()
            return loss.detach()
        return step, observed(net)
    against_torch(make, steps=3, native=False)


def test_full_backward_hooks_of_modules():
    """Both kinds, one within another, one that only looks; the gradient of an input that the loss reaches on another way too."""
    def prepare(T, net, opt):
        seen = []
        block = T.nn.Sequential(T.nn.Linear(16, 16), T.nn.Tanh())
        with T.no_grad():
            for p in block.parameters():
                p.copy_(T.linspace(-0.3, 0.3, p.numel()).reshape(p.shape))
        block.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 0.5,))
        block.register_full_backward_pre_hook(lambda module, outputs: (outputs[0].clamp(-0.01, 0.01),))
        block[0].register_full_backward_hook(lambda module, inputs, outputs: seen.append(outputs[0].abs().sum()))

        def step(x, y):
            opt.zero_grad()
            hidden = net[1](net[0](x))
            loss = T.nn.functional.cross_entropy(net[2](hidden + block(hidden)), y)
            loss.backward()
            opt.step()
            return loss.detach(), seen.pop()
        return step
    trained(prepare)


def test_full_backward_hooks_of_modules_with_several_tensors():
    def prepare(T, net, opt):
        class Pair(T.nn.Module):
            def forward(self, one, two):
                return one * two, one - two
        pair = Pair()
        pair.register_full_backward_hook(lambda module, inputs, outputs: tuple(g * at for at, g in enumerate(inputs, 1)))
        pair.register_full_backward_pre_hook(lambda module, outputs: (outputs[1], outputs[0]))

        def step(x, y):
            opt.zero_grad()
            hidden = net[1](net[0](x))
            left, right = pair(hidden.sin(), hidden.cos())
            loss = T.nn.functional.cross_entropy(net[2](left), y) + right.square().mean()
            loss.backward()
            opt.step()
            return loss.detach()
        return step
    trained(prepare)


def test_a_compiled_model_with_full_backward_hooks():
    """Where the backward pass is outside, the hooks run there."""
    import rushlight as ours
    results = []
    for T, wrap in ((torch, lambda net: net), (ours, ours.compile)):
        net = model(T)
        net[2].register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 3,))
        run = wrap(net)
        for _ in range(3):
            net.zero_grad()
            run(T.ones(2, 6)).square().sum().backward()
        results.append(net[0].weight.grad.numpy())
    assert abs(results[0] - results[1]).max() < 1e-4
