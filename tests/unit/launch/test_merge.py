"""Merging run folders."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gtpbench.errors import IncomparableError, ResultsError, UsageError
from gtpbench.launch.merge import merge_folders
from gtpbench.launch.results import RunFolder
from gtpbench.plan import Plan
from gtpbench.record import read_environments, read_records
from tests.examples import make_environment, make_plan, make_record


def _silent(text: str) -> None:
    raise AssertionError(f"nothing to warn of, but: {text}")


def _run(path: Path, launches: Sequence[int], *, plan: Plan | None = None, **environment: Any) -> Path:
    """A run folder with one record and one environment a launch."""
    plan = plan or make_plan()
    folder = RunFolder.create(path, plan)
    for launch in launches:
        environment_id = f"{path.name}.{launch}"
        folder.add_environment(make_environment(environment_id, run_id=path.name, launch=launch, **environment))
        folder.add_record(make_record(plan, launch=launch, environment_id=environment_id))
    folder.close()
    return path


def test_launches_are_numbered_on(tmp_path: Path) -> None:
    """Folder after folder; each record keeps its environment, which is renumbered with it."""
    sources = [_run(tmp_path / "a", [0, 1, 2]), _run(tmp_path / "b", [0]), _run(tmp_path / "c", [0, 1])]
    merge_folders(sources, tmp_path / "out", warn=_silent)
    records = read_records(tmp_path / "out" / "results.jsonl", warn=_silent)
    environments = read_environments(tmp_path / "out" / "environments.jsonl", warn=_silent)
    assert [0, 1, 2, 3, 4, 5] == [record.launch for record in records]
    assert ["a.0", "a.1", "a.2", "b.0", "c.0", "c.1"] == [record.environment_id for record in records]
    assert {record.environment_id: record.launch for record in records} == {
        environment_id: environment.launch for environment_id, environment in environments.items()
    }
    assert (tmp_path / "out" / "scenario.toml").read_text() == (sources[0] / "scenario.toml").read_text()


def test_sources_stay_as_they_are(tmp_path: Path) -> None:
    """Merging reads."""
    sources = [_run(tmp_path / "a", [0]), _run(tmp_path / "b", [0])]
    before = [path.read_bytes() for source in sources for path in sorted(source.iterdir())]
    merge_folders(sources, tmp_path / "out", warn=_silent)
    assert before == [path.read_bytes() for source in sources for path in sorted(source.iterdir())]


def test_a_merged_folder_can_be_continued_and_merged(tmp_path: Path) -> None:
    """It is a run folder like any other."""
    merge_folders([_run(tmp_path / "a", [0]), _run(tmp_path / "b", [0])], tmp_path / "ab", warn=_silent)
    assert 2 == RunFolder.reopen(tmp_path / "ab", make_plan(), warn=_silent).next_launch
    merge_folders([tmp_path / "ab", _run(tmp_path / "c", [0])], tmp_path / "abc", warn=_silent)
    assert [0, 1, 2] == [r.launch for r in read_records(tmp_path / "abc" / "results.jsonl", warn=_silent)]


def test_other_plans_are_refused(tmp_path: Path) -> None:
    """Each folder is named with its plan; nothing is written."""
    other = make_plan(num_ranks=4)
    sources = [_run(tmp_path / "a", [0]), _run(tmp_path / "b", [0], plan=other)]
    with pytest.raises(UsageError, match=f"a is plan {make_plan().digest}, .*b is plan {other.digest}"):
        merge_folders(sources, tmp_path / "out", warn=_silent)
    assert not (tmp_path / "out").exists()


def test_unlike_machines_are_refused_field_by_field(tmp_path: Path) -> None:
    """Every field that differs is named with both values; those that agree are not."""
    unlike: dict[str, Any] = {"num_cpus": 16, "driver": "580.1", "variables": {"NCCL_ALGO": "Ring"}}
    sources = [_run(tmp_path / "a", [0]), _run(tmp_path / "b", [0], **unlike)]
    with pytest.raises(IncomparableError) as caught:
        merge_folders(sources, tmp_path / "out", warn=_silent)
    text = str(caught.value)
    for part in ("num_cpus: 16 / 32", "driver: 580.1 / None", "NCCL_ALGO: None / Ring"):
        assert part in text
    assert "cpu_model" not in text
    assert not (tmp_path / "out").exists()


def test_one_folder_is_not_enough(tmp_path: Path) -> None:
    """Nor the same folder twice, however it is written."""
    one = _run(tmp_path / "a", [0])
    for sources in ([], [one], [one, one], [one, tmp_path / "x" / ".." / "a"]):
        with pytest.raises(UsageError, match="two or more different folders"):
            merge_folders(sources, tmp_path / "out", warn=_silent)


def test_a_copied_launch_is_refused(tmp_path: Path) -> None:
    """A copy of a folder, or a merged folder with one of its parts, would count a launch twice."""
    import shutil

    first, second = _run(tmp_path / "a", [0, 1]), _run(tmp_path / "b", [0])
    shutil.copytree(first, tmp_path / "copy")
    merge_folders([first, second], tmp_path / "ab", warn=_silent)
    for other in ("copy", "ab"):
        with pytest.raises(UsageError, match="two folders hold launch 0 of run a"):
            merge_folders([first, tmp_path / other], tmp_path / "out", warn=_silent)
    assert not (tmp_path / "out").exists()


def test_a_target_that_exists_is_refused(tmp_path: Path) -> None:
    """Even one of the sources."""
    sources = [_run(tmp_path / "a", [0]), _run(tmp_path / "b", [0])]
    with pytest.raises(UsageError, match="exists: choose another --out"):
        merge_folders(sources, sources[0], warn=_silent)


def test_a_folder_without_results_is_an_error(tmp_path: Path) -> None:
    """It is named."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(ResultsError, match="empty"):
        merge_folders([_run(tmp_path / "a", [0]), tmp_path / "empty"], tmp_path / "out", warn=_silent)


def test_a_torn_line_is_left_out_with_a_message(tmp_path: Path) -> None:
    """The rest is merged."""
    sources = [_run(tmp_path / "a", [0]), _run(tmp_path / "b", [0])]
    with (sources[0] / "results.jsonl").open("ab") as file:
        file.write(b'{"half')
    told: list[str] = []
    merge_folders(sources, tmp_path / "out", warn=told.append)
    assert 1 == len(told)
    assert 2 == len(read_records(tmp_path / "out" / "results.jsonl", warn=_silent))


def test_runs_that_started_nothing_are_merged(tmp_path: Path) -> None:
    """All cells skipped: there are no environments to compare."""
    for name in ("a", "b"):
        folder = RunFolder.create(tmp_path / name, make_plan())
        folder.add_record(make_record(status="skipped", environment_id=None))
        (folder.path / "scenario.toml").unlink()
    merge_folders([tmp_path / "a", tmp_path / "b"], tmp_path / "out", warn=_silent)
    assert [0, 1] == [record.launch for record in read_records(tmp_path / "out" / "results.jsonl", warn=_silent)]


def test_a_target_that_cannot_be_made_is_a_failure(tmp_path: Path) -> None:
    """With the system's reason."""
    (tmp_path / "file").touch()
    sources = [_run(tmp_path / "a", [0]), _run(tmp_path / "b", [0])]
    with pytest.raises(ResultsError, match=r"cannot create .*: Not a directory"):
        merge_folders(sources, tmp_path / "file" / "out", warn=_silent)
