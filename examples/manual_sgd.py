"""Gradient descent by hand: a nn.Linear, a loss, and the update written out under no_grad.

    python examples/manual_sgd.py [--small]

The data are scikit-learn's diabetes measurements: 442 people, 10 measurements, and how the illness went after a year.
"""
import argparse

from sklearn.datasets import load_diabetes

import rushlight as torch
from rushlight import nn


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="fewer steps")
    steps = 300 if parser.parse_args().small else 5000
    torch.manual_seed(0)

    features, target = load_diabetes(return_X_y=True)
    x = torch.tensor(features, dtype=torch.float32)
    x = (x - x.mean(0)) / x.std(0)
    y = torch.tensor(target, dtype=torch.float32).unsqueeze(1)
    y = (y - y.mean()) / y.std()

    model = nn.Linear(10, 1)
    for step in range(steps):
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()                      # adds into .grad of weight and bias
        with torch.no_grad():                # the update itself must not be recorded
            for parameter in model.parameters():
                parameter -= 0.2 * parameter.grad
                parameter.grad = None        # or the next backward would add to it
        if step % (steps // 5) == 0:
            print(f"step {step:5d}  loss {loss.item():.4f}")

    exact = torch.linalg.lstsq(x, y).solution
    with torch.no_grad():
        apart = (model.weight.T - exact).abs().max().item()
    print(f"loss {loss.item():.4f}; farthest weight from the least-squares solution: {apart:.4f}")


if __name__ == "__main__":
    main()
