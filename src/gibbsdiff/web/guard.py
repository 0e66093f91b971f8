"""Who may ask: the page's own requests, by Host, Origin and, beyond this machine, a token."""

from __future__ import annotations

import hmac
import ipaddress
import socket
from dataclasses import dataclass
from http.cookies import SimpleCookie
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "gibbsdiff"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Address:
    """Where the page is, and the token that other machines need."""

    host: str = "127.0.0.1"
    port: int = 8765
    token: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)

    @property
    def url(self) -> str:
        """To be opened in a browser."""
        name = socket.gethostname() if self.host in ("0.0.0.0", "::") else self.host
        shown = f"[{name}]" if ":" in name else name
        return f"http://{shown}:{self.port}/" + (f"?token={self.token}" if self.token else "")

    def allows(self, host: str) -> bool:
        """Whether a request's Host is this page: another name that leads here is an attack (DNS
        rebinding). An address in numbers leads nowhere else, so beyond this machine it is enough.
        """
        try:
            parts = urlsplit(f"//{host}")
            name, port = (parts.hostname or "").lower(), parts.port or 80
        except ValueError:
            return False
        if port != self.port:
            return False
        if self.is_local:
            return name in ("127.0.0.1", "localhost", "::1", self.host)
        own = {self.host.lower(), socket.gethostname().lower(), "localhost"}
        return name in own or _is_number(name)


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine alone."""
    return host == "localhost" or (_is_number(host) and ipaddress.ip_address(host).is_loopback)


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Guard:
    """Turns away what is not from the page itself, and tells the browser to do so too."""

    def __init__(self, app: ASGIApp, address: Address) -> None:
        self.app, self.address = app, address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is None and self._brings_token(scope):
            # The token goes from the address bar into a cookie that no script can read.
            response = RedirectResponse("/", status_code=303)
            response.set_cookie(
                COOKIE, self.address.token or "", httponly=True, samesite="strict", path="/"
            )
            await response(scope, receive, with_headers)
        elif refusal is not None:
            await JSONResponse({"line": refusal}, 403)(scope, receive, with_headers)
        else:
            await self.app(scope, receive, with_headers)

    def _refusal(self, scope: Scope, headers: Headers) -> str | None:
        host = headers.get("host", "")
        if not self.address.allows(host):
            return "this host name is not the page's"
        origin = headers.get("origin")
        if origin is not None and origin.lower() != f"http://{host.lower()}":
            return "this request comes from another page"
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return "this request comes from another page"
        token = self.address.token
        if token is not None and not self._brings_token(scope):
            cookie: SimpleCookie = SimpleCookie()
            cookie.load(headers.get("cookie", ""))
            given = cookie[COOKIE].value if COOKIE in cookie else ""
            if not hmac.compare_digest(given.encode(), token.encode()):
                return "open the address, with its token, that `gibbsdiff serve` printed"
        return None

    def _brings_token(self, scope: Scope) -> bool:
        """Whether the address that was printed is opened."""
        token = self.address.token
        if token is None or scope["path"] != "/" or scope["method"] != "GET":
            return False
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        return hmac.compare_digest(given.encode(), token.encode())
