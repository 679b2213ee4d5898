"""An exchange that goes through the supervisor's pipes: for backends without torch, on one node."""

import base64

from gtpbench.errors import RunError
from gtpbench.launch.pipes import Message, Receiver, Sender


class PipeExchange:
    """`Exchange` over a rank's event and control pipes. The supervisor keeps the values and answers when one is there.

    A rank has at most one question open, so no pipe can fill up while its reader is busy.
    """

    def __init__(self, events: Sender, control: Receiver) -> None:
        """Share the rank's two pipes."""
        self._events = events
        self._control = control
        self._values: dict[str, bytes] = {}

    def set(self, key: str, value: bytes) -> None:
        """Publish a value."""
        self._events.send({"event": "set", "key": key, "value": base64.b64encode(value).decode()})

    def wait(self, key: str, *, timeout_s: float) -> bytes:  # noqa: ARG002 - the watchdog ends a wait for nothing
        """The value of `key`; blocks reading the control pipe.

        Raises:
            RunError: the supervisor is gone.
        """
        if key not in self._values:
            self._events.send({"event": "wait", "key": key})
            message = self._control.wait()
            if message is None:
                raise RunError("the supervisor is gone")
            assert message["key"] == key
            self._values[key] = base64.b64decode(message["value"])
        return self._values[key]


class PipeBoard:
    """The supervisor's side of `PipeExchange`: values set so far, and who waits for what."""

    def __init__(self) -> None:
        """Nothing set, nobody waiting."""
        self._values: dict[str, str] = {}
        self._waiting: dict[str, list[Sender]] = {}

    def handle(self, message: Message, control: Sender) -> bool:
        """Serve a `set` or `wait` message that came from the rank behind `control`; False for any other message."""
        key = message.get("key", "")
        if message["event"] == "set":
            self._values[key] = message["value"]
            for waiting in self._waiting.pop(key, []):
                waiting.send({"key": key, "value": message["value"]})
            return True
        if message["event"] == "wait":
            if key in self._values:
                control.send({"key": key, "value": self._values[key]})
            else:
                self._waiting.setdefault(key, []).append(control)
            return True
        return False
