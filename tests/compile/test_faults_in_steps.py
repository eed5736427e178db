"""An exception at every bytecode instruction of compiled steps: parameters, buffers, state and random numbers are all before the step or after."""
import subprocess
import sys

import numpy as np
import pytest

import rushlight
from rushlight import nn


class Injected(BaseException):
    """In the place of KeyboardInterrupt, which pytest would take for its own."""


KINDS = {
    "plain": lambda net: None,
    "strided": lambda net: setattr(net[0], "weight", nn.Parameter(net[0].weight.detach().t().contiguous().t())),
    "dropout": lambda net: net.append(nn.Dropout(0.5)),
}


def build(kind):
    rushlight.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 3))
    KINDS[kind](net)
    opt = rushlight.optim.Adam(net.parameters(), lr=0.01)
    scaler = rushlight.amp.GradScaler("cpu", init_scale=256.0)

    @rushlight.compile
    def step(x, y):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        return loss.detach()
    return step, net, opt


def kept(net, opt):
    state = [value for param in net.parameters() for value in opt.state.get(param, {}).values()]
    return [np.array(tensor.detach()) for tensor in (*net.state_dict().values(), *state)]


def interrupted(step, args, at):
    """Whether an exception at the `at`-th instruction of ours came out of the step."""
    count = 0

    def local(frame, event, arg):
        nonlocal count
        if event == "opcode":
            count += 1
            if count == at:
                raise Injected
        return local

    def entered(frame, event, arg):
        if "rushlight" not in frame.f_code.co_filename and not frame.f_code.co_filename.startswith("<"):
            return None
        frame.f_trace_opcodes = True
        return local
    sys.settrace(entered)
    try:
        step(*args)
    except Injected:
        return True
    finally:
        sys.settrace(None)
    return count >= at


def every_instruction(kind):
    step, net, opt = build(kind)
    args = rushlight.randn(8, 6), rushlight.randint(0, 3, (8,))
    for _ in range(6):
        step(*args)
    apart = 0
    for at in range(1, 6000, 3 if kind == "dropout" else 2):
        before, numbers = kept(net, opt), rushlight.get_rng_state()
        if not interrupted(step, args, at):
            break
        changed = {bool((one != other).any()) for one, other in zip(before, kept(net, opt))}
        assert len(changed) == 1, f"half a step at instruction {at}"
        apart += kind == "dropout" and rushlight.equal(numbers, rushlight.get_rng_state()) == changed.pop()
        step(*args)
    else:
        raise AssertionError("the step never ended")
    assert apart <= 2  # where the program has just ended, and the mark has not been let go of


@pytest.mark.parametrize("kind", KINDS)
def test_every_instruction_of_a_step(kind):
    """In a process of its own: raised on the way out of a `with lock`, where Python delivers no signal, it would leave the lock taken."""
    found = subprocess.run([sys.executable, __file__, kind], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr


if __name__ == "__main__":
    every_instruction(sys.argv[1])
