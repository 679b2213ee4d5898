"""Merging run folders: launches of one plan on like machines, renumbered."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from gtpbench.errors import IncomparableError, ResultsError, UsageError
from gtpbench.record import Environment, append_line, differing_fields, read_environments, read_records
from gtpbench.record.lines import ENVIRONMENTS, RESULTS


def merge_folders(sources: Sequence[Path], target: Path, *, warn: Callable[[str], None]) -> None:
    """Write the records and environments of all `sources` to the new folder `target`.

    Raises:
        UsageError: fewer than two folders, a folder or a launch twice, different plans, or `target` exists.
        IncomparableError: the machines or software differ; names every field.
        ResultsError: a folder cannot be read or written.
    """
    if len({source.resolve() for source in sources}) < 2 or len({s.resolve() for s in sources}) != len(sources):
        raise UsageError("merge needs two or more different folders")
    if target.exists():
        raise UsageError(f"output {target} exists: choose another --out")
    runs = [(s, read_records(s / RESULTS, warn=warn), read_environments(s / ENVIRONMENTS, warn=warn)) for s in sources]
    plans = {str(source): record.plan_digest for source, records, _ in runs for record in records}
    if len(set(plans.values())) > 1:
        told = ", ".join(f"{source} is plan {plan}" for source, plan in plans.items())
        raise UsageError(f"merge needs runs of one plan (same scenario, same version): {told}")
    environments = [environment for _, _, found in runs for environment in found.values()]
    _refuse_repeated(environments)
    unlike = differing_fields(environments)
    if unlike:
        raise IncomparableError(f"merge refuses runs of unlike machines or software: {unlike}")
    try:
        target.mkdir(parents=True)
        scenario = sources[0] / "scenario.toml"
        if scenario.exists():
            shutil.copy(scenario, target / "scenario.toml")
        (target / RESULTS).touch()
    except OSError as error:
        raise ResultsError(f"cannot create {target}: {error.strerror}") from error
    offset = 0
    for _, records, found in runs:
        for environment in found.values():
            append_line(target / ENVIRONMENTS, environment.model_copy(update={"launch": environment.launch + offset}))
        for record in records:
            append_line(target / RESULTS, record.model_copy(update={"launch": record.launch + offset}))
        offset += max((record.launch + 1 for record in records), default=0)


def _refuse_repeated(environments: Sequence[Environment]) -> None:
    """A copied launch is no further replicate."""
    seen: set[str] = set()
    for environment in environments:
        if environment.environment_id in seen:
            raise UsageError(
                f"merge needs different launches: two folders hold launch {environment.launch} "
                f"of run {environment.run_id}"
            )
        seen.add(environment.environment_id)
