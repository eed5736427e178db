"""`GradScaler`: scales a loss so that half-precision gradients do not vanish, and skips steps whose gradients overflowed."""
import numpy as np

from ..tensor import Tensor, bump, wrap


class GradScaler:
    """Multiply the loss by a scale, divide the gradients before the step, and adapt the scale.

    >>> import rushlight as torch
    >>> scaler = torch.amp.GradScaler("cpu")
    >>> scaler.scale(torch.tensor(2.0))
    tensor(131072.)
    """

    def __init__(self, device="cuda", init_scale=2.0 ** 16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        self._enabled = enabled
        if enabled:
            if growth_factor <= 1.0:
                raise AssertionError("The growth factor must be > 1.0.")
            if backoff_factor >= 1.0:
                raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale, self._scale = init_scale, None
        self._growth_factor, self._backoff_factor, self._growth_interval = growth_factor, backoff_factor, growth_interval
        self._growth_tracker, self._states = 0, {}

    def scale(self, outputs):
        """The outputs (a tensor or nested) times the scale."""
        if not self._enabled:
            return outputs
        if self._scale is None:
            self._scale = wrap(np.array(self._init_scale, np.float32))
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        return type(outputs)(self.scale(item) for item in outputs)

    def unscale_(self, optimizer):
        """Divide the optimizer's gradients by the scale, once per step, and note whether any is not finite."""
        if not self._enabled:
            return
        self._need_scale("unscale_")
        state = self._states.setdefault(id(optimizer), {"stage": "ready"})
        if state["stage"] == "unscaled":
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state["stage"] == "stepped":
            raise RuntimeError("unscale_() is being called after step().")
        inverse, found = 1.0 / self._scale.item(), False
        for group in optimizer.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    array = param.grad._array
                    found = found or not np.isfinite(array).all()
                    array *= array.dtype.type(inverse)
                    bump(param.grad)
        state.update(stage="unscaled", found=found)

    def step(self, optimizer, *args, **kwargs):
        """`optimizer.step()`, unless a gradient is not finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._need_scale("step")
        state = self._states.setdefault(id(optimizer), {"stage": "ready"})
        if state["stage"] == "stepped":
            raise RuntimeError("step() has already been called since the last update().")
        if state["stage"] == "ready":
            self.unscale_(optimizer)
        state = self._states[id(optimizer)]
        result = None if state["found"] else optimizer.step(*args, **kwargs)
        state["stage"] = "stepped"
        return result

    def update(self, new_scale=None):
        """Adapt the scale after the step: smaller after an overflow, larger after `growth_interval` good steps."""
        if not self._enabled:
            return
        self._need_scale("update")
        if new_scale is not None:
            self._scale = wrap(np.array(float(new_scale), np.float32))
        else:
            found = [state["found"] for state in self._states.values() if "found" in state]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            if any(found):
                self._scale, self._growth_tracker = self._scale * self._backoff_factor, 0
            else:
                self._growth_tracker += 1
                if self._growth_tracker == self._growth_interval:
                    self._scale, self._growth_tracker = self._scale * self._growth_factor, 0
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

    def state_dict(self):
        """What `load_state_dict` needs to go on."""
        if not self._enabled:
            return {}
        return {"scale": self.get_scale(), "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
                "growth_interval": self._growth_interval, "_growth_tracker": self._growth_tracker}

    def load_state_dict(self, state_dict):
        """Go on from a `state_dict`."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler.")
        self._init_scale = state_dict["scale"]
        if self._scale is not None:
            self._scale = wrap(np.array(self._init_scale, np.float32))
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval, self._growth_tracker = state_dict["growth_interval"], state_dict["_growth_tracker"]
