"""The exception for requests that are answered with an error."""

from __future__ import annotations

from math import ceil


class RequestError(Exception):
    """A request that is answered with an error: `status` is the HTTP status, `message` the reason.

    `retry_after` is the time in seconds after which the client may retry, if that can help.
    """

    def __init__(self, status: int, message: str, retry_after: float | None = None):
        self.status = status
        self.message = message
        self.retry_after = retry_after
        super().__init__(message)

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the response."""
        return {} if self.retry_after is None else {"Retry-After": str(max(1, ceil(self.retry_after)))}
