"""Many independent tasks, in this process or on a Dask cluster: `mapper`.

A task is a pure function of one argument. Every task runs on one thread wherever it runs, so that
sums are rounded alike and a result does not depend on where it was computed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from itertools import islice
from typing import Any, Protocol, TypeVar

import torch

from gibbsdiff.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")

TIMEOUT = 10.0  # seconds to wait for a scheduler
AHEAD = 2000  # tasks that a scheduler holds: it keeps some kilobytes of each
LOST = 10  # workers that one task may lose before it is called the culprit


class Mapper(Protocol):
    """Applies a function to items; results come in any order. `lost` is the result of an item that
    ended one worker after the other, and why; without it that ends everything.
    """

    def __call__(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        /,
        *,
        lost: Callable[[Item, str], Result] | None = None,
    ) -> Iterable[Result]:
        """The results."""
        ...


@contextmanager
def mapper(address: str | None, notify: Callable[[str], None] | None = None) -> Iterator[Mapper]:
    """What maps tasks: here if `address` is None, on N processes of this machine for "local:N",
    otherwise on the workers of the scheduler there, such as tcp://host:8786.

    `notify` is called with a line if that scheduler has no workers yet.
    """
    if address is None:
        yield serial
        return
    client = _client(address)
    if notify is not None and not client.scheduler_info()["workers"]:
        notify(f"cluster {address}: no workers yet, waiting for them")
    try:
        yield partial(_spread, client)
    finally:
        _close(client)


def serial(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    /,
    *,
    lost: Callable[[Item, str], Result] | None = None,
) -> Iterable[Result]:
    """One after the other. Nothing is lost, unless this process is."""
    return (on_one_thread(function, item) for item in items)


def on_one_thread(function: Callable[[Item], Result], item: Item) -> Result:
    """function(item) with one thread of torch."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return function(item)
    finally:
        torch.set_num_threads(before)


def _in_worker(function: Callable[[Item], Result], item: Item) -> Result:
    """function(item) on one thread; libraries in it, as xarray, that would ask the cluster for
    locks of files have their own.
    """
    with import_module("dask").config.set(scheduler="synchronous"):
        return on_one_thread(function, item)


def _spread(
    client: Any,
    function: Callable[[Item], Result],
    items: Iterable[Item],
    /,
    *,
    lost: Callable[[Item, str], Result] | None = None,
) -> Any:
    """A task for each item, some of them at a time. A worker that dies loses nothing: its tasks go
    to others.
    """
    distributed = _distributed()
    work = partial(_in_worker, function)
    left, waiting = iter(items), distributed.as_completed(loop=client.loop)
    under_way: dict[Any, Any] = {}

    def send(count: int) -> None:
        for item in islice(left, count):
            future = client.submit(work, item, pure=False)
            under_way[future] = item
            waiting.add(future)

    gone = (distributed.CancelledError, distributed.comm.CommClosedError)
    try:
        send(AHEAD)
        for future in waiting:
            item = under_way.pop(future)
            try:
                yield future.result()
            except distributed.KilledWorker as trouble:
                reason = f"ended {LOST} workers, the last {trouble.last_worker.address}"
                if lost is None:
                    raise InputError(
                        f"cluster: a task {reason}; is there enough memory? Results so far are kept"
                    ) from None
                yield lost(item, f"{reason}; is there enough memory?")
            future.release()
            send(1)
    except gone as trouble:
        raise InputError(
            f"cluster: the scheduler went away ({type(trouble).__name__}); results so far are kept"
        ) from None


def _client(address: str) -> Any:
    """A client of the scheduler, or one clear line."""
    distributed = _distributed()
    if address.startswith("local"):
        cluster = _local(distributed, address)
        return distributed.Client(cluster, set_as_default=False)
    # Dask reports every attempt to connect; one line at the end says it all.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        asyncio.run(_greet(distributed, address))
        client = distributed.Client(address, timeout=TIMEOUT, set_as_default=False)
    except MemoryError:
        # Another server's answer, read as the length of a message.
        raise InputError(f"cluster {address}: what answers there is no Dask scheduler") from None
    except (OSError, ValueError, TypeError) as trouble:
        reason = " ".join(str(trouble).split())[:120] or type(trouble).__name__
        raise InputError(f"cluster {address}: no scheduler answers ({reason})") from None
    return client


async def _greet(distributed: Any, address: str) -> None:
    """Shake hands and leave. A client that fails to connect lingers and complains when it ends."""
    comm = await distributed.comm.connect(address, timeout=TIMEOUT)
    await comm.close()


def _local(distributed: Any, address: str) -> Any:
    count = address.removeprefix("local").removeprefix(":")
    if not count.isdigit() or int(count) < 1:
        raise InputError(f"cluster {address}: write local:N, with N the number of processes")
    import_module("dask").config.set(
        {
            "distributed.scheduler.allowed-failures": LOST,
            # Forking a process that has torch's threads would hang; and no second entry point.
            "distributed.worker.multiprocessing-method": "spawn",
        }
    )
    return distributed.LocalCluster(
        n_workers=int(count),
        threads_per_worker=1,
        processes=True,
        memory_limit=0,
        dashboard_address=":0",  # any port: two clusters must not meet at one
        silence_logs=logging.CRITICAL,
    )


def _close(client: Any) -> None:
    cluster = client.cluster
    client.close()
    if cluster is not None:
        cluster.close()


def _distributed() -> Any:
    try:
        return import_module("distributed")
    except ImportError:
        raise InputError(
            "--cluster needs dask.distributed: pip install 'gibbsdiff[cluster]'"
        ) from None
