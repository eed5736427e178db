"""Training programs in the manner of users: `PROGRAMS[name](T)` gives `step(number) -> loss`, T being rushlight or PyTorch.

Each draws its data from NumPy by the step's number and its weights after `T.manual_seed`, so that both libraries start alike.
"""

# ruff: noqa: E741
import copy
import math

import numpy as np

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def normal(T, at, *shape):
    return T.from_numpy(np.random.RandomState(at).randn(*shape).astype(np.float32))


def labels(T, at, classes, *shape):
    return T.from_numpy(np.random.RandomState(at + 1000).randint(0, classes, shape))


def perceptron(T, *sizes, act=None):
    layers = []
    for one, two in zip(sizes, sizes[1:]):
        layers += [T.nn.Linear(one, two), (act or T.nn.ReLU)()]
    return T.nn.Sequential(*layers[:-1])


@program
def gan(T):
    T.manual_seed(0)
    make, judge = perceptron(T, 4, 32, 8), perceptron(T, 8, 32, 1, act=lambda: T.nn.LeakyReLU(0.2))
    first = T.optim.Adam(make.parameters(), lr=2e-3, betas=(0.5, 0.999))
    second = T.optim.Adam(judge.parameters(), lr=2e-3, betas=(0.5, 0.999))
    loss = T.nn.BCEWithLogitsLoss()

    def step(real, noise):
        ones, zeros = T.ones(16, 1), T.zeros(16, 1)
        second.zero_grad()
        fake = make(noise)
        judged = loss(judge(real), ones) + loss(judge(fake.detach()), zeros)
        judged.backward()
        second.step()
        first.zero_grad()
        made = loss(judge(fake), ones)
        made.backward()
        first.step()
        return judged.detach() + made.detach()
    return step, lambda at: (normal(T, at, 16, 8) * 0.5 + 1, normal(T, at + 500, 16, 4))


@program
def gradient_penalty(T):
    """The critic of a WGAN-GP."""
    T.manual_seed(0)
    make, judge = perceptron(T, 4, 32, 8), perceptron(T, 8, 32, 1, act=T.nn.Tanh)
    opt = T.optim.Adam(judge.parameters(), lr=1e-3, betas=(0.0, 0.9))

    def step(real, noise, share):
        fake = make(noise).detach()
        between = (share * real + (1 - share) * fake).requires_grad_(True)
        out = judge(between)
        slope = T.autograd.grad(out, between, grad_outputs=T.ones_like(out), create_graph=True, retain_graph=True)[0]
        penalty = ((slope.norm(2, dim=1) - 1) ** 2).mean()
        loss = judge(fake).mean() - judge(real).mean() + 10 * penalty
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()
    return step, lambda at: (normal(T, at, 16, 8), normal(T, at + 500, 16, 4), normal(T, at + 900, 16, 1).sigmoid())


@program
def vae(T):
    T.manual_seed(0)

    class VAE(T.nn.Module):
        def __init__(self):
            super().__init__()
            self.enc, self.mean, self.logvar, self.dec = T.nn.Linear(16, 32), T.nn.Linear(32, 4), T.nn.Linear(32, 4), perceptron(T, 4, 32, 16)

        def forward(self, x):
            hidden = T.relu(self.enc(x))
            mean, logvar = self.mean(hidden), self.logvar(hidden)
            drawn = mean + T.randn_like(mean) * T.exp(0.5 * logvar)
            return T.sigmoid(self.dec(drawn)), mean, logvar
    net = VAE()
    opt = T.optim.Adam(net.parameters(), lr=1e-3)
    T.manual_seed(3)

    def step(x):
        opt.zero_grad()
        out, mean, logvar = net(x)
        loss = T.nn.functional.binary_cross_entropy(out, x, reduction="sum") - 0.5 * T.sum(1 + logvar - mean.pow(2) - logvar.exp())
        loss.backward()
        opt.step()
        return loss.detach()
    return step, lambda at: (normal(T, at, 16, 16).sigmoid(),)


@program
def maml(T):
    T.manual_seed(0)
    w1, b1 = (T.randn(1, 20) * 0.5).requires_grad_(), T.zeros(20, requires_grad=True)
    w2, b2 = (T.randn(20, 1) * 0.2).requires_grad_(), T.zeros(1, requires_grad=True)
    params = [w1, b1, w2, b2]
    opt = T.optim.SGD(params, lr=0.01)

    def run(x, p):
        return T.tanh(x @ p[0] + p[1]) @ p[2] + p[3]

    def step(x, y, x2, y2):
        opt.zero_grad()
        total = 0.0
        for task in range(2):
            inner = T.nn.functional.mse_loss(run(x[task], params), y[task])
            grads = T.autograd.grad(inner, params, create_graph=True)
            fast = [p - 0.05 * g for p, g in zip(params, grads)]
            total = total + T.nn.functional.mse_loss(run(x2[task], fast), y2[task])
        total.backward()
        opt.step()
        return total.detach()

    def data(at):
        x, x2 = normal(T, at, 2, 10, 1), normal(T, at + 500, 2, 10, 1)
        return x, x.sin() * 2, x2, x2.sin() * 2
    return step, data


@program
def dqn(T):
    T.manual_seed(0)
    net = perceptron(T, 6, 32, 3)
    target = copy.deepcopy(net)
    opt = T.optim.RMSprop(net.parameters(), lr=1e-3)

    def step(state, action, reward, after, done):
        value = net(state).gather(1, action.unsqueeze(1)).squeeze(1)
        with T.no_grad():
            best = target(after).max(1)[0]
            wanted = reward + 0.99 * best * (1 - done)
        loss = T.nn.functional.smooth_l1_loss(value, wanted)
        opt.zero_grad()
        loss.backward()
        T.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        with T.no_grad():
            for kept, new in zip(target.parameters(), net.parameters()):
                kept.data.mul_(0.95).add_(0.05 * new.data)
        return loss.detach()
    return step, lambda at: (normal(T, at, 16, 6), labels(T, at, 3, 16), normal(T, at + 1, 16), normal(T, at + 2, 16, 6),
                             labels(T, at, 2, 16).to(T.float32))


@program
def actor_critic(T):
    T.manual_seed(0)
    body, policy, value = perceptron(T, 6, 32, 32), T.nn.Linear(32, 3), T.nn.Linear(32, 1)
    params = [*body.parameters(), *policy.parameters(), *value.parameters()]
    opt = T.optim.Adam(params, lr=3e-3)

    def step(states, actions, rewards):
        hidden = body(states)
        chosen = T.distributions.Categorical(logits=policy(hidden))
        values = value(hidden).squeeze(-1)
        returns, ahead = [], T.zeros(())
        for at in reversed(range(8)):
            ahead = rewards[at] + 0.9 * ahead
            returns.insert(0, ahead)
        returns = T.stack(returns)
        advantage = (returns - values).detach()
        loss = -(chosen.log_prob(actions) * advantage).mean() + 0.5 * (returns - values).pow(2).mean() - 0.01 * chosen.entropy().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()
    return step, lambda at: (normal(T, at, 8, 6), labels(T, at, 3, 8), normal(T, at + 1, 8))


@program
def ppo(T):
    T.manual_seed(0)
    policy, value = perceptron(T, 5, 32, 2, act=T.nn.Tanh), perceptron(T, 5, 32, 1, act=T.nn.Tanh)
    spread = T.nn.Parameter(T.zeros(2))
    opt = T.optim.Adam([{"params": [*policy.parameters(), spread], "lr": 3e-4}, {"params": value.parameters(), "lr": 1e-3}])

    def step(states, actions, before, advantage, returns):
        total = 0.0
        for rows in T.arange(16).split(8):
            dist = T.distributions.Normal(policy(states[rows]), spread.exp())
            chance = dist.log_prob(actions[rows]).sum(-1)
            gain = advantage[rows]
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
            ratio = (chance - before[rows]).exp()
            clipped = T.clamp(ratio, 0.8, 1.2)
            loss = -T.min(ratio * gain, clipped * gain).mean() + 0.5 * ((value(states[rows]).squeeze(-1) - returns[rows]) ** 2).mean()
            loss = loss - 0.01 * dist.entropy().sum(-1).mean()
            opt.zero_grad()
            loss.backward()
            T.nn.utils.clip_grad_norm_([*policy.parameters(), *value.parameters()], 0.5)
            opt.step()
            total = total + loss.detach()
        return total
    return step, lambda at: (normal(T, at, 16, 5), normal(T, at + 1, 16, 2), normal(T, at + 2, 16) - 3, normal(T, at + 3, 16), normal(T, at + 4, 16))


@program
def triplet(T):
    T.manual_seed(0)
    net = perceptron(T, 10, 32, 8)
    opt = T.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    measure = T.nn.TripletMarginLoss(margin=1.0, p=2)

    def step(a, p, n):
        opt.zero_grad()
        loss = measure(net(a), net(p), net(n)) + T.nn.functional.cosine_embedding_loss(net(a), net(n), -T.ones(12), margin=0.2)
        loss.backward()
        opt.step()
        return loss.detach()
    return step, lambda at: (normal(T, at, 12, 10), normal(T, at, 12, 10) + 0.1, normal(T, at + 7, 12, 10))


@program
def unet(T):
    T.manual_seed(0)

    def double(a, b):
        return T.nn.Sequential(T.nn.Conv2d(a, b, 3, padding=1), T.nn.BatchNorm2d(b), T.nn.ReLU(inplace=True),
                               T.nn.Conv2d(b, b, 3, padding=1), T.nn.BatchNorm2d(b), T.nn.ReLU(inplace=True))

    class UNet(T.nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two, self.pool = double(1, 8), double(8, 16), T.nn.MaxPool2d(2)
            self.up, self.three, self.out = T.nn.ConvTranspose2d(16, 8, 2, stride=2), double(16, 8), T.nn.Conv2d(8, 1, 1)

        def forward(self, x):
            first = self.one(x)
            up = self.up(self.two(self.pool(first)))
            return self.out(self.three(T.cat([up, first], dim=1)))
    net = UNet()
    opt = T.optim.Adam(net.parameters(), lr=1e-3)

    def step(x, y):
        opt.zero_grad()
        out = net(x)
        chance = T.sigmoid(out)
        dice = 1 - (2 * (chance * y).sum() + 1) / (chance.sum() + y.sum() + 1)
        loss = T.nn.functional.binary_cross_entropy_with_logits(out, y) + dice
        loss.backward()
        opt.step()
        return loss.detach()
    return step, lambda at: (normal(T, at, 2, 1, 16, 16), labels(T, at, 2, 2, 1, 16, 16).to(T.float32))


@program
def resnet(T):
    T.manual_seed(0)

    class Block(T.nn.Module):
        def __init__(self, a, b, stride=1):
            super().__init__()
            self.conv1, self.bn1 = T.nn.Conv2d(a, b, 3, stride, 1, bias=False), T.nn.BatchNorm2d(b)
            self.conv2, self.bn2 = T.nn.Conv2d(b, b, 3, 1, 1, bias=False), T.nn.BatchNorm2d(b)
            self.down = None if a == b else T.nn.Sequential(T.nn.Conv2d(a, b, 1, stride, bias=False), T.nn.BatchNorm2d(b))

        def forward(self, x):
            out = self.bn2(self.conv2(T.relu(self.bn1(self.conv1(x)))))
            out += x if self.down is None else self.down(x)
            return T.relu(out)
    net = T.nn.Sequential(T.nn.Conv2d(3, 8, 3, 1, 1, bias=False), T.nn.BatchNorm2d(8), T.nn.ReLU(), T.nn.MaxPool2d(3, 2, 1), Block(8, 8),
                          Block(8, 16, 2), T.nn.AdaptiveAvgPool2d((1, 1)), T.nn.Flatten(), T.nn.Linear(16, 10))
    opt = T.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
    plan = T.optim.lr_scheduler.CosineAnnealingLR(opt, 20)

    def step(x, y):
        opt.zero_grad()
        loss = T.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        plan.step()
        return loss.detach()
    return step, lambda at: (normal(T, at, 4, 3, 16, 16), labels(T, at, 10, 4))


@program
def segmentation(T):
    T.manual_seed(0)

    class Net(T.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = T.nn.Conv2d(3, 8, 3, 2, 1), T.nn.Conv2d(8, 16, 3, 2, 1), T.nn.Conv2d(16, 4, 1)
            self.norm = T.nn.GroupNorm(4, 16)

        def forward(self, x):
            out = self.c(T.relu(self.norm(self.b(T.relu(self.a(x))))))
            return T.nn.functional.interpolate(out, size=x.shape[-2:], mode="bilinear", align_corners=False)
    net = Net()
    opt = T.optim.AdamW(net.parameters(), lr=1e-3)
    measure = T.nn.CrossEntropyLoss(ignore_index=3)

    def step(x, y):
        opt.zero_grad()
        loss = measure(net(x), y)
        loss.backward()
        opt.step()
        return loss.detach()
    return step, lambda at: (normal(T, at, 2, 3, 16, 16), labels(T, at, 4, 2, 16, 16))


@program
def diffusion(T):
    T.manual_seed(0)
    betas = T.linspace(1e-4, 0.02, 50)
    kept = T.cumprod(1 - betas, 0)

    class Net(T.nn.Module):
        def __init__(self):
            super().__init__()
            self.time = T.nn.Embedding(50, 16)
            self.a, self.b, self.c = T.nn.Linear(8, 32), T.nn.Linear(16, 32), T.nn.Linear(32, 8)

        def forward(self, x, t):
            return self.c(T.nn.functional.silu(self.a(x) + self.b(self.time(t))))
    net = Net()
    average = copy.deepcopy(net)
    opt = T.optim.AdamW(net.parameters(), lr=2e-3)
    T.manual_seed(4)

    def step(x):
        t = T.randint(0, 50, (x.shape[0],))
        noise = T.randn_like(x)
        share = kept[t].unsqueeze(1)
        noisy = share.sqrt() * x + (1 - share).sqrt() * noise
        loss = T.nn.functional.mse_loss(net(noisy, t), noise)
        opt.zero_grad()
        loss.backward()
        opt.step()
        with T.no_grad():
            for old, new in zip(average.parameters(), net.parameters()):
                old.lerp_(new, 0.1)
        return loss.detach()
    return step, lambda at: (normal(T, at, 16, 8),)


@program
def ctc(T):
    T.manual_seed(0)
    net = T.nn.LSTM(6, 16, batch_first=True, bidirectional=True)
    head = T.nn.Linear(32, 5)
    opt = T.optim.Adam([*net.parameters(), *head.parameters()], lr=5e-3)
    measure = T.nn.CTCLoss(blank=0, zero_infinity=True)

    def step(x, y):
        opt.zero_grad()
        out, _ = net(x)
        log = head(out).log_softmax(2).transpose(0, 1)
        loss = measure(log, y, T.full((3,), 10, dtype=T.long), T.tensor([4, 3, 4]))
        loss.backward()
        opt.step()
        return loss.detach()
    return step, lambda at: (normal(T, at, 3, 10, 6), labels(T, at, 4, 3, 4) + 1)


@program
def seq2seq(T):
    T.manual_seed(0)

    class Net(T.nn.Module):
        def __init__(self):
            super().__init__()
            self.src, self.dst = T.nn.Embedding(12, 16), T.nn.Embedding(12, 16)
            self.enc, self.dec = T.nn.GRU(16, 16, batch_first=True), T.nn.GRUCell(32, 16)
            self.out = T.nn.Linear(32, 12)

        def forward(self, x, y):
            memory, hidden = self.enc(self.src(x))
            hidden, outs = hidden[0], []
            for at in range(y.size(1) - 1):
                score = T.bmm(memory, hidden.unsqueeze(2)).squeeze(2)
                context = T.bmm(T.softmax(score, dim=1).unsqueeze(1), memory).squeeze(1)
                hidden = self.dec(T.cat([self.dst(y[:, at]), context], 1), hidden)
                outs.append(self.out(T.cat([hidden, context], 1)))
            return T.stack(outs, 1)
    net = Net()
    opt = T.optim.Adam(net.parameters(), lr=5e-3)

    def step(x, y):
        opt.zero_grad()
        out = net(x, y)
        loss = T.nn.functional.cross_entropy(out.reshape(-1, 12), y[:, 1:].reshape(-1), ignore_index=0)
        loss.backward()
        T.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        return loss.detach()
    return step, lambda at: (labels(T, at, 12, 4, 6), labels(T, at + 5, 12, 4, 5))


@program
def transformer(T):
    """An encoder with a padding mask and dropout."""
    T.manual_seed(0)

    class Net(T.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.place = T.nn.Embedding(20, 16, padding_idx=0), T.nn.Parameter(T.randn(1, 8, 16) * 0.02)
            layer = T.nn.TransformerEncoderLayer(16, 4, 32, dropout=0.1, batch_first=True, norm_first=True, activation="gelu")
            self.body, self.head = T.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), T.nn.Linear(16, 3)

        def forward(self, x):
            empty = x == 0
            out = self.body(self.embed(x) + self.place, src_key_padding_mask=empty)
            full = (~empty).unsqueeze(-1)
            return self.head((out * full).sum(1) / full.sum(1).clamp(min=1))
    net = Net()
    opt = T.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.01)
    T.manual_seed(5)

    def step(x, y):
        opt.zero_grad(set_to_none=True)
        loss = T.nn.functional.cross_entropy(net(x), y, label_smoothing=0.1)
        loss.backward()
        T.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        return loss.detach()

    def data(at):
        x = labels(T, at, 19, 4, 8) + 1
        x[:, 6:] = 0
        return x, labels(T, at, 3, 4)
    return step, data


@program
def graph_network(T):
    T.manual_seed(0)

    class Layer(T.nn.Module):
        def __init__(self, a, b):
            super().__init__()
            self.lin = T.nn.Linear(a, b)

        def forward(self, x, edges):
            source, target = edges
            message = self.lin(x)[source]
            out = T.zeros(x.size(0), message.size(1)).index_add(0, target, message)
            count = T.zeros(x.size(0)).scatter_add_(0, target, T.ones(target.size(0)))
            return out / count.clamp(min=1).unsqueeze(1)
    one, two = Layer(6, 16), Layer(16, 3)
    opt = T.optim.Adam([*one.parameters(), *two.parameters()], lr=1e-2, weight_decay=5e-4)

    def step(x, edges, y, mask):
        opt.zero_grad()
        out = two(T.relu(one(x, edges)), edges)
        loss = (T.nn.functional.cross_entropy(out, y, reduction="none") * mask).sum() / mask.sum()
        loss.backward()
        opt.step()
        return loss.detach()
    return step, lambda at: (normal(T, at, 20, 6), labels(T, at, 20, 2, 60), labels(T, at, 3, 20), labels(T, at + 1, 2, 20).to(T.float32) + 0.01)


@program
def text_classifier(T):
    T.manual_seed(0)
    bag, head = T.nn.EmbeddingBag(30, 16, mode="mean"), T.nn.Linear(16, 4)
    opt = T.optim.Adagrad([*bag.parameters(), *head.parameters()], lr=0.1)

    def step(words, starts, y):
        opt.zero_grad()
        loss = T.nn.functional.nll_loss(T.nn.functional.log_softmax(head(bag(words, starts)), 1), y)
        loss.backward()
        opt.step()
        return loss.detach()
    return step, lambda at: (labels(T, at, 30, 24), T.tensor([0, 5, 9, 16]), labels(T, at, 4, 4))


@program
def mixup(T):
    T.manual_seed(0)
    net = T.nn.Sequential(T.nn.Linear(10, 32), T.nn.BatchNorm1d(32), T.nn.ReLU(), T.nn.Dropout(0.2), T.nn.Linear(32, 4))
    opt = T.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    T.manual_seed(6)

    def step(x, y, share):
        order = T.randperm(x.size(0))
        mixed = share * x + (1 - share) * x[order]
        out = net(mixed)
        loss = share * T.nn.functional.cross_entropy(out, y) + (1 - share) * T.nn.functional.cross_entropy(out, y[order])
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()
    return step, lambda at: (normal(T, at, 16, 10), labels(T, at, 4, 16), float(np.random.RandomState(at).beta(0.4, 0.4)))


@program
def distillation(T):
    T.manual_seed(0)
    teacher, student = perceptron(T, 10, 64, 5).eval(), perceptron(T, 10, 16, 5)
    for p in teacher.parameters():
        p.requires_grad_(False)
    opt = T.optim.Adam(student.parameters(), lr=5e-3)

    def step(x, y):
        with T.no_grad():
            wanted = teacher(x)
        out = student(x)
        soft = T.nn.functional.kl_div(T.nn.functional.log_softmax(out / 2, -1), T.nn.functional.softmax(wanted / 2, -1), reduction="batchmean") * 4
        loss = 0.7 * soft + 0.3 * T.nn.functional.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()
    return step, lambda at: (normal(T, at, 16, 10), labels(T, at, 5, 16))


@program
def multi_task(T):
    """Two losses weighed by learned variances, with weight decay on some groups only."""
    T.manual_seed(0)
    body, one, two = perceptron(T, 10, 32, 32), T.nn.Linear(32, 3), T.nn.Linear(32, 2)
    logs = T.nn.Parameter(T.zeros(2))
    decayed = [p for m in (body, one, two) for p in m.parameters() if p.dim() > 1]
    rest = [p for m in (body, one, two) for p in m.parameters() if p.dim() < 2]
    opt = T.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}, {"params": [logs], "lr": 1e-2}], lr=3e-3)

    def step(x, y, z):
        hidden = body(x)
        first, second = T.nn.functional.cross_entropy(one(hidden), y), T.nn.functional.huber_loss(two(hidden), z)
        loss = T.exp(-logs[0]) * first + T.exp(-logs[1]) * second + logs.sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()
    return step, lambda at: (normal(T, at, 16, 10), labels(T, at, 3, 16), normal(T, at + 2, 16, 2))


@program
def accumulation(T):
    T.manual_seed(0)
    net = perceptron(T, 10, 32, 5)
    opt = T.optim.Adam(net.parameters(), lr=5e-3)

    def step(x, y):
        opt.zero_grad()
        total = 0.0
        for part, label in zip(x.chunk(4), y.chunk(4)):
            loss = T.nn.functional.cross_entropy(net(part), label) / 4
            loss.backward()
            total += loss.detach()
        T.nn.utils.clip_grad_value_(net.parameters(), 0.1)
        opt.step()
        return total
    return step, lambda at: (normal(T, at, 16, 10), labels(T, at, 5, 16))


@program
def sharpness_aware(T):
    """SAM: the gradient at a perturbed point, the step from the original one."""
    T.manual_seed(0)
    net = perceptron(T, 10, 32, 5)
    opt = T.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)

    def step(x, y):
        loss = T.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        with T.no_grad():
            norm = T.norm(T.stack([p.grad.norm(p=2) for p in net.parameters()]), p=2)
            moved = []
            for p in net.parameters():
                e = p.grad * (0.05 / (norm + 1e-12))
                p.add_(e)
                moved.append(e)
        opt.zero_grad()
        T.nn.functional.cross_entropy(net(x), y).backward()
        with T.no_grad():
            for p, e in zip(net.parameters(), moved):
                p.sub_(e)
        opt.step()
        opt.zero_grad()
        return loss.detach()
    return step, lambda at: (normal(T, at, 16, 10), labels(T, at, 5, 16))


@program
def mean_teacher(T):
    T.manual_seed(0)
    net = T.nn.Sequential(T.nn.Linear(10, 32), T.nn.LayerNorm(32), T.nn.GELU(), T.nn.Linear(32, 5))
    teacher = copy.deepcopy(net)
    for p in teacher.parameters():
        p.requires_grad = False
    opt = T.optim.Adam(net.parameters(), lr=3e-3)

    def step(x, y, more):
        out = net(T.cat([x, more]))
        with T.no_grad():
            wanted = teacher(more).softmax(1)
        loss = T.nn.functional.cross_entropy(out[:8], y) + T.nn.functional.mse_loss(out[8:].softmax(1), wanted)
        opt.zero_grad()
        loss.backward()
        opt.step()
        for kept, new in zip(teacher.parameters(), net.parameters()):
            kept.data.mul_(0.9).add_(new.data, alpha=0.1)
        return loss.detach()
    return step, lambda at: (normal(T, at, 8, 10), labels(T, at, 5, 8), normal(T, at + 3, 8, 10))


@program
def contrastive(T):
    """InfoNCE with a learned temperature."""
    T.manual_seed(0)
    one, two = perceptron(T, 10, 32, 8), perceptron(T, 6, 32, 8)
    scale = T.nn.Parameter(T.tensor(math.log(1 / 0.07)))
    opt = T.optim.AdamW([*one.parameters(), *two.parameters(), scale], lr=2e-3)

    def step(x, y):
        a, b = T.nn.functional.normalize(one(x), dim=-1), T.nn.functional.normalize(two(y), dim=-1)
        logits = scale.exp().clamp(max=100) * a @ b.t()
        wanted = T.arange(x.size(0))
        loss = (T.nn.functional.cross_entropy(logits, wanted) + T.nn.functional.cross_entropy(logits.t(), wanted)) / 2
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()
    return step, lambda at: (normal(T, at, 12, 10), normal(T, at, 12, 6))


@program
def radiance_field(T):
    """A NeRF-like perceptron over encoded places, rendered along rays."""
    T.manual_seed(0)
    net = perceptron(T, 3 + 3 * 2 * 4, 32, 32, 4)
    opt = T.optim.Adam(net.parameters(), lr=2e-3)
    plan = T.optim.lr_scheduler.ExponentialLR(opt, 0.99)

    def encode(x):
        parts = [x]
        for power in range(4):
            parts += [T.sin(2.0 ** power * x), T.cos(2.0 ** power * x)]
        return T.cat(parts, -1)

    def step(origin, toward, wanted):
        depth = T.linspace(0.5, 2.0, 8)
        places = origin[:, None, :] + toward[:, None, :] * depth[None, :, None]
        out = net(encode(places))
        color, density = T.sigmoid(out[..., :3]), T.nn.functional.softplus(out[..., 3])
        gap = T.cat([depth[1:] - depth[:-1], T.tensor([1.0])])
        alpha = 1 - T.exp(-density * gap)
        seen = T.cumprod(T.cat([T.ones(alpha.shape[0], 1), 1 - alpha + 1e-10], -1), -1)[:, :-1]
        image = ((alpha * seen)[..., None] * color).sum(-2)
        loss = ((image - wanted) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        plan.step()
        return loss.detach()
    return step, lambda at: (normal(T, at, 8, 3), normal(T, at + 1, 8, 3), normal(T, at + 2, 8, 3).sigmoid())


@program
def spectral_gan(T):
    """Spectral and weight norm, with the hinge loss."""
    T.manual_seed(0)
    norm = T.nn.utils.parametrizations
    judge = T.nn.Sequential(norm.spectral_norm(T.nn.Linear(8, 32)), T.nn.LeakyReLU(0.1), norm.spectral_norm(T.nn.Linear(32, 1)))
    make = T.nn.Sequential(norm.weight_norm(T.nn.Linear(4, 32)), T.nn.ReLU(), norm.weight_norm(T.nn.Linear(32, 8)))
    first, second = T.optim.Adam(make.parameters(), lr=2e-3), T.optim.Adam(judge.parameters(), lr=2e-3)

    def step(real, noise):
        second.zero_grad()
        judged = T.relu(1 - judge(real)).mean() + T.relu(1 + judge(make(noise).detach())).mean()
        judged.backward()
        second.step()
        first.zero_grad()
        made = -judge(make(noise)).mean()
        made.backward()
        first.step()
        return judged.detach() + made.detach()
    return step, lambda at: (normal(T, at, 16, 8), normal(T, at + 1, 16, 4))


@program
def tied_language_model(T):
    """An LSTM whose output weights are its embedding."""
    T.manual_seed(0)

    class Net(T.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.body, self.head = T.nn.Embedding(20, 16), T.nn.LSTM(16, 16, batch_first=True), T.nn.Linear(16, 20)
            self.head.weight = self.embed.weight

        def forward(self, x):
            return self.head(self.body(self.embed(x))[0])
    net = Net()
    opt = T.optim.SGD(net.parameters(), lr=0.5)

    def step(x):
        opt.zero_grad()
        loss = T.nn.functional.cross_entropy(net(x[:, :-1]).reshape(-1, 20), x[:, 1:].reshape(-1))
        loss.backward()
        T.nn.utils.clip_grad_norm_(net.parameters(), 0.25)
        opt.step()
        return loss.detach()
    return step, lambda at: (labels(T, at, 20, 4, 9),)


@program
def detection(T):
    """Boxes of a grid: smooth L1, focal loss and an overlap measure, targets written into place."""
    T.manual_seed(0)
    net = T.nn.Sequential(T.nn.Conv2d(3, 8, 3, 2, 1), T.nn.InstanceNorm2d(8, affine=True), T.nn.SiLU(), T.nn.Conv2d(8, 5, 3, 2, 1))
    opt = T.optim.NAdam(net.parameters(), lr=2e-3)

    def step(x, cells, boxes):
        out = net(x).permute(0, 2, 3, 1).reshape(x.size(0), -1, 5)
        wanted = T.zeros(out.shape[:2])
        wanted[T.arange(x.size(0)), cells] = 1.0
        logits = out[..., 4]
        chance = logits.sigmoid()
        near = chance * wanted + (1 - chance) * (1 - wanted)
        focal = (T.nn.functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none") * (1 - near) ** 2).mean()
        found = out[T.arange(x.size(0)), cells, :4]
        low, high = T.max(found[:, :2], boxes[:, :2]), T.min(found[:, 2:], boxes[:, 2:])
        overlap = (high - low).clamp(min=0).prod(1)
        loss = focal + T.nn.functional.smooth_l1_loss(found, boxes) - 0.01 * overlap.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()
    return step, lambda at: (normal(T, at, 3, 3, 16, 16), labels(T, at, 16, 3), normal(T, at + 1, 3, 4))


@program
def physics_informed(T):
    """A network whose derivatives are in its loss: u'' = -sin(x)."""
    T.manual_seed(0)
    net = perceptron(T, 1, 20, 20, 1, act=T.nn.Tanh)
    opt = T.optim.Adam(net.parameters(), lr=2e-3)

    def step(x):
        x = x.clone().requires_grad_(True)
        u = net(x)
        first = T.autograd.grad(u.sum(), x, create_graph=True)[0]
        second = T.autograd.grad(first.sum(), x, create_graph=True)[0]
        loss = ((second + T.sin(x)) ** 2).mean() + net(T.zeros(1, 1)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()
    return step, lambda at: (normal(T, at, 16, 1),)


@program
def mixture_of_experts(T):
    T.manual_seed(0)
    gate, experts = T.nn.Linear(8, 4), T.nn.ModuleList([perceptron(T, 8, 16, 8) for _ in range(4)])
    opt = T.optim.Adam([*gate.parameters(), *experts.parameters()], lr=3e-3)

    def step(x, y):
        chance = gate(x).softmax(-1)
        weight, chosen = chance.topk(2, dim=-1)
        weight = weight / weight.sum(-1, keepdim=True)
        outs = T.stack([e(x) for e in experts], 1)
        picked = outs.gather(1, chosen.unsqueeze(-1).expand(-1, -1, 8))
        out = T.einsum("nk,nkd->nd", weight, picked)
        balance = (T.nn.functional.one_hot(chosen[:, 0], 4).to(T.float32).mean(0) * chance.mean(0)).sum() * 4
        loss = T.nn.functional.mse_loss(out, y) + 0.01 * balance
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()
    return step, lambda at: (normal(T, at, 16, 8), normal(T, at + 1, 16, 8))
