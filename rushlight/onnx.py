"""`torch.onnx`: exported programs as ONNX models. Needs the onnx package, an optional extra."""
from .export.onnx_write import export

__all__ = ["export"]
