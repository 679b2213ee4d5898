"""Messages over pipes, and values through the supervisor."""

import os
import threading
from collections.abc import Iterator

import pytest

from gtpbench.errors import RunError
from gtpbench.launch.pipe_exchange import PipeBoard, PipeExchange
from gtpbench.launch.pipes import Message, Receiver, Sender

Pipe = tuple[Sender, Receiver]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """Both ends of one pipe."""
    read, write = os.pipe()
    ends = Sender(write), Receiver(read)
    yield ends
    for end in ends:
        end.close()
        end.close()


def test_messages_arrive_whole_and_in_order(pipe: Pipe) -> None:
    """Whatever is in them."""
    sender, receiver = pipe
    sent: list[Message] = [{"event": "a", "text": "line\nbreak é"}, {"event": "b", "values": [1, 2.5, None]}, {}]
    for message in sent:
        sender.send(message)
    assert sent == receiver.available()
    assert not receiver.ended


def test_a_torn_message_waits_for_its_end(pipe: Pipe) -> None:
    """What is not whole yet is kept for the next read."""
    sender, receiver = pipe
    fd = sender._fd
    os.write(fd, b'{"a": 1}\n{"b"')
    assert [{"a": 1}] == receiver.available()
    os.write(fd, b": 2}\n")
    assert [{"b": 2}] == receiver.available()


def test_a_writer_that_dies_leaves_what_was_whole(pipe: Pipe) -> None:
    """Half a message is no message; then the end is known."""
    sender, receiver = pipe
    os.write(sender._fd, b'{"a": 1}\n{"b"')
    sender.close()
    assert {"a": 1} == receiver.wait()
    assert receiver.wait() is None
    assert receiver.ended
    assert [] == receiver.available()


def test_a_message_larger_than_the_pipe_is_sent_while_it_is_read(pipe: Pipe) -> None:
    """64 KiB is what a pipe holds."""
    sender, receiver = pipe
    text = "x" * 300_000
    writer = threading.Thread(target=sender.send, args=({"text": text},))
    writer.start()
    assert {"text": text} == receiver.wait()
    writer.join()


def test_a_reader_that_is_gone_is_not_an_error(pipe: Pipe) -> None:
    """A rank whose supervisor died has nobody to complain to."""
    sender, receiver = pipe
    receiver.close()
    sender.send({"event": "done"})
    sender.close()
    sender.send({"event": "done"})


class Rank:
    """A rank's end of an exchange, and what its supervisor holds of it."""

    def __init__(self) -> None:
        event_read, event_write = os.pipe()
        control_read, control_write = os.pipe()
        self.events, self.control = Receiver(event_read), Sender(control_write)
        self._ends = (Sender(event_write), Receiver(control_read))
        self.exchange = PipeExchange(*self._ends)

    def close(self) -> None:
        for end in (self.events, self.control, *self._ends):
            end.close()


@pytest.fixture
def two() -> Iterator[tuple[Rank, Rank]]:
    """Two ranks."""
    both = Rank(), Rank()
    yield both
    for rank in both:
        rank.close()


def _serve(board: PipeBoard, rank: Rank, messages: int) -> None:
    for _ in range(messages):
        message = rank.events.wait()
        assert message is not None
        assert board.handle(message, rank.control)


def test_a_value_that_is_there_is_answered_at_once(two: tuple[Rank, Rank]) -> None:
    """Bytes of any kind; asked twice, answered from memory."""
    first, second = two
    board = PipeBoard()
    first.exchange.set("key", b"\x00\xff\n")
    _serve(board, first, 1)
    supervisor = threading.Thread(target=_serve, args=(board, second, 1))
    supervisor.start()
    assert b"\x00\xff\n" == second.exchange.wait("key", timeout_s=1.0)
    supervisor.join()
    assert b"\x00\xff\n" == second.exchange.wait("key", timeout_s=1.0)


def test_who_asks_early_is_answered_when_the_value_comes(two: tuple[Rank, Rank]) -> None:
    """Another key does not wake it."""
    first, second = two
    board = PipeBoard()
    answers: list[bytes] = []
    asking = threading.Thread(target=lambda: answers.append(second.exchange.wait("key", timeout_s=1.0)))
    asking.start()
    _serve(board, second, 1)
    first.exchange.set("other", b"no")
    first.exchange.set("key", b"yes")
    _serve(board, first, 1)
    assert [] == answers
    _serve(board, first, 1)
    asking.join()
    assert [b"yes"] == answers


def test_other_messages_are_not_the_boards() -> None:
    """They are the supervisor's own."""
    assert not PipeBoard().handle({"event": "done"}, Sender(-1))


def test_a_supervisor_that_is_gone_ends_the_wait(two: tuple[Rank, Rank]) -> None:
    """With an error that says so."""
    first, _ = two
    first.control.close()
    with pytest.raises(RunError, match="the supervisor is gone"):
        first.exchange.wait("key", timeout_s=1.0)
