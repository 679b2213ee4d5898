"""The environment of an imported run."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gtpbench.errors import IncomparableError
from gtpbench.launch.probe import allowed_variables
from gtpbench.record import Environment
from gtpbench.record.nccl_tests.environment import environment_of, refuse_unlike, version_text
from gtpbench.record.nccl_tests.read import read_output
from tests.unit.record.nccl_tests.files import DATA, changed_json, silent

JSON = DATA / "all_gather_R0.json"
TEXT = DATA / "all_gather_R0.txt"


def _environment(path: Path) -> Environment:
    return environment_of(read_output(path, warn=silent), launch=2, allowed=allowed_variables)


def test_what_json_tells() -> None:
    """NCCL, the GPU once although two ranks list it, and the command line without folders or output file."""
    environment = _environment(JSON)
    assert (environment.launch, environment.launcher, environment.num_nodes) == (2, "nccl-tests", 1)
    assert environment.gpus == ("NVIDIA H200",)
    assert {library.name: library.version for library in environment.libraries} == {"nccl": "2.30.7"}
    words = "all_gather_perf -b 64K -e 256M -f 4 -d bfloat16 -R 0 -G 10 -n 20 -w 5"
    assert environment.command == tuple(words.split())
    assert environment.environment_id == hashlib.sha256(JSON.read_bytes()).hexdigest()[:12]


def test_what_text_tells() -> None:
    """The version of nccl-tests too, and no command line."""
    environment = _environment(TEXT)
    assert {library.name: library.version for library in environment.libraries} == {
        "nccl": "2.30.7",
        "nccl-tests": "2.19.6",
    }
    assert environment.command == ()


def test_host_names_are_hashed_and_places_kept() -> None:
    """As in a run of gtpbench: 12 digits of the SHA-256."""
    for path in (JSON, TEXT):
        environment = _environment(path)
        places = environment.ranks["0"]
        assert [(p.rank, p.local_rank, p.node, p.pid, p.pci) for p in places] == [
            (0, 0, 0, 1830, "0000:00:06"),
            (1, 1, 0, 1831, "0000:00:06"),
        ]
        assert {place.host for place in places} == {hashlib.sha256(b"vm").hexdigest()[:12]}
        assert '"vm"' not in environment.model_dump_json()


def test_variables_by_allow_list_only(tmp_path: Path) -> None:
    """nccl-tests writes its whole environment, secrets and all."""

    def change(values: Any) -> None:
        values["env"] = ["NCCL_ALGO=Ring", "API_TOKEN=secret", "HOME=/home/somebody", "CUDA_VISIBLE_DEVICES=0,1", "X"]

    environment = _environment(changed_json(tmp_path / "f", change))
    assert environment.variables == {"CUDA_VISIBLE_DEVICES": "0,1", "NCCL_ALGO": "Ring"}
    assert "secret" not in environment.model_dump_json()
    assert "somebody" not in environment.model_dump_json()


def test_folders_of_the_command_line_are_dropped(tmp_path: Path) -> None:
    """The program's and the output file's, however that is spelt."""

    def change(values: Any) -> None:
        values["args"] = [
            "/home/somebody/all_gather_perf",
            "--output_file=/home/somebody/x.json",
            "-n",
            "5",
            "-J/y.json",
        ]

    assert _environment(changed_json(tmp_path / "f", change)).command == ("all_gather_perf", "-n", "5")


def test_nodes_are_hosts(tmp_path: Path) -> None:
    """Equal PCI addresses on two hosts are two GPUs."""

    def change(values: Any) -> None:
        values["config"]["devices"][1]["hostname"] = "other"

    environment = _environment(changed_json(tmp_path / "f", change))
    assert environment.num_nodes == 2
    assert environment.gpus == ("NVIDIA H200", "NVIDIA H200")
    assert [(place.local_rank, place.node) for place in environment.ranks["0"]] == [(0, 0), (0, 1)]


@pytest.mark.parametrize(("code", "text"), [(23007, "2.30.7"), (22803, "2.28.3"), (2804, "2.8.4"), (21000, "2.10.0")])
def test_versions_of_nccl(code: int, text: str) -> None:
    """By the rule of nccl.h, which changed after 2.8."""
    assert version_text(code) == text


@pytest.mark.parametrize(
    ("changed", "needle"),
    [
        ({"nccl_version": 22900}, "nccl: 2.29.0 / 2.30.7"),
        ({"variables": {"NCCL_ALGO": "Ring"}}, "NCCL_ALGO: None / Ring"),
    ],
)
def test_unlike_runs_are_refused(changed: dict[str, Any], needle: str) -> None:
    """A cell's launches must be of one machine and software."""
    outputs = [read_output(JSON, warn=silent)]
    outputs.append(replace(outputs[0], **changed))
    environments = [environment_of(output, launch=0, allowed=allowed_variables) for output in outputs]
    with pytest.raises(IncomparableError, match=needle):
        refuse_unlike(outputs, environments)


def test_text_beside_json_is_compared_in_what_both_tell() -> None:
    """Text lacks variables, JSON lacks the version of nccl-tests; another NCCL is refused all the same."""
    values = replace(read_output(JSON, warn=silent), variables={"NCCL_ALGO": "Ring"})
    text = read_output(DATA / "reduce_scatter_R0.txt", warn=silent)
    for nccl_version, refused in ((23007, False), (22900, True)):
        outputs = [values, replace(text, nccl_version=nccl_version)]
        environments = [environment_of(output, launch=0, allowed=allowed_variables) for output in outputs]
        if not refused:
            refuse_unlike(outputs, environments)
            continue
        with pytest.raises(IncomparableError, match=r"nccl: 2\.29\.0 / 2\.30\.7"):
            refuse_unlike(outputs, environments)
