"""Functions that torch has beside nn.functional's, with another order of arguments, or reductions as numbers."""
from functools import wraps

from . import adaptive_pooling, ctc, dropout, loss, margin_loss, normalization, pooling
from .attach import publish
from .convolution import _conv_transpose, _convolution
from .dispatch import write_out

REDUCTIONS = ("none", "mean", "sum")


def form(function):
    publish("torch", function.__name__, function)
    return function


def named_reduction(reduction):
    """"none", "mean" or "sum" from its number in PyTorch's C++ API."""
    return REDUCTIONS[reduction] if isinstance(reduction, int) else reduction


def with_indices(function):
    """A maximum pool that always returns the indices too."""
    @wraps(function)
    def both(*args, **kwargs):
        kwargs["return_indices"] = True
        return function(*args, **kwargs)
    both.__name__ = both.__qualname__ = function.__name__ + "_with_indices"
    both.__doc__ = f"`{function.__name__}` with return_indices=True: (values, indices)."
    return both


for _function in (pooling.max_pool1d, pooling.max_pool2d, pooling.max_pool3d, adaptive_pooling.adaptive_max_pool1d,
                  adaptive_pooling.adaptive_max_pool2d, adaptive_pooling.adaptive_max_pool3d, adaptive_pooling.fractional_max_pool2d,
                  adaptive_pooling.fractional_max_pool3d):
    _form = with_indices(_function)
    publish("nn", _form.__name__, _form)
    if _function is pooling.max_pool1d:
        publish("torch", "max_pool1d_with_indices", _form)
    elif _function is adaptive_pooling.adaptive_max_pool1d:
        publish("torch", "adaptive_max_pool1d", _form)


@form
def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False):
    """`nn.functional.ctc_loss` with the reduction as a number."""
    return ctc.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, named_reduction(reduction), zero_infinity)


@form
def kl_div(input, target, reduction=1, *, log_target=False):
    """`nn.functional.kl_div` with the reduction as a number."""
    pointwise = target.exp() * (target - input) if log_target else loss._entropy(target) - target * input
    return loss.reduced(pointwise, named_reduction(reduction))


@form
def hinge_embedding_loss(input, target, margin=1.0, reduction=1):
    """`nn.functional.hinge_embedding_loss` with the reduction as a number."""
    return margin_loss.hinge_embedding_loss(input, target, margin, reduction=named_reduction(reduction))


@form
def margin_ranking_loss(input1, input2, target, margin=0.0, reduction=1):
    """`nn.functional.margin_ranking_loss` with the reduction as a number."""
    return margin_loss.margin_ranking_loss(input1, input2, target, margin, reduction=named_reduction(reduction))


@form
def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=1):
    """`nn.functional.cosine_embedding_loss` with the reduction as a number."""
    return margin_loss.cosine_embedding_loss(input1, input2, target, margin, reduction=named_reduction(reduction))


@form
def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction=1):
    """`nn.functional.triplet_margin_loss` with the reduction as a number."""
    return margin_loss.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=named_reduction(reduction))


@form
def poisson_nll_loss(input, target, log_input, full, eps, reduction):
    """`nn.functional.poisson_nll_loss` with the reduction as a number."""
    return loss.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=named_reduction(reduction))


@form
def binary_cross_entropy_with_logits(input, target, weight=None, pos_weight=None, reduction=1):
    """`nn.functional.binary_cross_entropy_with_logits` with the reduction as a number."""
    return loss.binary_cross_entropy_with_logits(input, target, weight, reduction=named_reduction(reduction), pos_weight=pos_weight)


@form
def instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled=True):
    """`nn.functional.instance_norm` with PyTorch's other order of arguments."""
    return normalization.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


@form
def convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """Any convolution: `conv1d` to `conv3d`, and their transposed forms."""
    pairs = tuple((size, size) for size in padding)
    if not transposed:
        return _convolution(input, weight, bias, tuple(stride), pairs, tuple(dilation), groups)
    size = tuple((n - 1) * s - 2 * p + d * (k - 1) + e + 1 for n, s, p, d, k, e in zip(
        input.shape[2:], stride, padding, dilation, weight.shape[2:], output_padding))
    return _conv_transpose(input, weight, bias, size, tuple(stride), pairs, tuple(dilation), groups)


@form
def native_dropout(input, p, train):
    """The result of dropout, and which elements were kept."""
    if not train:
        return input, input == input
    mask = dropout._dropout_noise(input.detach(), p, False, False)
    return input * (mask / (1 - p) if p < 1 else mask), mask.bool()


@form
def native_layer_norm(input, normalized_shape, weight, bias, eps):
    """layer_norm, the means, and the reciprocals of the standard deviations."""
    dims = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    average = input.mean(dims, keepdim=True)
    factor = (((input - average) ** 2).mean(dims, keepdim=True) + eps).rsqrt()
    return normalization.layer_norm(input, normalized_shape, weight, bias, eps), average.detach(), factor.detach()


@form
def native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    """group_norm, the means, and the reciprocals of the standard deviations, of each group."""
    rows = input.reshape(N, group, C // group * HxW)
    average = rows.mean(2)
    factor = (((rows - average.unsqueeze(2)) ** 2).mean(2) + eps).rsqrt()
    return normalization.group_norm(input, group, weight, bias, eps), average, factor


@form
def native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, *, out=None):
    """batch_norm, the means, and the reciprocals of the standard deviations; the latter two empty where not training."""
    if out is not None:
        return write_out(out, native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps))
    if not training:
        empty = input.new_zeros(0)
        return normalization.torch_batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps), empty, empty
    dims = (0, *range(2, input.ndim))
    average = input.mean(dims, keepdim=True)
    factor = (((input - average) ** 2).mean(dims, keepdim=True) + eps).rsqrt()
    result = normalization.torch_batch_norm(input, weight, bias, running_mean, running_var, True, momentum, eps)
    return result, average.detach().reshape(-1), factor.detach().reshape(-1)
