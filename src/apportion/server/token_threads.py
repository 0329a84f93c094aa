"""The threads that look at tokens of OAUTHBEARER, beside the event loop.

A look may fetch keys, or call a function of the user's, and so take long. Some do at one time;
others wait, and their connections may be closed meanwhile.
"""

import threading
from collections.abc import Callable
from queue import SimpleQueue

from apportion.security.oauthbearer import TokenCheck, TokenRejected, TokenVerdict

THREADS = 4
"""How many tokens are looked at, at one time."""

Checker = Callable[[TokenCheck], TokenVerdict]
"""Looks at one token; may raise anything, which is for the token's user a rejection."""


class TokenThreads:
    """The threads of one listener. All methods are called on the event loop's thread."""

    def __init__(self, checker: Checker) -> None:
        """Keep the function; a thread is started with each of the first tokens."""
        self._checker = checker
        self._asked: SimpleQueue[tuple[TokenCheck, Callable[[TokenVerdict], None]] | None] = (
            SimpleQueue()
        )
        self._started = 0

    def begin(self, asked: TokenCheck, decided: Callable[[TokenVerdict], None]) -> None:
        """Look at a token, and call `decided` with the verdict, on another thread."""
        self._asked.put((asked, decided))
        if self._started < THREADS:
            self._started += 1
            # The end of the process does not wait for a function that never returns.
            threading.Thread(target=self._run, name="apportion-tokens", daemon=True).start()

    def stop(self) -> None:
        """Look at no further token than those that have been given."""
        for _ in range(self._started):
            self._asked.put(None)

    def _run(self) -> None:
        while (item := self._asked.get()) is not None:
            asked, decided = item
            decided(self._verdict(asked))

    def _verdict(self, asked: TokenCheck) -> TokenVerdict:
        try:
            return self._checker(asked)
        # Not its text, which may have the token.
        except Exception as error:
            return TokenRejected(f"its check raised {type(error).__name__}")
