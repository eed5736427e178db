"""A character-level GPT on text that ships with Python: pydoc's own topics, about 450 kB of English and code.

    python examples/char_gpt.py [--small] [--compile]

A transformer written out in full, trained for a minute, then asked to go on from a prompt. `--compile` adds one line, which makes the
whole training step one native call.
"""
import argparse
import time
from pydoc_data.topics import topics

import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.before_attention(x)).split(width, dim=2))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.before_mlp(x))


class CharGPT(nn.Module):
    def __init__(self, symbols, context, width=64, heads=4, depth=2):
        super().__init__()
        self.context = context
        self.symbol, self.place = nn.Embedding(symbols, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, symbols, bias=False)
        for table in (self.symbol, self.place):
            nn.init.normal_(table.weight, std=0.1)  # PyTorch's default of 1 drowns what attention adds

    def forward(self, text):
        x = self.symbol(text) + self.place(torch.arange(text.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    @torch.no_grad()
    def go_on(self, text, count, temperature=0.8):
        for _ in range(count):
            logits = self(text[:, -self.context:])[:, -1] / temperature
            text = torch.cat([text, torch.multinomial(F.softmax(logits, -1), 1)], dim=1)
        return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a narrow model and a few steps")
    parser.add_argument("--compile", action="store_true", help="compile the training step")
    options = parser.parse_args()
    small = options.small
    steps, batch, context, width = (12, 4, 16, 16) if small else (1000, 16, 64, 64)
    torch.manual_seed(0)

    corpus = "\n".join(topics[name] for name in sorted(topics))
    alphabet = sorted(set(corpus))
    number = {c: i for i, c in enumerate(alphabet)}
    text = torch.tensor([number[c] for c in corpus])
    model = CharGPT(len(alphabet), context, width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    print(f"{len(corpus):,} characters, {len(alphabet)} different; {sum(p.numel() for p in model.parameters()):,} parameters")

    def step(window):
        loss = F.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    if options.compile:
        step = torch.compile(step)

    start = time.perf_counter()
    for number_of_step in range(1, steps + 1):
        at = torch.randint(len(text) - context - 1, (batch,))
        window = text[at.unsqueeze(1) + torch.arange(context + 1)]
        loss = step(window)
        if number_of_step == 1 or number_of_step % max(steps // 5, 1) == 0:
            spent = 1000 * (time.perf_counter() - start) / number_of_step
            print(f"step {number_of_step:4d}  loss {loss.item():.3f}  {spent:.0f} ms a step")

    prompt = torch.tensor([[number[c] for c in "The statement "]])
    written = model.go_on(prompt, 20 if small else 200)[0].tolist()
    print("".join(alphabet[i] for i in written))


if __name__ == "__main__":
    main()
