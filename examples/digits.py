"""Train a small convolutional network on scikit-learn's handwritten digits, and use it in a fresh process.

    python examples/digits.py            train, show the graph, draw the loss, save, reload elsewhere, predict; train again compiled
    python examples/digits.py --small    the same in two epochs

1,797 pictures of 8 by 8 pixels ship with scikit-learn, so nothing is downloaded. What is written goes to --out.
"""
import argparse
import subprocess
import sys
import time
from pathlib import Path

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import rushlight as torch
from rushlight import nn
from rushlight.diagnostics import show_graph
from rushlight.nn import functional as F
from rushlight.utils.data import DataLoader, TensorDataset


class DigitNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 32, 3, padding=1)
        self.drop = nn.Dropout(0.25)
        self.head = nn.Linear(32 * 2 * 2, 10)

    def forward(self, pictures):
        x = F.max_pool2d(F.relu(self.first(pictures)), 2)
        x = F.max_pool2d(F.relu(self.second(x)), 2)
        return self.head(self.drop(x.flatten(1)))


def load():
    digits = load_digits()
    pictures = torch.tensor(digits.images / 16.0, dtype=torch.float32).unsqueeze(1)
    labels = torch.tensor(digits.target)
    train, held = train_test_split(range(len(labels)), test_size=0.2, random_state=0, stratify=digits.target)
    return (pictures[train], labels[train]), (pictures[held], labels[held])


def accuracy(model, pictures, labels):
    model.eval()
    with torch.no_grad():
        right = (model(pictures).argmax(1) == labels).float().mean().item()
    model.train()
    return right


def train(model, data, epochs, compiled=False):
    """Return the loss of every step and the seconds of every epoch; `.item()` keeps the number and lets the graph go."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    loader = DataLoader(TensorDataset(*data), batch_size=64, shuffle=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=epochs * len(loader))
    losses, seconds = [], []

    def step(pictures, labels):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(pictures), labels)
        loss.backward()
        optimizer.step()
        return loss

    if compiled:
        step = torch.compile(step)
    often = 0.2 if sys.stdout.isatty() else 5  # seconds: a log file is not flooded
    name = "training, compiled" if compiled else "training"
    with tqdm(total=epochs * len(loader), desc=name, unit="step", mininterval=often, file=sys.stdout) as bar:
        for _ in range(epochs):
            start = time.perf_counter()
            for pictures, labels in loader:
                if not losses and not compiled:
                    bar.clear()
                    loss = F.cross_entropy(model(pictures), labels)
                    print(f"The graph that the first batch records, from the loss back to the weights:\n{show_graph(loss, model)}\n")
                losses.append(step(pictures, labels).item())
                schedule.step()
                bar.update()
                bar.set_postfix(loss=f"{losses[-1]:.3f}", refresh=False)
            seconds.append(time.perf_counter() - start)
    return losses, seconds


def draw(losses, path):
    """Write the loss curve as an SVG picture, which every browser shows."""
    width, height, margin = 640, 320, 40
    top = max(losses)
    points = " ".join(f"{margin + i * (width - 2 * margin) / max(len(losses) - 1, 1):.1f},"
                      f"{height - margin - y * (height - 2 * margin) / top:.1f}" for i, y in enumerate(losses))
    marks = "".join(
        f'<line x1="{margin}" x2="{width - margin}" y1="{y:.0f}" y2="{y:.0f}" stroke="#ddd"/>'
        f'<text x="{margin - 6}" y="{y + 4:.0f}" text-anchor="end">{top * part:.1f}</text>'
        for part in (0, 0.25, 0.5, 0.75, 1) for y in [height - margin - part * (height - 2 * margin)])
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">'
        f'<rect width="{width}" height="{height}" fill="white"/>{marks}'
        f'<polyline points="{points}" fill="none" stroke="#c43" stroke-width="1.5"/>'
        f'<text x="{width / 2}" y="24" text-anchor="middle" font-size="15">loss on each training batch</text>'
        f'<text x="{width / 2}" y="{height - 12}" text-anchor="middle">step (1 to {len(losses)})</text></svg>\n')


def picture(pixels):
    """An 8 by 8 digit as text, two characters a pixel."""
    return "\n".join("".join(" .:-=+*#%@"[min(int(v * 10), 9)] * 2 for v in row) for row in pixels.tolist())


def predict(weights):
    """What the fresh process does: build the model, load the weights, look at held-out digits."""
    model = DigitNet()
    model.load_state_dict(torch.load(weights))
    _, (pictures, labels) = load()
    model.eval()
    with torch.no_grad():
        guesses = model(pictures[:10]).argmax(1)
    print(picture(pictures[0, 0]))
    print(f"a fresh process reads the first ten held-out digits as {guesses.tolist()}; they are {labels[:10].tolist()}")
    print(f"and all of them with accuracy {accuracy(model, pictures, labels):.2%}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="two epochs only")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the weights and the picture (default: out)")
    parser.add_argument("--predict", type=Path, metavar="WEIGHTS", help="only load these weights and predict")
    options = parser.parse_args()
    if options.predict:
        return predict(options.predict)

    torch.manual_seed(0)
    start = time.perf_counter()
    options.out.mkdir(parents=True, exist_ok=True)
    trained_on, (pictures, labels) = load()
    model = DigitNet()
    epochs = 2 if options.small else 12
    losses, eager = train(model, trained_on, epochs)
    print(f"{len(losses)} steps, {sum(p.numel() for p in model.parameters()):,} parameters, "
          f"{time.perf_counter() - start:.1f} s: held-out accuracy {accuracy(model, pictures, labels):.2%}")

    draw(losses, options.out / "loss.svg")
    weights = options.out / "digits.safetensors"
    torch.save(model.state_dict(), weights)
    print(f"wrote {options.out / 'loss.svg'} and {weights}", flush=True)
    subprocess.run([sys.executable, __file__, "--predict", str(weights)], check=True)

    torch.manual_seed(0)
    again = DigitNet()
    _, compiled = train(again, trained_on, epochs, compiled=True)
    print(f"the same with `step = torch.compile(step)`: held-out accuracy {accuracy(again, pictures, labels):.2%}")
    print(f"seconds an epoch    eager  compiled\n           first   {eager[0]:6.2f}    {compiled[0]:6.2f}   (with compiling)"
          f"\n  fastest of all   {min(eager):6.2f}    {min(compiled):6.2f}")


if __name__ == "__main__":
    main()
