"""The sink: stdout carries data, stderr everything else; progress only on a terminal."""

import os
import sys
import time

from gtpbench.errors import ResultsError
from gtpbench.units import format_seconds


def emit(text: str) -> None:
    """Write data to stdout. Whoever reads it may stop reading: that changes nothing about the outcome.

    Raises:
        ResultsError: stdout cannot be written, for example a file on a full disk.
    """
    # A terminal without Unicode gets a question mark, not a traceback.
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # a TextIO in theory, a TextIOWrapper in fact
    try:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        _give_up_stdout()
    except OSError as error:
        _give_up_stdout()
        raise ResultsError(f"cannot write to standard output: {error.strerror}") from error


def _give_up_stdout() -> None:
    """Send what is still buffered, and all that follows, nowhere; the interpreter would complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def say(text: str) -> None:
    """One line for people, to stderr."""
    sys.stderr.write(f"gtpbench: {text}\n")
    sys.stderr.flush()


class Watcher:
    """Shows a run's warnings, and its progress where stderr is a terminal."""

    def __init__(self) -> None:
        """Nothing is shown yet."""
        self._terminal = sys.stderr.isatty()
        self._began = time.monotonic()
        self._shown_at = 0.0
        self._shown = False

    def warn(self, text: str) -> None:
        """One line, progress out of the way."""
        self.clear()
        say(text)

    def progress(self, *, done: int, total: int, text: str) -> None:
        """Redraw the progress line, at most five times a second."""
        now = time.monotonic()
        if not self._terminal or now - self._shown_at < 0.2:
            return
        self._shown_at, self._shown = now, True
        share = done / total if total else 0.0
        left = f", {format_seconds((now - self._began) * (1 - share) / share)} left" if share > 0.05 else ""
        sys.stderr.write(f"\r\x1b[Kgtpbench: {text}: {share:4.0%}{left}")
        sys.stderr.flush()

    def clear(self) -> None:
        """Remove the progress line."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = False
