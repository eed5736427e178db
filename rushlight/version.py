"""The version, as `torch.version` has it."""
__version__ = "0.1.0"
cuda = hip = git_version = None
debug = False
