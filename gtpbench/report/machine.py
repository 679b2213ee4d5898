"""What a report says of machines and software: an allow-list, since reports are published."""

import shlex
from collections.abc import Iterable

from gtpbench.record import Environment
from gtpbench.units import format_size


def command_text(environments: Iterable[Environment]) -> str:
    """What was typed, as shell text; several runs are joined by `; `."""
    return "; ".join(
        dict.fromkeys(shlex.join(environment.command) for environment in environments if environment.command)
    )


def environment_rows(environments: Iterable[Environment]) -> tuple[tuple[str, str], ...]:
    """(field, value) of the allow-listed fields that are known; values that differ between launches are all named."""
    rows: dict[str, dict[str, None]] = {}
    for environment in environments:
        for name, value in _fields(environment):
            if value:
                rows.setdefault(name, {})[value] = None
    return tuple((name, "; ".join(values)) for name, values in rows.items())


def _fields(environment: Environment) -> list[tuple[str, str]]:
    return [
        ("machine", environment.machine),
        ("cpu", f"{environment.num_cpus} x {environment.cpu_model}" if environment.num_cpus else ""),
        ("memory", format_size(environment.memory_bytes // 2**20 * 2**20) if environment.memory_bytes else ""),
        ("gpus", _counted(environment.gpus)),
        ("driver", environment.driver or ""),
        ("nodes", str(environment.num_nodes)),
        ("launcher", environment.launcher),
        ("container", environment.container or ""),
        ("os", environment.os),
        ("kernel", environment.kernel),
        ("governor", environment.governor or ""),
        ("python", environment.python),
        *((library.name, library.version) for library in environment.libraries),
        *sorted(environment.variables.items()),
    ]


def _counted(names: tuple[str, ...]) -> str:
    return ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))
