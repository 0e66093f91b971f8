"""The command that others add themselves to, and how it speaks."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gibbsdiff import __version__

INTERRUPTED = 130  # what shells report of a command ended by Ctrl-C

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


def say(message: str) -> None:
    """One line on stderr."""
    print(f"gibbsdiff: {message}", file=sys.stderr)


def complain(trouble: Exception) -> None:
    """What is wrong with what the user gave, in one line on stderr."""
    say(_one_line(trouble))


def _one_line(trouble: Exception) -> str:
    if isinstance(trouble, OSError) and trouble.strerror:
        return f"{trouble.filename}: {trouble.strerror}" if trouble.filename else trouble.strerror
    message = trouble.format_message() if hasattr(trouble, "format_message") else str(trouble)
    return " ".join(message.split())
