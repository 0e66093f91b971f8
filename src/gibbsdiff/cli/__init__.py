"""The `gibbsdiff` command: thin, and free of torch until a command runs."""

from __future__ import annotations

import sys
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated

import typer

from gibbsdiff import __version__
from gibbsdiff.errors import InputError

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


# Each file adds its commands to `app`.
for _commands in (
    "denoise",
    "cmb",
    "cmb_check",
    "cmb_moments",
    "demo",
    "sbc",
    "sbc_images",
    "sbc_cosmo",
    "benchmark",
    "training",
):
    import_module(f"gibbsdiff.cli.{_commands}")
