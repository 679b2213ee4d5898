"""The output folder: made once, appended to, never overwritten."""

from pathlib import Path

import pytest

from gtpbench.errors import ResultsError, UsageError
from gtpbench.launch.results import RunFolder
from gtpbench.record import read_environments, read_records
from gtpbench.scenario.load import load_scenario
from tests.examples import make_environment, make_plan, make_record


def _silent(text: str) -> None:
    raise AssertionError(f"nothing to warn of, but: {text}")


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A new folder with two launches in it."""
    plan = make_plan()
    made = RunFolder.create(tmp_path / "out", plan)
    made.add_environment(make_environment("e0"))
    for launch in (0, 1):
        made.add_record(make_record(plan, launch=launch))
    (made.path / "logs" / "rank0.log").write_text("a warning", encoding="utf-8")
    made.close()
    return made


def test_a_new_folder_holds_the_scenario_and_no_records(tmp_path: Path) -> None:
    """Parents are made too; the scenario replays the plan."""
    plan = make_plan()
    made = RunFolder.create(tmp_path / "a" / "b", plan)
    assert plan.scenario == load_scenario(made.path / "scenario.toml")
    assert [] == read_records(made.path / "results.jsonl", warn=_silent)
    assert 0 == made.next_launch


def test_an_empty_folder_may_be_used(tmp_path: Path) -> None:
    """`mkdir out` beforehand does no harm."""
    (tmp_path / "out").mkdir()
    RunFolder.create(tmp_path / "out", make_plan())


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    """A file in its place too."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious").touch()
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"exists: choose another --out, or add launches to it with --append"):
        RunFolder.create(tmp_path / "out", make_plan())
    with pytest.raises(UsageError, match="exists and is no folder"):
        RunFolder.create(tmp_path / "file", make_plan())
    assert ["precious"] == [path.name for path in (tmp_path / "out").iterdir()]


def test_a_folder_that_cannot_be_made_is_a_failure(tmp_path: Path) -> None:
    """With the system's reason."""
    (tmp_path / "file").touch()
    with pytest.raises(ResultsError, match=r"cannot create .*: Not a directory"):
        RunFolder.create(tmp_path / "file" / "out", make_plan())


def test_records_are_on_disk_at_once(folder: RunFolder) -> None:
    """And known in memory."""
    assert folder.records == read_records(folder.path / "results.jsonl", warn=_silent)
    assert folder.environments == read_environments(folder.path / "environments.jsonl", warn=_silent)
    assert 2 == folder.next_launch


def test_the_same_plan_may_be_continued(folder: RunFolder) -> None:
    """Launches are numbered on; what was there stays."""
    before = (folder.path / "results.jsonl").read_bytes()
    again = RunFolder.reopen(folder.path, make_plan(), warn=_silent)
    assert (2, folder.records, folder.environments) == (again.next_launch, again.records, again.environments)
    again.add_record(make_record(launch=2))
    assert (folder.path / "results.jsonl").read_bytes().startswith(before)


def test_another_plan_is_refused(folder: RunFolder) -> None:
    """Both plans are named, nothing is added, and merge is offered."""
    other = make_plan(num_ranks=4)
    before = (folder.path / "results.jsonl").read_bytes()
    with pytest.raises(UsageError, match=f"holds plan {make_plan().digest}, this run is plan {other.digest}"):
        RunFolder.reopen(folder.path, other, warn=_silent)
    assert before == (folder.path / "results.jsonl").read_bytes()


def test_a_torn_line_is_dropped_on_reopening(folder: RunFolder) -> None:
    """So that the next record starts on a line of its own."""
    with (folder.path / "results.jsonl").open("ab") as file:
        file.write(b'{"half')
    told: list[str] = []
    again = RunFolder.reopen(folder.path, make_plan(), warn=told.append)
    assert 1 == len(told)
    again.add_record(make_record(launch=2))
    assert 3 == len(read_records(folder.path / "results.jsonl", warn=_silent))


def test_what_is_no_run_cannot_be_continued(tmp_path: Path) -> None:
    """There is nothing to append to."""
    with pytest.raises(ResultsError, match="cannot read"):
        RunFolder.reopen(tmp_path, make_plan(), warn=_silent)


def test_a_launch_of_skipped_cells_counts(tmp_path: Path) -> None:
    """Its number is taken."""
    folder = RunFolder.create(tmp_path / "out", make_plan())
    folder.add_record(make_record(status="skipped", launch=4, environment_id=None))
    folder.close()
    assert 5 == RunFolder.reopen(folder.path, make_plan(), warn=_silent).next_launch


def test_an_empty_log_folder_is_dropped(folder: RunFolder) -> None:
    """One with logs stays. Closing twice is fine."""
    assert (folder.path / "logs").is_dir()
    (folder.path / "logs" / "rank0.log").unlink()
    again = RunFolder.reopen(folder.path, make_plan(), warn=_silent)
    again.close()
    again.close()
    assert not (folder.path / "logs").exists()


def test_a_folder_without_records_is_not_left_behind(tmp_path: Path) -> None:
    """So that the same command can be given again."""
    RunFolder.create(tmp_path / "out", make_plan()).close()
    assert not (tmp_path / "out").exists()


def test_one_run_at_a_time(tmp_path: Path) -> None:
    """A folder that is being written is refused, and free again once it is closed."""
    made = RunFolder.create(tmp_path / "out", make_plan())
    made.add_record(make_record(launch=0))
    with pytest.raises(UsageError, match="another run is writing to"):
        RunFolder.reopen(made.path, make_plan(), warn=_silent)
    with pytest.raises(UsageError, match="another run is writing to"):
        RunFolder.create(made.path, make_plan())
    made.close()
    RunFolder.reopen(made.path, make_plan(), warn=_silent).close()


def test_a_log_folder_that_cannot_be_made_is_a_failure(folder: RunFolder) -> None:
    """Not a traceback."""
    (folder.path / "logs" / "rank0.log").unlink()
    (folder.path / "logs").rmdir()
    (folder.path / "logs").touch()
    with pytest.raises(ResultsError, match=r"cannot create .*logs: File exists"):
        RunFolder.reopen(folder.path, make_plan(), warn=_silent)
