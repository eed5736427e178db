"""`torch.utils`: data, checkpoint, and what else programs import from there."""
