"""Layers, losses, containers, initialisation: PyTorch's `torch.nn`, explicit name by name.

A family of layers loads when one of its names is first used. `__init__.pyi`, which tools/stubs.py writes, tells type checkers.
"""

from rushlight.core.families import by_family

# The names by the file that has them.
FAMILIES = {
    "activation": (
        "CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid Mish PReLU RReLU ReLU ReLU6 SELU SiLU "
        "Sigmoid Softplus Softshrink Softsign Tanh Tanhshrink Threshold"),
    "adaptive_pooling": (
        "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d "
        "FractionalMaxPool2d FractionalMaxPool3d"),
    "attention": "MultiheadAttention",
    "batchnorm": "BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm",
    "container": "Container ModuleDict ModuleList Sequential",
    "container_parameters": "ParameterDict ParameterList",
    "conv": "Conv1d Conv2d Conv3d",
    "conv_transpose": "ConvTranspose1d ConvTranspose2d ConvTranspose3d",
    "distance": "CosineSimilarity PairwiseDistance",
    "dropout": "AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout",
    "embedding": "Embedding EmbeddingBag",
    "instancenorm": "InstanceNorm1d InstanceNorm2d InstanceNorm3d",
    "lazy": (
        "LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d "
        "LazyConvTranspose3d LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d LazyLinear"),
    "linear": "Bilinear Identity Linear",
    "loss": (
        "BCELoss BCEWithLogitsLoss CTCLoss CrossEntropyLoss KLDivLoss LinearCrossEntropyLoss LinearCrossEntropyOptions NLLLoss "
        "NLLLoss2d"),
    "loss_margin": (
        "CosineEmbeddingLoss HingeEmbeddingLoss MarginRankingLoss MultiLabelMarginLoss MultiLabelSoftMarginLoss MultiMarginLoss "
        "SoftMarginLoss TripletMarginLoss TripletMarginWithDistanceLoss"),
    "loss_regression": "GaussianNLLLoss HuberLoss L1Loss MSELoss PoissonNLLLoss SmoothL1Loss",
    "module": "Module",
    "normalization": "CrossMapLRN2d GroupNorm LayerNorm LocalResponseNorm RMSNorm",
    "padding": (
        "CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d ReflectionPad1d ReflectionPad2d "
        "ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d ZeroPad1d ZeroPad2d ZeroPad3d"),
    "parallel": "DataParallel",
    "parameter": "Buffer Parameter UninitializedBuffer UninitializedParameter",
    "pooling": (
        "AvgPool1d AvgPool2d AvgPool3d LPPool1d LPPool2d LPPool3d MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d"),
    "reshaping": (
        "ChannelShuffle Flatten Fold PixelShuffle PixelUnshuffle Unflatten Unfold Upsample UpsamplingBilinear2d UpsamplingNearest2d"),
    "rnn": "GRU LSTM RNN RNNBase",
    "rnn_cells": "GRUCell LSTMCell RNNCell RNNCellBase",
    "softmax": "AdaptiveLogSoftmaxWithLoss LogSoftmax Softmax Softmax2d Softmin",
    "transformer": "Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer",
}
PLACES = ("functional", "init", "modules", "parallel", "utils")
__getattr__, __dir__, __all__ = by_family(__name__, FAMILIES, PLACES)
