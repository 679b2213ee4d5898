"""JSON Lines: whole lines or none."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gtpbench.errors import ResultsError
from gtpbench.record import append_line, read_environments, read_records, repair_torn_line
from tests.examples import make_environment, make_record


def _silent(text: str) -> None:
    raise AssertionError(f"nothing to warn of, but: {text}")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A file with two records."""
    path = tmp_path / "results.jsonl"
    append_line(path, make_record(launch=0))
    append_line(path, make_record(status="error", launch=1))
    return path


def test_what_is_appended_is_read_back(results: Path) -> None:
    """In order and equal; one line each, plain JSON."""
    assert [make_record(launch=0), make_record(status="error", launch=1)] == read_records(results, warn=_silent)
    lines = results.read_bytes().split(b"\n")
    assert lines.pop() == b""
    assert ["ok", "error"] == [json.loads(line)["status"] for line in lines]


def test_appending_leaves_what_was_there(results: Path) -> None:
    """Byte for byte."""
    before = results.read_bytes()
    append_line(results, make_record(launch=2))
    assert results.read_bytes().startswith(before)
    assert 3 == len(read_records(results, warn=_silent))


def test_a_torn_last_line_is_dropped_with_a_message(results: Path) -> None:
    """A run that was killed while writing leaves everything before."""
    with results.open("ab") as file:
        file.write(b'{"schema_version": 1, "tool')
    told: list[str] = []
    assert 2 == len(read_records(results, warn=told.append))
    assert [f"{results}: last line is torn (27 bytes); dropped"] == told


def test_a_torn_line_is_cut_off_before_appending(results: Path) -> None:
    """Else the next record would be glued to it."""
    whole = results.read_bytes()
    results.write_bytes(whole + b'{"half')
    repair_torn_line(results)
    assert whole == results.read_bytes()
    append_line(results, make_record(launch=2))
    assert [0, 1, 2] == [record.launch for record in read_records(results, warn=_silent)]


def test_repairing_what_is_whole_or_missing_does_nothing(results: Path) -> None:
    """A file that is not there is not made."""
    whole = results.read_bytes()
    repair_torn_line(results)
    repair_torn_line(results.with_name("missing"))
    assert whole == results.read_bytes()
    assert not results.with_name("missing").exists()


@pytest.mark.parametrize("torn", [b'{"schema_version": 1, "tool', b"\xff\xfe", b"[]", b"null", b'{"colour": 1}'])
def test_a_bad_line_in_the_middle_is_an_error_that_names_it(results: Path, torn: bytes) -> None:
    """Records after it are not silently all that is read."""
    first, second, end = results.read_bytes().split(b"\n")
    results.write_bytes(b"\n".join([first, torn, second, end]))
    with pytest.raises(ResultsError, match=rf"{results}:2: not a record: "):
        read_records(results, warn=_silent)


def test_a_bad_last_line_with_its_end_is_an_error(results: Path) -> None:
    """It was written whole, so it is no torn line."""
    with results.open("ab") as file:
        file.write(b'{"half\n')
    with pytest.raises(ResultsError, match=rf"{results}:3: not a record: "):
        read_records(results, warn=_silent)


def test_empty_lines_are_passed_over(results: Path) -> None:
    """And counted, so that the number of a bad line is the editor's."""
    results.write_bytes(b"\n" + results.read_bytes() + b"\nbad\n")
    with pytest.raises(ResultsError, match=rf"{results}:5: "):
        read_records(results, warn=_silent)


def test_a_missing_file_is_an_error_for_records_and_empty_for_environments(tmp_path: Path) -> None:
    """A folder without results is no run; one without environments started nothing."""
    with pytest.raises(ResultsError, match="No such file"):
        read_records(tmp_path / "results.jsonl", warn=_silent)
    assert {} == read_environments(tmp_path / "environments.jsonl", warn=_silent)


def test_environments_are_found_by_their_id(tmp_path: Path) -> None:
    """As records refer to them."""
    path = tmp_path / "environments.jsonl"
    for environment_id in ("a", "b"):
        append_line(path, make_environment(environment_id))
    assert {"a": make_environment("a"), "b": make_environment("b")} == read_environments(path, warn=_silent)


def _full_after(num_bytes: int) -> Callable[[int, bytes], int]:
    """`os.write` on a disk with room for `num_bytes` more, at most 100 at a time."""
    real, room = os.write, num_bytes

    def write(fd: int, data: bytes) -> int:
        nonlocal room
        if room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = real(fd, data[: min(room, 100)])
        room -= written
        return written

    return write


@pytest.mark.parametrize("room", [0, 1, 250])
def test_a_full_disk_leaves_whole_lines(results: Path, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    """The part of the line that was written is taken back; the error says what happened."""
    before = results.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", _full_after(room))
        with pytest.raises(ResultsError, match=r"cannot write .*results\.jsonl: No space left on device"):
            append_line(results, make_record(launch=2))
    assert before == results.read_bytes()
    append_line(results, make_record(launch=2))
    assert [0, 1, 2] == [record.launch for record in read_records(results, warn=_silent)]


def test_short_writes_are_continued(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that takes only part of the line is no failure."""
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", _full_after(10**9))
        append_line(results, make_record(launch=2))
    assert [0, 1, 2] == [record.launch for record in read_records(results, warn=_silent)]


def test_a_disk_that_fails_to_sync_leaves_whole_lines(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that may not be on disk is not there."""

    def fail(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    before = results.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(ResultsError, match="Input/output error"):
            append_line(results, make_record(launch=2))
    assert before == results.read_bytes()


def test_a_file_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    """Named with the system's reason."""
    with pytest.raises(ResultsError, match=r"cannot open .*: No such file or directory"):
        append_line(tmp_path / "missing" / "results.jsonl", make_record())


def test_a_torn_line_that_cannot_be_cut_off_is_an_error(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Appending would glue a record to it."""

    def fail(path: Path, length: int) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with results.open("ab") as file:
        file.write(b'{"half')
    monkeypatch.setattr(os, "truncate", fail)
    with pytest.raises(ResultsError, match=r"cannot repair .*: Read-only file system"):
        repair_torn_line(results)
