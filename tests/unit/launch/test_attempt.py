"""What a set's rank processes get on top of the supervisor's environment."""

import pytest

from gtpbench.launch.attempt import set_variables
from gtpbench.launch.place import builtin_place
from gtpbench.plan import WorkerSet


def _variables(backend: str = "nccl_torch", **env: str) -> dict[str, str]:
    worker_set = WorkerSet(set_id=0, backend=backend, env=env, arms=("none",))
    return set_variables(worker_set, builtin_place(2))


@pytest.mark.parametrize(
    ("name", "own", "exported"),
    [("NCCL_NVLS_ENABLE", "0", "2"), ("NCCL_NVLS_ENABLE", "0", "0"), ("NCCL_MAX_CTAS", "8", "4")],
)
def test_an_exported_value_is_left_alone(monkeypatch: pytest.MonkeyPatch, name: str, own: str, exported: str) -> None:
    """The set's value counts only where the user has none; the other variables are set in any case."""
    monkeypatch.delenv(name, raising=False)
    assert {name: own, "NCCL_GRAPH_REGISTER": "0"} == _variables(**{name: own, "NCCL_GRAPH_REGISTER": "0"})
    monkeypatch.setenv(name, exported)
    monkeypatch.setenv("NCCL_GRAPH_REGISTER", "1")
    assert {"NCCL_GRAPH_REGISTER": "0"} == _variables(**{name: own, "NCCL_GRAPH_REGISTER": "0"})


def test_cpu_ranks_get_one_thread() -> None:
    """GPU ranks keep the library's own choice."""
    assert {"OMP_NUM_THREADS": "1"} == _variables("gloo")
    assert {} == _variables("nccl_direct")
