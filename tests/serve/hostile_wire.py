"""Requests that are wrong before anybody looks at their body: headers, lengths, methods, paths, things not of HTTP."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.chaos.wire import request

from tests.serve.hostile_bodies import body
from tests.serve.hostile_case import BAD, FINE, MARKER, TOKEN, Hostile

JSON = {"content-type": "application/json", "authorization": f"Bearer {TOKEN}"}
_LARGE = 50_000_000
_BODY = body(text="a")
_MARKER = MARKER.encode()


def requests() -> list[Hostile]:
    headers = [*_kinds(), *_tokens(), *_deadlines(), *_request_ids(), *_headers()]
    sizes = [*_large(), *_lengths(), *_chunks()]
    return [*headers, *sizes, *_methods(), *_paths(), *_versions(), *_upgrades(), *_not_http()]


def as_question(name: str, sent: bytes, allowed: set[int]) -> Hostile:
    return _case(name, request("POST", "/v1/predict", sent, JSON), allowed)


def _kinds() -> list[Hostile]:
    wrong = ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", f"x/{MARKER}", "json" * 1000]
    return [
        *(_case(f"content-type {one:.30}", _with({"content-type": one}), {400, 415}) for one in wrong),
        _case("no content-type", request("POST", "/v1/predict", _BODY, {"authorization": f"Bearer {TOKEN}"}), {415}),
        _case("content-type with a parameter", _with({"content-type": "application/JSON; a=b"}), FINE),
        _case("compressed, it says", _with({"content-encoding": "gzip"}), FINE | BAD | {415}),
    ]


def _tokens() -> list[Hostile]:
    wrong = ["", "Bearer", f"Bearer {MARKER}", f"Basic {MARKER}", TOKEN, f"Bearer {TOKEN}x", "Bearer " + "a" * 10_000]
    around = ["/metrics", "//metrics", "/%6detrics", "/healthz/../metrics", "/metrics/", "/v1/model", "/v1//model"]
    return [
        *(_case(f"authorization {one:.30}", _with({"authorization": one}), {400, 401}) for one in wrong),
        _case("no authorization", request("POST", "/v1/predict", _BODY, {"content-type": "application/json"}), {401}),
        *(_case(f"no authorization, {one}", request("GET", one), {400, 401, 404}) for one in around),
        _case("authorization twice", _raw(b"authorization: Bearer " + _MARKER), FINE | {400, 401}),
        _case("a token that is not ASCII", _raw(b"authorization: Bearer \xff\xfe" + _MARKER), FINE | {400, 401}),
    ]


def _deadlines() -> list[Hostile]:
    wrong = ["0", "-1", "abc", "1e9", "1000000000", "1.5", "", "NaN", "9" * 1000, MARKER, "٣", " ", "0x10"]
    return [
        *(_case(f"a deadline of {one!r:.30}", _with({"x-deadline-ms": one}), FINE | BAD) for one in wrong),
        _case("a deadline that nobody meets", _with({"x-deadline-ms": "1"}), FINE | {503}),
    ]


def _request_ids() -> list[Hostile]:
    wrong = [f"{MARKER} with spaces", f"{MARKER}\tx", MARKER * 50, f'{MARKER}"><script>', f"{MARKER}{'a' * 10_000}", ""]
    rest = {
        "a binary request id": b"\xff\xfe" + _MARKER,
        "a request id with a newline": b"a\nx-b: " + _MARKER,
        "a folded request id": b"a\r\n " + _MARKER,
        "a request id with a NUL": b"\x00" + _MARKER,
        "a request id with a carriage return": b"a\rx-b: " + _MARKER,
    }
    return [
        *(_case(f"request id {one:.30}", _with({"x-request-id": one}), FINE | BAD) for one in wrong),
        *(_case(name, _raw(b"x-request-id: " + value), FINE | BAD) for name, value in rest.items()),
    ]


def _headers() -> list[Hostile]:
    broken = {"no name": b": " + _MARKER, "no colon": _MARKER, "a space before the colon": b"x-a : " + _MARKER}
    harmless = {"origin": f"https://{MARKER}", "x-http-method-override": "DELETE", "x-forwarded-host": MARKER}
    return [
        *(_case(f"a header with {name}", _raw(value), FINE | BAD) for name, value in broken.items()),
        *(_case(f"a foreign {name}", _with({name: value}), FINE) for name, value in harmless.items()),
        _case("a foreign host", _with({"host": MARKER}), {421}),
        _abrupt("two hosts", _raw(b"host: " + _MARKER), FINE | {400}),
        _abrupt("no host", b"GET /healthz HTTP/1.1\r\n\r\n", FINE | {400}),
        _abrupt("a huge header", _raw(b"x-a: " + _MARKER * 200_000), {400, 413, 431}),
        _abrupt("a hundred thousand headers", _raw(b"\r\n".join([b"x-a: " + _MARKER] * 100_000)), {400, 413, 431}),
        _case("expects the impossible", _with({"expect": MARKER}), FINE | {400, 417}),
    ]


def _large() -> list[Hostile]:
    start, length = _start("POST", "/v1/predict"), b"content-length: %d\r\n\r\n" % _LARGE
    chunked = start + b"transfer-encoding: chunked\r\n\r\n"
    return [
        _case("50 MB are announced", start + length, {413}),
        _case("50 MB", start + length + b" " * _LARGE, {413}),
        _case("50 MB, if they may", start + b"expect: 100-continue\r\n" + length, {413}),
        _case("50 MB to a path of no bodies", _start("GET", "/healthz") + length, {413}),
        _case("50 MB in chunks", chunked + (b"10000\r\n" + b" " * 65536 + b"\r\n") * 763, {413}),
        _case("50 MB in one chunk", chunked + b"2faf080\r\n" + b" " * _LARGE, {413}),
        _abrupt("10,000 chunks of a byte", chunked + b"1\r\n \r\n" * 10_000 + b"0\r\n\r\n", {400, 408, 413}),
    ]


def _lengths() -> list[Hostile]:
    start = _start("POST", "/v1/predict")
    wrong = (b"-1", b"abc", b"1e3", b"+13", b"0x10", b"9" * 30, b"", b"13, 14", b"1 3", b"5")
    return [
        *(
            _abrupt(f"a length of {one!r:.30}", start + b"content-length: %b\r\n\r\n" % one + _BODY, BAD | {411, 413})
            for one in wrong
        ),
        _abrupt("two lengths", start + b"content-length: 13\r\ncontent-length: 5\r\n\r\n" + _BODY, {400}),
        _ending("no length", start + b"\r\n" + _BODY, BAD | {411}),
        _ending("a length too long", start + b"content-length: 900\r\n\r\n" + _BODY, {400, 408}),
        _ending("half a body", _with({})[:-4], {400, 408}),
        _ending("half the headers", _with({})[:60], {400, 408}),
        _case("if it may", start + b"expect: 100-continue\r\ncontent-length: 13\r\n\r\n" + _BODY, FINE | {417}),
    ]


def _chunks() -> list[Hostile]:
    start, none = _start("POST", "/v1/predict"), b"0\r\n\r\n"
    chunked = start + b"transfer-encoding: chunked\r\n"
    smuggled = b"GET /" + _MARKER + b" HTTP/1.1\r\nhost: localhost\r\n\r\n"
    odd = {
        "length and chunks": chunked + b"content-length: 6\r\n\r\n" + none + smuggled,
        "chunks and a longer length": chunked + b"content-length: 60\r\n\r\n" + none + smuggled,
        "chunked twice": chunked + b"Transfer-Encoding: CHUNKED\r\n\r\n" + none + smuggled,
        "chunked in vain": start + b"transfer-encoding: xchunked\r\n\r\n" + none + smuggled,
        "an identity encoding": start + b"transfer-encoding: identity\r\n\r\n" + none + smuggled,
        "a hidden encoding": start + b"transfer-encoding:\x0bchunked\r\n\r\n" + none + smuggled,
        "chunks of no size": chunked + b"\r\n" + _MARKER + b"\r\n",
        "a chunk too large for any number": chunked + b"\r\n" + b"f" * 40 + b"\r\n" + _BODY,
        "huge trailers": chunked + b"\r\n0\r\n" + b"x-a: b\r\n" * 100_000 + b"\r\n",
        "a chunk that is longer than it says": chunked + b"\r\n1\r\n" + _BODY + b"\r\n" + none,
    }
    return [
        _case("in chunks", chunked + b"\r\n%x\r\n" % len(_BODY) + _BODY + b"\r\n" + none, FINE),
        *(_abrupt(name, sends, BAD | {411, 413, 431}) for name, sends in odd.items()),
        _ending("a chunk's huge extension", chunked + b"\r\n1;" + b"a" * 1_000_000 + b"\r\n", {400, 413, 431}),
    ]


def _methods() -> list[Hostile]:
    wrong = ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW", "post", "G" * 10_000]
    return [
        *(_abrupt(f"{one:.20} /v1/predict", request(one, "/v1/predict", b"", JSON), {400, 405}) for one in wrong),
        *(_case(f"POST {one}", request("POST", one, _BODY, JSON), {404, 405}) for one in ("/", "/healthz", "/metrics")),
        _ending("HEAD", request("HEAD", "/v1/predict", headers={**JSON, "connection": "close"}), {400, 404, 405}),
        _abrupt("CONNECT", b"CONNECT localhost:22 HTTP/1.1\r\nhost: a\r\n\r\n", {400, 404, 405, 421}),
        _case("OPTIONS *", b"OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n", {400, 404, 405, 421}),
    ]


def _paths() -> list[Hostile]:
    wrong = ["/..%2f..%2fetc%2fpasswd", "/../../etc/passwd", "/%00", "/%", "/%zz", "/%ff%fe", "//", "/v1", "/v1/", "/*"]
    wrong += [f"/{MARKER}", f"/v1/{MARKER}%0d%0ax-a:b", "/page.css/..", "/page.css%00.js", "/docs", "/redoc", "/static"]
    return [
        *(_case(f"a path {one}", request("GET", one, headers=JSON), {400, 404}) for one in wrong),
        _case("a path with a question", request("GET", f"/?{MARKER}", headers=JSON), FINE),
        _abrupt("a path of 100,000 letters", request("GET", "/" + MARKER * 20_000), {400, 404, 413, 414, 431}),
        _abrupt("a path that is not ASCII", _start("GET", "/größe") + b"\r\n", {400, 404}),
        _abrupt("a path with spaces", _start("GET", f"/a b {MARKER}") + b"\r\n", {400, 404}),
        _abrupt("no path", b"GET HTTP/1.1\r\nhost: a\r\n\r\n", {400}),
        _case("a whole address as the path", request("GET", "http://localhost/healthz"), FINE | {400, 404}),
        _abrupt("a foreign address", request("GET", f"http://{MARKER}/"), FINE | {400, 404}),
    ]


def _versions() -> list[Hostile]:
    once = _with({})
    return [
        _case("HTTP/1.0", once.replace(b"HTTP/1.1", b"HTTP/1.0"), FINE),
        *(
            _abrupt(f"version {one!r}", once.replace(b"HTTP/1.1", one), {400})
            for one in (b"HTTP/3.7", b"HTTP/1", b"", b"HTTP/1.1.1", _MARKER)
        ),
        _case("bare line ends", once.replace(b"\r\n", b"\n"), FINE | {400}),
        _case("many at once", once * 50, FINE, answers=50),
        _abrupt("one and garbage", once + b"\x00\xff" + _MARKER + b"\r\n\r\n", FINE, answers=2),
    ]


def _upgrades() -> list[Hostile]:
    upgrade = {**JSON, "connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
    upgrade["sec-websocket-key"] = "dGhlIHNhbXBsZSBub25jZQ=="
    paths = {"/v1/predict": {400, 403, 404, 405, 426}, "/": FINE | {400, 403, 404, 426}}
    return [
        *(_case(f"a websocket at {one}", request("GET", one, headers=upgrade), paths[one]) for one in paths),
        _case("HTTP/2, later", request("GET", "/healthz", headers={"connection": "Upgrade", "upgrade": "h2c"}), FINE),
    ]


def _not_http() -> list[Hostile]:
    hello = bytes.fromhex("160301020001000001fc0303") + bytes(range(256)) * 2
    wrong = {
        "garbage": bytes(range(256)) * 100,
        "a line of garbage": _MARKER * 1000 + b"\r\n\r\n",
        "NULs to the socket": b"\x00" * 10_000,
        "TLS": hello,
        "HTTP/2 at once": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
        "SSH": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        "a PROXY line": b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n" + _with({}),
        "an endless line": b"GET /" + b"a" * 3_000_000,
    }
    return [
        *(_abrupt(name, sends, {400, 414, 431}) for name, sends in wrong.items()),
        _ending("empty lines", b"\r\n" * 10_000, {400, 431}),
        _ending("nothing at all", b"", {400, 408}),
    ]


def _with(headers: Mapping[str, str]) -> bytes:
    """A good question with these headers too, or instead."""
    return request("POST", "/v1/predict", _BODY, {**JSON, **headers})


def _start(method: str, path: str) -> bytes:
    """Headers to which more are to be added."""
    return request(method, path, headers=JSON)[:-2]


def _raw(more: bytes) -> bytes:
    """A good question with this among its headers."""
    return _start("POST", "/v1/predict") + more + b"\r\ncontent-length: %d\r\n\r\n" % len(_BODY) + _BODY


def _case(name: str, sends: bytes, allowed: set[int], *, answers: int = 1) -> Hostile:
    return Hostile(name=name, sends=sends, allowed=frozenset(allowed), answers=answers)


def _abrupt(name: str, sends: bytes, allowed: set[int], *, answers: int = 1) -> Hostile:
    """After which the connection may as well be closed without a word."""
    return Hostile(name=name, sends=sends, allowed=frozenset(allowed), may_close=True, answers=answers)


def _ending(name: str, sends: bytes, allowed: set[int]) -> Hostile:
    """After which the client says that nothing more comes, and may be left alone too."""
    return Hostile(name=name, sends=sends, allowed=frozenset(allowed), may_close=True, ends=True)
