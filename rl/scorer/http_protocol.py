"""uvicorn's HTTP/1.1 protocol with a deadline for a request's header, and an end of connections beyond its limit."""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# Beyond limit_concurrency, so many connections more are answered 503; others are closed at once.
SPARE_CONNECTIONS = 100


def protocol_with_deadline(seconds: float) -> type[HttpToolsProtocol]:
    """A class that closes a connection whose next header is not complete `seconds` after its first byte.

    A new connection has as long for its first byte. Between requests uvicorn's timeout_keep_alive holds, and the body
    is the application's to time.
    """

    class Protocol(HttpToolsProtocol):
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._set_deadline()
            if self.limit_concurrency and len(self.connections) > self.limit_concurrency + SPARE_CONNECTIONS:
                transport.close()

        def connection_lost(self, exc: Exception | None) -> None:
            self._unset_deadline()
            super().connection_lost(exc)

        def on_message_begin(self) -> None:
            self._set_deadline()
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self._unset_deadline()
            super().on_headers_complete()

        def _set_deadline(self) -> None:
            self._unset_deadline()
            self._deadline = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

        def _unset_deadline(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()

    return Protocol
