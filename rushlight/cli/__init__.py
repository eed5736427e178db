"""The command line: `rushlight run script.py`, `rushlight env`, `rushlight doctor`.

Each command is a module of this package and is loaded only when asked for. Read `main`.
"""
from __future__ import annotations

import argparse
from collections.abc import Sequence

__all__ = ["main"]


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="rushlight", description="A PyTorch-shaped deep-learning framework in pure Python over NumPy.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="run a script unchanged, with `import torch` giving rushlight",
                              description="Run a script as __main__; in it, in all it imports and in processes that it forks, `torch` is rushlight. "
                                          "A new interpreter that it starts has to be started in this way too.")
    run.add_argument("-m", dest="as_module", action="store_true", help="SCRIPT is a module name, as for python -m")
    run.add_argument("script", metavar="SCRIPT")
    run.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="the script's own arguments")
    env = commands.add_parser("env", help="versions, processor, threads, cache: what to put into a bug report")
    env.add_argument("--json", action="store_true", help="as one JSON object")
    doctor = commands.add_parser("doctor", help="check this installation: arithmetic, threads, compiler, import time")
    doctor.add_argument("--json", action="store_true", help="as one JSON object")
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status (0 well, 1 a check failed, 2 wrong usage).

    >>> from rushlight.cli import main
    >>> main(["env", "--json"])  # doctest: +ELLIPSIS
    {..."rushlight": ...}
    0
    """
    options = parser().parse_args(argv)
    if options.command == "run":
        from .run import run_script
        return run_script(options.script, options.arguments, options.as_module)
    from . import environment
    if options.command == "env":
        return environment.show(as_json=options.json)
    return environment.doctor(as_json=options.json)
