"""The page's requests: the page itself, uploads, the state of jobs, and their files."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from gibbsdiff.errors import InputError
from gibbsdiff.web.guard import Address, Guard
from gibbsdiff.web.jobs import Job, Tab
from gibbsdiff.web.keeper import Keeper
from gibbsdiff.web.limits import EXAMPLES, METHODS, NOISES, SKY, Wishes, number, safe_name
from gibbsdiff.web.size import TooLargeError, check_size

TAB = "x-gibbsdiff-tab"  # a header that no other page can send without being asked first
CLOSE = {"connection": "close"}  # what is refused is not read to its end
STATIC = Path(str(files("gibbsdiff.web") / "static"))


def application(keeper: Keeper, address: Address) -> Starlette:
    """The server, whose jobs a keeper has; with it they begin and end."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        keeper.start()
        try:
            yield
        finally:
            await anyio.to_thread.run_sync(keeper.stop)

    app = Starlette(
        routes=[
            Route("/", _page),
            Route("/api/tab", _open, methods=["POST"]),
            Route("/api/state", _state),
            Route("/api/pictures", _upload, methods=["POST"]),
            Route("/api/groups", _begin, methods=["POST"]),
            Route("/api/examples", _example, methods=["POST"]),
            Route("/api/skies", _sky, methods=["POST"]),
            Route("/api/jobs/{id}/cancel", _cancel, methods=["POST"]),
            Route("/jobs/{id}/{part}/{name}", _file),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        middleware=[Middleware(Guard, address=address)],
        exception_handlers={InputError: _refused, HTTPException: _wrong},
        lifespan=lifespan,
    )
    app.state.keeper = keeper
    return app


async def _page(request: Request) -> Response:
    return FileResponse(STATIC / "index.html")


async def _open(request: Request) -> Response:
    keeper = _keeper(request)
    choices = {
        "noises": NOISES,
        "methods": METHODS,
        "examples": list(EXAMPLES),
        "sky": SKY,
        "limits": asdict(keeper.limits),
    }
    return JSONResponse({"tab": keeper.open_tab().id, **choices})


async def _state(request: Request) -> Response:
    return JSONResponse(_keeper(request).state_of(_tab(request)))


async def _upload(request: Request) -> Response:
    """The body is the file. Bytes are counted while they come, pixels before they are decoded."""
    keeper, tab = _keeper(request), _tab(request)
    keeper.check_room()
    wishes = Wishes.read(request.query_params)
    name = safe_name(request.query_params.get("name", ""))
    folder = tab.new_folder()
    try:
        await _receive(request, folder / name, keeper.limits.size)
        asked = (folder / name, keeper.limits, wishes.crop)
        pixels, crop = await anyio.to_thread.run_sync(check_size, *asked)
        wishes = replace(wishes, crop=crop)
        group = "" if crop else request.query_params.get("group", "")[:40]
        job = Job(name, folder, wishes=wishes, pixels=pixels, group=group)
        keeper.add(tab, job)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return JSONResponse({"job": job.id})


async def _begin(request: Request) -> Response:
    """The last picture of a group has come."""
    _keeper(request).begin(_tab(request), request.query_params.get("group", ""))
    return JSONResponse({})


async def _receive(request: Request, place: Path, most: int) -> None:
    too_long = f"{place.name}: more than {most / 1e6:g} megabytes; the page takes no longer files"
    if int(request.headers.get("content-length", "0") or 0) > most:
        raise HTTPException(413, too_long)
    count = 0
    try:
        async with await anyio.open_file(place, "wb") as file:
            async for chunk in request.stream():
                count += len(chunk)
                if count > most:
                    raise HTTPException(413, too_long)
                await file.write(chunk)
    except ClientDisconnect:
        raise HTTPException(400, f"{place.name}: the upload was broken off") from None


async def _example(request: Request) -> Response:
    keeper, tab = _keeper(request), _tab(request)
    which = request.query_params.get("example", "")
    if which not in EXAMPLES:
        raise InputError(f"example: there are {'; '.join(EXAMPLES)}")
    keeper.check_room()
    wishes = Wishes.read({**request.query_params, "crop": ""})
    name = f"{EXAMPLES[which][0]}.png"
    job = Job(name, tab.new_folder(), wishes=wishes, pixels=EXAMPLES[which][3] ** 2, example=which)
    keeper.add(tab, job)
    return JSONResponse({"job": job.id})


async def _sky(request: Request) -> Response:
    keeper, tab = _keeper(request), _tab(request)
    given = request.query_params
    h0, omega_b, sigma = (number(given.get(n, ""), n, *SKY[n][:2]) for n in SKY)
    seed = int(number(given.get("seed", "0"), "seed", 0, 2**31))
    keeper.check_room()
    name = f"sky of H0 = {h0:g}, ω_b = {omega_b:g}, σ = {sigma:g}"
    job = Job(name, tab.new_folder(), kind="sky", truth=(h0, omega_b, sigma), seed=seed)
    keeper.add(tab, job)
    return JSONResponse({"job": job.id})


async def _cancel(request: Request) -> Response:
    keeper, tab = _keeper(request), _tab(request)
    job = tab.jobs.get(request.path_params["id"])
    if job is None:
        raise HTTPException(404, "there is no such job")
    keeper.cancel(job)
    return JSONResponse({})


async def _file(request: Request) -> Response:
    """A picture to look at, or a file to keep: only those that the worker named."""
    asked: dict[str, Any] = request.path_params
    job = _keeper(request).job(asked["id"])
    path = None
    if job is not None and asked["part"] in ("views", "files"):
        path = job.offered(asked["part"], asked["name"])
    if path is None or not path.is_file():
        raise HTTPException(404, "there is no such file (any more)")
    if asked["part"] == "views":
        return FileResponse(path)
    # Never shown in the page's own name: a report is HTML.
    return FileResponse(path, media_type="application/octet-stream", filename=path.name)


def _keeper(request: Request) -> Keeper:
    keeper: Keeper = request.app.state.keeper
    return keeper


def _tab(request: Request) -> Tab:
    tab = _keeper(request).tab(request.headers.get(TAB, ""))
    if tab is None:
        raise HTTPException(410, "this tab was gone for too long: load the page again")
    return tab


async def _refused(request: Request, trouble: Exception) -> Response:
    answer: dict[str, Any] = {"line": " ".join(str(trouble).split())}
    if isinstance(trouble, TooLargeError):
        answer |= {"size": trouble.size, "offer": trouble.offer}
    return JSONResponse(answer, 422, CLOSE)


async def _wrong(request: Request, trouble: Exception) -> Response:
    assert isinstance(trouble, HTTPException)
    return JSONResponse({"line": trouble.detail}, trouble.status_code, CLOSE)
