"""What the command line of nccl-tests decides."""

from dataclasses import replace
from pathlib import Path

import pytest

from gtpbench.errors import UsageError
from gtpbench.record.nccl_tests.options import arm_of, average_of, whole_option
from gtpbench.record.nccl_tests.output import Output
from gtpbench.record.nccl_tests.read import read_output
from tests.unit.record.nccl_tests.files import DATA, silent

PROGRAM = "./build/all_gather_perf"


def _with(*args: str, nccl_version: int | None = 23007) -> Output:
    output = read_output(DATA / "all_gather_R0.json", warn=silent)
    return replace(output, args=(PROGRAM, *args), nccl_version=nccl_version)


def _text() -> Output:
    return read_output(DATA / "all_gather_R2.txt", warn=silent)


@pytest.mark.parametrize(
    ("args", "value"),
    [
        ((), 0),
        (("-R", "2"), 2),
        (("-R2",), 2),
        (("--local_register", "2"), 2),
        (("--local_register=2",), 2),
        (("-R", "1", "-n", "5", "-R", "2"), 2),
        (("-r", "3", "-n", "5"), 0),
    ],
)
def test_every_spelling_of_an_option(args: tuple[str, ...], value: int) -> None:
    """As getopt takes them; the last one counts, and letters are told from capitals."""
    assert whole_option((PROGRAM, *args), "-R", path=Path("f")) == value


@pytest.mark.parametrize("args", [("-R",), ("-R", "two"), ("--local_register=",), ("-R-1",)])
def test_a_value_that_is_no_number(args: tuple[str, ...]) -> None:
    """Named, with the option."""
    with pytest.raises(UsageError, match=r"f: -R .* is no whole number"):
        whole_option((PROGRAM, *args), "-R", path=Path("f"))


@pytest.mark.parametrize(
    ("args", "named", "arm"),
    [
        ((), None, "nccltests:0"),
        (("-R", "0"), None, "nccltests:0"),
        (("-R", "2"), None, "nccltests:2"),
        (("-R", "2"), "nccltests:2", "nccltests:2"),
        (("-R", "2", "-x", "0", "-u", "0"), None, "nccltests:2"),
    ],
)
def test_the_arm_of_a_command_line(args: tuple[str, ...], named: str | None, arm: str) -> None:
    """`-R`, 0 where it is not given; a name may agree."""
    assert arm_of(_with(*args), named=named).name == arm


@pytest.mark.parametrize(
    ("args", "named", "needle"),
    [
        (("-R", "1"), None, "-R 1, plain registration, has no arm: only nccltests:0 and nccltests:2"),
        (("-R", "3"), None, "-R 3 has no arm"),
        (("-R", "2"), "nccltests:0", "its command line says nccltests:2, --arm says nccltests:0"),
        (("-R", "2"), "symm", "--arm symm: results of nccl-tests are of nccltests:0 or nccltests:2"),
        (("-R", "2"), "nccltest", "--arm nccltest: "),
        (("-R", "2", "-x", "2"), None, "a CTA policy (-x 2)"),
        (("-u", "4"), None, "unaligned buffers (-u 4)"),
    ],
)
def test_what_has_no_arm_is_refused(args: tuple[str, ...], named: str | None, needle: str) -> None:
    """With what the file says and what there is."""
    with pytest.raises(UsageError) as raised:
        arm_of(_with(*args), named=named)
    assert needle in str(raised.value)


def test_text_needs_a_name() -> None:
    """Its name on disk is no evidence."""
    with pytest.raises(UsageError, match=r"does not say how buffers were registered \(-R\): name it with --arm"):
        arm_of(_text(), named=None)
    assert arm_of(_text(), named="nccltests:2").name == "nccltests:2"


@pytest.mark.parametrize(("version", "fits"), [(22606, False), (2804, False), (22700, True), (None, True)])
def test_windows_need_an_nccl_that_has_them(version: int | None, fits: bool) -> None:
    """Before 2.27 nccl-tests turned `-R 2` into plain registration."""
    output = _with("-R", "2", nccl_version=version)
    if fits:
        assert arm_of(output, named=None).name == "nccltests:2"
        return
    with pytest.raises(UsageError, match="has no windows"):
        arm_of(output, named=None)
    assert arm_of(_with("-R", "0", nccl_version=version), named=None).name == "nccltests:0"


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ((), "mean over ranks of the"),
        (("-a", "0"), "rank 0's"),
        (("-a2",), "minimum over ranks of the"),
        (("--average=3",), "maximum over ranks of the"),
    ],
)
def test_what_was_done_with_the_ranks(args: tuple[str, ...], text: str) -> None:
    """`-a`, the mean where it is not given."""
    assert average_of(_with(*args)) == text


def test_an_average_that_is_not_known() -> None:
    """Of text it is not known; another number is refused."""
    assert "not in the file" in average_of(_text())
    with pytest.raises(UsageError, match="unknown -a 4"):
        average_of(_with("-a", "4"))
