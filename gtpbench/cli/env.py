"""`gtpbench env`."""

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
    facts["libraries"] = {library.name: library.version for library in libraries(with_torch=False)}
    if format is o.PlanFormat.JSON:
        emit(json.dumps(facts, indent=2))
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        shown = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else value
        emit(f"{name:<{width}}  {shown if shown not in (None, '', ()) else '-'}")
