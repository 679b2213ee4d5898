"""JSON lines over pipes between a supervisor and its rank processes."""

import contextlib
import json
import os
from typing import Any

Message = dict[str, Any]


class Sender:
    """Writes messages to a file descriptor; a reader that is gone is not an error here."""

    def __init__(self, fd: int) -> None:
        """Own `fd` from now on."""
        self._fd = fd

    def send(self, message: Message) -> None:
        """Write one message, blocking while the pipe is full."""
        data = json.dumps(message).encode() + b"\n"
        with contextlib.suppress(BrokenPipeError, OSError):
            while data:
                data = data[os.write(self._fd, data) :]

    def close(self) -> None:
        """Close the descriptor. May be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Receiver:
    """Reads messages from a file descriptor."""

    def __init__(self, fd: int) -> None:
        """Own `fd` from now on."""
        self.fd = fd
        self._pending = b""
        self.ended = False

    def wait(self) -> Message | None:
        """The next message, or None once the writer is gone."""
        while b"\n" not in self._pending and not self.ended:
            self._read()
        return self._take()

    def available(self) -> list[Message]:
        """Messages that are whole after one read of what the pipe holds; call when the descriptor is readable."""
        self._read()
        messages = []
        while (message := self._take()) is not None:
            messages.append(message)
        return messages

    def close(self) -> None:
        """Close the descriptor. May be called twice."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _read(self) -> None:
        data = os.read(self.fd, 1 << 20)
        self.ended = not data
        self._pending += data

    def _take(self) -> Message | None:
        line, separator, rest = self._pending.partition(b"\n")
        if not separator:
            return None
        self._pending = rest
        message: Message = json.loads(line)
        return message
