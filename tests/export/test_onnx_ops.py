"""ONNX forms of single ops, with the batch and the length free where the op lets them be: what onnxruntime gives is what the op gives."""
import pytest

import rushlight as torch
from rushlight.export import Dim
from tests.export.test_onnx import leaves_agree

F = torch.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore")


class Calls(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


FREE = {
    "rs1": lambda x: x.reshape(x.shape[0]*x.shape[1],-1),
    "rs2": lambda x: x.view(x.shape[0],x.shape[1],2,-1).transpose(1,2).reshape(x.shape[0]*2,x.shape[1],-1),
    "flat": lambda x: x.flatten(0,1).unflatten(1,(2,4)).flatten(1),
    "unfl": lambda x: x.flatten(0,1).view(*x.shape[:2],8),
    "einsum": lambda x: torch.einsum("bld,bmd->blm",x,x),
    "cat": lambda x: torch.cat([x,x[:, :1]],1).mean(1),
    "arange": lambda x: x+torch.arange(x.shape[1]).float()[None,:,None],
    "mask": lambda x: x.masked_fill(torch.ones(x.shape[1],x.shape[1]).tril()[None,:,:1]==0,0.),
    "expand": lambda x: x[:, :1].expand(-1,x.shape[1],-1)+x,
    "expand2": lambda x: torch.zeros(8).expand(x.shape[0],x.shape[1],8)+x,
    "repeat": lambda x: x.repeat(1,2,1).sum((1,2)),
    "split": lambda x: torch.cat(x.split(4,-1)[::-1],-1),
    "chunk": lambda x: x.chunk(2,-1)[0]*x.chunk(2,-1)[1],
    "size_math": lambda x: x*(x.shape[1]//2+1),
    "pad": lambda x: F.pad(x,(0,0,1,1)),
    "rope": lambda x: x*torch.cos(torch.outer(torch.arange(x.shape[1]).float(),torch.arange(8).float())),
    "softmax": lambda x: (x@x.transpose(1,2)/x.shape[-1]**0.5).softmax(-1)@x,
    "gather": lambda x: x.gather(1,torch.zeros(x.shape[0],1,8,dtype=torch.int64)),
    "last": lambda x: x[:,-1],
    "flip": lambda x: x.flip(1),
    "cumsum": lambda x: x.cumsum(1),
    "roll": lambda x: x.roll(1,1),
    "topk": lambda x: x.topk(3,-1)[0],
    "norm": lambda x: x/x.norm(dim=-1,keepdim=True),
    "var": lambda x: (x-x.mean(1,keepdim=True))/x.std(1,keepdim=True,unbiased=False).clamp(min=1e-3),
    "var2": lambda x: x.var(-1),
    "stack": lambda x: torch.stack([x,x*2],1).flatten(0,1),
    "full": lambda x: torch.full((x.shape[1],),2.0)+x[0,:,0],
    "where": lambda x: torch.where(x>0,x,torch.zeros_like(x)),
    "slice": lambda x: x[:,::2],
    "slice2": lambda x: x[:,1:]-x[:,:-1] if False else x[..., :4],
    "onehot": lambda x: F.one_hot(x.argmax(-1),8).float(),
    "tril": lambda x: (x@x.mT).tril(),
    "diag": lambda x: (x@x.mT).diagonal(dim1=1,dim2=2),
    "squeeze": lambda x: x.unsqueeze(2).squeeze(2).permute(1,0,2).contiguous().view(x.shape[1],-1),
    "swap": lambda x: x.movedim(1,0),
    "index": lambda x: x[torch.arange(x.shape[0]),x.shape[1]-1],
    "embed": lambda x: F.embedding(torch.arange(x.shape[1])%8,torch.eye(8))+x,
    "layernorm": lambda x: F.layer_norm(x,(8,)),
    "interp": lambda x: F.interpolate(x.transpose(1,2),scale_factor=2.),
    "conv": lambda x: F.conv1d(x.transpose(1,2),torch.ones(4,8,3),padding=1),
    "avgpool": lambda x: F.adaptive_avg_pool1d(x.transpose(1,2),1),
    "sumall": lambda x: x.sum()/x.numel(),
    "maxdim": lambda x: x.max(1)[0]+x.amax(1),
    "bmm": lambda x: torch.bmm(x,x.transpose(1,2)).logsumexp(-1),
    "clampmin": lambda x: x.clamp(0,1).square().mean(-1).sqrt(),
    "sort": lambda x: x.sort(-1)[0],
    "unbindlast": lambda x: sum(x.unbind(-1)),
    "scatter": lambda x: torch.zeros_like(x).scatter(1,torch.zeros(x.shape[0],1,8,dtype=torch.int64),x[:,:1]),
    "glu": lambda x: F.glu(x,-1),
    "sdpa": lambda x: F.scaled_dot_product_attention(*(x.view(x.shape[0],x.shape[1],2,4).transpose(1,2),)*3,is_causal=True).transpose(1,2).flatten(2),
    "meshgrid": lambda x: torch.meshgrid(torch.arange(x.shape[0]),torch.arange(x.shape[1]),indexing="ij")[1],
    "linspace": lambda x: torch.linspace(0,1,8)+x,
    "tile": lambda x: x.tile(1,1,2),
    "any": lambda x: (x>0).any(-1)|(x<0).all(-1),
    "lerp": lambda x: torch.lerp(x,x*2,0.5),
    "addmm": lambda x: torch.addmm(torch.zeros(8),x.flatten(0,1),torch.eye(8)),
    "floor": lambda x: torch.floor_divide(x,0.3)+torch.remainder(x,0.7),
    "eye": lambda x: torch.eye(x.shape[1])+x@x.mT,
    "int": lambda x: x[:, : x.shape[1]//2+1],
}


@pytest.mark.parametrize("name", FREE)
def test_free_sizes(name):
    torch.manual_seed(0)
    batch, length = Dim("batch"), Dim("length")
    leaves_agree(Calls(FREE[name]), (torch.randn(2, 5, 8),), (({0: batch, 1: length},),), [(torch.randn(3, 7, 8),), (torch.randn(1, 1, 8),)])


FIXED = {
    "diagonal above": lambda x: x.diagonal(2, 0, 2), "diagonal below": lambda x: x.diagonal(-1, 1, 2), "roll": lambda x: x.roll((1, -2), (0, 2)), "flip": lambda x: x.flip(0, -1),
    "floor_divide": lambda x: (x * 7).int() // 3 + (x * 7).int() // -2, "remainder": lambda x: (x * 7).int() % -3 + x.remainder(-0.7), "fmod": lambda x: torch.fmod(x, 0.7),
    "trunc": lambda x: (x * 3).trunc() + (x * 3).frac(), "log2": lambda x: x.abs().log2() + (x.abs() + 1).log10(), "exp2": lambda x: x.exp2(), "erfc": lambda x: torch.erfc(x),
    "std all": lambda x: x.std() + x.var(unbiased=False), "std": lambda x: x.std((0, 2), keepdim=True), "var_mean": lambda x: torch.var_mean(x, 1), "prod": lambda x: x.prod(1) + x.prod(),
    "norm": lambda x: x.norm() + x.norm(1, 2) + x.norm(float("inf"), -1) + x.norm(3, 1).sum(), "any": lambda x: (x > 1).any() | (x > -3).all(), "max": lambda x: x.max(-1),
    "min": lambda x: x.min(1, keepdim=True), "count": lambda x: torch.count_nonzero(x > 0, 1), "addcmul": lambda x: torch.addcmul(x, x, x, value=0.5), "hypot": lambda x: torch.hypot(x, x + 1),
    "outer": lambda x: torch.outer(x[0, 0], x[1, 1]), "scatter_add": lambda x: torch.zeros(3, 4, 5).scatter_add(1, (x.abs().argsort(1)), x), "isclose": lambda x: torch.isclose(x, x + 1e-6),
    "scatter value": lambda x: x.scatter(2, x.argsort(2)[..., :2], 7.0), "one_hot": lambda x: F.one_hot(x.argmax(1), 4), "selection": lambda x: x[torch.tensor([0, -1]), torch.tensor([[1], [2]])],
    "isfinite": lambda x: torch.isfinite(x / x.relu()), "einsum": lambda x: torch.einsum("abc,adc->bd", x, x), "lerp": lambda x: torch.lerp(x, x + 1, torch.full((5,), 0.3)),
    "meshgrid": lambda x: torch.meshgrid(x[0, 0], x[0, :, 0], indexing="xy"), "eye": lambda x: torch.eye(4, 5) * x, "sort": lambda x: x.sort(1, descending=True), "xor": lambda x: (x > 0) ^ (x < 1)}


@pytest.mark.parametrize("name", FIXED)
def test_arguments(name):
    torch.manual_seed(0)
    leaves_agree(Calls(FIXED[name]), (torch.randn(3, 4, 5),), None, [(torch.randn(3, 4, 5),)])


@pytest.mark.parametrize("function", [torch.digamma, torch.lgamma, lambda x: torch.special.multigammaln(x.abs() + 2, 3)], ids=["digamma", "lgamma", "multigammaln"])
def test_gamma_family(function):
    """Also at poles, below 1/2, and for large and infinite numbers."""
    x = torch.tensor([0.1, 0.5, 1.0, 1.5, 2.0, 3.7, 10.0, 100.0, 1e6, 1e12, -0.3, -1.5, -2.0, -7.2, 0.0, -0.0, float("inf"), float("nan"), 1e-6])
    leaves_agree(Calls(function), (x,), None, [(x,)])
