"""Bring the page up, and all down again at the end."""

from __future__ import annotations

import secrets
import signal
import socket
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import uvicorn

from gibbsdiff.errors import InputError
from gibbsdiff.web.app import application
from gibbsdiff.web.guard import Address
from gibbsdiff.web.keeper import Keeper
from gibbsdiff.web.limits import Limits


def serve(host: str, port: int, model: str, limits: Limits, say: Callable[[str], None]) -> None:
    """Serve until Ctrl-C, or until the terminal is closed; `say` is told the address. Port 0 is any
    that is free.

    Beyond this machine the address has a token. Uploads lie in a folder of their own, which is
    deleted at the end.
    """
    listening = _bound(host, port)
    address = Address(host, listening.getsockname()[1])
    if not address.is_local:
        address = replace(address, token=secrets.token_urlsafe(18))
    folder = Path(tempfile.mkdtemp(prefix="gibbsdiff-web-"))
    keeper = Keeper(folder, model, limits)
    config = uvicorn.Config(
        application(keeper, address),
        log_level="warning",
        lifespan="on",
        server_header=False,
        timeout_graceful_shutdown=2,
        proxy_headers=False,
        ws="none",
    )
    server = uvicorn.Server(config)

    def give_up(*_: object) -> None:
        server.should_exit = True

    keeper.when_unfit = give_up
    hang_up = getattr(signal, "SIGHUP", None)  # its terminal was closed; Windows has none
    if hang_up and signal.getsignal(hang_up) is not signal.SIG_IGN:
        signal.signal(hang_up, give_up)
    say(f"open {address.url} in a browser; Ctrl-C ends")
    try:
        server.run(sockets=[listening])
    finally:
        keeper.stop()
        listening.close()
    if keeper.unfit:
        raise InputError(keeper.unfit)


def _bound(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(128)  # whoever comes before the server is up waits a moment
    except OSError as trouble:
        raise InputError(f"{host}:{port}: {trouble.strerror or trouble}") from None
    return listening
