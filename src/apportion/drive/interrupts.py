"""Ctrl-C from code of the user's that runs on a thread of ours."""

import signal
import threading


def interrupt_program() -> None:
    """End the program as Ctrl-C does: its main thread gets the signal, and handles it as its own.

    For a KeyboardInterrupt of foreign code, which would end one thread alone.
    """
    main = threading.main_thread().ident
    # To that thread, which may be waiting for something and would not look up otherwise.
    if main is not None and hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main, signal.SIGINT)
    else:  # Windows
        signal.raise_signal(signal.SIGINT)
