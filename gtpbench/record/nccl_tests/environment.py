"""The environment of an imported run: what the file says of software and devices, and nothing that is private."""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from gtpbench import __version__
from gtpbench.errors import IncomparableError
from gtpbench.record.environment import Environment, Library, RankPlace, differing_fields
from gtpbench.record.nccl_tests.output import Output

AllowList = Callable[[Mapping[str, str]], dict[str, str]]
"""From all environment variables to those that may be recorded."""
_PATH_OPTIONS = ("-J", "--output_file")


def environment_of(output: Output, *, launch: int, allowed: AllowList) -> Environment:
    """The environment of one output; text is empty and numbers are 0 where the file does not say."""
    return Environment(
        environment_id=output.identity,
        run_id=output.identity,
        launch=launch,
        created_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        command=_command(output),
        tool_version=__version__,
        commit=None,
        num_nodes=len({process.host for process in output.processes}),
        launcher="nccl-tests",
        machine="",
        cpu_model="",
        num_cpus=0,
        memory_bytes=0,
        last_level_cache_bytes=None,
        numa_nodes=0,
        kernel="",
        os="",
        python="",
        governor=None,
        load_average=0.0,
        driver=None,
        gpus=tuple(_gpus(output)),
        container=None,
        nccl_conf_sha256=None,
        libraries=tuple(_libraries(output)),
        variables=allowed(output.variables),
        set_variables={},
        ranks={"0": tuple(_places(output))},
        interfaces=(),
    )


def shared_gpus(output: Output) -> dict[int, int]:
    """rank -> other listed processes on its GPU: equal host and PCI address."""
    on_gpu = Counter((process.host, process.pci) for process in output.processes)
    return {process.rank: on_gpu[process.host, process.pci] - 1 for process in output.processes}


def refuse_unlike(outputs: Sequence[Output], environments: Sequence[Environment]) -> None:
    """Rows of unlike machines must not become launches of one cell.

    Text says less than JSON: between the two formats only what both tell is compared.

    Raises:
        IncomparableError: GPUs, NCCL, nccl-tests or variables differ; names every field.
    """
    both = [
        environment.model_copy(
            update={
                "variables": {},
                "libraries": tuple(library for library in environment.libraries if library.name == "nccl"),
            }
        )
        for environment in environments
    ]
    as_text = [e for output, e in zip(outputs, environments, strict=True) if output.args is None]
    as_json = [e for output, e in zip(outputs, environments, strict=True) if output.args is not None]
    unlike = next(filter(None, map(differing_fields, (as_text, as_json, both))), None)
    if unlike:
        raise IncomparableError(f"import refuses files of unlike machines or software in one folder: {unlike}")


def version_text(code: int) -> str:
    """NCCL's version of its code: `2.30.7` of 23007, `2.8.4` of 2804 (nccl.h: NCCL_VERSION)."""
    major_unit = 10000 if code >= 10000 else 1000
    return f"{code // major_unit}.{code % major_unit // 100}.{code % 100}"


def _command(output: Output) -> tuple[str, ...]:
    """The command line without folders and without the file it wrote; empty where the file has none."""
    words: list[str] = []
    for word, before in zip(output.args or (), ("", *(output.args or ())), strict=False):
        if not word.startswith(_PATH_OPTIONS) and before not in _PATH_OPTIONS:
            words.append(word)
    return (output.program, *words[1:]) if words else ()


def _libraries(output: Output) -> list[Library]:
    versions = {
        "nccl": None if output.nccl_version is None else version_text(output.nccl_version),
        "nccl-tests": output.version,
    }
    return [Library(name=name, version=v, path=None, sha256=None) for name, v in versions.items() if v is not None]


def _gpus(output: Output) -> list[str]:
    """Model names of the GPUs that are listed, each GPU once."""
    return list({(process.host, process.pci): process.gpu for process in output.processes}.values())


def _places(output: Output) -> list[RankPlace]:
    hosts = list(dict.fromkeys(process.host for process in output.processes))
    on_host: Counter[str] = Counter()
    places = []
    for process in output.processes:
        places.append(
            RankPlace(
                rank=process.rank,
                local_rank=on_host[process.host],
                node=hosts.index(process.host),
                host=hashlib.sha256(process.host.encode()).hexdigest()[:12],
                pid=process.pid,
                cpus=(),
                numa=None,
                gpu=None,
                pci=process.pci,
                lsa_domain=None,
            )
        )
        on_host[process.host] += 1
    return places
