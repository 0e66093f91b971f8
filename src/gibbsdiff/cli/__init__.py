"""The `gibbsdiff` command: thin, and free of torch until a command runs."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated

import typer

from gibbsdiff import __version__
from gibbsdiff.errors import InputError

app = typer.Typer(
    help="Blind denoising with Gibbs diffusion: the clean signal and the noise, as a posterior.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"gibbsdiff {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Blind denoising with Gibbs diffusion: the clean signal and the noise, as a posterior."""


def main() -> None:
    """Run the command; trouble with what the user gave is one line and exit code 2."""
    try:
        app()
    except (InputError, OSError) as trouble:
        print(f"gibbsdiff: {_one_line(trouble)}", file=sys.stderr)
        sys.exit(2)


def _one_line(trouble: Exception) -> str:
    if isinstance(trouble, OSError) and trouble.strerror:
        return f"{trouble.filename}: {trouble.strerror}" if trouble.filename else trouble.strerror
    return " ".join(str(trouble).split())


# Each file adds its commands to `app`.
for _commands in ("demo", "training"):
    import_module(f"gibbsdiff.cli.{_commands}")
