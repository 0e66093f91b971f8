"""Keeps the queue and the worker: one task at a time, whatever becomes of the process."""

from __future__ import annotations

import multiprocessing
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from gibbsdiff.errors import InputError
from gibbsdiff.web.jobs import OVER, Job, Tab
from gibbsdiff.web.limits import Limits
from gibbsdiff.web.pace import Pace
from gibbsdiff.web.worker import hear, tell, work

PATIENCE = 1.5  # seconds for a task to heed that it is cancelled, until its process is killed
TICK = 0.1
TOLD = ("id", "name", "kind", "state", "stage", "step", "of", "line", "facts", "files")


class Keeper:
    """A thread that hands jobs to the worker; its methods may be called from any other."""

    def __init__(self, folder: Path, model: str, limits: Limits) -> None:
        self.limits = limits
        self.tabs: dict[str, Tab] = {}
        self.note = ""
        self.deaths = 0
        self.unfit = ""  # why the worker cannot work at all
        self.when_unfit: Callable[[], None] = lambda: None
        self._folder, self._model = folder, model
        self._pace = Pace()
        self._queue: deque[Job] = deque()
        self._running: Job | None = None
        self._lock = threading.RLock()
        self._ending = threading.Event()
        self._process: Any = None
        self._pipe: Connection | None = None
        self._ready = False
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)

    def start(self) -> None:
        """Start the worker, and look after it."""
        self._thread.start()

    def stop(self) -> None:
        """End the worker, and delete all that was uploaded."""
        self._ending.set()
        self._thread.join(10)
        self._kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def pid(self) -> int | None:
        """The worker's process."""
        process = self._process
        return None if process is None else process.pid

    def open_tab(self) -> Tab:
        """A new tab."""
        tab = Tab(self._folder)
        tab.folder = self._folder / tab.id
        tab.folder.mkdir(parents=True, mode=0o700)
        with self._lock:
            self.tabs[tab.id] = tab
        return tab

    def tab(self, name: str) -> Tab | None:
        """The tab of this name, which was heard of just now."""
        with self._lock:
            tab = self.tabs.get(name)
            if tab is not None:
                tab.heard = time.monotonic()
        return tab

    def job(self, name: str) -> Job | None:
        """The job of this name, whosever it is: a name cannot be guessed."""
        with self._lock:
            return next((tab.jobs[name] for tab in self.tabs.values() if name in tab.jobs), None)

    def check_room(self) -> None:
        """Refuse when too many wait, in the queue or for others of their group."""
        with self._lock:
            jobs = [job for tab in self.tabs.values() for job in tab.jobs.values()]
        waiting = sum(job.state == "waiting" for job in jobs)
        if waiting >= self.limits.waiting:
            raise InputError(f"the queue is full: {waiting} wait; try again later")

    def add(self, tab: Tab, job: Job) -> None:
        """Put a job at the end of the queue, or aside until its group is complete; the oldest
        results of a full tab go.
        """
        with self._lock:
            self.check_room()
            over = [other for other in tab.jobs.values() if other.state in OVER]
            for other in over[: max(0, len(tab.jobs) + 1 - self.limits.kept)]:
                tab.forget(other)
            tab.jobs[job.id] = job
            if job.group:
                job.stage = "waiting for the others"
            else:
                self._queue.append(job)

    def begin(self, tab: Tab, group: str) -> None:
        """All pictures of a group have come: they go into the queue, and have one noise."""
        with self._lock:
            held = [j for j in tab.jobs.values() if j.group == group and j.state == "waiting"]
            peers = tuple(str(job.folder / job.name) for job in held)
            for job in held:
                job.group, job.peers = "", peers if len(held) > 1 else ()
                self._queue.append(job)

    def cancel(self, job: Job) -> None:
        """Take it out of the queue, or end its work within two seconds."""
        with self._lock:
            if job in self._queue or job.group:
                if job in self._queue:
                    self._queue.remove(job)
                self._end(job, "cancelled")
            elif job.state == "running" and job.cancelled is None:
                job.cancelled = time.monotonic()
                job.stage = "stopping"

    def state_of(self, tab: Tab) -> dict[str, Any]:
        """What a tab is told: its jobs, with the time left and their places in the queue."""
        with self._lock:
            ahead = 0.0 if self._running is None else self._left(self._running)
            waits: dict[str, tuple[int, float]] = {}
            for place, job in enumerate(self._queue, 1):
                ahead += self._left(job)
                waits[job.id] = (place, ahead)
            jobs = [
                self._told(job, *waits.get(job.id, (0, self._left(job))))
                for job in tab.jobs.values()
            ]
        worker = "busy" if self._running else "ready" if self._ready else "starting"
        return {"jobs": jobs, "worker": worker, "note": self.note, "deaths": self.deaths}

    def _told(self, job: Job, place: int, left: float) -> dict[str, Any]:
        told = {
            n: getattr(job, n)
            for n in ("id", "name", "state", "stage", "step", "of", "line", "kind")
        }
        over = job.state in OVER
        return {
            **told,
            "place": place,
            "left": 0 if over else round(left, 1),
            "facts": job.facts,
            "files": job.files,
        }

    def _left(self, job: Job) -> float:
        taken = 0.0 if job.begun is None else time.monotonic() - job.begun
        return self._pace.left(job.pace, job.pixels, taken)

    def _end(self, job: Job, state: str, line: str = "") -> None:
        job.state, job.line, job.stage = state, line, state
        if state != "done":
            job.facts = None
            shutil.rmtree(job.folder, ignore_errors=True)

    def _run(self) -> None:
        while not self._ending.is_set():
            self._forget_the_gone()
            self._keep_alive()
            with self._lock:
                job = self._queue.popleft() if self._queue else None
                self._running = job
            if job is None:
                self._listen(None)
                continue
            try:
                self._do(job)
            except Exception as trouble:  # the thread must live
                self._end(job, "failed", f"{job.name}: {trouble}")
                self._kill()
            with self._lock:
                self._running = None
                if job.folder.exists() and not any(job.id in t.jobs for t in self.tabs.values()):
                    shutil.rmtree(job.folder, ignore_errors=True)  # its tab went in the meantime

    def _do(self, job: Job) -> None:
        job.state, job.begun = "running", time.monotonic()
        job.stage = "beginning" if self._ready else "starting the worker"
        assert self._pipe is not None
        tell(self._pipe, **job.task)
        asked = None
        while not self._ending.is_set():
            self._forget_the_gone()
            if self._listen(job):
                return
            if not self._process.is_alive():
                self._died(job)
                return
            if job.cancelled is not None and asked is None:
                asked = time.monotonic()
                tell(self._pipe, do="cancel")
            if asked is not None and time.monotonic() - asked > PATIENCE:
                self._kill()
                self._end(job, "cancelled")
                return

    def _listen(self, job: Job | None) -> bool:
        """Hear the worker for a moment; whether the job is over."""
        assert self._pipe is not None
        try:
            if not self._pipe.poll(TICK):
                return False
            said = hear(self._pipe)
        except (EOFError, OSError):
            time.sleep(TICK)
            return False
        if said["what"] == "unfit":
            self.unfit = said["line"]
            self._ending.set()
            self.when_unfit()
            return False
        self._ready = True
        with self._lock:
            return job is not None and self._heard(job, said)

    def _heard(self, job: Job, said: dict[str, Any]) -> bool:
        """Note down what the worker says of a job; whether it is over."""
        what, wanted = said["what"], job.cancelled is None
        if what == "progress" and wanted:
            job.stage, job.step, job.of = said["stage"], said["step"], said["of"]
        elif what == "shown" and wanted:
            job.facts = said["facts"]
        elif what == "done" and wanted:
            job.facts, job.files = said["facts"], said["files"]
            assert job.begun is not None
            self._pace.learn(job.pace, job.pixels, time.monotonic() - job.begun)
            self._end(job, "done")
        elif what == "failed":
            self._end(job, "failed", said["line"])
        elif what in ("done", "cancelled"):
            self._end(job, "cancelled")
        return job.state in OVER

    def _died(self, job: Job | None) -> None:
        self._process.join(1)
        code = self._process.exitcode
        how = f"by signal {-code}" if code is not None and code < 0 else f"with code {code}"
        self.note = f"The worker process ended {how} and was started again."
        self.deaths += 1
        if not self._ready:  # it may not be able to begin: not at once again
            self._ending.wait(2)
        if job is not None:
            line = (
                f"{job.name}: the worker process ended {how}; it is started again, so try once more"
            )
            self._end(job, "failed", line)
        self._kill()

    def _keep_alive(self) -> None:
        if self._process is not None and self._process.is_alive():
            return
        if self._process is not None:
            self._died(None)
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        self._ready = False
        told = (theirs, self._model, str(self._folder))
        self._process = context.Process(target=work, args=told, daemon=True)
        self._process.start()
        theirs.close()
        self._pipe = ours

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.join(5)
            process.close()
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
        self._ready = False

    def _forget_the_gone(self) -> None:
        now = time.monotonic()
        with self._lock:
            for tab in [t for t in self.tabs.values() if now - t.heard > self.limits.gone]:
                del self.tabs[tab.id]
                for job in tab.jobs.values():
                    self.cancel(job)
                shutil.rmtree(tab.folder, ignore_errors=True)
