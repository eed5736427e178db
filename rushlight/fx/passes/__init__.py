"""Under PyTorch's name: see the modules inside."""
