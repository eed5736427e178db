"""Learn to balance a pole on a cart: actor-critic on sixteen carts at once, their physics in NumPy.

    python examples/cart_pole.py [--small] [--compile]

The policy and its critic are small, so eager time is mostly the framework's own; `--compile` adds one line, which makes the whole
update (forward, loss, backward, clipping, Adam) one native call, and one for the policy.
"""
import argparse
import time

import numpy as np

import rushlight as torch
from rushlight import nn

CARTS, ROLLOUT, LONGEST = 16, 32, 500
SCALE = 50  # the critic's unit, in ticks
GRAVITY, CART, POLE, HALF, PUSH, TICK = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02  # SI units; HALF is half the pole's length


class Carts:
    """`count` carts side by side: position, speed, angle, turning speed of each."""

    def __init__(self, count, seed=0):
        self.random = np.random.default_rng(seed)
        self.state = self.fresh(count)
        self.age = np.zeros(count, int)
        self.finished = []  # how long each attempt lasted

    def fresh(self, count):
        return self.random.uniform(-0.05, 0.05, (count, 4)).astype(np.float32)

    def push(self, right):
        """One tick with a push to the right or left; returns who fell. The fallen begin again."""
        _, speed, angle, turning = self.state.T
        force = np.where(right, PUSH, -PUSH)
        whole, sin, cos = CART + POLE, np.sin(angle), np.cos(angle)
        shared = (force + POLE * HALF * turning ** 2 * sin) / whole
        twist = (GRAVITY * sin - cos * shared) / (HALF * (4 / 3 - POLE * cos ** 2 / whole))
        pull = shared - POLE * HALF * twist * cos / whole
        self.state += TICK * np.stack([speed, pull, turning, twist], 1).astype(np.float32)
        self.age += 1
        fell = (np.abs(self.state[:, 0]) > 2.4) | (np.abs(self.state[:, 2]) > np.radians(12)) | (self.age >= LONGEST)
        self.finished += self.age[fell].tolist()
        self.state[fell], self.age[fell] = self.fresh(fell.sum()), 0
        return fell


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.actor, self.critic = nn.Linear(64, 2), nn.Linear(64, 1)

    def forward(self, seen):
        hidden = self.trunk(seen)
        return self.actor(hidden).log_softmax(-1), self.critic(hidden).squeeze(-1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a few updates only")
    parser.add_argument("--compile", action="store_true", help="compile the update and the policy")
    options = parser.parse_args()
    torch.set_num_threads(1)  # for small tensors waking a second thread costs more than it gives
    torch.manual_seed(0)
    net, carts = ActorCritic(), Carts(CARTS)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    random = np.random.default_rng(1)

    def step(seen, done, earned):
        """One update from what was seen, done and then earned."""
        optimizer.zero_grad()
        choices, worth = net(seen)
        surprise = earned - worth
        chosen = choices.gather(1, done.unsqueeze(1)).squeeze(1)
        entropy = -(choices.exp() * choices).sum(-1).mean()
        loss = -(chosen * surprise.detach()).mean() + 0.5 * surprise.square().mean() - 0.01 * entropy
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
        return loss.detach()

    def policy(seen):
        with torch.no_grad():
            return net(seen)

    if options.compile:
        step, policy = torch.compile(step), torch.compile(policy)

    updates = 8 if options.small else 400
    start, spent = time.perf_counter(), 0.0
    for update in range(1, updates + 1):
        seen = np.empty((ROLLOUT, CARTS, 4), np.float32)
        done, fell = np.empty((ROLLOUT, CARTS), np.int64), np.empty((ROLLOUT, CARTS), bool)
        for t in range(ROLLOUT):
            seen[t] = carts.state
            choices, _ = policy(torch.from_numpy(seen[t]))
            done[t] = random.random(CARTS) < choices[:, 1].exp().numpy()
            fell[t] = carts.push(done[t] == 1)
        earned = np.empty((ROLLOUT, CARTS), np.float32)
        ahead = SCALE * policy(torch.from_numpy(carts.state.copy()))[1].numpy()
        for t in reversed(range(ROLLOUT)):
            ahead = earned[t] = 1 + 0.99 * np.where(fell[t], 0, ahead)
        began = time.perf_counter()
        step(*map(torch.from_numpy, (seen.reshape(-1, 4), done.reshape(-1), earned.reshape(-1) / SCALE)))
        spent += time.perf_counter() - began if update > 1 else 0  # the first call compiles
        if update == 1 or update % max(updates // 8, 1) == 0:
            recent = carts.finished[-50:] or [0]
            print(f"update {update:4d}  the last attempts stood {np.mean(recent):5.1f} ticks")
    print(f"{updates} updates in {time.perf_counter() - start:.1f} s, {1e6 * spent / max(updates - 1, 1):.0f} us an update"
          f"{' (compiled)' if options.compile else ''}")


if __name__ == "__main__":
    main()
