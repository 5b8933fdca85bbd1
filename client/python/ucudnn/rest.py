"""JSON over HTTP and HTTPS, as coordinators speak it (docs/guide/operations.md)."""

from __future__ import annotations

import contextlib
import copy
import http.client
import json
import os
import socket
import ssl
import threading
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional
from urllib.parse import quote, urlencode, urlsplit

from ucudnn.errors import (
    Error,
    InvalidArgument,
    NoPlan,
    NotAllowed,
    NotFound,
    Unreachable,
)
from ucudnn.files import PathLike

DEFAULT_PORT = 7461
_PAGE = 1000  # entries; the most that a coordinator sends at once
_LOOK_UP = 4.0  # seconds
_JSON = "application/json"
_BYTES = "application/octet-stream"


class Rest:
    """A coordinator's REST. Each call has a connection of its own, so any
    threads may call. Calls raise Unreachable, NotAllowed, NoPlan, InvalidArgument
    or Error."""

    def __init__(
        self,
        address: str,
        *,
        ca: Optional[PathLike] = None,
        cert: Optional[PathLike] = None,
        key: Optional[PathLike] = None,
        token_file: Optional[PathLike] = None,
        timeout: float = 30.0,
    ) -> None:
        """Files that are None are those that UCUDNN_CA, UCUDNN_CERT, UCUDNN_KEY
        and UCUDNN_TOKEN_FILE name, if they are set. With a CA, it speaks TLS.
        `timeout` is in seconds, of each answer. Raises InvalidArgument."""
        self._host, self._port = _address(address)
        self._timeout = timeout
        ca = ca or os.environ.get("UCUDNN_CA")
        cert = cert or os.environ.get("UCUDNN_CERT")
        key = key or os.environ.get("UCUDNN_KEY")
        token_file = token_file or os.environ.get("UCUDNN_TOKEN_FILE")
        if address.startswith("https:") and not ca:
            raise InvalidArgument(f"{address}: https needs ca= or UCUDNN_CA")
        self._tls = _tls(ca, cert, key) if ca else None
        self._token = _token(token_file) if token_file else ""
        self._job_key = ""
        if self._tls is None and (self._token or cert or key):
            raise InvalidArgument(
                "a certificate or token without ca= or UCUDNN_CA, which it needs "
                "so that only this coordinator sees it"
            )

    def __repr__(self) -> str:
        scheme = "https" if self._tls else "http"
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{scheme}://{host}:{self._port}"

    def within(self, timeout: float) -> Rest:
        """The same, with answers that may take so many seconds."""
        other = copy.copy(self)
        other._timeout = timeout
        return other

    def for_job(self, key: str) -> Rest:
        """The same, for the calls of the job with this key, which is shown over TLS
        only."""
        other = copy.copy(self)
        other._job_key = key if self._tls else ""
        return other

    def get(self, path: str, **parameters: Any) -> dict[str, Any]:
        """The answer to GET; parameters that are None or empty are left out."""
        return self.ask("GET", _with(path, parameters))

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self.ask("POST", path, json.dumps(body).encode(), _JSON)

    def put(
        self, path: str, body: bytes, content: str = _BYTES, **parameters: Any
    ) -> dict[str, Any]:
        """`content` is the body's type."""
        return self.ask("PUT", _with(path, parameters), body, content)

    def delete(self, path: str, **parameters: Any) -> dict[str, Any]:
        return self.ask("DELETE", _with(path, parameters))

    def entries(self, path: str, **parameters: Any) -> Iterator[dict[str, Any]]:
        """All entries of a list, page by page."""
        member = path.rsplit("/", 1)[-1]
        after = ""
        while True:
            page = self.get(path, limit=_PAGE, after=after, **parameters)
            entries = page.get(member, [])
            yield from entries
            if not entries:
                return
            after = str(entries[-1].get("id", entries[-1].get("name", "")))

    def ask(
        self, method: str, path: str, body: Optional[bytes] = None, content: str = ""
    ) -> dict[str, Any]:
        headers = {
            "Accept": _JSON,
            "Content-Type": content,
            "Authorization": f"Bearer {self._token}" if self._token else "",
            "ucudnn-job-key": self._job_key,
        }
        headers = {name: value for name, value in headers.items() if value}
        connection = self._connection()
        try:
            _look_up(self._host, self._port, min(self._timeout, _LOOK_UP))
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(
                f"no coordinator answers at {self}: {error}; REST is on port "
                f"{DEFAULT_PORT} unless configured otherwise"
            ) from error
        finally:
            connection.close()
        if response.status >= 300:
            raise _error(f"{self}{path}", response.status, text)
        try:
            answer = json.loads(text)
        except ValueError as error:
            raise Unreachable(
                f"{self} answers {method} {path} with something that is not "
                f"JSON: {text[:80]!r}; a coordinator's REST is expected"
            ) from error
        if not isinstance(answer, dict):
            raise Unreachable(f"{self}{path}: {answer!r} is not an object")
        return answer

    def _connection(self) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(
                self._host, self._port, timeout=self._timeout
            )
        return http.client.HTTPSConnection(
            self._host, self._port, timeout=self._timeout, context=self._tls
        )


def _look_up(host: str, port: int, within: float) -> None:
    """Raises TimeoutError if no name server answers in time: the system's own wait
    is 10 s for each server and each search domain."""

    def look() -> None:
        with contextlib.suppress(OSError):  # which connecting tells then
            socket.getaddrinfo(host, port)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(within)
    if thread.is_alive():
        raise TimeoutError(f"no name server answers for {host!r} within {within} s")


def path_of(*parts: str) -> str:
    """The path of a resource under /v1; kinds have slashes in their names."""
    return "/v1/" + "/".join(quote(part, safe="/") for part in parts)


def _with(path: str, parameters: Mapping[str, Any]) -> str:
    given = {n: v for n, v in parameters.items() if v is not None and v != ""}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def _address(address: str) -> tuple[str, int]:
    url = urlsplit(address if "://" in address else f"//{address}", "http")
    try:
        port = url.port
    except ValueError:
        port = 0
    if url.scheme not in ("http", "https") or not url.hostname or port == 0:
        raise InvalidArgument(
            f"{address!r}; HOST, HOST:PORT or http(s)://HOST:PORT is accepted"
        )
    return url.hostname, port or DEFAULT_PORT


def _tls(
    ca: PathLike, cert: Optional[PathLike], key: Optional[PathLike]
) -> ssl.SSLContext:
    if bool(cert) != bool(key):
        raise InvalidArgument(
            "one of cert= (UCUDNN_CERT) and key= (UCUDNN_KEY) is given; both or "
            "none are accepted"
        )
    try:
        context = ssl.create_default_context(cafile=str(ca))
        if cert and key:
            context.load_cert_chain(str(cert), str(key))
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(str(file) for file in (ca, cert, key) if file)
        raise InvalidArgument(f"{files}: {error}") from error
    return context


def _token(path: PathLike) -> str:
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
        mode = Path(path).stat().st_mode & 0o777
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"token {path}: {error}") from error
    if mode & 0o027:
        raise InvalidArgument(
            f"token {path}: its mode is {mode:04o}; 0600 and 0640 are accepted"
        )
    if not token:
        raise InvalidArgument(f"token {path}: it is empty")
    return token


def _error(place: str, status: int, text: bytes) -> Error:
    problem = _problem(text)
    said = problem.get("detail") or problem.get("title") or f"HTTP status {status}"
    message = f"{place}: {said}"
    if status in (401, 403):
        return NotAllowed(message, 16 if status == 401 else None)
    if status == 404:
        return NotFound(message)
    if status == 422:
        return NoPlan(message)
    if status == 409 and problem.get("code") == "ABORTED":  # measurements are missing
        return Unreachable(message)
    if 400 <= status < 500 and status not in (408, 429, 499):
        return InvalidArgument(message)
    if status in (429, 502, 503, 504):
        return Unreachable(message)
    return Error(message, 13)


def _problem(text: bytes) -> dict[str, Any]:
    """Of application/problem+json, with gRPC's code; other text as its detail."""
    with contextlib.suppress(ValueError):
        answer = json.loads(text)
        if isinstance(answer, dict):
            return answer
    return {"detail": text.decode(errors="replace").strip()[:200]}
