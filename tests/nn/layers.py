"""Layers, as a user writes them, with the input each is tried on: what record.py records and test_layers.py replays."""
import math


def wave(torch, *shape):
    """Values without pattern, the same in every framework."""
    count = math.prod(shape)
    return torch.tensor([math.sin(1.3 * i + 0.4) for i in range(count)]).reshape(shape)


# (layer, shapes of its inputs); "long:" in front of a shape makes class numbers or indices below 3 of it.
LAYERS = [
    *[(f"nn.{name}", ["2 3"]) for name in (
        "ReLU()", "ReLU6()", "Sigmoid()", "Tanh()", "SiLU()", "Mish()", "SELU()", "CELU(0.7)", "ELU(0.5)", "GELU()", "GELU('tanh')", "GLU(0)",
        "Hardsigmoid()", "Hardswish()", "Hardtanh(-0.5, 0.4)", "Hardshrink(0.3)", "Softshrink(0.2)", "LeakyReLU(0.2)", "LogSigmoid()", "PReLU()",
        "PReLU(3)", "Softplus(2.0, 3.0)", "Softsign()", "Tanhshrink()", "Threshold(0.1, 9.0)", "Softmax(1)", "LogSoftmax(0)", "Softmin(1)",
        "Identity(5, a=2)", "Linear(3, 2)", "Linear(3, 2, bias=False)", "BatchNorm1d(3)", "BatchNorm1d(3, momentum=None)",
        "BatchNorm1d(3, affine=False, track_running_stats=False)", "LayerNorm(3)", "LayerNorm(3, bias=False)", "RMSNorm(3)", "Dropout(0.0)", "AlphaDropout(0.0)",
        "Flatten(0)", "RNNCell(3, 2)", "RNNCell(3, 2, nonlinearity='relu')", "LSTMCell(3, 2)", "GRUCell(3, 2, bias=False)")],
    ("nn.RReLU().eval()", ["2 3"]),
    ("nn.Softmax2d()", ["1 2 2 2"]),
    ("nn.Unflatten(1, (2, 2))", ["2 4"]),
    ("nn.Bilinear(2, 3, 2)", ["2 2", "2 3"]),
    ("nn.CosineSimilarity()", ["2 3", "2 3"]),
    ("nn.PairwiseDistance(1.0)", ["2 3", "2 3"]),
    ("nn.Embedding(3, 2, padding_idx=-1)", ["long:2 2"]),
    ("nn.EmbeddingBag(3, 2, mode='sum')", ["long:2 2"]),
    ("nn.Conv1d(2, 3, 2, stride=2)", ["1 2 5"]),
    ("nn.Conv1d(2, 2, 3, padding='same', dilation=2)", ["1 2 5"]),
    ("nn.Conv2d(2, 4, (2, 3), padding=1, groups=2)", ["1 2 3 4"]),
    ("nn.Conv2d(1, 1, 3, padding=(1, 2), padding_mode='circular', bias=False)", ["1 1 3 4"]),
    ("nn.Conv2d(1, 1, 3, padding=1, padding_mode='reflect')", ["1 3 4"]),
    ("nn.Conv3d(1, 2, 2)", ["1 1 2 3 3"]),
    ("nn.ConvTranspose1d(2, 1, 3, stride=2, output_padding=1)", ["1 2 3"]),
    ("nn.ConvTranspose2d(1, 2, 2, stride=2, padding=1)", ["1 1 3 3"]),
    ("nn.ConvTranspose3d(1, 1, 2)", ["1 1 2 2 2"]),
    ("nn.MaxPool1d(2)", ["1 1 5"]),
    ("nn.MaxPool2d(3, stride=1, padding=1)", ["1 1 3 3"]),
    ("nn.MaxPool2d(2, ceil_mode=True)", ["1 1 3 3"]),
    ("nn.MaxPool3d(2)", ["1 1 2 2 3"]),
    ("nn.AvgPool1d(2)", ["1 1 5"]),
    ("nn.AvgPool2d(2, padding=1, count_include_pad=False)", ["1 1 3 3"]),
    ("nn.AvgPool3d(2)", ["1 1 2 2 3"]),
    ("nn.LPPool1d(2, 2)", ["1 1 4"]),
    ("nn.LPPool2d(2, 2)", ["1 1 4 4"]),
    ("nn.AdaptiveAvgPool1d(2)", ["1 1 5"]),
    ("nn.AdaptiveAvgPool2d((1, None))", ["1 2 3 3"]),
    ("nn.AdaptiveAvgPool3d(1)", ["1 2 2 2 2"]),
    ("nn.AdaptiveMaxPool1d(2)", ["1 1 5"]),
    ("nn.AdaptiveMaxPool2d(2)", ["1 1 3 3"]),
    ("nn.AdaptiveMaxPool3d(1)", ["1 1 2 2 2"]),
    ("nn.BatchNorm2d(2)", ["2 2 2 2"]),
    ("nn.BatchNorm3d(2)", ["2 2 1 2 2"]),
    ("nn.SyncBatchNorm(2)", ["2 2 2"]),
    ("nn.InstanceNorm1d(2)", ["2 2 4"]),
    ("nn.InstanceNorm2d(2, affine=True, track_running_stats=True)", ["2 2 2 2"]),
    ("nn.InstanceNorm3d(2)", ["2 1 2 2"]),
    ("nn.GroupNorm(2, 4)", ["1 4 3"]),
    ("nn.LocalResponseNorm(2)", ["1 4 3"]),
    ("nn.ZeroPad1d(1)", ["1 1 3"]),
    ("nn.ConstantPad2d((1, 0, 0, 1), 5.0)", ["1 1 2 2"]),
    ("nn.ReflectionPad1d(2)", ["1 1 3"]),
    ("nn.ReplicationPad2d((1, 0, 0, 1))", ["1 1 2 2"]),
    ("nn.CircularPad1d(1)", ["1 1 3"]),
    ("nn.PixelShuffle(2)", ["1 4 1 2"]),
    ("nn.PixelUnshuffle(2)", ["1 1 2 4"]),
    ("nn.ChannelShuffle(2)", ["1 4 1 2"]),
    ("nn.Fold((3, 3), 2)", ["1 4 4"]),
    ("nn.Unfold(2)", ["1 1 3 3"]),
    ("nn.Upsample(scale_factor=2)", ["1 1 3"]),
    ("nn.Upsample(size=(4, 3), mode='bilinear')", ["1 1 2 2"]),
    ("nn.UpsamplingBilinear2d(scale_factor=2)", ["1 1 2 2"]),
    ("nn.UpsamplingNearest2d(3)", ["1 1 2 2"]),
    ("nn.RNN(2, 3, num_layers=2)", ["4 2 2"]),
    ("nn.LSTM(2, 3, bidirectional=True, batch_first=True, proj_size=2)", ["2 3 2"]),
    ("nn.LSTM(2, 3)", ["4 2"]),
    ("nn.GRU(2, 3, bias=False)", ["4 2 2"]),
    ("nn.MultiheadAttention(4, 2)", ["3 2 4", "3 2 4", "3 2 4"]),
    ("nn.MultiheadAttention(4, 2, kdim=3, vdim=2, add_bias_kv=True, add_zero_attn=True, batch_first=True)", ["2 3 4", "2 2 3", "2 2 2"]),
    ("nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)", ["2 3 4"]),
    ("nn.TransformerDecoderLayer(4, 2, 8, dropout=0.0, norm_first=True, activation='gelu')", ["3 2 4", "2 2 4"]),
    ("nn.Transformer(4, 2, 1, 1, 8, dropout=0.0, batch_first=True)", ["2 3 4", "2 2 4"]),
    ("nn.Sequential(nn.Linear(3, 2), nn.ReLU())", ["2 3"]),
    ("nn.L1Loss()", ["2 3", "2 3 "]),
    ("nn.MSELoss(reduction='sum')", ["2 3", "2 3 "]),
    ("nn.SmoothL1Loss(beta=0.5)", ["2 3", "2 3 "]),
    ("nn.HuberLoss(delta=0.5)", ["2 3", "2 3 "]),
    ("nn.PoissonNLLLoss()", ["2 3", "2 3 "]),
    ("nn.CrossEntropyLoss(label_smoothing=0.1)", ["2 3", "long:2"]),
    ("nn.NLLLoss(reduction='none')", ["2 3", "long:2"]),
    ("nn.BCEWithLogitsLoss()", ["2 3", "2 3 "]),
    ("nn.KLDivLoss(reduction='batchmean', log_target=True)", ["2 3", "2 3 "]),
    ("nn.HingeEmbeddingLoss()", ["2 3", "2 3 "]),
    ("nn.SoftMarginLoss()", ["2 3", "2 3 "]),
    ("nn.MultiMarginLoss(p=2)", ["2 3", "long:2"]),
    ("nn.MultiLabelMarginLoss()", ["2 3", "long:2 3"]),
    ("nn.MultiLabelSoftMarginLoss()", ["2 3", "2 3 "]),
    ("nn.MarginRankingLoss(0.5)", ["3", "3 ", "3"]),
    ("nn.TripletMarginLoss(swap=True)", ["2 3", "2 3 ", "2 3"]),
    ("nn.TripletMarginWithDistanceLoss()", ["2 3", "2 3 ", "2 3"]),
    ("nn.CosineEmbeddingLoss()", ["2 3", "2 3 ", "long:2"]),
    ("nn.LinearCrossEntropyLoss(3, 4, bias=True)", ["2 3", "long:2"]),
    *[(f"nn.{name}(0.0)", [shape]) for name, shape in (
        ("Dropout1d", "2 3 2"), ("Dropout2d", "2 3 2 2"), ("Dropout3d", "2 3 2 2 2"), ("FeatureAlphaDropout", "2 3 2"))],
    ("nn.CircularPad2d(1)", ["1 1 2 3"]),
    ("nn.CircularPad3d(1)", ["1 1 2 2 3"]),
    ("nn.ConstantPad1d((1, 2), 3.0)", ["1 1 3"]),
    ("nn.ConstantPad3d(1, 3.0)", ["1 1 1 2 2"]),
    ("nn.ZeroPad2d((1, 0, 2, -1))", ["1 1 3 3"]),
    ("nn.ZeroPad3d(1)", ["1 1 1 2 2"]),
    ("nn.ReflectionPad2d((1, 1, 0, 1))", ["1 1 3 3"]),
    ("nn.ReflectionPad3d(1)", ["1 1 2 2 3"]),
    ("nn.ReplicationPad1d((2, 1))", ["1 1 3"]),
    ("nn.ReplicationPad3d(1)", ["1 1 1 2 2"]),
    ("nn.LPPool3d(2, 2)", ["1 1 2 2 4"]),
    ("nn.NLLLoss2d()", ["2 3 2 2", "long:2 2 2"]),
    ("nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), 2, nn.LayerNorm(4))", ["2 3 4"]),
    ("nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8, dropout=0.0), 2)", ["3 2 4", "2 2 4"]),
]


def inputs_of(torch, shapes):
    """The tensors that the shapes stand for; one with a blank behind it is a target: smaller, and without gradient."""
    made = []
    for text in shapes:
        shape = [int(size) for size in text.removeprefix("long:").split()]
        if text.startswith("long:"):
            made.append((torch.arange(math.prod(shape)) % 3).reshape(shape))
        else:
            made.append(wave(torch, *shape) * (0.5 if text.endswith(" ") else 1.0))
    return made


def numbers(value):
    """All numbers of a result, flat, to six digits."""
    if value is None:
        return []
    if isinstance(value, (tuple, list)):
        return [x for part in value for x in numbers(part)]
    return [round(float(x), 6) for x in value.detach().flatten().tolist()]


def outcome(torch, layer, shapes):
    """What the layer is, starts with, computes in training and evaluation, and gives as gradients."""
    torch.manual_seed(0)
    module = eval(layer, {"nn": torch.nn})
    start = {name: numbers(value)[:6] for name, value in module.state_dict().items()}
    inputs = inputs_of(torch, shapes)
    for tensor, text in zip(inputs, shapes):
        if tensor.is_floating_point() and not text.endswith(" "):
            tensor.requires_grad_()
    trained = module(*inputs)
    loss = sum((t * t).sum() for t in (trained if isinstance(trained, tuple) else (trained,)) if isinstance(t, torch.Tensor))
    grads = []
    if isinstance(loss, torch.Tensor) and loss.requires_grad:
        loss.backward()
        members = inputs + list(module.parameters())
        grads = [[] if t.grad is None else [round(float(t.grad.sum()), 4), round(float(t.grad.abs().sum()), 4)] for t in members]
    with torch.no_grad():
        evaluated = numbers(module.eval()(*inputs))
    return {"repr": repr(module), "start": start, "trained": numbers(trained)[:12], "evaluated": evaluated[:12], "grads": grads}
