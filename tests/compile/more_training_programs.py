"""More training programs in the manner of users, as training_programs.py has them: `PROGRAMS[name](T)` gives (step, data)."""

import copy
import importlib
import math

import numpy as np

from .training_programs import labels, normal, perceptron

PROGRAMS = {}
# What a graph cannot hold, or not as one program: sizes and branches that go by values, per-sample gradients.
IN_PIECES = {"routed_experts", "private", "plateau", "running_loss"}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


@program
def momentum_contrast(T):
    """MoCo: a momentum encoder and a queue that goes round."""
    T.manual_seed(0)
    F = T.nn.functional
    query = perceptron(T, 12, 32, 8)
    key = copy.deepcopy(query)
    for p in key.parameters():
        p.requires_grad_(False)
    queue, place = F.normalize(T.randn(64, 8), dim=1), T.zeros(1, dtype=T.long)
    opt = T.optim.SGD(query.parameters(), lr=0.05, momentum=0.9)

    def step(one, two):
        q = F.normalize(query(one), dim=1)
        with T.no_grad():
            for a, b in zip(key.parameters(), query.parameters()):
                a.data = a.data * 0.99 + b.data * 0.01
            k = F.normalize(key(two), dim=1)
        logits = T.cat([(q * k).sum(1, keepdim=True), q @ queue.clone().detach().t()], dim=1) / 0.2
        loss = F.cross_entropy(logits, T.zeros(len(one), dtype=T.long))
        opt.zero_grad()
        loss.backward()
        opt.step()
        with T.no_grad():
            rows = (place + T.arange(len(k))) % 64
            queue[rows] = k
            place.add_(len(k)).remainder_(64)
        return loss.detach()
    return step, lambda at: (normal(T, at, 16, 12), normal(T, at, 16, 12) + 0.1)


@program
def byol(T):
    T.manual_seed(0)
    F = T.nn.functional
    online, predictor = perceptron(T, 12, 32, 8), perceptron(T, 8, 16, 8)
    target = copy.deepcopy(online).requires_grad_(False)
    opt = T.optim.AdamW([*online.parameters(), *predictor.parameters()], lr=1e-3)

    def regression(x, y):
        return 2 - 2 * (F.normalize(x, dim=-1) * F.normalize(y, dim=-1)).sum(-1)

    def step(one, two):
        a, b = predictor(online(one)), predictor(online(two))
        with T.no_grad():
            c, d = target(two), target(one)
        loss = (regression(a, c.detach()) + regression(b, d.detach())).mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        with T.no_grad():
            for p, q in zip(online.parameters(), target.parameters()):
                q.mul_(0.98).add_((1 - 0.98) * p.detach())
        return loss.detach()
    return step, lambda at: (normal(T, at, 16, 12), normal(T, at, 16, 12) * 1.1)


@program
def siamese(T):
    T.manual_seed(0)
    F = T.nn.functional
    net = perceptron(T, 10, 32, 4)
    opt = T.optim.RMSprop(net.parameters(), lr=1e-3, momentum=0.5)

    def step(one, two, same):
        apart = F.pairwise_distance(net(one), net(two))
        loss = T.mean(same * apart.pow(2) + (1 - same) * T.clamp(1.0 - apart, min=0.0).pow(2))
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()
    return step, lambda at: (normal(T, at, 16, 10), normal(T, at + 9, 16, 10), labels(T, at, 2, 16).float())


@program
def functional_maml(T):
    """Inner steps by functional_call."""
    T.manual_seed(0)
    func = importlib.import_module(f"{T.__name__}.func")
    net = perceptron(T, 1, 20, 1, act=T.nn.Tanh)
    opt = T.optim.Adam(net.parameters(), lr=1e-2)

    def step(x, y, x2, y2):
        opt.zero_grad()
        total = 0
        for task in range(2):
            fast = dict(net.named_parameters())
            for _ in range(2):
                inner = T.nn.functional.mse_loss(func.functional_call(net, fast, (x[task],)), y[task])
                grads = T.autograd.grad(inner, tuple(fast.values()), create_graph=True)
                fast = {name: p - 0.1 * g for (name, p), g in zip(fast.items(), grads)}
            total = total + T.nn.functional.mse_loss(func.functional_call(net, fast, (x2[task],)), y2[task])
        total.backward()
        opt.step()
        return total.detach()

    def data(at):
        x, x2 = normal(T, at, 2, 10, 1), normal(T, at + 500, 2, 10, 1)
        return x, x.sin(), x2, x2.sin()
    return step, data


@program
def frozen_midway(T):
    """The body is frozen after some steps, the head goes on; groups with rates of their own and OneCycle."""
    T.manual_seed(0)
    body, head = perceptron(T, 10, 32, 16), T.nn.Linear(16, 4)
    opt = T.optim.AdamW([{"params": body.parameters(), "lr": 1e-3, "weight_decay": 0.0}, {"params": head.parameters(), "lr": 1e-2}])
    plan = T.optim.lr_scheduler.OneCycleLR(opt, max_lr=[1e-3, 1e-2], total_steps=5000)
    count = [0]

    def step(x, y):
        if count[0] == 6:
            for p in body.parameters():
                p.requires_grad = False
        count[0] += 1
        loss = T.nn.functional.cross_entropy(head(body(x).relu()), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        plan.step()
        return loss.detach()
    return step, lambda at: (normal(T, at, 16, 10), labels(T, at, 4, 16))


@program
def gradient_noise(T):
    T.manual_seed(0)
    net = perceptron(T, 10, 32, 4)
    opt = T.optim.SGD(net.parameters(), lr=0.05)
    T.manual_seed(5)
    number = [0]

    def step(x, y):
        number[0] += 1
        loss = T.nn.functional.cross_entropy(net(x), y, label_smoothing=0.1)
        opt.zero_grad()
        loss.backward()
        for p in net.parameters():
            if p.grad is not None:
                p.grad.add_(T.randn_like(p.grad) * (0.01 / (1 + number[0]) ** 0.55))
        opt.step()
        return loss.detach()
    return step, lambda at: (normal(T, at, 16, 10), labels(T, at, 4, 16))


@program
def weight_normed(T):
    T.manual_seed(0)
    norm = importlib.import_module(f"{T.__name__}.nn.utils.parametrizations")
    net = T.nn.Sequential(norm.weight_norm(T.nn.Linear(10, 32)), T.nn.Tanh(), norm.weight_norm(T.nn.Linear(32, 4), dim=None))
    opt = T.optim.Adam(net.parameters(), lr=1e-2)

    def step(x, y):
        opt.zero_grad()
        loss = T.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss.detach()
    return step, lambda at: (normal(T, at, 16, 10), labels(T, at, 4, 16))


@program
def spectral_critic(T):
    T.manual_seed(0)
    sn = T.nn.utils.spectral_norm
    net = T.nn.Sequential(sn(T.nn.Conv2d(1, 8, 3, padding=1)), T.nn.LeakyReLU(0.1), sn(T.nn.Conv2d(8, 8, 3, 2, 1)), T.nn.LeakyReLU(0.1),
                          T.nn.Flatten(), sn(T.nn.Linear(128, 1)))
    opt = T.optim.Adam(net.parameters(), lr=2e-4, betas=(0.0, 0.9))

    def step(real, fake):
        opt.zero_grad()
        loss = T.relu(1 - net(real)).mean() + T.relu(1 + net(fake)).mean()
        loss.backward()
        opt.step()
        return loss.detach()
    return step, lambda at: (normal(T, at, 4, 1, 8, 8), normal(T, at + 4, 4, 1, 8, 8) * 2)


@program
def swa_training(T):
    T.manual_seed(0)
    tools = importlib.import_module(f"{T.__name__}.optim.swa_utils")
    net = perceptron(T, 10, 32, 4)
    opt = T.optim.SGD(net.parameters(), lr=0.1)
    average = tools.AveragedModel(net)
    plan = tools.SWALR(opt, swa_lr=0.05, anneal_epochs=5)
    count = [0]

    def step(x, y):
        opt.zero_grad()
        loss = T.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        count[0] += 1
        if count[0] > 5:
            average.update_parameters(net)
            plan.step()
        return loss.detach() + average.module[0].weight.detach().mean()
    return step, lambda at: (normal(T, at, 16, 10), labels(T, at, 4, 16))


@program
def replay(T):
    """Q-learning from a buffer: rows drawn and written inside."""
    T.manual_seed(0)
    F = T.nn.functional
    net = perceptron(T, 4, 32, 2)
    slow = copy.deepcopy(net)
    opt = T.optim.Adam(net.parameters(), lr=1e-3)
    memory = {"state": T.zeros(64, 4), "next": T.zeros(64, 4), "action": T.zeros(64, dtype=T.long), "reward": T.zeros(64)}
    place = [0]
    T.manual_seed(7)

    def step(state, action, reward, following):
        at = place[0] % 64
        place[0] += 4
        memory["state"][at:at + 4] = state
        memory["next"][at:at + 4] = following
        memory["action"][at:at + 4] = action
        memory["reward"][at:at + 4] = reward
        rows = T.randint(0, 64, (16,))
        s, a, r, n = (memory[name][rows] for name in ("state", "action", "reward", "next"))
        with T.no_grad():
            best = net(n).argmax(1, keepdim=True)
            wanted = r + 0.9 * slow(n).gather(1, best).squeeze(1)
        loss = F.smooth_l1_loss(net(s).gather(1, a[:, None]).squeeze(1), wanted)
        opt.zero_grad()
        loss.backward()
        T.nn.utils.clip_grad_value_(net.parameters(), 1.0)
        opt.step()
        for p, q in zip(slow.parameters(), net.parameters()):
            p.data.copy_(0.9 * p.data + 0.1 * q.data)
        return loss.detach()
    return step, lambda at: (normal(T, at, 4, 4), labels(T, at, 2, 4), normal(T, at + 1, 4), normal(T, at + 2, 4, 4))


@program
def sparse_experts(T):
    """Top-2 routing with an auxiliary balance loss; experts run on the rows they get."""
    T.manual_seed(0)
    F = T.nn.functional

    class Experts(T.nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = T.nn.Linear(12, 4)
            self.experts = T.nn.ModuleList([perceptron(T, 12, 24, 12) for _ in range(4)])

        def forward(self, x):
            chance = F.softmax(self.gate(x), dim=-1)
            top, index = T.topk(chance, 2, dim=-1)
            top = top / top.sum(-1, keepdim=True)
            out = T.zeros_like(x)
            for at, expert in enumerate(self.experts):
                weight = (top * (index == at)).sum(-1, keepdim=True)
                out = out + weight * expert(x)
            load = F.one_hot(index, 4).float().mean((0, 1))
            return out, 4 * (load * chance.mean(0)).sum()
    net, head = Experts(), T.nn.Linear(12, 3)
    opt = T.optim.AdamW([*net.parameters(), *head.parameters()], lr=2e-3)

    def step(x, y):
        out, balance = net(x)
        loss = F.cross_entropy(head(x + out), y) + 0.01 * balance
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()
    return step, lambda at: (normal(T, at, 16, 12), labels(T, at, 3, 16))


@program
def routed_experts(T):
    """Rows go to one expert each, by index: sizes that depend on values."""
    T.manual_seed(0)
    F = T.nn.functional
    gate, experts = T.nn.Linear(12, 3), T.nn.ModuleList([perceptron(T, 12, 24, 12) for _ in range(3)])
    opt = T.optim.Adam([*gate.parameters(), *experts.parameters()], lr=2e-3)

    def step(x, y):
        chance = gate(x).softmax(-1)
        weight, index = chance.max(-1)
        out = T.zeros_like(x)
        for at in range(3):
            rows = T.where(index == at)[0]
            out = out.index_add(0, rows, experts[at](x[rows]) * weight[rows, None])
        loss = F.mse_loss(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()
    return step, lambda at: (normal(T, at, 16, 12), normal(T, at + 1, 16, 12))


@program
def vector_quantised(T):
    T.manual_seed(0)
    F = T.nn.functional
    enc, dec, book = perceptron(T, 16, 32, 8), perceptron(T, 8, 32, 16), T.nn.Embedding(16, 8)
    opt = T.optim.Adam([*enc.parameters(), *dec.parameters(), *book.parameters()], lr=1e-3)

    def step(x):
        z = enc(x)
        far = z.pow(2).sum(1, keepdim=True) - 2 * z @ book.weight.t() + book.weight.pow(2).sum(1)
        q = book(far.argmin(1))
        loss = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())
        q = z + (q - z).detach()
        loss = loss + F.mse_loss(dec(q), x)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()
    return step, lambda at: (normal(T, at, 16, 16),)


@program
def normalizing_flow(T):
    T.manual_seed(0)

    class Coupling(T.nn.Module):
        def __init__(self, flip):
            super().__init__()
            self.net, self.flip = perceptron(T, 2, 24, 4, act=T.nn.Tanh), flip

        def forward(self, x):
            a, b = x.chunk(2, dim=1)
            if self.flip:
                a, b = b, a
            scale, shift = self.net(a).chunk(2, dim=1)
            scale = T.tanh(scale)
            b = b * T.exp(scale) + shift
            return T.cat([b, a] if self.flip else [a, b], dim=1), scale.sum(1)
    flow = T.nn.ModuleList([Coupling(at % 2) for at in range(4)])
    opt = T.optim.Adam(flow.parameters(), lr=1e-3)
    base = T.distributions.Normal(T.zeros(4), T.ones(4))

    def step(x):
        total = T.zeros(x.size(0))
        for layer in flow:
            x, change = layer(x)
            total = total + change
        loss = -(base.log_prob(x).sum(1) + total).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()
    return step, lambda at: (normal(T, at, 16, 4) * 0.5 + 1,)


@program
def carried_language_model(T):
    """Truncated backpropagation: the hidden state goes on, detached."""
    T.manual_seed(0)
    embed, rnn, head = T.nn.Embedding(20, 16), T.nn.LSTM(16, 24, num_layers=2, dropout=0.1), T.nn.Linear(24, 20)
    params = [*embed.parameters(), *rnn.parameters(), *head.parameters()]
    opt = T.optim.SGD(params, lr=0.5)
    kept = [T.zeros(2, 4, 24), T.zeros(2, 4, 24)]
    T.manual_seed(3)

    def step(x, y):
        hidden = tuple(h.detach() for h in kept)
        out, hidden = rnn(embed(x), hidden)
        loss = T.nn.functional.cross_entropy(head(out).view(-1, 20), y.reshape(-1))
        for p in params:
            p.grad = None
        loss.backward()
        T.nn.utils.clip_grad_norm_(params, 0.25)
        opt.step()
        kept[0], kept[1] = hidden[0].detach(), hidden[1].detach()
        return loss.detach()
    return step, lambda at: (labels(T, at, 20, 8, 4), labels(T, at + 1, 20, 8, 4))


@program
def teacher_forcing(T):
    """Attention, and a decoder that sees the truth in some steps and its own choice in others."""
    T.manual_seed(0)
    F = T.nn.functional
    source, target = T.nn.Embedding(12, 16), T.nn.Embedding(12, 16)
    enc, dec, out = T.nn.GRU(16, 16, batch_first=True), T.nn.GRUCell(32, 16), T.nn.Linear(32, 12)
    params = [p for m in (source, target, enc, dec, out) for p in m.parameters()]
    opt = T.optim.Adam(params, lr=3e-3)

    def step(x, y, forced):
        memory, hidden = enc(source(x))
        hidden, token, loss = hidden[0], y[:, 0], 0.0
        for at in range(1, y.size(1)):
            weights = F.softmax((memory @ hidden.unsqueeze(2)).squeeze(2), dim=1)
            context = (weights.unsqueeze(1) @ memory).squeeze(1)
            hidden = dec(T.cat([target(token), context], 1), hidden)
            logits = out(T.cat([hidden, context], 1))
            loss = loss + F.cross_entropy(logits, y[:, at])
            token = y[:, at] if forced else logits.argmax(1)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach() / (y.size(1) - 1)
    return step, lambda at: (labels(T, at, 12, 4, 6), labels(T, at + 5, 12, 4, 5), at % 3 != 0)


@program
def own_optimizer(T):
    """Lion, written by the user."""
    T.manual_seed(0)

    class Lion(T.optim.Optimizer):
        def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.01):
            super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

        @T.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    state = self.state[p]
                    if len(state) == 0:
                        state["exp_avg"] = T.zeros_like(p)
                    avg, (b1, b2) = state["exp_avg"], group["betas"]
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    p.add_(T.sign(avg * b1 + p.grad * (1 - b1)), alpha=-group["lr"])
                    avg.mul_(b2).add_(p.grad, alpha=1 - b2)
    net = perceptron(T, 10, 32, 4)
    opt = Lion(net.parameters())

    def step(x, y):
        opt.zero_grad()
        loss = T.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss.detach()
    return step, lambda at: (normal(T, at, 16, 10), labels(T, at, 4, 16))


@program
def private(T):
    """Per-sample gradients by vmap, clipped and noised."""
    T.manual_seed(0)
    func = importlib.import_module(f"{T.__name__}.func")
    net = perceptron(T, 6, 16, 3)
    opt = T.optim.SGD(net.parameters(), lr=0.1)
    T.manual_seed(2)

    def one(params, x, y):
        out = func.functional_call(net, params, (x.unsqueeze(0),))
        return T.nn.functional.cross_entropy(out, y.unsqueeze(0))

    def step(x, y):
        params = {name: p.detach() for name, p in net.named_parameters()}
        grads, values = func.vmap(func.grad_and_value(one), in_dims=(None, 0, 0))(params, x, y)
        size = T.stack([g.flatten(1).norm(dim=1) for g in grads.values()]).norm(dim=0)
        share = (1.0 / (size + 1e-6)).clamp(max=1.0)
        for name, p in net.named_parameters():
            g = grads[name] * share.view(-1, *[1] * (grads[name].ndim - 1))
            p.grad = g.mean(0) + 0.01 * T.randn_like(p)
        opt.step()
        return values.mean()
    return step, lambda at: (normal(T, at, 8, 6), labels(T, at, 3, 8))


@program
def masked_language_model(T):
    T.manual_seed(0)
    F = T.nn.functional
    class Net(T.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.place = T.nn.Embedding(20, 32), T.nn.Parameter(T.zeros(1, 8, 32))
            self.layers = T.nn.TransformerEncoder(T.nn.TransformerEncoderLayer(
                32, 4, 64, dropout=0.1, activation="gelu", batch_first=True, norm_first=True), 2, enable_nested_tensor=False)
            self.norm = T.nn.LayerNorm(32)

        def forward(self, x, hidden):
            return F.linear(self.norm(self.layers(self.embed(x) + self.place, src_key_padding_mask=hidden)), self.embed.weight)
    net = Net()
    opt = T.optim.AdamW(net.parameters(), lr=1e-3)
    plan = T.optim.lr_scheduler.LambdaLR(opt, lambda at: min((at + 1) / 10, 1.0))
    T.manual_seed(9)

    def step(x):
        drawn = T.rand(x.shape) < 0.3
        masked = x.masked_fill(drawn, 0)
        wanted = T.where(drawn, x, T.full_like(x, -100))
        loss = F.cross_entropy(net(masked, x == 1).view(-1, 20), wanted.view(-1), ignore_index=-100)
        opt.zero_grad()
        loss.backward()
        T.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        plan.step()
        return loss.detach()
    return step, lambda at: (labels(T, at, 19, 4, 8) + 1,)


@program
def angular_margin(T):
    T.manual_seed(0)
    F = T.nn.functional
    net, weight = perceptron(T, 10, 32, 8), T.nn.Parameter(T.randn(5, 8))
    opt = T.optim.SGD([*net.parameters(), weight], lr=0.05, momentum=0.9, weight_decay=5e-4)

    def step(x, y):
        cosine = F.linear(F.normalize(net(x)), F.normalize(weight))
        sine = T.sqrt((1.0 - cosine.pow(2)).clamp(0, 1))
        moved = cosine * math.cos(0.3) - sine * math.sin(0.3)
        moved = T.where(cosine > 0, moved, cosine)
        hit = T.zeros_like(cosine)
        hit.scatter_(1, y.view(-1, 1), 1)
        logits = (hit * moved + (1.0 - hit) * cosine) * 8
        chance = F.log_softmax(logits, 1)
        focal = (-(1 - chance.exp()) ** 2 * chance).gather(1, y[:, None]).mean()
        opt.zero_grad()
        focal.backward()
        opt.step()
        return focal.detach()
    return step, lambda at: (normal(T, at, 16, 10), labels(T, at, 5, 16))


@program
def cut_and_mixed(T):
    """CutMix with a box from NumPy."""
    T.manual_seed(0)
    F = T.nn.functional
    net = T.nn.Sequential(T.nn.Conv2d(3, 8, 3, padding=1), T.nn.BatchNorm2d(8), T.nn.ReLU(), T.nn.AvgPool2d(2),
                          T.nn.Conv2d(8, 8, 3, padding=1), T.nn.ReLU(), T.nn.AdaptiveAvgPool2d(1), T.nn.Flatten(), T.nn.Linear(8, 4))
    opt = T.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True)

    def step(x, y, order, top, left):
        x = x.clone()
        x[:, :, top:top + 4, left:left + 4] = x[order, :, top:top + 4, left:left + 4]
        share = 1 - 16 / (12 * 12)
        out = net(x)
        loss = F.cross_entropy(out, y) * share + F.cross_entropy(out, y[order]) * (1 - share)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()
    return step, lambda at: (normal(T, at, 4, 3, 12, 12), labels(T, at, 4, 4), T.from_numpy(np.random.RandomState(at).permutation(4)), 2, 5)


@program
def uncertain_tasks(T):
    """Losses weighed by learned uncertainties, two passes over one graph, gradients projected (PCGrad)."""
    T.manual_seed(0)
    F = T.nn.functional
    body, one, two, spread = perceptron(T, 8, 32, 16), T.nn.Linear(16, 1), T.nn.Linear(16, 3), T.nn.Parameter(T.zeros(2))
    shared = list(body.parameters())
    opt = T.optim.Adam([*shared, *one.parameters(), *two.parameters(), spread], lr=1e-3)

    def step(x, y, z):
        hidden = body(x).relu()
        first, second = F.mse_loss(one(hidden).squeeze(1), y), F.cross_entropy(two(hidden), z)
        losses = [T.exp(-spread[0]) * first + spread[0], T.exp(-spread[1]) * second + spread[1]]
        opt.zero_grad()
        losses[0].backward(retain_graph=True)
        kept = [p.grad.clone() for p in shared]
        for p in shared:
            p.grad.zero_()
        losses[1].backward()
        dot = sum((a * p.grad).sum() for a, p in zip(kept, shared))
        size = sum((a * a).sum() for a in kept)
        share = T.where(dot < 0, dot / (size + 1e-12), T.zeros_like(dot))
        for a, p in zip(kept, shared):
            p.grad.add_(a).sub_(share * a)
        opt.step()
        return first.detach() + second.detach()
    return step, lambda at: (normal(T, at, 16, 8), normal(T, at + 1, 16), labels(T, at, 3, 16))


@program
def plateau(T):
    """A scheduler that looks at the loss, early stopping, the best weights kept."""
    T.manual_seed(0)
    net = perceptron(T, 10, 32, 4)
    opt = T.optim.Adam(net.parameters(), lr=1e-2)
    plan = T.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=2, factor=0.5)

    def step(x, y):
        opt.zero_grad()
        loss = T.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        plan.step(loss)
        return loss.detach()
    return step, lambda at: (normal(T, at, 16, 10), labels(T, at, 4, 16))


@program
def running_loss(T):
    """Sums of losses and counts as Python numbers, as in most scripts."""
    T.manual_seed(0)
    net = perceptron(T, 10, 32, 4)
    opt = T.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    totals = {"loss": 0.0, "right": 0, "seen": 0}

    def step(x, y):
        opt.zero_grad()
        out = net(x)
        loss = T.nn.functional.cross_entropy(out, y)
        loss.backward()
        opt.step()
        totals["loss"] += loss.item() * x.size(0)
        totals["right"] += (out.argmax(1) == y).sum().item()
        totals["seen"] += x.size(0)
        return totals["loss"] / totals["seen"]
    return step, lambda at: (normal(T, at, 16, 10), labels(T, at, 4, 16))
