"""Who is let in: by Host, Origin and, beyond this machine, the token."""

import asyncio

import pytest

pytest.importorskip("starlette")

from starlette.responses import PlainTextResponse

from gibbsdiff.web.guard import COOKIE, Address, Guard, is_loopback

LOCAL = Address("127.0.0.1", 8765)
OWN = ("127.0.0.1:8765", "localhost:8765", "LOCALHOST:8765", "[::1]:8765")
REMOTE = Address("192.0.2.7", 8765, "secret")


def asked(address, path="/", method="GET", query="", **headers):
    """Status and headers of what a request gets; "hello" is behind the guard."""
    sent = []
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [
            (name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()
        ],
    }

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    asyncio.run(Guard(PlainTextResponse("hello"), address)(scope, receive, send))
    head = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], head


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8765", "localhost:8765", "LOCALHOST:8765", "[::1]:8765"]
)
def test_the_page_itself_is_let_in(host):
    status, head = asked(LOCAL, host=host)
    assert status == 200
    assert "default-src 'none'" in head["content-security-policy"]
    assert "unsafe" not in head["content-security-policy"]
    assert head["x-content-type-options"] == "nosniff"
    assert head["cache-control"] == "no-store"
    assert asked(LOCAL, method="POST", host=host, origin=f"http://{host}")[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": "evil.example:8765"},  # DNS rebinding
        {"host": "127.0.0.1.evil.example:8765"},
        {"host": "localhost"},
        {"host": "localhost:1"},
        {"host": "localhost:8765:1"},
        {"host": "localhost:8765", "origin": "http://evil.example"},
        {"host": "localhost:8765", "origin": "null"},
        {"host": "localhost:8765", "origin": "http://127.0.0.1:8765"},
        {"host": "localhost:8765", "sec_fetch_site": "cross-site"},
        {"host": "localhost:8765", "sec_fetch_site": "same-site"},
    ],
    ids=str,
)
def test_others_are_turned_away(headers):
    for method in ("GET", "POST"):
        status, head = asked(LOCAL, "/api/tab", method, **headers)
        assert status == 403
        assert "default-src 'none'" in head["content-security-policy"]


def test_another_machine_needs_the_token():
    host = {"host": "192.0.2.7:8765"}
    assert asked(REMOTE, **host)[0] == 403
    assert asked(REMOTE, query="token=wrong", **host)[0] == 403
    assert asked(REMOTE, "/api/state", query="token=secret", **host)[0] == 403
    status, head = asked(REMOTE, query="token=secret", **host)
    assert status == 303
    assert head["location"] == "/"
    assert head["set-cookie"].startswith(f"{COOKIE}=secret; HttpOnly; Path=/; SameSite=strict")
    assert asked(REMOTE, cookie=f"{COOKIE}=secret", **host)[0] == 200
    assert asked(REMOTE, cookie=f"{COOKIE}=secre", **host)[0] == 403
    evil = {"host": "evil.example:8765", "cookie": f"{COOKIE}=secret"}
    assert asked(REMOTE, **evil)[0] == 403
    assert REMOTE.url == "http://192.0.2.7:8765/?token=secret"
    assert LOCAL.url == "http://127.0.0.1:8765/"


def test_which_addresses_are_of_this_machine():
    assert all(map(is_loopback, ("127.0.0.1", "localhost", "::1", "127.1.2.3")))
    assert not any(map(is_loopback, ("0.0.0.0", "192.168.0.1", "::", "example.com", "")))
