"""`python -m gibbsdiff.training CONFIG --data DIR --out DIR --minutes M`."""

from __future__ import annotations

import argparse
import sys

from gibbsdiff.checks import InputError
from gibbsdiff.training.config import read_config
from gibbsdiff.training.loop import train


def main() -> None:
    """Train by a configuration."""
    parser = argparse.ArgumentParser(prog="python -m gibbsdiff.training", description=main.__doc__)
    parser.add_argument("config", help="TOML file")
    parser.add_argument("--data", required=True, help="directory of the image folders")
    parser.add_argument("--out", required=True, help="directory for checkpoints and logs")
    parser.add_argument("--minutes", type=float, help="budget, minutes of training")
    parser.add_argument("--steps", type=int, help="budget, steps")
    parser.add_argument("--resume", action="store_true", help="continue the checkpoint in --out")
    parser.add_argument("--init", help="model file with the first weights")
    given = vars(parser.parse_args())
    try:
        train(read_config(given.pop("config")), **given)
    except InputError as trouble:
        sys.exit(f"error: {trouble}")


if __name__ == "__main__":
    main()
