"""`GradScaler`: scales a loss so that half-precision gradients do not vanish, and skips steps whose gradients overflowed.

Scale, counter and findings are tensors, and what is done to them are the functions at the end.  A trace has its own forms of
those (here, and capture/training.py), so that scaling is part of a compiled step.
"""
import warnings

import numpy as np

from ..core import modes
from ..core.tracing import followed_as, made_before
from ..ops import tensor, where
from ..tensor import Tensor, bump


class GradScaler:
    """Multiply the loss by a scale, divide the gradients before the step, and adapt the scale.

    >>> import rushlight as torch
    >>> scaler = torch.amp.GradScaler("cpu")
    >>> scaler.scale(torch.tensor(2.0))
    tensor(131072.)
    """

    def __init__(self, device="cuda", init_scale=2.0 ** 16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        if enabled and device == "cuda":
            warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
            enabled = False
        self._enabled = enabled
        if enabled:
            if growth_factor <= 1.0:
                raise AssertionError("The growth factor must be > 1.0.")
            if backoff_factor >= 1.0:
                raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale, self._scale = init_scale, None
        self._growth_factor, self._backoff_factor, self._growth_interval = growth_factor, backoff_factor, growth_interval
        self._init_growth_tracker, self._growth_tracker, self._states = 0, None, {}

    def scale(self, outputs):
        """The outputs (a tensor or nested) times the scale."""
        if not self._enabled:
            return outputs
        make_tensors(self)
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        return type(outputs)([self.scale(item) for item in outputs])

    def unscale_(self, optimizer):
        """Divide the optimizer's gradients by the scale, once per step, and note whether any is not finite."""
        if not self._enabled:
            return
        self._need_scale("unscale_")
        state = self._states.get(id(optimizer), {"stage": "ready"})
        if state["stage"] == "unscaled":
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state["stage"] == "stepped":
            raise RuntimeError("unscale_() is being called after step().")
        grads = [param.grad for group in optimizer.param_groups for param in group["params"]]
        found = unscale([grad for grad in grads if grad is not None], self._scale)
        self._states[id(optimizer)] = {"stage": "unscaled", "found": found}

    def step(self, optimizer, *args, **kwargs):
        """`optimizer.step()`, unless a gradient is not finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._need_scale("step")
        if self._states.get(id(optimizer), {"stage": "ready"})["stage"] == "stepped":
            raise RuntimeError("step() has already been called since the last update().")
        if id(optimizer) not in self._states:
            self.unscale_(optimizer)
        found = self._states[id(optimizer)]["found"]
        result = step_unless(found, optimizer, *args, **kwargs)
        self._states[id(optimizer)] = {"stage": "stepped", "found": found}
        return result

    def update(self, new_scale=None):
        """Adapt the scale after the step: smaller after an overflow, larger after `growth_interval` good steps."""
        if not self._enabled:
            return
        self._need_scale("update")
        if new_scale is not None:
            self._scale.copy_(tensor(new_scale)) if isinstance(new_scale, float) else self._scale.copy_(new_scale)
        else:
            found = [state["found"] for state in self._states.values()]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            update_scale(self._scale, self._growth_tracker, found, self._growth_factor, self._backoff_factor, self._growth_interval)
        self._states.clear()

    def _need_scale(self, name):
        if self._scale is None:
            raise AssertionError(f"Attempted {name} but _scale is None.  This may indicate your script did not use scaler.scale(loss or outputs) "
                                 "earlier in the iteration.")

    def get_scale(self):
        """The scale as a float."""
        return (self._init_scale if self._scale is None else self._scale.item()) if self._enabled else 1.0

    def is_enabled(self):
        """Whether the scaler does anything."""
        return self._enabled

    def get_growth_factor(self):
        """By what the scale grows."""
        return self._growth_factor

    def get_backoff_factor(self):
        """By what the scale shrinks."""
        return self._backoff_factor

    def get_growth_interval(self):
        """After how many good steps the scale grows."""
        return self._growth_interval

    def _get_growth_tracker(self):
        """How many good steps there were since the scale changed."""
        return (self._init_growth_tracker if self._growth_tracker is None else self._growth_tracker.item()) if self._enabled else 0

    def state_dict(self):
        """What `load_state_dict` needs to go on."""
        if not self._enabled:
            return {}
        return {"scale": self.get_scale(), "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
                "growth_interval": self._growth_interval, "_growth_tracker": self._get_growth_tracker()}

    def load_state_dict(self, state_dict):
        """Go on from a `state_dict`."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler.")
        self._init_scale, self._init_growth_tracker = state_dict["scale"], state_dict["_growth_tracker"]
        if self._scale is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]


@made_before
def make_tensors(scaler):
    """What a scaler keeps, made when it first scales."""
    if scaler._scale is None:
        scaler._scale = tensor(float(scaler._init_scale))
        scaler._growth_tracker = tensor(int(scaler._init_growth_tracker))


def unscale_by_ops(grads, scale):
    with modes.no_grad():
        inverse = scale.double().reciprocal().float()
        found = tensor(False)
        for grad in grads:
            found = found | grad.isfinite().all().logical_not()
            grad.mul_(inverse)
        return found.float()


@followed_as(unscale_by_ops)
def unscale(grads, scale):
    """Divide gradients by the scale in place; 1.0 if one of them was not finite before, else 0.0."""
    inverse, found = 1.0 / float(scale.item()), False
    with np.errstate(all="ignore"):
        for grad in grads:
            array = grad._array
            found = found or not np.isfinite(array if array.dtype.kind != "V" else array.astype(np.float32)).all()
            array *= array.dtype.type(inverse)
            bump(grad)
    return tensor(float(found))


def step_unless(found, optimizer, *args, **kwargs):
    """`optimizer.step()` unless `found` is not 0."""
    return None if found.item() else optimizer.step(*args, **kwargs)


def update_scale_by_ops(scale, tracker, found, growth, backoff, interval):
    with modes.no_grad():
        overflow = found[0]
        for one in found[1:]:
            overflow = overflow + one
        overflow, count, grown = overflow != 0, tracker + 1, scale * growth
        full = count == interval
        scale.copy_(where(overflow, scale * backoff, where(full & grown.isfinite(), grown, scale)))
        tracker.copy_(count.masked_fill(overflow | full, 0))


@followed_as(update_scale_by_ops)
def update_scale(scale, tracker, found, growth, backoff, interval):
    """The scale times `backoff` after an overflow in any of `found`, times `growth` after `interval` good steps, in place."""
    if any(one.item() for one in found):
        scale.mul_(backoff)
        tracker.zero_()
        return
    tracker.add_(1)
    if tracker.item() == interval:
        grown = scale * growth
        if grown.isfinite():
            scale.copy_(grown)
        tracker.zero_()


