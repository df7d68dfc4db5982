"""The live page: pick a row or edit a copy, watch its intervals shrink, stop when certain enough.

`serve` shows it in a browser until Ctrl-C. `app` is the same as an ASGI application, for a server
of your own. Both need the extra ``serve`` (starlette and uvicorn).
"""

from __future__ import annotations

import ipaddress
import secrets
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from credex.errors import InputError, MissingExtraError, check_count
from credex.explainer import Explainer
from credex.serve.goals import Goal
from credex.serve.jobs import GRACE_SECONDS, Jobs
from credex.serve.rows import Rows

if TYPE_CHECKING:
    import uvicorn

    from credex.serve.guard import Guard

__all__ = ["app", "serve"]

PORT = 8765
"""Default port."""

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""Names under which a browser on the same machine asks for the page."""

MIN_TOKEN = 16
"""Fewest characters of a token that guards a page other machines can reach."""


def serve(
    explainer: Explainer,
    rows: Any,
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    token: str | None = None,
    width: float | Sequence[float] | None = None,
    jobs: int = 2,
) -> None:
    """Show the live page of an explainer until Ctrl-C; the address is written to stderr.

    Parameters
    ----------
    explainer
        `BayesSHAP` or `BayesLIME`. Its model is called from worker threads.
    rows
        The instances to choose from: a frame, a 2-D array or a list of instances. Columns of a
        table can be edited in the page, and so can texts.
    host
        Address to listen on. Any other than that of this machine alone needs a ``token``.
    port
        Port to listen on; 0 takes a free one.
    token
        Secret that a browser has to show once, as ``?token=``, and then keeps in a cookie.
        ``"auto"`` makes one.
    width
        Width of intervals that the page proposes as the goal; without it, every interval at most
        20 % of the largest importance.
    jobs
        Explanations that run at the same time; others wait. Choose 1 if the model cannot be called
        from two threads.
    """
    server, bound, url = _server(
        explainer, rows, host=host, port=port, token=token, width=width, jobs=jobs
    )
    sys.stderr.write(f"credex: {url}  (Ctrl-C ends it)\n")
    sys.stderr.flush()
    with bound, suppress(KeyboardInterrupt):
        server.run(sockets=[bound])


def app(
    explainer: Explainer,
    rows: Any,
    *,
    token: str | None = None,
    hosts: Sequence[str] | None = LOOPBACK,
    width: float | Sequence[float] | None = None,
    jobs: int = 2,
    grace: float = GRACE_SECONDS,
) -> Guard:
    """Return the live page as an ASGI application; see `serve`.

    Parameters
    ----------
    explainer, rows, token, width, jobs
        As in `serve`.
    hosts
        Names that requests may be addressed to, without the port; ``None`` allows all and takes a
        ``token``.
    grace
        Seconds that an explanation goes on when nobody watches it any more.
    """
    if token == "auto":  # noqa: S105 - no secret
        raise InputError("app() cannot tell anybody a token='auto': pass one of your own")
    if hosts is None or token is not None:
        token = _check_token(token, f"hosts={hosts!r}", MIN_TOKEN if hosts is None else 1)
    made, _ = _app(explainer, rows, token=token, hosts=hosts, width=width, jobs=jobs, grace=grace)
    return made


def _app(
    explainer: Explainer,
    rows: Any,
    *,
    token: str | None,
    hosts: Sequence[str] | None,
    width: float | Sequence[float] | None,
    jobs: int,
    grace: float,
) -> tuple[Guard, Jobs]:
    """Return the application and its jobs."""
    try:
        from credex.serve.web import application
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    if not isinstance(explainer, Explainer):
        msg = f"serve takes a BayesSHAP or a BayesLIME; got {type(explainer).__name__}"
        raise InputError(msg)
    goal = Goal.proposed(width, explainer)
    offered = Rows.of(explainer.domain, rows)
    running = Jobs(explainer, check_count("jobs", jobs), grace)
    page = application(explainer, offered, running, goal, token=token, hosts=hosts)
    return page, running


def _server(
    explainer: Explainer,
    rows: Any,
    *,
    host: str,
    port: int,
    token: str | None,
    width: float | Sequence[float] | None = None,
    jobs: int = 2,
    grace: float = GRACE_SECONDS,
) -> tuple[uvicorn.Server, socket.socket, str]:
    """Return a server, the socket that it is to run on, and its address with the token."""
    name = f"[{host}]" if ":" in host else host
    hosts: tuple[str, ...] | None = None
    if not _is_loopback(host):
        token = _check_token(token, f"host={host!r}")
    else:
        hosts = (*LOOPBACK, name)
        token = None if token is None else _check_token(token, f"host={host!r}", 1)
    _check_port(port)
    page, running = _app(
        explainer, rows, token=token, hosts=hosts, width=width, jobs=jobs, grace=grace
    )
    from credex.serve.web import server_of

    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        bound = socket.create_server((host, port), family=family)
    except OSError as error:
        msg = f"cannot listen on host={host!r}, port={port!r}: {error}. port=0 takes a free one"
        raise InputError(msg) from None
    if host in ("0.0.0.0", "::"):  # noqa: S104 - all addresses of this machine
        name = socket.gethostname()
    url = f"http://{name}:{bound.getsockname()[1]}/"
    return server_of(page, running), bound, url if token is None else f"{url}?token={token}"


def _is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _check_token(token: str | None, where: str, shortest: int = MIN_TOKEN) -> str:
    """Return a token that fits into an address and a cookie, or a new one for ``"auto"``."""
    if token == "auto":  # noqa: S105 - no secret
        return secrets.token_urlsafe()
    if token is None:
        msg = f"{where} lets other machines reach the page: pass token='auto' or a token of your "
        raise InputError(f"{msg}own, or listen on 127.0.0.1")
    if len(token) < shortest or not _is_plain(token):
        msg = f"a token for {where} has {shortest} or more letters, digits, - or _; got one of "
        raise InputError(f"{msg}{len(token)} characters. token='auto' makes one")
    return token


def _check_port(port: Any) -> None:
    whole = isinstance(port, int) and not isinstance(port, bool)
    if not whole or not 0 <= port < 2**16:
        raise InputError(f"port must be a whole number from 0 to 65535; got {port!r}")


def _is_plain(token: str) -> bool:
    return token.isascii() and token.replace("-", "").replace("_", "").isalnum()


def _missing(error: ModuleNotFoundError) -> MissingExtraError:
    return MissingExtraError(
        f"the live page needs {error.name}, which is not installed: pip install 'credex[serve]'"
    )
