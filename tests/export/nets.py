"""Models as people write them, small: what each is, inputs of a given size, and its free sizes."""
import rushlight as torch
from rushlight import nn
from rushlight.export import Dim

F, B, R = nn.functional, Dim("batch", min=1), torch.randn


class Block(nn.Module):

    def __init__(self, i, o, st=1):
        super().__init__()
        self.c1 = nn.Conv2d(i, o, 3, st, 1, bias=False)
        self.b1 = nn.BatchNorm2d(o)
        self.c2 = nn.Conv2d(o, o, 3, 1, 1, bias=False)
        self.b2 = nn.BatchNorm2d(o)
        self.relu = nn.ReLU(inplace=True)
        self.short = nn.Sequential(nn.Conv2d(i, o, 1, st, bias=False), nn.BatchNorm2d(o)) if i != o else None

    def forward(self, x):
        idn = x
        out = self.relu(self.b1(self.c1(x)))
        out = self.b2(self.c2(out))
        if self.short is not None:
            idn = self.short(x)
        out += idn
        return self.relu(out)


class ResNet(nn.Module):
    """Residual blocks with in-place activations."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        self.l = nn.Sequential(Block(8, 8), Block(8, 16, 2))
        self.p = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(16, 5)

    def forward(self, x):
        return self.fc(torch.flatten(self.p(self.l(self.stem(x))), 1))


class UNet(nn.Module):
    """Two scales down and up, with skips."""

    def __init__(self):
        super().__init__()
        dc = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True))
        self.d1, self.d2, self.d3 = (dc(1, 4), dc(4, 8), dc(8, 16))
        self.u1 = nn.ConvTranspose2d(16, 8, 2, 2)
        self.u2 = nn.Upsample(scale_factor=2, mode='bilinear', align_corners=True)
        self.c1 = dc(16, 8)
        self.c2 = dc(12, 4)
        self.out = nn.Conv2d(4, 2, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.d3(F.max_pool2d(b, 2))
        y = self.c1(torch.cat([self.u1(c), b], 1))
        y = self.u2(y)
        dy, dx = (a.shape[2] - y.shape[2], a.shape[3] - y.shape[3])
        y = F.pad(y, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return self.out(self.c2(torch.cat([a, y], 1)))


class ViT(nn.Module):
    """Patches, a class token, pre-norm attention."""

    def __init__(self):
        super().__init__()
        self.p = nn.Conv2d(3, 16, 4, 4)
        self.cls = nn.Parameter(torch.randn(1, 1, 16))
        self.pos = nn.Parameter(torch.randn(1, 17, 16))
        self.e = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True, activation='gelu'), 2)
        self.n = nn.LayerNorm(16)
        self.h = nn.Linear(16, 5)

    def forward(self, x):
        x = self.p(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.pos
        return self.h(self.n(self.e(x))[:, 0])


class GPT(nn.Module):
    """one decoding step with a kv cache as inputs/outputs"""

    def __init__(self):
        super().__init__()
        self.te = nn.Embedding(20, 16)
        self.pe = nn.Embedding(32, 16)
        self.qkv = nn.Linear(16, 48)
        self.o = nn.Linear(16, 16)
        self.ln = nn.LayerNorm(16)
        self.h = nn.Linear(16, 20, bias=False)

    def forward(self, tok, pk, pv):
        n = pk.shape[2]
        t = tok.shape[1]
        x = self.te(tok) + self.pe(torch.arange(n, n + t))
        b = x.shape[0]
        q, k, v = self.qkv(self.ln(x)).split(16, -1)
        q, k, v = (z.view(b, t, 4, 4).transpose(1, 2) for z in (q, k, v))
        k, v = (torch.cat([pk, k], 2), torch.cat([pv, v], 2))
        m = torch.arange(n + t)[None, :] <= torch.arange(n, n + t)[:, None]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=m).transpose(1, 2).reshape(b, t, 16)
        return (self.h(x + self.o(y)), k, v)


class CacheGPT(nn.Module):
    """kv cache in a buffer, written in place"""

    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(20, 16)
        self.q = nn.Linear(16, 16)
        self.k = nn.Linear(16, 16)
        self.register_buffer('cache', torch.zeros(1, 8, 16))
        self.h = nn.Linear(16, 20)

    def forward(self, tok, pos):
        x = self.e(tok)
        self.cache[:, pos] = self.k(x)
        a = (self.q(x)[:, None] @ self.cache.transpose(1, 2)).softmax(-1) @ self.cache
        return self.h(a[:, 0])


class Tagger(nn.Module):
    """Packed sequences."""

    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(30, 8, padding_idx=0)
        self.l = nn.LSTM(8, 6, 2, batch_first=True, bidirectional=True, dropout=0.1)
        self.h = nn.Linear(12, 4)

    def forward(self, x, lengths):
        p = nn.utils.rnn.pack_padded_sequence(self.e(x), lengths, batch_first=True, enforce_sorted=False)
        o, _ = self.l(p)
        o, _ = nn.utils.rnn.pad_packed_sequence(o, batch_first=True)
        return self.h(o).log_softmax(-1)


class Seq2Seq(nn.Module):
    """A decoder that chooses its own input."""

    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(12, 8)
        self.enc = nn.GRU(8, 8, batch_first=True)
        self.dec = nn.GRUCell(8, 8)
        self.o = nn.Linear(16, 12)

    def forward(self, x):
        mem, h = self.enc(self.e(x))
        h = h[0]
        tok = torch.zeros(x.shape[0], dtype=torch.long)
        outs = []
        for _ in range(4):
            h = self.dec(self.e(tok), h)
            a = (mem @ h.unsqueeze(-1)).squeeze(-1).softmax(-1)
            c = (a.unsqueeze(1) @ mem).squeeze(1)
            lo = self.o(torch.cat([h, c], -1))
            tok = lo.argmax(-1)
            outs.append(lo)
        return torch.stack(outs, 1)


class GNN(nn.Module):
    """Messages along edges."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 8)
        self.b = nn.Linear(8, 3)

    def forward(self, x, edges):
        src, dst = (edges[0], edges[1])
        for lin in (self.a, self.b):
            h = lin(x)
            deg = torch.zeros(x.shape[0]).scatter_add(0, dst, torch.ones(dst.shape[0])).clamp(min=1)
            agg = torch.zeros_like(h).index_add(0, dst, h[src])
            x = torch.relu(h + agg / deg.unsqueeze(-1))
        return (x, x.scatter_reduce(0, torch.zeros_like(x, dtype=torch.long), x, 'amax'))


class VAE(nn.Module):

    def __init__(self):
        super().__init__()
        self.e = nn.Linear(16, 8)
        self.m = nn.Linear(8, 2)
        self.v = nn.Linear(8, 2)
        self.d = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 16), nn.Sigmoid())

    def forward(self, x):
        h = F.relu(self.e(x))
        mu, lv = (self.m(h), self.v(h))
        return (self.d(mu + torch.exp(0.5 * lv) * 0.1), mu, -0.5 * torch.sum(1 + lv - mu.pow(2) - lv.exp()))


class Audio(nn.Module):
    """Dilated gated convolutions under weight_norm."""

    def __init__(self):
        super().__init__()
        self.c = nn.ModuleList(nn.utils.parametrizations.weight_norm(nn.Conv1d(1 if i == 0 else 8, 16, 3, padding=2 ** i, dilation=2 ** i)) for i in range(3))
        self.o = nn.Conv1d(8, 1, 1)
        self.g = nn.GroupNorm(2, 8)

    def forward(self, x):
        for c in self.c:
            a, b = c(x).chunk(2, 1)
            y = torch.tanh(a) * torch.sigmoid(b)
            x = self.g(y) if x.shape[1] == 1 else x + y
        return self.o(F.leaky_relu(x, 0.1))


class Detect(nn.Module):
    """boxes by scores, greedy suppression in a while_loop"""

    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 8, 3, 2, 1)
        self.s = nn.Conv2d(8, 1, 1)
        self.b = nn.Conv2d(8, 4, 1)

    def forward(self, x):
        f = F.relu(self.c(x))
        sc = self.s(f).sigmoid().flatten()
        bx = self.b(f).permute(0, 2, 3, 1).reshape(-1, 4)
        bx = torch.cat([bx[:, :2], bx[:, :2] + bx[:, 2:].exp()], 1)
        v, i = sc.topk(8)
        bx = bx[i]
        lt = torch.maximum(bx[:, None, :2], bx[None, :, :2])
        rb = torch.minimum(bx[:, None, 2:], bx[None, :, 2:])
        wh = (rb - lt).clamp(min=0)
        inter = wh[..., 0] * wh[..., 1]
        ar = (bx[:, 2] - bx[:, 0]) * (bx[:, 3] - bx[:, 1])
        iou = inter / (ar[:, None] + ar[None] - inter)
        def body(k, keep):
            over = (iou[k] > 0.3) & (torch.arange(8) > k) & keep[k]
            return (k + 1, keep & ~over)
        _, keep = torch.while_loop(lambda k, keep: k < 8, body, (torch.tensor(0), torch.ones(8, dtype=torch.bool)))
        return (bx, v, keep, bx[keep])


class MoE(nn.Module):
    """Every expert for every row."""

    def __init__(self):
        super().__init__()
        self.g = nn.Linear(8, 4)
        self.x = nn.ModuleList(nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)) for _ in range(4))

    def forward(self, x):
        w, i = self.g(x).softmax(-1).topk(2, -1)
        w = w / w.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for n, e in enumerate(self.x):
            m = i == n
            out = out + e(x) * (w * m).sum(-1, keepdim=True)
        return out


class MoESparse(nn.Module):
    """Each expert for its own rows, found by nonzero."""

    def __init__(self):
        super().__init__()
        self.g = nn.Linear(8, 4)
        self.x = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

    def forward(self, x):
        w, i = self.g(x).softmax(-1).max(-1)
        out = torch.zeros_like(x)
        for n, e in enumerate(self.x):
            rows = (i == n).nonzero().squeeze(-1)
            out = out.index_add(0, rows, e(x[rows]) * w[rows].unsqueeze(-1))
        return out


class DiffUNet(nn.Module):
    """Time embedding, attention over a picture."""

    def __init__(self):
        super().__init__()
        self.t = nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 8))
        self.i = nn.Conv2d(3, 8, 3, padding=1)
        self.n = nn.GroupNorm(4, 8)
        self.q = nn.Conv2d(8, 24, 1)
        self.dn = nn.Conv2d(8, 8, 3, 2, 1)
        self.c = nn.Conv2d(8, 8, 3, padding=1)
        self.o = nn.Conv2d(16, 3, 3, padding=1)

    def forward(self, x, t):
        f = torch.exp(-torch.arange(4) / 4 * 9.2)
        a = t[:, None].float() * f[None]
        e = self.t(torch.cat([a.sin(), a.cos()], -1))
        h0 = self.i(x)
        h = self.dn(F.silu(self.n(h0)) + e[:, :, None, None])
        b, c, hh, ww = h.shape
        q, k, v = self.q(h).reshape(b, 3, c, hh * ww).unbind(1)
        h = h + torch.einsum('bij,bcj->bci', torch.einsum('bci,bcj->bij', q, k).mul(c ** (-0.5)).softmax(-1), v).reshape(b, c, hh, ww)
        h = F.interpolate(self.c(h), scale_factor=2.0, mode='nearest')
        return self.o(torch.cat([h, h0], 1))


class Bert(nn.Module):
    """A padding mask."""

    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(30, 16)
        self.p = nn.Embedding(16, 16)
        self.l = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation='gelu')
        self.h = nn.Linear(16, 30)

    def forward(self, ids, mask):
        x = self.e(ids) + self.p(torch.arange(ids.shape[1]))[None]
        x = self.l(x, src_key_padding_mask=mask == 0)
        return (self.h(x), (x * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True))


class Mixer(nn.Module):

    def __init__(self):
        super().__init__()
        self.p = nn.Conv2d(1, 8, 4, 4)
        self.t = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8))
        self.m = nn.Linear(16, 16)
        self.h = nn.Linear(8, 3)

    def forward(self, x):
        y = self.p(x).flatten(2)
        y = y + F.gelu(self.m(y))
        y = y.mT
        y = y + self.t(y)
        return self.h(y.mean(1))


class DLRM(nn.Module):
    """Embedding bags and pairwise products."""

    def __init__(self):
        super().__init__()
        self.e = nn.ModuleList(nn.EmbeddingBag(10, 4, mode='sum') for _ in range(3))
        self.d = nn.Linear(5, 4)
        self.o = nn.Linear(10, 1)

    def forward(self, x, c):
        v = torch.stack([self.d(x)] + [e(c[:, i:i + 2]) for i, e in enumerate(self.e)], 1)
        z = torch.bmm(v, v.transpose(1, 2))
        li, lj = torch.tril_indices(4, 4, -1)
        return torch.sigmoid(self.o(torch.cat([self.d(x), z[:, li, lj]], 1)))


MODELS = {
    'resnet': (ResNet, lambda n: (R(n, 3, 16, 16),), ({0: B},)),
    'unet': (UNet, lambda n: (R(n, 1, 12, 12),), ({0: B},)),
    'vit': (ViT, lambda n: (R(n, 3, 16, 16),), ({0: B},)),
    'gpt': (GPT, lambda n: (torch.randint(0, 20, (n, n)), R(n, 4, n + 2, 4), R(n, 4, n + 2, 4)), ({0: B, 1: Dim('t', min=1, max=16)}, {0: B, 2: Dim('past', min=1, max=16)}, {0: B, 2: Dim('past', min=1, max=16)})),
    'cachegpt': (CacheGPT, lambda n: (torch.randint(0, 20, (1,)), torch.tensor(n % 8)), None),
    'tagger': (Tagger, lambda n: (torch.randint(1, 30, (n, n + 3)), torch.tensor([n + 3] + [1] * (n - 1))), ({0: B, 1: Dim('t', min=1)}, {0: B})),
    'seq2seq': (Seq2Seq, lambda n: (torch.randint(0, 12, (n, n + 1)),), ({0: B, 1: Dim('t', min=1)},)),
    'gnn': (GNN, lambda n: (R(n + 3, 4), torch.randint(0, n + 3, (2, 2 * n + 1))), ({0: Dim('nodes', min=1)}, {1: Dim('edges', min=1)})),
    'vae': (VAE, lambda n: (R(n, 16),), ({0: B},)),
    'audio': (Audio, lambda n: (R(n, 1, 20 + n),), ({0: B, 2: Dim('len', min=8)},)),
    'detect': (Detect, lambda n: (R(1, 3, 8, 8),), None),
    'moe': (MoE, lambda n: (R(n, 8),), ({0: B},)),
    'moesparse': (MoESparse, lambda n: (R(n + 4, 8),), ({0: B},)),
    'diff': (DiffUNet, lambda n: (R(n, 3, 8, 8), torch.arange(n)), ({0: B}, {0: B})),
    'bert': (Bert, lambda n: (torch.randint(0, 30, (n, n + 2)), torch.ones(n, n + 2)), ({0: B, 1: Dim('t', min=1, max=16)},) * 2),
    'mixer': (Mixer, lambda n: (R(n, 1, 16, 16),), ({0: B},)),
    'dlrm': (DLRM, lambda n: (R(n, 5), torch.randint(0, 10, (n, 4))), ({0: B}, {0: B})),
}
