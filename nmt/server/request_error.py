"""The one exception for requests that are not served."""

from __future__ import annotations

from math import ceil


class RequestError(Exception):
    """A request that is answered with an error: `status` is its HTTP status, `message` says why.

    `retry_after` is the time in seconds after which the client may ask again, if that can help.
    """

    def __init__(self, status: int, message: str, retry_after: float | None = None):
        self.status = status
        self.message = message
        self.retry_after = retry_after
        super().__init__(message)

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the answer."""
        return {} if self.retry_after is None else {"Retry-After": str(max(1, ceil(self.retry_after)))}
