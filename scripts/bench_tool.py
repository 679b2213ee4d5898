"""Prints how long the tool itself takes: help, planning, and the quickstart stage by stage."""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Run every measurement and print a line each."""
    print(f"gtpbench --help                 {_help_seconds():6.3f} s   median of 10, target under 0.3")
    print(f"plan of 10,000 cases, 2 arms    {_planning_seconds():6.3f} s   target under 2")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "out"
        seconds = _quickstart_seconds(folder)
        print(f"quickstart, run step            {seconds:6.1f} s   target under 60")
        _print_stages(folder)


def _help_seconds() -> float:
    times = []
    for _ in range(10):
        began = time.perf_counter()
        subprocess.run([str(Path(sys.executable).with_name("gtpbench")), "--help"], check=True, capture_output=True)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def _planning_seconds() -> float:
    from gtpbench.plan import build_plan, skips
    from gtpbench.scenario.load import build_scenario
    from gtpbench.scenario.resolve import MachineFacts, resolve

    sizes = [65536 + 4096 * step for step in range(1250)]
    table = {
        "name": "large",
        "arms": ["none", "symm"],
        "workload": {
            "collectives": ["all_gather", "reduce_scatter"],
            "sizes": sizes,
            "dtypes": ["bf16", "fp32"],
            "placements": ["out_of_place", "in_place"],
        },
    }
    facts = MachineFacts(num_gpus=0, num_nodes=1, machine="x86_64", torch="2.13.0", nvls_enable=None)
    began = time.perf_counter()
    plan = build_plan(resolve(build_scenario(table, origin="bench"), facts))
    skips(plan, facts)
    assert len(plan.cases) == 10_000
    return time.perf_counter() - began


def _quickstart_seconds(folder: Path) -> float:
    command = [sys.executable, "-m", "gtpbench", "run", "scenarios/smoke/quickstart.toml", "--out", str(folder)]
    began = time.perf_counter()
    subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def _print_stages(folder: Path) -> None:
    records = [json.loads(line) for line in (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    totals: dict[str, float] = defaultdict(float)
    for record in records:
        for stage, seconds in record["stage_seconds"].items():
            totals[stage] = max(totals[stage], seconds) if stage in {"start", "rendezvous"} else totals[stage] + seconds
    for stage, seconds in sorted(totals.items(), key=lambda item: -item[1]):
        print(f"    {stage:<14}{seconds:8.2f} s")
    for record in records:
        samples = record["samples"]["step.host"]
        inside = sum(
            max(column) for block in zip(*samples["time_us"], strict=True) for column in zip(*block, strict=True)
        )
        wall = sum(max(column) for column in zip(*samples["block_wall_us"], strict=True))
        share = 1 - inside * samples["k"] / wall
        print(f"    outside the operation in timed blocks {share:6.1%}   {record['case_id']} {record['arm']}")


if __name__ == "__main__":
    main()
