"""Datasets and how they are combined, cut and split."""
import warnings

import pytest

import rushlight as torch

data = torch.utils.data


class Squares(data.Dataset):
    def __len__(self):
        return 5

    def __getitem__(self, index):
        return index ** 2


class Stream(data.IterableDataset):
    def __init__(self, *items):
        self.items = items

    def __iter__(self):
        return iter(self.items)

    def __len__(self):
        return len(self.items)


def test_tensor_dataset():
    pairs = data.TensorDataset(torch.arange(6).reshape(3, 2), torch.arange(3))
    assert len(pairs) == 3
    assert [t.tolist() for t in pairs[-1]] == [[4, 5], 2]
    assert [t.tolist() for t in pairs[[0, 2]]] == [[[0, 1], [4, 5]], [0, 2]]
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        data.TensorDataset(torch.zeros(3), torch.zeros(2))


def test_joining():
    joined = Squares() + Squares() + [7]
    assert isinstance(joined, data.ConcatDataset)
    assert len(joined) == 11 and joined[10] == 7 and joined[-2] == 16 and joined[6] == 1
    assert data.ConcatDataset([[1], [2, 3]]).cumulative_sizes == [1, 3]
    with pytest.raises(ValueError, match="absolute value of index should not exceed dataset length"):
        joined[-12]
    with pytest.raises(AssertionError, match="datasets should not be an empty iterable"):
        data.ConcatDataset([])
    with pytest.raises(AssertionError, match="ConcatDataset does not support IterableDataset"):
        data.ConcatDataset([Stream(1)])
    with pytest.warns(FutureWarning, match="renamed to `cumulative_sizes`"):
        assert joined.cummulative_sizes == joined.cumulative_sizes


def test_chaining():
    chained = Stream(1, 2) + Stream(3)
    assert isinstance(chained, data.ChainDataset) and list(chained) == [1, 2, 3] and len(chained) == 3
    with pytest.raises(AssertionError, match="ChainDataset only supports IterableDataset"):
        list(data.ChainDataset([Stream(1), [2]]))


def test_what_a_subclass_must_write():
    with pytest.raises(NotImplementedError, match="Subclasses of Dataset should implement __getitem__"):
        data.Dataset()[0]
    with pytest.raises(TypeError, match="abstract"):
        data.IterableDataset()
    assert data.Dataset[int] is not None and data.DataLoader[int] is not None


def test_stacking():
    class Several(Squares):
        def __getitems__(self, indices):
            return [self[i] for i in indices]

    side_by_side = data.StackDataset(Squares(), Several())
    assert side_by_side[2] == (4, 4) and len(side_by_side) == 5
    assert side_by_side.__getitems__([1, 3]) == [(1, 1), (9, 9)]
    named = data.StackDataset(a=Squares(), b=Several())
    assert named[2] == {"a": 4, "b": 4} and named.__getitems__([1]) == [{"a": 1, "b": 1}]
    for make, words in [(lambda: data.StackDataset(), "At least one dataset should be passed"),
                        (lambda: data.StackDataset([1], [1, 2]), "Size mismatch between datasets"),
                        (lambda: data.StackDataset([1], a=[1]), "both types are given")]:
        with pytest.raises(ValueError, match=words):
            make()

    class Wrong(Squares):
        def __getitems__(self, indices):
            return [0]

    with pytest.raises(ValueError, match="Nested dataset's output size mismatch. Expected 2, got 1"):
        data.StackDataset(Wrong()).__getitems__([0, 1])


def test_subsets():
    part = data.Subset(Squares(), [4, 0])
    assert list(part) == [16, 0] and part.__getitems__([1, 0]) == [0, 16] and len(part) == 2
    nested = data.Subset(part, [1])
    assert nested[0] == 0 and nested.__getitems__([0]) == [0]
    rows = data.Subset(data.TensorDataset(torch.arange(4)), [3, 1])
    assert rows[[0, 1]][0].tolist() == [3, 1]

    class Half(data.Subset):
        def __getitem__(self, index):
            return super().__getitem__(index) / 2

    with pytest.raises(NotImplementedError, match="Half overrides __getitem__ but not __getitems__"):
        Half(Squares(), [0])


def test_random_split():
    def split(lengths, seed=1):
        return data.random_split(range(10), lengths, generator=torch.Generator().manual_seed(seed))

    assert [len(part) for part in split([0.5, 0.25, 0.25])] == [6, 2, 2]
    assert [len(part) for part in split([1 / 3, 1 / 3, 1 / 3])] == [4, 3, 3]
    assert sorted(x for part in split([6, 3, 1]) for x in part) == list(range(10))
    assert split([7, 3])[0].indices == [5, 6, 1, 2, 0, 8, 9]  # PyTorch's, for this seed
    with pytest.raises(ValueError, match="Sum of input lengths does not equal the length of the input dataset!"):
        split([5, 4])
    with pytest.raises(ValueError, match="Fraction at index 0 is not between 0 and 1"):
        split([1.5, -0.5])
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        split([0.99, 0.01])[1:]
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = data.random_split(range(4), [2, 2])[0].indices
    torch.manual_seed(0)
    assert data.random_split(range(4), [2, 2])[0].indices == first
