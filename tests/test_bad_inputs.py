"""Bad input gets a clear error: no crash, no hang, no silent wrong value (RELIABILITY.md section 6, rows 1 to 53, eager).

Each row: its number there, a name, the call, the error type, and what the text must say: PyTorch's first words where PyTorch
has the error, then what helps (the value, the limit, the remedy). A row that PyTorch accepts silently stands at the end.
"""
import re
import warnings

import numpy as np
import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F
from rushlight.nn.utils.rnn import pack_padded_sequence

ones, zeros, tensor, arange = torch.ones, torch.zeros, torch.tensor, torch.arange
NAN = float("nan")
MEMORY = (RuntimeError, MemoryError)


def leaf(*shape):
    return ones(*shape, requires_grad=True)


def saved_then_changed():
    y = leaf(3).exp()
    y.add_(1)
    y.sum().backward()


def backward_twice():
    x = leaf(3)
    y = (x * x).sum()
    y.backward()
    y.backward()


def list_in_itself():
    items = []
    items.append(items)
    tensor(items)


def nested(depth):
    items = [1]
    for _ in range(depth):
        items = [items]
    try:
        tensor(items)
    finally:
        while items and isinstance(items, list):  # unwound by hand: freeing must not recurse either
            items = items[0]


def write_to_read_only():
    array = np.arange(3.0)
    array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.from_numpy(array).add_(1)


def capsule_twice():
    capsule = ones(3).__dlpack__()
    torch.from_dlpack(capsule)
    torch.from_dlpack(capsule)


def wrong_keys():
    nn.Linear(3, 4).load_state_dict({"weight": ones(4, 2), "bais": ones(4)})


ROWS = [
    (1, "empty of a negative size", lambda: torch.empty(-3), RuntimeError, r"Trying to create tensor with negative dimension -3: \[-3\]"),
    (1, "zeros of a negative size", lambda: zeros(2, -1), RuntimeError, r"(negative dimension -1|must be non-negative)"),
    (2, "more elements than 63 bits count", lambda: torch.empty(2**40, 2**40), MEMORY, r"(Storage size calculation overflowed|allocate)"),
    (3, "more memory than there is", lambda: torch.empty(2**46), MEMORY, r"allocate"),
    (4, "as_strided far past the end", lambda: torch.as_strided(arange(4.0), (1,), (1,), 2**62), RuntimeError, r"(overflow|out of bounds)"),
    (4, "as_strided past the end", lambda: torch.as_strided(arange(4.0), (5,), (1,)), RuntimeError,
     r"setStorage: sizes \[5\], strides \[1\], storage offset 0.* out of bounds for storage of size 16"),
    (5, "as_strided overflowing", lambda: torch.as_strided(arange(4.0), (2,), (2**61,)), RuntimeError, r"(overflow|out of bounds)"),
    (6, "as_strided backwards", lambda: torch.as_strided(arange(4.0), (2,), (-1,)), RuntimeError, r"[Nn]egative strides are not supported"),
    (8, "as_strided_scatter past the end", lambda: torch.as_strided_scatter(arange(4.0), ones(1), (1,), (1,), 2**62), RuntimeError,
     r"(overflow|out of bounds)"),
    (10, "embedding index", lambda: F.embedding(tensor([10]), ones(5, 2)), IndexError, r"index out of range in self.*10.*5"),
    (11, "embedding index below zero", lambda: F.embedding(tensor([-2]), ones(5, 2)), IndexError, r"index out of range in self.*-2"),
    (12, "embedding_bag offset past the end", lambda: F.embedding_bag(tensor([0, 1]), ones(5, 2), tensor([0, 100])), RuntimeError,
     r"offsets\[-1\] can not be greater than input's length.* 100"),
    (12, "embedding_bag offsets falling", lambda: F.embedding_bag(tensor([0, 1, 2]), ones(5, 2), tensor([0, 2, 1])), RuntimeError, r"offsets"),
    (13, "gather", lambda: torch.gather(ones(2, 3), 1, tensor([[5]])), RuntimeError, r"index 5 is out of bounds for dimension 1 with size 3"),
    (13, "scatter", lambda: zeros(2, 3).scatter(1, tensor([[5]]), 1.0), RuntimeError, r"index 5 is out of bounds for dimension 1 with size 3"),
    (13, "take", lambda: torch.take(ones(3), tensor([7])), IndexError, r"out of range.* 7 .*3 elements"),
    (13, "index_select", lambda: torch.index_select(ones(3), 0, tensor([3])), IndexError, r"index out of range in self"),
    (14, "index_add below zero", lambda: zeros(3).index_add(0, tensor([-1]), ones(1)), IndexError, r"index out of range in self"),
    (15, "write through an index", lambda: zeros(3).__setitem__(tensor([9]), 1), IndexError, r"index 9 is out of bounds for dimension 0 with size 3"),
    (15, "read at an index", lambda: zeros(3)[5], IndexError, r"index 5 is out of bounds for dimension 0 with size 3"),
    (16, "float index", lambda: zeros(3)[tensor([0.5])], IndexError, r"tensors used as indices must be long, int, byte or bool tensors"),
    (17, "nll_loss target", lambda: F.nll_loss(zeros(1, 3), tensor([5])), IndexError, r"Target 5 is out of bounds\."),
    (18, "cross_entropy target", lambda: F.cross_entropy(zeros(1, 3), tensor([-5])), IndexError, r"Target -5 is out of bounds\."),
    (19, "one_hot below zero", lambda: F.one_hot(tensor([-1])), RuntimeError, r"Class values must be non-negative\."),
    (19, "one_hot too large", lambda: F.one_hot(tensor([5]), 3), RuntimeError, r"Class values must be smaller than num_classes\."),
    (20, "bincount below zero", lambda: torch.bincount(tensor([-1])), RuntimeError, r"bincount only supports 1-d non-negative integral inputs\."),
    (20, "bincount too large", lambda: torch.bincount(tensor([2**50])), MEMORY, r"allocate"),
    (22, "integer // 0", lambda: tensor([1, 2]) // 0, RuntimeError, r"ZeroDivisionError"),
    (22, "integer % 0", lambda: tensor([1, 2]) % 0, RuntimeError, r"ZeroDivisionError"),
    (22, "integer // tensor with 0", lambda: tensor([1, 2]) // tensor([1, 0]), RuntimeError, r"ZeroDivisionError"),
    (24, "matmul", lambda: ones(2, 3) @ ones(4, 5), RuntimeError, r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 4x5\)"),
    (24, "matmul with a vector", lambda: ones(2, 3) @ ones(4), RuntimeError, r"size mismatch, got input \(2\), mat \(2x3\), vec \(4\)"),
    (24, "bmm", lambda: torch.bmm(ones(2, 2, 3), ones(2, 4, 5)), RuntimeError,
     r"Expected size for first two dimensions of batch2 tensor to be: \[2, 3\] but got: \[2, 4\]\."),
    (24, "matmul of a number", lambda: torch.matmul(tensor(1.0), ones(3)), RuntimeError,
     r"both arguments to matmul need to be at least 1D, but they are 0D and 1D"),
    (24, "linear", lambda: F.linear(ones(2, 3), ones(4, 5)), RuntimeError, r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 5x4\)"),
    (25, "broadcast", lambda: ones(3, 4) + ones(2, 4), RuntimeError,
     r"The size of tensor a \(3\) must match the size of tensor b \(2\) at non-singleton dimension 0"),
    (25, "broadcast in where", lambda: torch.where(ones(3) > 0, ones(3), ones(2)), RuntimeError,
     r"The size of tensor a \(3\) must match the size of tensor b \(2\) at non-singleton dimension 0"),
    (26, "view of another size", lambda: ones(6).view(4), RuntimeError, r"shape '\[4\]' is invalid for input of size 6"),
    (26, "view with two -1", lambda: ones(6).view(-1, -1), RuntimeError, r"only one dimension can be inferred"),
    (26, "reshape of nothing", lambda: zeros(0).reshape(0, -1), RuntimeError, r"cannot reshape tensor of 0 elements into shape \[0, -1\]"),
    (27, "view as a wider dtype", lambda: zeros(3, dtype=torch.uint8).view(torch.int32), RuntimeError,
     r"self\.size\(-1\) must be divisible by 4 to view Byte as Int \(different element sizes\), but got 3"),
    (28, "view of a transpose", lambda: ones(2, 3).t().view(6), RuntimeError, r"view size is not compatible with input tensor's size and stride"),
    (29, "conv kernel too large", lambda: F.conv2d(ones(1, 1, 2, 2), ones(1, 1, 3, 3)), RuntimeError,
     r"Calculated padded input size per channel: \(2 x 2\)\. Kernel size: \(3 x 3\)\. Kernel size can't be greater than actual input size"),
    (29, "conv groups 0", lambda: F.conv2d(ones(1, 1, 4, 4), ones(1, 1, 3, 3), groups=0), RuntimeError, r"non-positive groups is not supported"),
    (29, "conv stride 0", lambda: F.conv2d(ones(1, 1, 4, 4), ones(1, 1, 3, 3), stride=0), RuntimeError, r"non-positive stride is not supported"),
    (29, "conv padding -1", lambda: F.conv2d(ones(1, 1, 4, 4), ones(1, 1, 3, 3), padding=-1), RuntimeError, r"negative padding is not supported"),
    (29, "conv dilation 0", lambda: F.conv2d(ones(1, 1, 4, 4), ones(1, 1, 3, 3), dilation=0), RuntimeError,
     r"dilation should be greater than zero"),
    (29, "conv channels", lambda: F.conv2d(ones(1, 2, 5, 5), ones(4, 3, 3, 3)), RuntimeError,
     r"Given groups=1, weight of size \[4, 3, 3, 3\], expected input\[1, 2, 5, 5\] to have 3 channels, but got 2 channels instead"),
    (30, "max_pool kernel 0", lambda: F.max_pool2d(ones(1, 1, 4, 4), 0), RuntimeError, r"(stride should not be zero|kernel size should be greater)"),
    (30, "avg_pool kernel 0", lambda: F.avg_pool2d(ones(1, 1, 4, 4), 0), RuntimeError, r"(stride should not be zero|kernel size should be greater)"),
    (30, "pool larger than its input", lambda: F.max_pool2d(ones(1, 1, 2, 2), 3), RuntimeError,
     r"Given input size: \(1x2x2\)\. Calculated output size: \(1x0x0\)\. Output size is too small"),
    (30, "adaptive pool to -1", lambda: F.adaptive_avg_pool2d(ones(1, 1, 4, 4), -1), RuntimeError,
     r"adaptive_avg_pool2d: elements of output_size must be greater than or equal to 0"),
    (30, "interpolate to 0", lambda: F.interpolate(ones(1, 1, 4, 4), size=0), RuntimeError, r"Input and output sizes should be greater than 0"),
    (31, "reflect pad", lambda: F.pad(ones(1, 1, 3), (5, 0), mode="reflect"), RuntimeError,
     r"Padding size should be less than the corresponding input dimension, but got: padding \(5, 0\) at dimension 2 of input \[1, 1, 3\]"),
    (31, "negative pad", lambda: F.pad(ones(3), (-5, 0)), RuntimeError, r"(narrow\(\): length must be non-negative|resulted in a negative output size)"),
    (32, "batch_norm short statistics", lambda: F.batch_norm(ones(2, 64), zeros(1), ones(1)), RuntimeError, r"running_mean should contain 64 elements not 1"),
    (32, "batch_norm of one value", lambda: F.batch_norm(ones(1, 3), zeros(3), ones(3), training=True), ValueError,
     r"Expected more than 1 value per channel when training, got input size torch\.Size\(\[1, 3\]\)"),
    (33, "max_unpool", lambda: F.max_unpool2d(ones(1, 1, 2, 2), tensor([[[[1000, 1], [2, 3]]]]), 2), RuntimeError,
     r"Found an invalid max index: 1000 \(output volumes are of size 4x4\)"),
    (34, "ctc input length", lambda: F.ctc_loss(zeros(5, 1, 3).log_softmax(2), tensor([[1, 2]]), tensor([500]), tensor([2])), RuntimeError,
     r"Expected input_lengths to have value at most 5, but got value 500"),
    (34, "ctc target length", lambda: F.ctc_loss(zeros(5, 1, 3).log_softmax(2), tensor([[1, 2]]), tensor([5]), tensor([9])), RuntimeError,
     r"Expected tensor to have size at least 9 at dimension 1, but got size 2 for argument #2 'targets'"),
    (35, "pack length 0", lambda: pack_padded_sequence(ones(3, 1, 2), tensor([0])), RuntimeError, r"Length of all samples has to be greater than 0"),
    (35, "pack unsorted", lambda: pack_padded_sequence(ones(3, 2, 2), tensor([1, 2])), RuntimeError,
     r"`lengths` array must be sorted in decreasing order when `enforce_sorted` is True"),
    (37, "out of a narrower dtype", lambda: torch.add(ones(3), ones(3), out=zeros(3, dtype=torch.int64)), RuntimeError,
     r"result type Float can't be cast to the desired output type Long"),
    (39, "in place on an expanded tensor", lambda: ones(1).expand(3).add_(1), RuntimeError,
     r"unsupported operation: more than one element of the written-to tensor refers to a single memory location\. Please clone\(\)"),
    (40, "in place on a leaf", lambda: leaf(3).add_(1), RuntimeError, r"a leaf Variable that requires grad is being used in an in-place operation\."),
    (40, "in place on a view of a leaf", lambda: leaf(3)[0].add_(1), RuntimeError,
     r"a view of a leaf Variable that requires grad is being used in an in-place operation\."),
    (41, "saved, then changed", saved_then_changed, RuntimeError,
     r"one of the variables needed for gradient computation has been modified by an inplace operation: \[torch\.FloatTensor \[3\]\], which is "
     r"output 0 of Exp\w*, is at version 1; expected version 0 instead.*test_bad_inputs\.py:\d+"),
    (42, "backward twice", backward_twice, RuntimeError,
     r"Trying to backward through the graph a second time .*retain_graph=True.*test_bad_inputs\.py:\d+"),
    (42, "backward of a vector", lambda: (leaf(3) * 2).backward(), RuntimeError, r"grad can be implicitly created only for scalar outputs"),
    (42, "backward of nothing", lambda: ones(1).backward(), RuntimeError, r"element 0 of tensors does not require grad and does not have a grad_fn"),
    (43, "numpy of a recorded tensor", lambda: leaf(3).numpy(), RuntimeError,
     r"Can't call numpy\(\) on Tensor that requires grad\. Use tensor\.detach\(\)\.numpy\(\) instead\."),
    (45, "ragged list", lambda: tensor([[1, 2], [1]]), ValueError, r"expected sequence of length 2 at dim 1 \(got 1\)"),
    (45, "list in itself", list_in_itself, ValueError, r"too many dimensions 'list'"),
    (45, "list 100,000 deep", lambda: nested(100_000), ValueError, r"too many dimensions 'list'"),
    (46, "arange without end", lambda: arange(0, float("inf")), RuntimeError, r"unsupported range: 0 -> inf"),
    (46, "arange of step 0", lambda: arange(0, 5, 0), RuntimeError, r"step must be nonzero"),
    (46, "arange the wrong way", lambda: arange(0, 5, -1), RuntimeError, r"upper bound and lower bound inconsistent with step sign"),
    (46, "linspace of too many", lambda: torch.linspace(0, 1, 2**48), MEMORY, r"allocate"),
    (46, "linspace of -1", lambda: torch.linspace(0, 1, -1), RuntimeError, r"number of steps must be non-negative"),
    (47, "frombuffer at an odd offset", lambda: torch.frombuffer(bytearray(7), dtype=torch.int32, offset=1), ValueError,
     r"buffer length \(6 bytes\) after offset \(1 bytes\) must be a multiple of element size \(4\)"),
    (47, "frombuffer past the end", lambda: torch.frombuffer(bytearray(8), dtype=torch.int32, offset=9), ValueError,
     r"offset \(9 bytes\) must be non-negative and no greater than buffer length \(8 bytes\) minus 1"),
    (48, "another device", lambda: ones(3).to("cuda"), (RuntimeError, AssertionError), r"(?i)cuda"),
    (48, "capsule used twice", capsule_twice, (RuntimeError, BufferError, ValueError), r"capsule"),
    (49, "multinomial of a negative weight", lambda: torch.multinomial(tensor([-1.0, 2.0]), 1), RuntimeError,
     r"probability tensor contains either `inf`, `nan` or element < 0"),
    (49, "multinomial of NaN", lambda: torch.multinomial(tensor([NAN, 2.0]), 1), RuntimeError,
     r"probability tensor contains either `inf`, `nan` or element < 0"),
    (49, "multinomial of too many", lambda: torch.multinomial(tensor([1.0, 2.0]), 3), RuntimeError,
     r"cannot sample n_sample > prob_dist\.size\(-1\) samples without replacement"),
    (49, "quantile 2", lambda: torch.quantile(ones(3), 2.0), RuntimeError, r"quantile\(\) q must be in the range \[0, 1\] but got 2"),
    (49, "topk 10 of 3", lambda: torch.topk(ones(3), 10), RuntimeError, r"selected index k out of range"),
    (49, "kthvalue 0", lambda: torch.kthvalue(ones(3), 0), RuntimeError, r"kthvalue\(\): selected number k out of range for dimension 0"),
    (49, "bernoulli of 2", lambda: torch.bernoulli(tensor([2.0])), RuntimeError, r"p_in >= 0 && p_in <= 1"),
    (49, "dropout of 2", lambda: F.dropout(ones(3), 2.0), ValueError, r"dropout probability has to be between 0 and 1, but got 2\.0"),
    (50, "cholesky", lambda: torch.linalg.cholesky(-torch.eye(2)), RuntimeError,
     r"linalg\.cholesky: The factorization could not be completed because the input is not positive-definite"),
    (50, "inverse of zeros", lambda: torch.linalg.inv(zeros(2, 2)), RuntimeError,
     r"linalg\.inv: The diagonal element 1 is zero, the inversion could not be completed because the input matrix is singular\."),
    (50, "svd of NaN", lambda: torch.linalg.svd(tensor([[NAN, 1.0], [1.0, 2.0]])), RuntimeError,
     r"linalg\.svd: The algorithm failed to converge because the input matrix contained non-finite values\."),
    (50, "inverse of no square", lambda: torch.linalg.inv(ones(2, 3)), RuntimeError,
     r"linalg\.inv: A must be batches of square matrices, but they are 2 by 3 matrices"),
    (52, "state dict, wrong keys and shapes", wrong_keys, RuntimeError,
     r"Error\(s\) in loading state_dict for Linear:\s+Missing key\(s\) in state_dict: \"bias\"\.\s+Unexpected key\(s\) in state_dict: \"bais\"\.\s+"
     r"size mismatch for weight: copying a param with shape torch\.Size\(\[4, 2\]\) from checkpoint, the shape in current model is "
     r"torch\.Size\(\[4, 3\]\)\."),
    (53, "a typing error in an argument", lambda: nn.Linear(in_feature=3, out_features=2), TypeError, r"unexpected keyword argument 'in_feature'"),
    (53, "a typing error in a dtype", lambda: zeros(3, dtype="flaot32"), TypeError, r"argument 'dtype' must be torch\.dtype, not str"),
    (53, "a typing error in a function", lambda: F.rellu(ones(3)), AttributeError, r"has no attribute 'rellu'.*relu"),
    (53, "a typing error in a name", lambda: torch.zerso(3), AttributeError, r"has no attribute 'zerso'.*zeros"),
    (53, "a typing error in a keyword", lambda: torch.sum(ones(3), dimm=0), TypeError, r"dimm"),
    # Where PyTorch is silent, and the table asks for an error.
    (35, "pack length 30 of 3", lambda: pack_padded_sequence(ones(3, 1, 2), tensor([30])), (RuntimeError, ValueError), r"30"),
    (37, "out is too small a view", lambda: torch.add(ones(3), ones(3), out=zeros(10)[:2]), (RuntimeError, ValueError), r"out"),
    (47, "write to a read-only array", write_to_read_only, (RuntimeError, ValueError), r"read-only"),
]




@pytest.mark.timeout(30)
@pytest.mark.parametrize("call, kinds, text", [row[2:] for row in ROWS], ids=[f"{row[0]:02}-{row[1].replace(' ', '-')}" for row in ROWS])
def test_bad_input_raises(call, kinds, text):
    with pytest.raises(kinds) as caught:
        call()
    said = str(caught.value)
    assert re.search(text, said, re.S), f"said: {said}"
    if MEMORY is not kinds:
        assert not isinstance(caught.value, NotImplementedError), said


# Rows that are defined, not refused.

def test_23_a_shift_past_the_width_is_0():
    assert (tensor([1]) << 200).tolist() == [0]


def test_21_the_smallest_integer_by_minus_1_does_not_kill_the_process():
    try:
        assert torch.div(tensor([-(2**63)]), -1, rounding_mode="floor").tolist() == [-(2**63)]
    except (RuntimeError, OverflowError) as error:
        assert "fit" in str(error) or "overflow" in str(error)


def test_38_out_that_overlaps_an_input_is_never_silently_wrong():
    x = arange(5.0)
    try:
        torch.add(x[:4], x[:4], out=x[1:])
    except (RuntimeError, ValueError) as error:
        assert "single memory location" in str(error)
    else:
        assert x.tolist() == [0, 0, 2, 4, 6]


@pytest.mark.timeout(60)
def test_44_a_chain_of_300_000_operations(capsys):
    x = y = leaf(1)
    for _ in range(300_000):
        y = y * 1.0
    print(y)
    y.backward()
    assert x.grad.item() == 1
    del y
