"""`Guard`: who may ask for what, decided before any other code sees a request.

- The ``Host`` must be one of those expected: a page of another site whose name was made to point to
  this machine (DNS rebinding) has its own name there.
- With a token, everything needs it: once as ``?token=`` of the page's address, then as a cookie
  that scripts cannot read and that other sites cannot send.
- What changes something must come from a script of the page itself.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Guard"]

CUSTOM_HEADER = "x-credex"
"""Header that a script of the page sends; other sites would need permission for it."""

SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """ASGI middleware; ``hosts`` are the names allowed (``None``: all), ``token`` the secret."""

    def __init__(self, app: ASGIApp, *, token: str | None, hosts: Sequence[str] | None) -> None:
        self.app, self.token, self.hosts = app, token, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or pass on a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        name = cookie_name(scope)
        shown = _token_of_address(scope)
        refusal = self._refused(scope, headers, shown or _cookie(headers, name))

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                out = MutableHeaders(scope=message)
                out.update(SECURITY_HEADERS)
                if shown and refusal is None:
                    kept = f"{name}={self.token}; Path=/; HttpOnly; SameSite=Strict"
                    out.append("set-cookie", kept)
            await send(message)

        answer = self.app if refusal is None else refusal
        await answer(scope, receive, guarded)

    def _refused(self, scope: Scope, headers: Headers, token: str) -> ASGIApp | None:
        """Return the answer to a request that is not allowed."""
        host = headers.get("host", "")
        if self.hosts is not None and _without_port(host) not in self.hosts:
            allowed = ", ".join(self.hosts)
            words = f"This server answers requests for {allowed} only, not for {host[:100]!r}."
            return PlainTextResponse(words, 421)
        if self.token is not None and not same(token, self.token):
            words = "Open the page with the address that credex printed: it ends in ?token=…"
            return PlainTextResponse(words, 401)
        if scope["method"] in ("GET", "HEAD"):
            return None
        origin = headers.get("origin")
        own = f"{scope.get('scheme', 'http')}://{host}"
        if CUSTOM_HEADER not in headers or (origin is not None and origin != own):
            words = "Only the page itself can do this: the request came from somewhere else."
            return PlainTextResponse(words, 403)
        return None


def same(a: str, b: str) -> bool:
    """Compare secrets in a time that does not depend on where they differ."""
    return hmac.compare_digest(a.encode(), b.encode())


def cookie_name(scope: Scope) -> str:
    """Return the cookie's name; browsers send cookies to every port of a host."""
    server = scope.get("server") or ("", 0)
    return f"credex_{server[1]}"


def _cookie(headers: Headers, name: str) -> str:
    jar = SimpleCookie()
    try:
        jar.load(headers.get("cookie", ""))
    except CookieError:  # a cookie that cannot be read is none
        return ""
    return str(jar[name].value) if name in jar else ""


def _token_of_address(scope: Scope) -> str:
    """Return the token of the page's own address; other addresses do not take one."""
    if scope["path"] != "/" or scope["method"] != "GET":
        return ""
    asked = parse_qs(bytes(scope.get("query_string", b"")).decode("latin-1"))
    return asked.get("token", [""])[0]


def _without_port(host: str) -> str:
    if host.startswith("["):
        inside, bracket, _ = host.partition("]")
        return inside + bracket
    return host.partition(":")[0]
