"""Random tensors: factories and in-place fills over core/sampling, and the generator that the public sees."""
import operator

import numpy as np

from ..core import dtypes, modes, rejection, sampling
from ..core import generator as core_generator
from ..core import normal as core_normal
from ..core.errors import type_name
from ..core.promotion import CHECKED_NAMES
from ..core.size import broadcast_shapes, sizes_from
from ..tensor import Tensor, bump, wrap
from .creation import allocate, beside, dtype_given, made, numpy_dtype_of
from .dispatch import check_inplace, check_written, scalar_name
from .record import composite, primitive
from .written import own

WIDE_UNSIGNED = frozenset([dtypes.uint16, dtypes.uint32, dtypes.uint64])
# Up to which n `randperm` gives numbers of a dtype, and how PyTorch writes it.
WHOLE = {"float16": (2 ** 11 + 1, "2049"), "float32": (2 ** 24 + 1, "2^24+1"), "float64": (2 ** 53 + 1, "2^53+1")}


class Generator(core_generator.Generator):
    """A stream of random numbers that equals PyTorch's CPU stream for the same seed.

    >>> import rushlight as torch
    >>> g = torch.Generator().manual_seed(0)
    >>> torch.rand(2, generator=g)
    tensor([0.4963, 0.7682])
    """

    __slots__ = ()

    def get_state(self):
        """The state as a uint8 tensor of 5056 elements."""
        return wrap(super().get_state())

    def clone_state(self):
        """A new generator that will give the same numbers as this one, independently of it."""
        return Generator().set_state(self.get_state())

    graphsafe_get_state = clone_state

    def __deepcopy__(self, memo):
        return self.clone_state()

    def __reduce__(self):
        return restore, (self.get_state().numpy().tobytes(),)


def restore(state):
    """The generator of a pickled state."""
    return Generator().set_state(np.frombuffer(state, np.uint8))


default_generator = core_generator.default_generator
default_generator.__class__ = Generator  # the one that core made before tensors existed


@composite("torch")
def manual_seed(seed):
    """Seed the default generator and return it.

    >>> import rushlight as torch
    >>> torch.manual_seed(0).initial_seed()
    0
    """
    return default_generator.manual_seed(int(seed))


@composite("torch")
def seed():
    """Seed the default generator from the operating system and return the seed.

    >>> import rushlight as torch
    >>> torch.seed() == torch.initial_seed()
    True
    """
    return default_generator.seed()


@composite("torch")
def initial_seed():
    """The seed that the default generator started from.

    >>> import rushlight as torch
    >>> torch.manual_seed(7).initial_seed()
    7
    """
    return default_generator.initial_seed()


@composite("torch")
def get_rng_state():
    """The state of the default generator, a uint8 tensor.

    >>> import rushlight as torch
    >>> torch.get_rng_state().shape
    torch.Size([5056])
    """
    return default_generator.get_state()


@composite("torch")
def set_rng_state(new_state):
    """Continue the default generator from a state.

    >>> import rushlight as torch
    >>> torch.set_rng_state(torch.get_rng_state())
    """
    default_generator.set_state(new_state)


def drawn(fill, sizes, dtype, generator, out, device, requires_grad, refuse):
    """A new tensor (or `out`) filled by `fill(array, generator)`."""
    if out is not None:
        out.resize_(sizes)
        check_float(out._dtype, refuse)
        check_written(out)
        fill(out._array, generator)
        bump(out)
        return out
    if dtype is None:
        kind = modes.Defaults.dtype.numpy
    else:
        kind = numpy_dtype_of(dtype)
        check_float(dtype, refuse)
    array = allocate(sizes, kind)
    fill(array, generator)
    return made(array, device, requires_grad)


def check_float(dtype, kernel):
    dtype = dtypes.ARGUMENTS.get(dtype, dtype)
    if kernel is not None and isinstance(dtype, dtypes.dtype) and dtype.category < dtypes.FLOAT:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{scalar_name(dtype)}'")


def uniform(array, generator):
    sampling.uniform_(array, 0.0, 1.0, generator)


def standard_normal(array, generator):
    if array.dtype.kind == "c":
        real = sampling.as_real(array)
        core_normal.normal_(real, 0.0, 0.5 ** 0.5, generator)
    else:
        core_normal.normal_(array, 0.0, 1.0, generator)


def factory(name, fill, refuse, text):
    def public(*args, size=None, generator=None, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False, names=None):
        return drawn(fill, sizes_from(args if size is None else (size,)), dtype, generator, out, device, requires_grad, refuse)
    public.__name__ = public.__qualname__ = name
    public.__doc__ = f"""{text}

    >>> import rushlight as torch
    >>> torch.{name}(2, 3).shape
    torch.Size([2, 3])
    """
    return composite("torch")(public)


rand = factory("rand", uniform, "check_uniform_bounds", "Uniform random numbers of [0, 1).")
randn = factory("randn", standard_normal, "normal_kernel_cpu", "Standard normal random numbers.")


def like_factory(name, fill, refuse, text):
    def function(input, *, dtype=None, layout=None, device=None, requires_grad=False, memory_format=None, pin_memory=False, generator=None):
        check_float(dtype or input._dtype, refuse)
        array = np.empty_like(input._array, None if dtype is None else numpy_dtype_of(dtype), "K", False)
        fill(array, generator)
        return beside(input, made(array, device, requires_grad))
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{text}

    >>> import rushlight as torch
    >>> torch.{name}(torch.zeros(2)).shape
    torch.Size([2])
    """
    return composite("torch")(function)


rand_like = like_factory("rand_like", uniform, "check_uniform_bounds", "Uniform random numbers in the shape of a tensor.")
randn_like = like_factory("randn_like", standard_normal, "normal_kernel_cpu", "Standard normal random numbers in the shape of a tensor.")


@composite("torch")
def randint(*args, low=None, high=None, size=None, generator=None, out=None, dtype=None, layout=None, device=None, requires_grad=False,
            pin_memory=False):
    """Random integers of [low, high); low is 0 if left out.

    >>> import rushlight as torch
    >>> torch.randint(5, 10, (3,)).dtype
    torch.int64
    """
    args = list(args)
    if size is None:
        size = args.pop() if args and isinstance(args[-1], (tuple, list)) else None
    bounds = args
    if high is not None:
        bounds = ([low] if low is not None else bounds) + [high]
    elif low is not None:
        bounds = [low] + bounds
    if size is None or not 1 <= len(bounds) <= 2:
        raise TypeError("randint() received an invalid combination of arguments - expected randint(low=0, high, size, *, generator=None, ...)")
    low, high = (0, bounds[0]) if len(bounds) == 1 else bounds
    if isinstance(low, float) or isinstance(high, float):
        raise TypeError(f"randint(): argument '{'low' if isinstance(low, float) else 'high'}' must be int, not float")
    low, high = int(low), int(high)

    def fill(array, generator):
        sampling.randint_(array, low, high, generator)
    return drawn(fill, sizes_from((size,)), dtypes.int64 if dtype is None and out is None else dtype, generator, out,
                 device, requires_grad, None)


@composite("torch")
def randint_like(input, low=None, high=None, *, dtype=None, layout=None, device=None, requires_grad=False, memory_format=None, pin_memory=False):
    """Random integers of [low, high) in the shape and dtype of a tensor.

    >>> import rushlight as torch
    >>> torch.randint_like(torch.zeros(2), 5).shape
    torch.Size([2])
    """
    low, high = (0, low if high is None else high) if high is None or low is None else (low, high)
    array = np.empty_like(input._array, dtype=input._dtype.numpy if dtype is None else numpy_dtype_of(dtype), subok=False)
    sampling.randint_(array, int(low), int(high), None)
    return made(array, device, requires_grad)


@composite("torch")
def randperm(n, *, generator=None, out=None, dtype=dtypes.int64, layout=None, device=None, requires_grad=False, pin_memory=False):
    """A random permutation of 0 to n - 1.

    >>> import rushlight as torch
    >>> torch.randperm(4).sort().values
    tensor([0, 1, 2, 3])
    """
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    kind = out._dtype if out is not None else dtype_given(dtype)
    refuse_dtypes(kind, "randperm", kind is dtypes.bool or kind.is_complex or kind in WIDE_UNSIGNED)
    if kind.category == dtypes.INTEGER:
        if n - 1 > np.iinfo(kind.numpy).max:
            raise RuntimeError(f"value cannot be converted to type {CHECKED_NAMES[kind.name]} without overflow: the largest of {n} numbers")
    elif kind.name in WHOLE and n > WHOLE[kind.name][0]:
        raise RuntimeError(f"n cannot be greater than {WHOLE[kind.name][1]} for {scalar_name(kind)} type.")
    array = sampling.randperm(n, generator)
    if out is not None:
        return out.resize_((n,)).copy_(wrap(array))
    return made(array.astype(kind.numpy), device, requires_grad)


@primitive(grad=dict(input=lambda g: g * 0), where="", node="NormalBackward0", family="random")
def _overwritten(input, values):
    return values


def real_number(function, name, place, value):
    """A number argument as PyTorch's C++ takes a `double`: also a 0-d tensor that needs no gradient."""
    if type(value) is float or type(value) is int:
        return value
    if not hasattr(value, "__float__") or isinstance(value, Tensor) and (value.ndim or value.requires_grad):
        raise TypeError(f"{function}(): argument '{name}'{place} must be float, not {type_name(value)}")
    return float(value)


def whole_number(function, name, place, value):
    if value is None and name == "to":
        return value
    if not hasattr(value, "__index__") or isinstance(value, bool):
        raise TypeError(f"{function}() received an invalid combination of arguments - got ({type_name(value)}) for '{name}'{place}, but expected int")
    return operator.index(value)


def chance(function, name, place, value):
    if isinstance(value, Tensor):
        return value
    if not hasattr(value, "__float__"):
        raise TypeError(f"{function}() received an invalid combination of arguments - got ({type_name(value)}), but expected Tensor or float p")
    return float(value)


def refuse_dtypes(dtype, kernel, refused):
    if refused:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{scalar_name(dtype)}'")


def check_continuous(dtype, name):
    if not dtype.is_floating_point:
        raise RuntimeError(f"{name} distribution is a continuous probability distribution. dtype must be a floating point but you specified "
                           f"{scalar_name(dtype)}")


def filler(name, fill, refuse, names, text, call, accept=real_number):
    """An in-place random fill; the history of what is overwritten ends here with zero gradients.

    `refuse(dtype)` raises for dtypes that it does not fill; `accept` checks and converts an argument, of which `names` are the names.
    """
    def function(input, *args, generator=None, **kwargs):
        if len(args) > len(names):
            raise TypeError(f"{name}() takes from 0 to {len(names)} positional arguments but {len(args)} were given")
        args = [accept(name, names[at], f" (position {at + 1})", value) for at, value in enumerate(args)]
        kwargs = {key: accept(name, key, "", value) if key in names else value for key, value in kwargs.items()}
        array = own(input)
        if array is not None:
            fill(array, *args, generator=generator, **kwargs)
            bump(input)
            return input
        refuse(input._dtype)
        if check_inplace(input):
            array = np.empty_like(input._array)
            fill(array, *args, generator=generator, **kwargs)
            return input.copy_(_overwritten(input, array))
        fill(input._array, *args, generator=generator, **kwargs)
        bump(input)
        return input
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{text}

    >>> import rushlight as torch
    >>> torch.zeros(2).{call}.shape
    torch.Size([2])
    """
    return composite("method")(function)


def uniform_fill(array, low=0.0, high=1.0, generator=None, **named):
    sampling.uniform_(array, named.get("from", low), named.get("to", high), generator)


def normal_fill(array, mean=0.0, std=1.0, generator=None):
    if array.dtype.kind == "c":
        core_normal.normal_(sampling.as_real(array), mean, std * 0.5 ** 0.5, generator)
    else:
        core_normal.normal_(array, mean, std, generator)


def random_fill(array, low=None, high=None, generator=None, **named):
    low, high = named.get("from", low), named.get("to", high)
    kind = dtypes.BY_NUMPY[array.dtype]
    if low is None and high is None:
        refuse_dtypes(kind, "random_kernel_cpu", kind.is_complex or kind in WIDE_UNSIGNED)
        sampling.random_(array, generator)
    elif kind.is_complex:
        raise RuntimeError("check_random_bounds handles only integral, floating-point and boolean types")
    elif high is None and "from" not in named:
        sampling.randint_(array, 0, low, generator)
    else:
        sampling.randint_(array, low or 0, high, generator)


def bernoulli_fill(array, p=0.5, generator=None):
    sampling.bernoulli_(array, p._array if isinstance(p, Tensor) else p, generator)


uniform_ = filler("uniform_", uniform_fill, lambda dtype: check_float(dtype, "check_uniform_bounds"), ("from", "to"),
                  "Fill with uniform random numbers of [from, to).", "uniform_(0, 1)")
normal_ = filler("normal_", normal_fill, lambda dtype: check_float(dtype, "normal_kernel_cpu"), ("mean", "std"), "Fill with normal random numbers.",
                 "normal_(0, 1)")
random_ = filler("random_", random_fill, lambda dtype: None, ("from", "to"), "Fill with random integers of [from, to), or of all that the dtype holds exactly.",
                 "random_(5)", whole_number)
bernoulli_ = filler("bernoulli_", bernoulli_fill, lambda dtype: refuse_dtypes(dtype, "bernoulli_scalar_cpu_", dtype.is_complex or dtype in WIDE_UNSIGNED), ("p",),
                    "Fill with ones of probability p (a number or a tensor), else zeros.", "bernoulli_(0.5)", chance)
exponential_ = filler("exponential_", sampling.exponential_, lambda dtype: check_continuous(dtype, "Exponential"), ("lambd",),
                      "Fill with exponential random numbers of rate lambd.", "exponential_()")
geometric_ = filler("geometric_", sampling.geometric_, lambda dtype: refuse_dtypes(dtype, "geometric_cpu", dtype.is_complex or dtype is dtypes.bool or dtype in WIDE_UNSIGNED),
                    ("p",), "Fill with the number of trials up to a success of probability p.", "geometric_(0.5)")
cauchy_ = filler("cauchy_", sampling.cauchy_, lambda dtype: check_continuous(dtype, "Cauchy"), ("median", "sigma"), "Fill with Cauchy random numbers.",
                 "cauchy_()")
log_normal_ = filler("log_normal_", sampling.log_normal_, lambda dtype: refuse_dtypes(dtype, "log_normal_cpu", not dtype.is_floating_point),
                     ("mean", "std"), "Fill with exp of normal random numbers.", "log_normal_()")


@composite("torch")
def normal(mean=0.0, std=1.0, size=None, *, generator=None, out=None, dtype=None, layout=None, device=None, requires_grad=False,
           pin_memory=False):
    """Normal random numbers; mean and std are numbers (then with `size`) or tensors that broadcast.

    >>> import rushlight as torch
    >>> torch.normal(torch.zeros(3), 1.0).shape
    torch.Size([3])
    """
    tensors = [part for part in (mean, std) if isinstance(part, Tensor)]
    if not tensors:
        if size is None:
            raise TypeError("normal() received an invalid combination of arguments - got numbers without a size")

        def fill(array, generator):
            normal_fill(array, mean, std, generator)
        return drawn(fill, sizes_from((size,)), dtype, generator, out, device, requires_grad, "normal_kernel_cpu")
    if isinstance(std, Tensor):
        if std._dtype.is_complex:
            raise RuntimeError("normal expects standard deviation to be non-complex")
        if std.numel() and not bool((std._array >= 0).all()):
            raise RuntimeError("normal expects all elements of std >= 0.0")
    elif std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    shape = broadcast_shapes(*(part._array.shape for part in tensors))
    base = (mean if isinstance(mean, Tensor) else std)
    check_float(base._dtype, "normal_kernel_cpu")
    noise = np.empty(shape, base._dtype.numpy)
    normal_fill(noise, 0.0, 1.0, generator)
    with modes.no_grad():
        result = wrap(noise) * std + mean
        result = result.to(base._dtype)
    return result if out is None else out.copy_checked(result)


@primitive(grad=dict(input=lambda g: g * 0), node="BernoulliBackward0", where="", family="random")
def _bernoulli(input, generator):
    result = np.empty(input.shape, input.dtype)
    return sampling.bernoulli_(result, input, generator)


@composite("torch method out")
def bernoulli(input, p=None, *, generator=None, out=None):
    """Ones with the probabilities in `input`, zeros else.

    >>> import rushlight as torch
    >>> torch.bernoulli(torch.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    if p is not None:
        array = np.empty_like(input._array)
        bernoulli_fill(array, p, generator)
        result = wrap(array, input._dtype)
    else:
        check_float(input._dtype, "bernoulli_tensor_cpu_p_")
        result = _bernoulli(input, generator)
    return result if out is None else out.copy_checked(result)


@composite("torch method out")
def multinomial(input, num_samples, replacement=False, *, generator=None, out=None):
    """Indices drawn with the weights in the last dim of `input`.

    >>> import rushlight as torch
    >>> torch.multinomial(torch.tensor([0.0, 1.0]), 1)
    tensor([1])
    """
    if not input._dtype.is_floating_point:
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {scalar_name(input._dtype)}")
    if out is not None and out._dtype is not dtypes.int64:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {scalar_name(out._dtype)}")
    result = wrap(np.ascontiguousarray(sampling.multinomial(input._array, num_samples, replacement, generator)))
    return result if out is None else out.copy_checked(result)


@primitive(grad=dict(input=lambda g: g * 0), node="PoissonBackward0", where="", family="random")
def _poisson(input, generator):
    return rejection.poisson(input, generator)


@composite("torch")
def poisson(input, generator=None):
    """Poisson random numbers of the rates in `input`.

    >>> import rushlight as torch
    >>> torch.poisson(torch.tensor([0.0]))
    tensor([0.])
    """
    check_float(input._dtype, "poisson_cpu")
    return _poisson(input, generator)


@primitive(grad=dict(count=lambda g: g * 0, prob=lambda g: g * 0), tensors=("count", "prob"), node="BinomialBackward0", where="", family="random")
def _binomial(count, prob, generator):
    return rejection.binomial(count, prob, generator)


@composite("torch")
def binomial(count, prob, generator=None):
    """Binomial random numbers: successes in `count` trials of probability `prob`.

    >>> import rushlight as torch
    >>> torch.binomial(torch.tensor([3.0]), torch.tensor([1.0]))
    tensor([3.])
    """
    return _binomial(count, prob, generator)
