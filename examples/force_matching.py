"""Learn an energy from forces alone: the physicist's double backward.

    python examples/force_matching.py [--small]

A network gives the energy of a particle in the plane; its force is minus the gradient of that energy, taken with
create_graph=True, and the loss compares forces. Training therefore differentiates a derivative. The energy itself is never shown,
and comes out right up to a constant, which no force can tell.
"""
import argparse

import rushlight as torch
from rushlight import nn


def true_energy(place):
    """Two wells on the x axis, a spring along y."""
    x, y = place[:, 0], place[:, 1]
    return (x ** 2 - 1) ** 2 + 0.5 * y ** 2 + 0.3 * x * y


def force(energy, place, create_graph=False):
    """Minus dE/dplace, shape (n, 2). Each row depends on its own place only, so the sum's gradient is every row's."""
    (slope,) = torch.autograd.grad(energy(place).sum(), place, create_graph=create_graph)
    return -slope


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="fewer steps")
    steps = 30 if parser.parse_args().small else 1500
    torch.manual_seed(0)

    network = nn.Sequential(nn.Linear(2, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1))
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    for step in range(steps):
        place = (torch.rand(128, 2) * 3 - 1.5).requires_grad_()
        wanted = force(true_energy, place)
        got = force(network, place, create_graph=True)
        loss = ((got - wanted) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()                      # through the gradient that `force` took
        optimizer.step()
        schedule.step()
        if step % max(steps // 6, 1) == 0:
            print(f"step {step:4d}  mean squared error of the force {loss.item():.5f}")

    with torch.no_grad():
        place = torch.rand(1000, 2) * 3 - 1.5
        difference = network(place)[:, 0] - true_energy(place)
        print(f"force error {loss.item():.5f}; the unseen energy differs by a constant "
              f"{difference.mean().item():.3f} give or take {difference.std().item():.4f} (its own spread: {true_energy(place).std().item():.3f})")


if __name__ == "__main__":
    main()
