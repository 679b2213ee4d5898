"""Scenarios that time registration, and files that list the buffers of a set."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from gtpbench.errors import ScenarioError, UsageError
from gtpbench.scenario.buffers import read_buffers, set_name
from gtpbench.scenario.load import build_scenario, dump_scenario, load_scenario
from gtpbench.scenario.resolve import resolve
from gtpbench.scenario.schema import RegistrationWorkload, Scenario
from tests.examples import make_facts, scenario_table

KIB, MIB, GIB = 2**10, 2**20, 2**30


def _scenario(measure: dict[str, Any] | None = None, backend: str = "auto", **workload: Any) -> Scenario:
    table = scenario_table(
        workload={"kind": "registration", **workload}, arms=["symm"], backend=backend, measure=measure or {}
    )
    return build_scenario(table, origin="test")


def _workload(**workload: Any) -> RegistrationWorkload:
    found = _scenario(**workload).workload
    assert isinstance(found, RegistrationWorkload)
    return found


def test_a_file_is_read(tmp_path: Path) -> None:
    """Sizes of buffers are bytes, and so are the total and the listed set."""
    path = tmp_path / "s.toml"
    path.write_text(
        'name = "x"\narms = ["symm"]\n[workload]\nkind = "registration"\nbuffer_sizes = ["64K", 5]\n'
        'num_buffers = [1, 3]\nmax_total_bytes = "1G"\nbuffers = ["2M", "1.5KiB"]\nbuffers_name = "llama"\n',
        encoding="utf-8",
    )
    workload = load_scenario(path).workload
    assert isinstance(workload, RegistrationWorkload)
    assert ((64 * KIB, 5), (1, 3), GIB) == (workload.buffer_sizes, workload.num_buffers, workload.max_total_bytes)
    assert ((2 * MIB, 1536), "llama") == (workload.buffers, workload.buffers_name)


def test_the_kind_decides_what_a_workload_is() -> None:
    """Without one it is of collectives, as before there were two."""
    assert "collective" == build_scenario(scenario_table(), origin="test").workload.kind
    assert "registration" == _scenario().workload.kind


@pytest.mark.parametrize(
    ("workload", "told"),
    [
        ({"kind": "gtp"}, "workload.kind: one of collective, registration"),
        ({"kind": 1}, "workload.kind: one of collective, registration"),
        ({"kind": "registration", "sizes": ["64K"]}, "workload.sizes: unknown key"),
        ({"kind": "registration", "num_buffers": [4, 0]}, "workload.num_buffers.1: "),
        ({"kind": "registration", "num_buffers": []}, "workload.num_buffers: "),
        ({"kind": "registration", "num_buffers": [1.0]}, "workload.num_buffers.0: "),
        ({"kind": "registration", "buffer_sizes": ["1X"]}, "workload.buffer_sizes.0: '1X' is not a size"),
        ({"kind": "registration", "buffer_sizes": [0]}, "workload.buffer_sizes.0: "),
        ({"kind": "registration", "buffer_sizes": "some"}, "workload.buffer_sizes: "),
        ({"kind": "registration", "buffer_sizes": []}, "workload: nothing to register"),
        ({"kind": "registration", "buffers": []}, "workload.buffers: "),
        ({"kind": "registration", "buffers": ["1M", "none"]}, "workload.buffers.1: 'none' is not a size"),
        ({"kind": "registration", "max_total_bytes": 0}, "workload.max_total_bytes: "),
        ({"kind": "registration", "buffers": ["1M"], "buffers_name": "a/b"}, "workload.buffers_name: "),
    ],
)
def test_a_bad_value_is_named_with_its_path(workload: dict[str, Any], told: str) -> None:
    """As in any scenario, without pydantic's names for the members of a union."""
    with pytest.raises(ScenarioError) as caught:
        build_scenario(scenario_table(workload=workload), origin="s.toml")
    text = str(caught.value)
    assert text.startswith(f"s.toml: {told}")
    assert "kind:registration" not in text and "kind:collective" not in text and "\n" not in text


def test_a_dumped_scenario_is_read_back() -> None:
    """Sizes are written for people; what is None is left out."""
    for workload in ({}, {"buffer_sizes": ["64K"], "max_total_bytes": "1M"}, {"buffer_sizes": [], "buffers": ["3M"]}):
        scenario = _scenario(**workload)
        table = tomllib.loads(dump_scenario(scenario))
        assert scenario == build_scenario(table, origin="test")
        assert "buffers" in table["workload"] or "buffers" not in workload
    assert ["3MiB"] == table["workload"]["buffers"]


@pytest.mark.parametrize(("num_gpus", "total"), [(0, 512 * MIB), (2, 16 * GIB)])
def test_auto_is_resolved(num_gpus: int, total: int) -> None:
    """64 KiB to 64 MiB by 4; less in all on CPU ranks, and always the host's clock."""
    scenario = resolve(_scenario(), make_facts(num_gpus=num_gpus))
    workload = scenario.workload
    assert isinstance(workload, RegistrationWorkload)
    assert [64 * KIB * 4**power for power in range(6)] == list(workload.buffer_sizes)
    assert ((1, 4, 16, 64), total, None) == (workload.num_buffers, workload.max_total_bytes, workload.buffers)
    assert "host" == scenario.measure.clock
    assert scenario == resolve(scenario, make_facts(num_gpus=num_gpus))


def test_what_is_given_stays() -> None:
    """Sizes and total as they are."""
    scenario = resolve(_scenario(buffer_sizes=[7], max_total_bytes=9, buffers=[3]), make_facts())
    workload = scenario.workload
    assert isinstance(workload, RegistrationWorkload)
    assert ((7,), 9, (3,)) == (workload.buffer_sizes, workload.max_total_bytes, workload.buffers)


@pytest.mark.parametrize("clock", ["graph", "stream", "both"])
@pytest.mark.parametrize("num_gpus", [0, 2])
def test_no_device_times_a_registration(clock: str, num_gpus: int) -> None:
    """It is a call of the host, on GPUs too."""
    with pytest.raises(UsageError, match=f"measure.clock = {clock}: registration has the clock host only"):
        resolve(_scenario({"clock": clock}), make_facts(num_gpus=num_gpus))


# Files of buffers


def test_buffers_are_read_in_order(tmp_path: Path) -> None:
    """One a line with or without a name; comments and empty lines are nobody's."""
    path = tmp_path / "b.txt"
    path.write_text("# a model\n\nembedding 64M\n  8MiB  # the first layer\n\tqkv\t1.5K\n100\n", encoding="utf-8")
    assert (64 * MIB, 8 * MIB, 1536, 100) == read_buffers(path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"64M\nqkv 64X\n", r"b\.txt:2: '64X' is not a size"),
        (b"64M\n\n0\n", r"b\.txt:3: a buffer of 0 B"),
        (b"a layer 64M\n", r"b\.txt:1: one buffer a line, as `64M` or `NAME 64M`; given 'a layer 64M'"),
        (b"qkv\n", r"b\.txt:1: 'qkv' is not a size"),
        (b"", r"b\.txt: lists no buffer"),
        (b"# 64M\n\n", r"b\.txt: lists no buffer"),
        (b"\xff\xfe6\x004\x00", r"b\.txt: not text"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, text: bytes, told: str) -> None:
    """With file and line."""
    path = tmp_path / "b.txt"
    path.write_bytes(text)
    with pytest.raises(UsageError, match=told):
        read_buffers(path)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """With the system's reason."""
    with pytest.raises(UsageError, match=r"buffers .*none\.txt: No such file or directory"):
        read_buffers(tmp_path / "none.txt")
    with pytest.raises(UsageError, match="Is a directory"):
        read_buffers(tmp_path)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("llama-8b.txt", "llama-8b"),
        ("my model (old).list", "my-model-old-"),
        ("_x.txt", "x"),
        ("日本.txt", "listed"),
        (".txt", "txt"),
        ("a" * 100, "a" * 80),
    ],
)
def test_a_set_is_called_as_its_file(file: str, name: str) -> None:
    """Less the ending, with what a scenario's name may hold."""
    assert name == set_name(Path(file))
    assert name == _workload(buffers=[1], buffers_name=name).buffers_name
