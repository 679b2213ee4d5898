"""Bad input: one clear line on stderr, the documented code, no traceback, nothing started."""

from pathlib import Path

import pytest

from tests.cli.command import gtpbench, write_scenario

GOOD = """
name = "good"
arms = ["none", "symm"]
num_ranks = 2
[workload]
collectives = ["all_gather"]
sizes = ["64K"]
"""


@pytest.mark.parametrize(
    ("words", "needle"),
    [
        (["allgather", "--arm", "none,simm"], "unknown arm 'simm'"),
        (["allgather", "--arm", "none,none"], "names an arm twice"),
        (["allgather", "--arm", "none,,symm"], "empty name"),
        (["allgather", "-b", "1X"], "'1X' is not a size"),
        (["allgather", "-b", "2M", "-e", "1M"], "the smallest size"),
        (["allgather", "-f", "1"], "the size factor must be 2 or more"),
        (["allgather", "-d", "bf15"], "unknown dtype 'bf15'"),
        (["allgather", "-o", "max"], "workload.op"),
        (["allgather", "-b", "2", "-e", "2", "--num-ranks", "2"], "2 x 2 B = 4 B"),
        (["allgather", "--append"], "--append needs --out"),
        (["allgather", "--backend", "mpi"], "mpi"),
        (["allgather", "--num-ranks", "0"], "--num-ranks"),
        (["allgather", "--time-budget", "0"], "--time-budget"),
        (["allgather", "--colour"], "--colour"),
        (["run", "missing.toml"], "missing.toml"),
        (["report", "missing"], "missing"),
        (["merge", "missing", "--out", "x"], "two or more"),
        (["list", "colours"], "colours"),
    ],
)
def test_wrong_words_end_with_code_2(tmp_path: Path, words: list[str], needle: str) -> None:
    """The message names what was wrong; a folder that cannot be read is a failure (5), all else usage (2)."""
    outcome = gtpbench(*words, cwd=tmp_path).run()
    assert outcome.code == (5 if words[0] == "report" else 2)
    assert needle in outcome.stderr
    assert outcome.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "needle"),
    [
        ('nmae = "x"', "nmae: unknown key"),
        ("[measure]\nblokcs = 3", "measure.blokcs: unknown key"),
        ("[measure]\nblocks = 'many'", "measure.blocks"),
        ("[timeouts]\nstart_s = -1.0", "timeouts.start_s"),
        ("schema_version = 99", "schema_version"),
        ("[measure", "not TOML"),
    ],
)
def test_wrong_scenario_names_the_key(tmp_path: Path, change: str, needle: str) -> None:
    """Unknown keys and bad values are named with their path."""
    head = change if change.startswith(("nmae", "schema")) else ""
    tail = "" if head else change
    path = write_scenario(tmp_path / "s.toml", f"{head}\n{GOOD}\n{tail}\n")
    outcome = gtpbench("run", path, cwd=tmp_path).run()
    assert outcome.code == 2
    assert needle in outcome.stderr
    assert len(outcome.stderr.splitlines()) == 1


def test_output_folder_that_exists_is_refused(tmp_path: Path) -> None:
    """A folder with something in it is never written to without --append."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious").write_text("x", encoding="utf-8")
    outcome = gtpbench("allgather", "--out", "out", cwd=tmp_path).run()
    assert outcome.code == 2
    assert "exists" in outcome.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["precious"]


def test_output_folder_that_cannot_be_made_is_a_failure(tmp_path: Path) -> None:
    """A path under a file cannot be a folder."""
    (tmp_path / "file").write_text("x", encoding="utf-8")
    outcome = gtpbench("allgather", "--out", "file/out", cwd=tmp_path).run()
    assert outcome.code == 5
    assert "cannot create file/out" in outcome.stderr


@pytest.mark.parametrize(
    ("variables", "needle"),
    [
        ({"RANK": "0"}, "WORLD_SIZE, LOCAL_RANK, MASTER_ADDR"),
        ({"RANK": "2", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}, "rank 2 of 2"),
        ({"RANK": "x", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}, "RANK='x'"),
        (
            {
                "RANK": "0",
                "WORLD_SIZE": "2",
                "LOCAL_RANK": "0",
                "LOCAL_WORLD_SIZE": "4",
                "MASTER_ADDR": "127.0.0.1",
            },
            "4 on this host",
        ),
    ],
)
def test_launcher_variables_must_make_sense(tmp_path: Path, variables: dict[str, str], needle: str) -> None:
    """Missing or contradictory launcher variables are named before anything starts."""
    outcome = gtpbench("allgather", cwd=tmp_path, env=variables).run()
    assert outcome.code == 2
    assert needle in outcome.stderr
