"""`gibbsdiff serve`."""

from __future__ import annotations

from typing import Annotated

import typer

from gibbsdiff.cli.app import app, say
from gibbsdiff.errors import InputError


@app.command()
def serve(
    host: Annotated[
        str, typer.Option(help="Address to listen at. Another than this machine's needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0: any that is free.", min=0, max=65535)] = 8765,
    model: Annotated[str, typer.Option(help="Model file, or one of the package.")] = "natural",
    megapixels: Annotated[
        float, typer.Option(help="Of a picture, or of the crop of one, at most.", min=0.001)
    ] = 4.0,
    megabytes: Annotated[float, typer.Option(help="Of a file, at most.", min=0.001)] = 200.0,
    waiting: Annotated[int, typer.Option(help="Pictures in the queue, at most.", min=1)] = 32,
) -> None:
    """A page in the browser: drop a picture, see it denoised. Ctrl-C ends it."""
    try:
        from gibbsdiff.web.serve import serve as run
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("starlette", "uvicorn", "anyio"):
            raise
        raise InputError("serve: needs the extra web: pip install 'gibbsdiff[web]'") from None
    from gibbsdiff.web.limits import Limits

    size, pixels = int(1e6 * megabytes), int(1e6 * megapixels)
    limits = Limits(size, pixels, decoded=max(Limits.decoded, pixels), waiting=waiting)
    run(host, port, model, limits, say)
