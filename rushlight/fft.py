"""`torch.fft`: the public place of the Fourier transforms (rushlight/ops)."""
from .ops import FFT

globals().update(FFT)
