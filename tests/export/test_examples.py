"""The example models leave Python: exported with free sizes, saved and loaded, and their training steps too."""
import importlib.util
import io
from pathlib import Path

import pytest

import rushlight as torch
from rushlight.export import Dim, export

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"


def example(name):
    pytest.importorskip("sklearn")
    pytest.importorskip("tqdm")
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reloaded(program):
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


def test_digits():
    net = example("digits").DigitNet().eval()
    program = reloaded(export(net, (torch.randn(2, 1, 8, 8),), dynamic_shapes={"pictures": {0: Dim("batch", min=1)}}))
    for size in (1, 2, 7):
        pictures = torch.randn(size, 1, 8, 8)
        assert torch.allclose(program(pictures), net(pictures), atol=1e-6)


def test_char_gpt():
    torch.manual_seed(0)
    net = example("char_gpt").CharGPT(30, 16, 16).eval()
    free = {"text": {0: Dim("batch", min=1), 1: Dim("length", min=1, max=16)}}
    program = reloaded(export(net, (torch.randint(0, 30, (2, 8)),), dynamic_shapes=free))
    for shape in ((1, 1), (2, 8), (3, 16)):
        text = torch.randint(0, 30, shape)
        assert torch.allclose(program(text), net(text), atol=1e-5)


def test_char_gpt_trains_from_the_file():
    torch.manual_seed(0)
    net = example("char_gpt").CharGPT(30, 16, 16)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)

    def train_step(text, following):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(text).flatten(0, 1), following.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    text, following = torch.randint(0, 30, (2, 8)), torch.randint(0, 30, (2, 8))
    train_step(text, following)
    package = reloaded(export({"forward": net, "train_step": train_step}, {"forward": (text,), "train_step": (text, following)}))
    for _ in range(3):
        assert torch.allclose(package.train_step(text, following), train_step(text, following), rtol=1e-4)


def test_actor_and_critic():
    net = example("cart_pole").ActorCritic().eval()
    program = reloaded(export(net, (torch.randn(2, 4),), dynamic_shapes={"seen": {0: Dim("batch", min=1)}}))
    for size in (1, 2, 7):
        seen = torch.randn(size, 4)
        for got, want in zip(program(seen), net(seen)):
            assert torch.allclose(got, want, atol=1e-6)


def test_reader_of_lengths():
    """Lengths are values: one program for any batch and any lengths, and one for a list of sequences of any lengths."""
    torch.manual_seed(0)
    net = example("rnn_lengths").Reader(8).eval()
    batch, time = Dim("batch", min=1), Dim("time", min=1)
    padded, lengths = torch.randint(0, 12, (3, 5)), torch.tensor([2, 5, 3])
    package = reloaded(export({"read": net.read}, {"read": (padded, lengths)},
                              dynamic_shapes={"read": {"padded": {0: batch, 1: time}, "lengths": {0: batch}}}))
    for counts in ([2, 5, 3], [1], [7, 7, 1, 4, 7], [1, 1]):
        given = torch.randint(0, 12, (len(counts), max(counts))), torch.tensor(counts)
        assert torch.equal(package.read(*given), net.read(*given))
    sequences = [torch.randint(0, 12, (count,)) for count in (3, 5, 2)]
    program = reloaded(export(net, (sequences,), dynamic_shapes={"sequences": [{0: Dim(f"n{at}", min=1)} for at in range(3)]}))
    for counts in ((3, 5, 2), (1, 7, 2), (4, 4, 4)):
        given = [torch.randint(0, 12, (count,)) for count in counts]
        assert torch.equal(program(given), net(given))
