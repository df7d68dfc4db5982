"""The live page as an ASGI application: its routes, and the stream of states."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from credex.cells import clean
from credex.errors import CredexError, InputError
from credex.explainer import Explainer
from credex.explanation import Explanation
from credex.report import explanation_page
from credex.serve.goals import Goal
from credex.serve.guard import Guard
from credex.serve.jobs import BusyError, Job, Jobs, Progress
from credex.serve.rows import Rows
from credex.serve.views import differences, page_files

__all__ = ["application", "server_of"]

MAX_BODY = 4_000_000
"""Largest request in bytes."""

MAX_PAGE = 200
"""Most rows of one page of the list."""

HEARTBEAT = 15.0
"""Seconds after which a stream says that it is alive; a browser that is gone shows then."""

TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}


def application(
    explainer: Explainer,
    rows: Rows,
    jobs: Jobs,
    goal: Goal,
    *,
    token: str | None,
    hosts: Sequence[str] | None,
) -> Guard:
    """Return the page as an application; `credex.serve.app` checks its arguments."""
    page = Page(explainer, rows, jobs, goal)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        threading.Thread(target=lambda: rows.texts, daemon=True).start()  # to be searched
        yield
        jobs.close()

    routes = [
        Route("/", page.asset),
        Route("/static/{name}", page.asset),
        Route("/api/info", page.info),
        Route("/api/rows", page.list_rows),
        Route("/api/rows/{row:int}", page.row),
        Route("/api/jobs", page.start, methods=["POST"]),
        Route("/api/jobs/{job}", page.stop, methods=["DELETE"]),
        Route("/api/jobs/{job}/events", page.events),
        Route("/api/jobs/{job}/explanation.json", page.download),
        Route("/api/jobs/{job}/report.html", page.download),
        Route("/api/comparison", page.comparison),
    ]
    made = Starlette(
        routes=routes,
        exception_handlers={CredexError: _refused, HTTPException: _refused, Exception: _broken},
        lifespan=lifespan,
    )
    return Guard(made, token=token, hosts=hosts)


class Page:
    """The handlers of requests."""

    def __init__(self, explainer: Explainer, rows: Rows, jobs: Jobs, goal: Goal) -> None:
        self.explainer, self.rows, self.jobs, self.goal = explainer, rows, jobs, goal
        self.assets = page_files()

    async def asset(self, request: Request) -> Response:
        """Return a file of the page."""
        name = request.path_params.get("name", "index.html")
        if name not in self.assets:
            raise HTTPException(404, f"there is no file {name!r:.80}")
        return Response(self.assets[name], media_type=TYPES[name.rsplit(".", 1)[-1]])

    async def info(self, request: Request) -> Response:
        """Describe the explainer, the inputs of a row and the proposed goal."""
        del request
        explainer = self.explainer
        return _JSON(
            {
                "method": explainer.method,
                "model": clean(explainer._model_name),  # noqa: SLF001 - shown, not used
                "rows": len(self.rows),
                "columns": list(self.rows.columns),
                "fields": [field.as_json for field in self.rows.fields],
                "goal": self.goal.as_json,
                "max_queries": explainer._default_ceiling,  # noqa: SLF001 - shown, not used
            }
        )

    async def list_rows(self, request: Request) -> Response:
        """Return a page of the list of rows."""
        asked = request.query_params
        offset, limit = (_count(asked.get(k, d), k) for k, d in (("offset", "0"), ("limit", "50")))
        search = asked.get("search", "")[:1_000]
        found = await run_in_threadpool(self.rows.page, search, offset, min(limit, MAX_PAGE))
        return _JSON(found)

    async def row(self, request: Request) -> Response:
        """Return one row and what its inputs hold."""
        i = self._row(request.path_params["row"])
        cells, typed = await run_in_threadpool(lambda: (self.rows.cells(i), self.rows.typed(i)))
        return _JSON({"row": i, "label": self.rows.label(i), "cells": cells, "typed": typed})

    async def start(self, request: Request) -> Response:
        """Start, continue or join the job of a row, or of an edited copy of it."""
        asked = await _body(request)
        i = self._row(asked.get("row"))
        edits = self._edits(asked.get("edits"))
        goal = Goal.read(asked.get("goal"), self.goal)
        x = await run_in_threadpool(self.rows.edited, i, edits)
        key = (i, json.dumps(edits, sort_keys=True))
        job = self.jobs.start(key, x, goal, resume=asked.get("resume") is True)
        return _JSON({"job": job.id, "edited": bool(edits), "goal": job.goal.as_json})

    async def stop(self, request: Request) -> Response:
        """Stop a job; what it has learned stays."""
        self._job(request.path_params["job"]).cancel("stopped in the page")
        return Response(status_code=204)

    async def events(self, request: Request) -> Response:
        """Stream a job's progress as server-sent events; the last one has ended."""
        job = self._job(request.path_params["job"])
        return _Stream(self.jobs, job)

    async def download(self, request: Request) -> Response:
        """Return the JSON or the report of what a job has learned, as a file."""
        e = self._explanation(request.path_params["job"])
        kind = request.url.path.rsplit(".", 1)[-1]
        text = await run_in_threadpool(e.to_json if kind == "json" else lambda: explanation_page(e))
        name = f'attachment; filename="explanation.{kind}"'
        media = "application/json" if kind == "json" else "text/html"
        body = text.encode(errors="backslashreplace")  # half of a character, as JSON escapes it
        return Response(body, media_type=media, headers={"content-disposition": name})

    async def comparison(self, request: Request) -> Response:
        """Return the differences between the importances of two jobs, feature by feature."""
        a, b = (self._explanation(request.query_params.get(name, "")) for name in ("a", "b"))
        output = _count(request.query_params.get("output", "0"), "output")
        return _JSON(await run_in_threadpool(differences, a, b, output))

    # -- what a request names ------------------------------------------------------------------

    def _row(self, i: Any) -> int:
        if not isinstance(i, int) or isinstance(i, bool) or not 0 <= i < len(self.rows):
            raise HTTPException(404, f"there is no row {i!r:.80}; there are {len(self.rows):,}")
        return i

    def _edits(self, raw: Any) -> dict[int, Any]:
        if raw is None:
            return {}
        known = {str(j): j for j in range(len(self.rows.fields))}
        if not isinstance(raw, dict) or not raw.keys() <= known.keys():
            raise InputError("edits must be an object of inputs by the number of their column")
        return {known[j]: typed for j, typed in raw.items()}

    def _job(self, name: str) -> Job:
        job = self.jobs.get(name)
        if job is None:
            raise HTTPException(404, "this explanation is no longer kept; start it again")
        return job

    def _explanation(self, name: str) -> Explanation:
        e = self._job(name).progress.explanation
        if e is None:
            raise HTTPException(409, "nothing is known yet; wait for the first interval")
        return e


class _Stream(StreamingResponse):
    """A job's progress as server-sent events, watched for as long as the browser is there."""

    def __init__(self, jobs: Jobs, job: Job) -> None:
        self.jobs, self.job, self.changed = jobs, job, asyncio.Event()
        super().__init__(self._events(), media_type="text/event-stream")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; however that ends, the job has one watcher less afterwards."""
        with self.jobs.watch(self.job) as self.changed:
            await super().__call__(scope, receive, send)

    async def _events(self) -> AsyncIterator[str]:
        sent: str | None = None
        while True:
            self.changed.clear()
            now = self.job.progress
            yield _event(now, new=now.view != sent)
            sent = now.view
            if now.ended:
                return
            while not await _within(HEARTBEAT, self.changed):
                yield ": still here\n\n"


async def _within(seconds: float, event: asyncio.Event) -> bool:
    """Whether an event happens in time."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


class _JSON(JSONResponse):
    """JSON in ASCII, which halves of characters do not break."""

    def render(self, content: Any) -> bytes:
        """Return the bytes of a value."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


def server_of(page: Guard, jobs: Jobs) -> uvicorn.Server:
    """Return a server of the page that writes no log of requests and ends when told to."""
    config = uvicorn.Config(
        page,
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="on",
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
    )
    return _Server(config, jobs)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, jobs: Jobs) -> None:
        super().__init__(config)
        self.jobs = jobs

    async def shutdown(self, sockets: Any = None) -> None:
        """End all jobs and with them the streams, which would keep the server waiting."""
        self.jobs.close()
        await super().shutdown(sockets)


def _event(now: Progress, *, new: bool) -> str:
    """Return a server-sent event; the explanation is sent only if it is ``new``."""
    e = now.explanation
    about = json.dumps(
        {
            "status": now.status,
            "message": now.message,
            "rows": now.rows,
            "rows_to_go": now.rows_to_go,
            "trace": now.trace,
            "queries": 0 if e is None else e.n_queries,
            "converged": e is not None and e.converged,
            "exact": e is not None and e.exact,
        }
    )
    shown = now.view if new and now.view is not None else "null"
    return f'data: {about[:-1]}, "explanation": {shown}}}\n\n'


async def _body(request: Request) -> dict[str, Any]:
    """Read a request's JSON object."""
    read = bytearray()
    async for piece in request.stream():
        read += piece
        if len(read) > MAX_BODY:
            raise HTTPException(413, f"the request is larger than {MAX_BODY:,} bytes")
    try:
        asked = json.loads(bytes(read))
    except (ValueError, RecursionError):
        asked = None
    if not isinstance(asked, dict):
        raise InputError("the request must be a JSON object")
    return asked


def _count(text: str, name: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise InputError(f"{name} must be a whole number ≥ 0; got {text!r:.80}")
    return int(text)


async def _refused(request: Request, error: Exception) -> Response:
    """Say what was wrong with a request."""
    del request
    if isinstance(error, HTTPException):
        return _JSON({"error": str(error.detail)}, error.status_code)
    said = {"error": str(error), "field": getattr(error, "field", None)}
    return _JSON(said, 503 if isinstance(error, BusyError) else 422)


async def _broken(request: Request, error: Exception) -> Response:
    """Say that something failed here; the traceback goes to the log, not to the page."""
    del request
    return _JSON({"error": f"this failed: {type(error).__name__}"}, 500)
