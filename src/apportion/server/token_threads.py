"""The threads that look at tokens of OAUTHBEARER, beside the event loop.

A look may fetch keys, or call a function of the user's, and so take long. Some do at one time;
others wait, and those of connections that have closed meanwhile are forgotten.
"""

import threading
from collections.abc import Callable

from apportion.security.oauthbearer import TokenCheck, TokenRejected, TokenVerdict

THREADS = 4
"""How many tokens are looked at, at one time."""

Checker = Callable[[TokenCheck], TokenVerdict]
"""Looks at one token; may raise anything, which is for the token's user a rejection."""

Forget = Callable[[], None]
"""Forgets one token that no thread has taken yet."""


class TokenThreads:
    """The threads of one listener. All methods are called on the event loop's thread."""

    def __init__(self, checker: Checker) -> None:
        """Keep the function; a thread is started with each of the first tokens."""
        self._checker = checker
        # Those that no thread has taken yet, oldest first, by their numbers.
        self._waiting: dict[int, tuple[TokenCheck, Callable[[TokenVerdict], None]]] = {}
        self._changed = threading.Condition()
        self._is_stopped = False
        self._last_number = 0
        self._started = 0

    def begin(self, asked: TokenCheck, decided: Callable[[TokenVerdict], None]) -> Forget:
        """Look at a token, and call `decided` with the verdict, on another thread.

        What is returned is for a connection that closes: nobody waits for the verdict any more.
        """
        self._last_number += 1
        number = self._last_number
        with self._changed:
            self._waiting[number] = asked, decided
            self._changed.notify()
        if self._started < THREADS:
            self._started += 1
            # The end of the process does not wait for a function that never returns.
            threading.Thread(target=self._run, name="apportion-tokens", daemon=True).start()
        return lambda: self._forget(number)

    def stop(self) -> None:
        """Look at no further token than those that have been given."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def _forget(self, number: int) -> None:
        with self._changed:
            self._waiting.pop(number, None)

    def _run(self) -> None:
        while (item := self._next_or_none()) is not None:
            asked, decided = item
            decided(self._verdict(asked))
            del item, asked, decided  # the next may be long in coming

    def _next_or_none(self) -> tuple[TokenCheck, Callable[[TokenVerdict], None]] | None:
        """Wait for the oldest token; None once there are none and no further ones come."""
        with self._changed:
            while not self._waiting:
                if self._is_stopped:
                    return None
                self._changed.wait()
            return self._waiting.pop(next(iter(self._waiting)))

    def _verdict(self, asked: TokenCheck) -> TokenVerdict:
        try:
            return self._checker(asked)
        # Whatever it is: otherwise it ends the thread, which looks at the tokens of others, too.
        # Not its text, which may have the token.
        except BaseException as error:
            return TokenRejected(f"its check raised {type(error).__name__}")
