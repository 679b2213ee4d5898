"""Whole runs made by hand, one for each kind of report."""

import functools
from typing import TYPE_CHECKING

from gtpbench.record import Record, Samples
from gtpbench.record.model import ProofVerdict
from gtpbench.report.view import RunView
from tests.unit.report.factory import KIB, MIB, make_case, make_environment, make_record, make_samples
from tests.unit.report.h200 import cross_check_run, h200_run
from tests.unit.report.registration import registration_run, shared_registration_run
from tests.unit.report.run import Run, jittered, make_scenario

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RUNS", "Run", "make_scenario", "view_of"]

_SYMM_CE_VERDICT: ProofVerdict = "fell_back"
GPU_COMMAND = ("gtpbench", "run", "scenarios/collectives/sweep.toml", "--launches", "6")


def cpu_run() -> Run:
    """One launch, none and symm on two CPU ranks; at 16 MiB exactly 1000 us and 2000 us for symm and none."""
    times: Mapping[int, tuple[float, float]] = {64 * KIB: (80.0, 81.0), MIB: (200.0, 100.0), 16 * MIB: (2000.0, 1000.0)}
    records = []
    for size, (none_us, symm_us) in times.items():
        case = make_case(size_bytes=size)
        records += [
            make_record("none", case=case, time_us=none_us),
            make_record("symm", case=case, time_us=symm_us),
            make_record(
                "symm:nvls",
                case=case,
                status="skipped",
                reason=("no_cpu_counterpart", "symm:nvls is an NCCL feature without a counterpart on CPU ranks"),
                arms=("none", "symm", "symm:nvls"),
            ),
        ]
    return Run(
        records=records,
        environments={"e0": make_environment()},
        scenario=make_scenario("allgather", ("none", "symm", "symm:nvls")),
    )


def gpu_run() -> Run:
    """Six launches on eight GPUs, both clocks, both collectives, with every kind of row."""
    arms = ("none", "symm", "symm:ce")
    records: list[Record] = []
    for launch in range(6):
        for number, (size, us) in enumerate({64 * KIB: 12.0, MIB: 24.0, 16 * MIB: 120.0, 256 * MIB: 900.0}.items()):
            for collective in ("all_gather", "reduce_scatter"):
                case = make_case(collective=collective, size_bytes=size, num_ranks=8)
                for position, arm in enumerate(arms):
                    if (collective, arm) == ("reduce_scatter", "symm:ce"):
                        continue
                    factor = {"none": 1.0, "symm": (1.12, 1.0, 0.6, 0.55)[number], "symm:ce": 0.97}[arm]
                    samples = _gpu_samples(us * factor, seed=launch * 100 + number * 10 + position)
                    verdict = _SYMM_CE_VERDICT if (arm, number) == ("symm:ce", 0) else None
                    records.append(
                        make_record(
                            arm,
                            case=case,
                            samples=samples,
                            origin="measured",
                            arms=arms,
                            launch=launch,
                            ctas={"none": 24, "symm": 16, "symm:ce": None}[arm],
                            verdict=verdict,
                            path={"none": "ring", "symm": "symm_lsa", "symm:ce": "copy_engine"}[arm],
                        )
                    )
    case = make_case(collective="reduce_scatter", size_bytes=64 * KIB, num_ranks=8)
    records.append(
        make_record(
            "symm:ce",
            case=case,
            origin="measured",
            arms=arms,
            status="timeout",
            reason=("stage_timeout", "rank 3 | `blocks`"),
        )
    )
    fields = {"gpus": ("NVIDIA H200",) * 8, "driver": "580.65.06", "command": GPU_COMMAND}
    environments = {f"e{launch}": make_environment(launch, **fields) for launch in range(6)}
    return Run(records=records, environments=environments, scenario=make_scenario("sweep", arms))


def shared_gpu_run() -> Run:
    """Two ranks on one GPU: paths and correctness, never a speed-up."""
    records = []
    for size in (64 * KIB, MIB):
        for arm, time_us in (("none", 30.0), ("symm", 15.0)):
            samples = {"step.graph": make_samples(time_us, clock="graph", k=8)}
            case = make_case(size_bytes=size)
            records.append(make_record(arm, case=case, samples=samples, origin="shared_gpu", ctas=16))
    environment = make_environment(gpus=("NVIDIA H200",), driver="580.65.06")
    return Run(records=records, environments={"e0": environment}, scenario=make_scenario("shared", ("none", "symm")))


RUNS = {
    "cpu": cpu_run,
    "gpu": gpu_run,
    "shared_gpu": shared_gpu_run,
    "h200": h200_run,
    "cross_check": cross_check_run,
}
"""Of collectives."""
REGISTRATIONS = {"registration": registration_run, "shared_registration": shared_registration_run}


@functools.cache
def view_of(name: str) -> RunView:
    """The view of one of `RUNS` or `REGISTRATIONS`, made once."""
    return (RUNS | REGISTRATIONS)[name]().view()


def _gpu_samples(base_us: float, *, seed: int) -> dict[str, Samples]:
    graph = make_samples(jittered(base_us, seed=seed), clock="graph", k=8, num_ranks=8)
    stream = make_samples(jittered(base_us + 6.0, seed=seed + 1), clock="stream", num_ranks=8, issue_us=0.9 * base_us)
    return {"step.graph": graph, "step.stream": stream}
