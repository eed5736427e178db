"""A recurrent network on sequences of different lengths, in the two ways there are.

    python examples/rnn_lengths.py [--small]

Task: read a sum such as `7+15=` digit by digit and name its last digit. One network loops over each sequence in Python,
as long as it is: the graph of every step has its own length. The other packs the whole batch for nn.GRU. With the same weights
both give the same states; the packed one trains, and leaves Python as one program for any batch and any lengths.
"""
import argparse
import random

import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F
from rushlight.nn.utils.rnn import pack_padded_sequence, pad_sequence

SYMBOLS = "0123456789+="


def sample(count, chance):
    """`count` pairs: a sequence of symbol numbers, and the last digit of the sum."""
    pairs = []
    for _ in range(count):
        numbers = [chance.randrange(10) for _ in range(chance.randint(1, 4))]
        text = "+".join(map(str, numbers)) + "="
        pairs.append((torch.tensor([SYMBOLS.index(c) for c in text]), sum(numbers) % 10))
    return [sequence for sequence, _ in pairs], torch.tensor([digit for _, digit in pairs])


class Reader(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.embed = nn.Embedding(len(SYMBOLS), width)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, 10)

    def forward(self, sequences):
        return self.read(pad_sequence(sequences, batch_first=True), torch.tensor([len(s) for s in sequences]))

    def read(self, padded, lengths):
        """The logits of a padded batch; the lengths are values of a tensor, so an exported program takes any."""
        packed = pack_padded_sequence(self.embed(padded), lengths, batch_first=True, enforce_sorted=False)
        _, last = self.gru(packed)
        return self.head(last[0])

    def one_by_one(self, sequences):
        """The same, as ordinary Python: a loop over time inside a loop over sequences."""
        answers = []
        for sequence in sequences:
            state = torch.zeros(1, 1, self.gru.hidden_size)
            for symbol in sequence:
                _, state = self.gru(self.embed(symbol).reshape(1, 1, -1), state)
            answers.append(self.head(state[0, 0]))
        return torch.stack(answers)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="fewer steps")
    steps = 20 if parser.parse_args().small else 600
    chance = random.Random(0)
    torch.manual_seed(0)

    model = Reader(width=48)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    sequences, digits = sample(8, chance)
    apart = (model(sequences) - model.one_by_one(sequences)).abs().max().item()
    print(f"lengths {[len(s) for s in sequences]}: packed and one by one differ by {apart:.1e}")
    assert apart < 1e-5

    for step in range(1, steps + 1):
        sequences, digits = sample(64, chance)
        loss = F.cross_entropy(model(sequences), digits)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % max(steps // 6, 1) == 0:
            print(f"step {step:4d}  loss {loss.item():.3f}")

    with torch.no_grad():
        sequences, digits = sample(500, chance)
        right = (model(sequences).argmax(1) == digits).float().mean().item()
    print(f"last digit right in {right:.1%} of 500 new sums (chance: 10%)")

    batch, time = torch.export.Dim("batch", min=1), torch.export.Dim("time", min=1)
    padded, lengths = pad_sequence(sequences[:2], batch_first=True), torch.tensor([len(s) for s in sequences[:2]])
    package = torch.export.export({"read": model.read}, {"read": (padded, lengths)},
                                  dynamic_shapes={"read": {"padded": {0: batch, 1: time}, "lengths": {0: batch}}})
    padded, lengths = pad_sequence(sequences, batch_first=True), torch.tensor([len(s) for s in sequences])
    assert torch.equal(package.read(padded, lengths), model.read(padded, lengths))
    print(f"exported: one program reads {len(sequences)} sequences of lengths {int(lengths.min())} to {int(lengths.max())}")


if __name__ == "__main__":
    main()
