"""The `gibbsdiff` command: thin, and free of torch until a command runs."""

from __future__ import annotations

import sys
from io import TextIOWrapper

from gibbsdiff.cli import (  # each adds its commands to `app`
    benchmark,
    cmb,
    cmb_check,
    cmb_columns,
    cmb_guidance,
    cmb_moments,
    demo,
    denoise,
    noise,
    paper,
    sbc,
    sbc_cosmo,
    sbc_images,
    serve,
    training,
)
from gibbsdiff.cli.app import INTERRUPTED, app, complain, say
from gibbsdiff.errors import InputError

__all__ = [
    "app",
    "benchmark",
    "cmb",
    "cmb_check",
    "cmb_columns",
    "cmb_guidance",
    "cmb_moments",
    "demo",
    "denoise",
    "main",
    "noise",
    "paper",
    "sbc",
    "sbc_cosmo",
    "sbc_images",
    "serve",
    "training",
]


def main() -> None:
    """Run the command; trouble with what the user gave is one line and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a name that the terminal cannot show is no error
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(standalone_mode=False)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception as trouble:
        # Typer's complaints about options are of no public class, but can tell themselves.
        if not isinstance(trouble, InputError | OSError) and not hasattr(trouble, "format_message"):
            raise
        complain(trouble)
        code = 2
    if code == INTERRUPTED:
        say("interrupted")
    sys.exit(code)
