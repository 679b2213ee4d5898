"""`gtpbench env`."""

from typing import Any

from gtpbench.cli import options as o


def command(format: o.PlanOutputFormat = o.PlanFormat.TABLE) -> None:
    """Show what a run records of this machine.

    Environment variables by allow-list only; the rest stays private.

    Example: gtpbench env --format json
    """
    import json

    from gtpbench.cli.output import emit
    from gtpbench.launch.probe import host_facts, libraries

    facts = host_facts()
    facts["gpu_states"] = [gpu.model_dump(mode="json") for gpu in facts["gpu_states"]]
    facts["libraries"] = {library.name: library.version for library in libraries(with_torch=False)}
    if format is o.PlanFormat.JSON:
        emit(json.dumps(facts, indent=2))
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        emit(f"{name:<{width}}  {_shown(value)}")


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(item)}" for key, item in value.items()) or "-"
    if isinstance(value, list | tuple):
        return "; ".join(map(_shown, value)) or "-"
    return "-" if value in {None, ""} else str(value)
