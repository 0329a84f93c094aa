"""Fetching over HTTP from the one server that the user named: tokens of a client, keys of a broker.

Redirections are not followed: a client's secret goes to that server alone, and keys come from no
other.
"""

import ssl
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import BaseHandler, HTTPRedirectHandler, OpenerDirector, Request, build_opener

from apportion.drive.connection_errors import certificate_fault, connection_fault


class NotFetched(Exception):
    """Nothing was fetched, for one of three reasons.

    status: of HTTP; 0 without an answer. certificate_fault: what is wrong with the server's
    certificate; "" if that is not why. error: any other one.
    """

    def __init__(
        self, status: int = 0, certificate_fault: str = "", error: BaseException | None = None
    ) -> None:
        """Create the error, without a text: what was asked may have a secret."""
        super().__init__()
        self.status = status
        self.certificate_fault = certificate_fault
        self.error = error

    @property
    def error_name(self) -> str:
        """Return what is said of `error`: the operating system's words, or its kind."""
        if isinstance(self.error, OSError) and self.error.strerror:
            return connection_fault(self.error, "server")
        return type(self.error).__name__


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_arguments: Any) -> None:
        return None


def opener_of(*handlers: BaseHandler) -> OpenerDirector:
    """Return what opens addresses by these handlers, besides those that are always there."""
    return build_opener(_NoRedirects, *handlers)


def fetched(
    opener: OpenerDirector, asked: str | Request, timeout_s: float, most_bytes: int
) -> bytes:
    """Return the first bytes of an answer, at most so many. Raises NotFetched."""
    try:
        with opener.open(asked, timeout=timeout_s) as response:
            answer: bytes = response.read(most_bytes)
            return answer
    except HTTPError as error:
        with error:
            raise NotFetched(status=error.code) from None
    # ValueError: for a host that no address has.
    except (URLError, OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise NotFetched(certificate_fault=certificate_fault(reason)) from None
        # The reason of some is a text.
        raise NotFetched(error=reason if isinstance(reason, Exception) else error) from None
