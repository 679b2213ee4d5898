"""Which arm can run where: every rule of versions.toml as rows of one table."""

from typing import Any

import pytest

from gtpbench.arms import ARMS
from gtpbench.collectives import DTYPES
from gtpbench.errors import UsageError
from gtpbench.plan import skips
from gtpbench.versions import Facts, parse_version, rules, skip_reason
from tests.examples import make_facts, make_plan

GLOO: Facts = {
    "backend": "gloo",
    "arm": "none",
    "registration": "none",
    "multicast": "any",
    "workload": "collective",
    "num_gpus": 0,
    "num_ranks": 2,
    "num_nodes": 1,
    "ranks_per_node": 2,
    "ranks_per_gpu": 1,
    "gpus_needed": 2,
    "missing_gpus": 0,
    "functional": "no",
    "machine": "x86_64",
    "torch": "2.13.0",
    "nccl": None,
    "nccl4py": "missing",
    "compute_capability": None,
    "mps": "no",
    "nvls_enable": None,
    "expandable_segments": "no",
    "sides": "none",
    "cta_policy": "default",
    "dtype": "bf16",
    "op": None,
    "reduces": "false",
    "placement": "out_of_place",
}
WINDOW: Facts = {**GLOO, "backend": "cpu_window", "arm": "symm", "registration": "window"}
NCCL: Facts = {
    **GLOO,
    "backend": "nccl_torch",
    "num_gpus": 8,
    "num_ranks": 8,
    "nccl": "2.30.7",
    "nccl4py": "0.6.0",
    "compute_capability": "9.0",
}
DIRECT: Facts = {**NCCL, "backend": "nccl_direct"}
SYMM: Facts = {**NCCL, "arm": "symm", "registration": "window", "sides": "both"}
CE: Facts = {**SYMM, "arm": "symm:ce", "cta_policy": "zero"}
MULTICAST: Facts = {**SYMM, "arm": "symm:nvls", "multicast": "required"}
NONVLS: Facts = {**SYMM, "arm": "symm:nonvls", "multicast": "off"}
NVLS: Facts = {**MULTICAST, "arm": "nvls", "registration": "registered"}
SHARED: Facts = {"num_ranks": 2, "ranks_per_gpu": 2, "num_gpus": 1, "mps": "yes"}
REGISTERS: Facts = {"workload": "registration", "dtype": None, "op": None, "reduces": None, "placement": None}
REDUCES: Facts = {"op": "sum", "reduces": "true"}
AVERAGES: Facts = {"op": "avg", "reduces": "true"}
ROWS: list[tuple[Facts, str | None]] = [
    (GLOO, None),
    (WINDOW, None),
    ({**GLOO, "backend": "none", "arm": "symm:ce"}, "no_cpu_counterpart"),
    ({**WINDOW, "num_nodes": 2}, "one_host"),
    ({**GLOO, "num_nodes": 2}, None),
    ({**WINDOW, "machine": "aarch64"}, "memory_order"),
    ({**GLOO, "machine": "aarch64"}, None),
    ({**GLOO, "arm": "symm", "registration": "window"}, "not_registered"),
    ({**GLOO, "arm": "registered", "registration": "registered"}, "not_registered"),
    ({**WINDOW, "arm": "none", "registration": "none"}, "always_registered"),
    ({**GLOO, "num_ranks": 1}, "one_rank"),
    ({**GLOO, "missing_gpus": 2}, None),
    ({**GLOO, "dtype": "fp8_e4m3"}, "dtype"),
    ({**GLOO, "dtype": "fp8_e5m2"}, "dtype"),
    ({**WINDOW, "dtype": "fp8_e4m3"}, "dtype"),
    ({**WINDOW, "dtype": "fp8_e4m3", **REDUCES}, "dtype"),
    ({**WINDOW, "dtype": "fp8_e5m2", **REDUCES}, "dtype"),
    ({**WINDOW, **REDUCES}, None),
    ({**GLOO, **AVERAGES}, "reduction"),
    ({**WINDOW, **AVERAGES}, None),
    ({**WINDOW, **AVERAGES, "dtype": "int32"}, "reduction"),
    ({**WINDOW, **AVERAGES, "dtype": "uint8"}, "reduction"),
    ({**WINDOW, **REDUCES, "dtype": "int32"}, None),
    # Registration
    ({**GLOO, **REGISTERS}, "nothing_to_register"),
    ({**NCCL, **REGISTERS}, "nothing_to_register"),
    ({**NCCL, **REGISTERS, "num_gpus": 0}, "nothing_to_register"),
    ({**WINDOW, **REGISTERS}, None),
    ({**SYMM, **REGISTERS}, None),
    ({**CE, **REGISTERS}, None),
    ({**NVLS, **REGISTERS}, None),
    # In place
    ({**SYMM, "sides": "send", "placement": "in_place"}, "one_buffer"),
    ({**SYMM, "sides": "recv", "placement": "in_place"}, "one_buffer"),
    ({**SYMM, "sides": "recv"}, None),
    ({**SYMM, "placement": "in_place"}, None),
    ({**SYMM, **REGISTERS, "sides": "send"}, None),
    # NCCL: devices and ranks
    (NCCL, None),
    (DIRECT, None),
    (SYMM, None),
    ({**NCCL, "num_gpus": 0}, "no_gpu"),
    ({**DIRECT, "num_gpus": 0}, "no_gpu"),
    ({**NCCL, "num_gpus": 4, "missing_gpus": 4}, "too_few_gpus"),
    ({**NCCL, "num_ranks": 1}, "one_rank"),
    ({**DIRECT, "nccl4py": "missing"}, "no_nccl4py"),
    ({**NCCL, "nccl4py": "missing"}, None),
    ({**NCCL, **SHARED}, None),
    ({**SYMM, **SHARED}, None),
    ({**NCCL, **SHARED, "nccl": "2.29.7"}, "shared_gpu_nccl"),
    ({**NCCL, **SHARED, "nccl": "2.30.3"}, None),
    ({**NCCL, **SHARED, "mps": "no"}, "shared_gpu_mps"),
    ({**NCCL, **SHARED, "mps": "no", "functional": "yes"}, None),
    ({**NCCL, "mps": "no"}, None),
    # NCCL: multicast
    (MULTICAST, None),
    (NVLS, None),
    ({**MULTICAST, "nvls_enable": "0"}, "multicast_off"),
    ({**NVLS, "nvls_enable": "0"}, "multicast_off"),
    ({**SYMM, "nvls_enable": "0"}, None),
    ({**NCCL, "nvls_enable": "0"}, None),
    ({**MULTICAST, "nvls_enable": "1"}, None),
    ({**MULTICAST, "nvls_enable": "2"}, None),
    ({**NONVLS, "nvls_enable": "0"}, None),
    (NONVLS, None),
    ({**NONVLS, "nvls_enable": "1"}, "multicast_exported"),
    ({**NONVLS, "nvls_enable": "2"}, "multicast_exported"),
    ({**MULTICAST, **SHARED, "num_ranks": 4}, "shared_gpu_multicast"),
    ({**NVLS, **SHARED}, "shared_gpu_multicast"),
    ({**MULTICAST, "compute_capability": "8.0"}, "multicast_device"),
    ({**NVLS, "compute_capability": "8.9"}, "multicast_device"),
    ({**NVLS, "compute_capability": "10.0"}, None),
    ({**SYMM, "compute_capability": "8.0"}, None),
    ({**MULTICAST, "num_ranks": 2}, "multicast_ranks"),
    ({**MULTICAST, "num_ranks": 2, "nccl": "2.29.7"}, "multicast_ranks"),
    ({**MULTICAST, "num_ranks": 2, "nccl": "2.29.3"}, None),
    ({**MULTICAST, "num_ranks": 2, "nccl": "2.28.9"}, None),
    ({**MULTICAST, "num_ranks": 3}, None),
    ({**NVLS, "num_ranks": 2}, None),
    # NCCL: windows
    ({**SYMM, "torch": "2.8.0"}, "windows_torch"),
    ({**SYMM, "torch": "2.9.0+cu128"}, None),
    ({**SYMM, "torch": "2.10.0"}, None),
    ({**DIRECT, "arm": "symm", "registration": "window", "torch": "2.8.0"}, None),
    ({**NCCL, "torch": "2.8.0"}, None),
    ({**SYMM, "nccl": "2.26.2"}, "windows_nccl"),
    ({**SYMM, "nccl": "2.27.3"}, None),
    ({**SYMM, "nccl": "2.28.9", "num_nodes": 2}, "windows_nodes"),
    ({**SYMM, "nccl": "2.29.2", "num_nodes": 2}, None),
    ({**NCCL, "nccl": "2.28.9", "num_nodes": 2}, None),
    ({**SYMM, "expandable_segments": "yes"}, "expandable_segments"),
    ({**NVLS, "expandable_segments": "yes"}, "expandable_segments"),
    ({**NCCL, "expandable_segments": "yes"}, None),
    ({**GLOO, "expandable_segments": "yes"}, None),
    # One-sided arms are told by proof, not skipped
    ({**SYMM, "arm": "symm:send", "sides": "send", "nccl": "2.28.9"}, None),
    ({**SYMM, "arm": "symm:recv", "sides": "recv", "nccl": "2.28.9"}, None),
    # NCCL: copy engine
    (CE, None),
    ({**CE, "nccl": "2.27.5"}, "copy_engine_nccl"),
    ({**CE, "nccl": "2.28.3"}, None),
    ({**CE, "torch": "2.9.1", "nccl": "2.28.9"}, None),
    ({**CE, **REDUCES}, "copy_engine_reduction"),
    ({**CE, **REDUCES, "nccl": "2.32.3"}, "copy_engine_reduction"),
    # NCCL: operations and element types
    ({**SYMM, **REDUCES}, None),
    ({**NCCL, **AVERAGES, "nccl": "2.27.5"}, None),
    ({**SYMM, **AVERAGES}, None),
    ({**SYMM, **AVERAGES, "nccl": "2.30.3"}, None),
    ({**SYMM, **AVERAGES, "nccl": "2.29.7"}, "windows_average"),
    ({**MULTICAST, **AVERAGES, "nccl": "2.29.7"}, "windows_average"),
    ({**NCCL, **AVERAGES, "dtype": "int32"}, "reduction"),
    ({**NVLS, **REDUCES}, None),
    ({**NVLS, **AVERAGES}, "nvls_average"),
    ({**NVLS, **REDUCES, "dtype": "fp64"}, None),
    ({**NVLS, **REDUCES, "dtype": "int32"}, None),
    ({**NVLS, **REDUCES, "dtype": "uint8"}, "nvls_dtype"),
    ({**NVLS, **REDUCES, "dtype": "fp8_e4m3"}, "nvls_dtype"),
    ({**NVLS, **REDUCES, "dtype": "fp8_e5m2", "compute_capability": "10.0"}, "nvls_dtype"),
    ({**NVLS, "dtype": "fp8_e4m3"}, None),
    ({**SYMM, "dtype": "fp64"}, None),
    ({**SYMM, **REDUCES, "dtype": "fp64"}, "windows_dtype"),
    ({**SYMM, **REDUCES, "dtype": "int32"}, "windows_dtype"),
    ({**SYMM, **REDUCES, "dtype": "uint8"}, "windows_dtype"),
    ({**NCCL, **REDUCES, "dtype": "fp64"}, None),
    ({**SYMM, **REDUCES, "dtype": "fp32"}, None),
    ({**SYMM, **REDUCES, "dtype": "fp8_e4m3"}, None),
    ({**NCCL, **REDUCES, "dtype": "fp8_e4m3", "compute_capability": "8.9"}, "fp8_device"),
    ({**NCCL, "dtype": "fp8_e4m3", "compute_capability": "8.9"}, "fp8_device"),
    ({**NCCL, "dtype": "fp8_e4m3"}, None),
    ({**MULTICAST, **REDUCES, "dtype": "fp8_e4m3"}, "multicast_dtype"),
    ({**MULTICAST, **REDUCES, "dtype": "fp8_e5m2", "compute_capability": "10.0"}, None),
    ({**MULTICAST, "dtype": "fp8_e4m3"}, None),
]


@pytest.mark.parametrize(("facts", "code"), ROWS)
def test_rule(facts: Facts, code: str | None) -> None:
    """The facts lead to this reason to skip, or to none; its text is filled in."""
    reason = skip_reason(facts)
    assert code == (reason and reason.code)
    assert reason is None or not {"{", "}"} & set(reason.text)


def test_every_rule_has_a_row() -> None:
    """A rule that no row above reaches is dead or untested."""
    for rule in rules():
        told = [reason.text for facts, _ in ROWS if (reason := skip_reason(facts))]
        assert any(rule["text"].format_map(facts) in told for facts, code in ROWS if code == rule["code"]), rule


def test_rules_ask_only_about_known_facts() -> None:
    """A fact with a typing mistake would make its rule never apply."""
    asked = {name for rule in rules() for name in rule["when"]}
    assert asked <= set(GLOO)
    named = {name for rule in rules() for name in rule["when"].get("dtype", [])}
    assert named <= set(DTYPES)


def test_unknown_facts_make_no_rule_apply() -> None:
    """None is not known, and what is not known is no reason."""
    assert skip_reason(dict.fromkeys(GLOO)) is None
    assert skip_reason({}) is None


def test_texts_name_what_was_found() -> None:
    """The sentence shows the number of GPUs and the arm."""
    no_gpu = skip_reason({**NCCL, "num_gpus": 0})
    no_counterpart = skip_reason({**GLOO, "backend": "none", "arm": "symm:ce"})
    assert no_gpu is not None
    assert no_counterpart is not None
    assert no_gpu.text == "needs an NVIDIA GPU and NCCL; this host shows 0 GPUs"
    assert no_counterpart.text == "symm:ce is an NCCL feature without a counterpart on CPU ranks"


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("2.13.0+cpu", (2, 13, 0)),
        ("2.30.7", (2, 30, 7)),
        ("2.9.0a0+git1", (2, 9, 0)),
        ("3", (3,)),
        ("2.15.0.dev2026", (2, 15, 0)),
    ],
)
def test_parse_version(text: str, numbers: tuple[int, ...]) -> None:
    """Numbers up to the first part that is none; local versions do not count."""
    assert numbers == parse_version(text)


@pytest.mark.parametrize("text", ["", "main", "+cpu", "v2.3"])
def test_what_is_no_version_is_refused(text: str) -> None:
    """It must start with a number."""
    with pytest.raises(UsageError, match="is not a version"):
        parse_version(text)


@pytest.mark.parametrize(
    ("condition", "applies"),
    [
        ("<2.9", False),
        ("<2.10", False),
        ("<2.13", False),
        ("<2.14", True),
        ("<=2.13.0", True),
        (">2.9", True),
        (">=2.13.0", True),
    ],
)
def test_versions_compare_as_numbers(monkeypatch: pytest.MonkeyPatch, condition: str, applies: bool) -> None:
    """2.13 is newer than 2.9, also where text says otherwise."""
    rule = {"code": "old", "text": "old", "when": {"torch": condition}}
    monkeypatch.setattr("gtpbench.versions.rules", lambda: [rule])
    assert applies == (skip_reason({"torch": "2.13.0+cpu"}) is not None)


def _codes(plan_changes: dict[str, Any], **facts: Any) -> dict[str, str | None]:
    plan = make_plan(**plan_changes)
    found = skips(plan, make_facts(**facts))
    return {
        arm.name: (found[key].code if (key := (plan.cases[0].case_id, arm.name)) in found else None)
        for arm in plan.arms
    }


def test_every_arm_on_cpu_ranks() -> None:
    """`none` and `symm` have counterparts; all others are skipped with that reason."""
    expected: dict[str, str | None] = dict.fromkeys(ARMS, "no_cpu_counterpart")
    expected |= {"none": None, "symm": None}
    assert expected == _codes({"arms": list(ARMS)})


ON_GPUS: dict[str, Any] = {"arms": list(ARMS), "backend": "nccl_torch", "measure": {"clock": "graph"}}
H200: dict[str, Any] = {"num_gpus": 8, "nccl": "2.30.7", "compute_capability": "9.0", "mps": "no"}
NOTHING: dict[str, str | None] = dict.fromkeys(ARMS)


def test_exported_nvls_off_skips_multicast_arms_only() -> None:
    """NCCL_NVLS_ENABLE=0 stays; `symm:nvls` and `nvls` have their own reason, the others do not."""
    changes = {**ON_GPUS, "num_ranks": 8}
    expected = NOTHING | {"symm:nvls": "multicast_off", "nvls": "multicast_off"}
    assert expected == _codes(changes, **H200, nvls_enable="0")
    assert NOTHING == _codes(changes, **H200, nvls_enable=None)
    assert NOTHING | {"symm:nonvls": "multicast_exported"} == _codes(changes, **H200, nvls_enable="2")


ORDER = ("none", "registered", "symm", "symm:send", "symm:recv", "symm:ce", "symm:nvls", "symm:nonvls", "nvls")
CODES = {
    ".": None,
    "1": "one_rank",
    "T": "windows_torch",
    "C": "copy_engine_nccl",
    "M": "multicast_ranks",
    "R": "copy_engine_reduction",
    "A": "windows_average",
    "V": "nvls_average",
    "D": "windows_dtype",
}
COLUMNS = (("all_gather", "sum", "bf16"), ("reduce_scatter", "sum", "bf16"), ("reduce_scatter", "avg", "bf16"))
VERSIONS = """
torch  nccl    ranks  all_gather  rs_sum     rs_avg
2.8    2.27.3  1      111111111   111111111  111111111
2.8    2.27.3  2      ..TTTTTT.   ..TTTTTT.  ..TTTTTTV
2.8    2.27.3  8      ..TTTTTT.   ..TTTTTT.  ..TTTTTTV
2.8    2.30.7  2      ..TTTTMT.   ..TTTTMT.  ..TTTTMTV
2.8    2.30.7  8      ..TTTTTT.   ..TTTTTT.  ..TTTTTTV
2.8    2.32.3  2      ..TTTTMT.   ..TTTTMT.  ..TTTTMTV
2.9    2.27.5  1      111111111   111111111  111111111
2.9    2.27.5  2      .....C...   .....C...  ..AAACAAV
2.9    2.27.5  8      .....C...   .....C...  ..AAACAAV
2.9    2.30.7  2      ......M..   .....RM..  .....RM.V
2.9    2.30.7  8      .........   .....R...  .....R..V
2.9    2.32.3  2      ......M..   .....RM..  .....RM.V
2.9    2.32.3  8      .........   .....R...  .....R..V
2.10   2.27.5  2      .....C...   .....C...  ..AAACAAV
2.10   2.27.5  8      .....C...   .....C...  ..AAACAAV
2.10   2.30.7  8      .........   .....R...  .....R..V
2.10   2.32.3  2      ......M..   .....RM..  .....RM.V
2.11   2.28.9  1      111111111   111111111  111111111
2.11   2.28.9  2      .........   .....R...  ..AAARAAV
2.11   2.28.9  8      .........   .....R...  ..AAARAAV
2.11   2.30.7  2      ......M..   .....RM..  .....RM.V
2.11   2.30.7  8      .........   .....R...  .....R..V
2.11   2.32.3  2      ......M..   .....RM..  .....RM.V
2.12   2.29.7  2      ......M..   .....RM..  ..AAARMAV
2.12   2.29.7  3      .........   .....R...  ..AAARAAV
2.12   2.29.7  8      .........   .....R...  ..AAARAAV
2.12   2.30.7  8      .........   .....R...  .....R..V
2.12   2.32.3  8      .........   .....R...  .....R..V
2.13   2.29.7  2      ......M..   .....RM..  ..AAARMAV
2.13   2.29.7  8      .........   .....R...  ..AAARAAV
2.13   2.30.7  2      ......M..   .....RM..  .....RM.V
2.13   2.32.3  8      .........   .....R...  .....R..V
2.14   2.30.7  1      111111111   111111111  111111111
2.14   2.30.7  2      ......M..   .....RM..  .....RM.V
2.14   2.30.7  3      .........   .....R...  .....R..V
2.14   2.30.7  8      .........   .....R...  .....R..V
2.14   2.32.3  2      ......M..   .....RM..  .....RM.V
2.15   2.30.7  2      ......M..   .....RM..  .....RM.V
2.15   2.30.7  8      .........   .....R...  .....R..V
2.15   2.32.3  2      ......M..   .....RM..  .....RM.V
2.15   2.32.3  8      .........   .....R...  .....R..V
"""


@pytest.mark.parametrize("row", VERSIONS.strip().splitlines()[1:])
def test_versions_of_torch_and_nccl(row: str) -> None:
    """Each torch with the NCCL it pins and with two put in its place; one letter an arm, in `ORDER`."""
    torch, nccl, num_ranks, *cells = row.split()
    for (collective, op, dtype), letters in zip(COLUMNS, cells, strict=True):
        workload = {"collectives": [collective], "sizes": ["64K"], "op": op, "dtypes": [dtype]}
        changes = {**ON_GPUS, "arms": list(ORDER), "num_ranks": int(num_ranks), "workload": workload}
        found = _codes(changes, **{**H200, "torch": f"{torch}.0", "nccl": nccl})
        expected = {arm: CODES[letter] for arm, letter in zip(ORDER, letters, strict=True)}
        assert expected == found, (collective, op)


@pytest.mark.parametrize(
    ("ranks", "ranks_per_gpu", "num_gpus", "num_nodes", "code"),
    [
        (8, 1, 8, 1, None),
        (9, 1, 8, 1, "too_few_gpus"),
        (2, 1, 1, 1, "too_few_gpus"),
        (2, 2, 1, 1, None),
        (3, 2, 1, 1, "too_few_gpus"),
        (3, 2, 2, 1, None),
        (16, 1, 8, 2, None),
        (16, 1, 4, 2, "too_few_gpus"),
        (16, 2, 4, 2, None),
        (2, 1, 0, 1, "no_gpu"),
    ],
)
def test_ranks_that_do_not_fit(ranks: int, ranks_per_gpu: int, num_gpus: int, num_nodes: int, code: str | None) -> None:
    """Each host's ranks need ranks / ranks_per_gpu of its GPUs, rounded up."""
    changes = {**ON_GPUS, "arms": ["none"], "num_ranks": ranks, "ranks_per_gpu": ranks_per_gpu}
    facts = {**H200, "mps": "yes", "num_gpus": num_gpus, "num_nodes": num_nodes}
    assert {"none": code} == _codes(changes, **facts)


def test_ranks_that_do_not_fit_are_told_how_they_would() -> None:
    """The flag is named, and both numbers of GPUs."""
    plan = make_plan(**{**ON_GPUS, "arms": ["none"], "num_ranks": 4})
    (reason,) = skips(plan, make_facts(**{**H200, "num_gpus": 2})).values()
    assert "4 ranks on this host, 1 to a GPU, need 4 GPUs, and 2 are visible; --ranks-per-gpu puts" in reason.text


@pytest.mark.parametrize(
    ("facts", "functional", "code"),
    [
        ({"mps": "yes"}, False, None),
        ({"mps": "no"}, False, "shared_gpu_mps"),
        ({"mps": "no"}, True, None),
        ({"mps": None}, False, None),
        ({"mps": "yes", "nccl": "2.29.7"}, False, "shared_gpu_nccl"),
        ({"mps": "no", "nccl": "2.29.7"}, True, "shared_gpu_nccl"),
    ],
)
def test_ranks_that_share_a_gpu(facts: dict[str, Any], functional: bool, code: str | None) -> None:
    """From NCCL 2.30 on, under MPS or without a clock, and never with multicast."""
    changes = {**ON_GPUS, "num_ranks": 4, "ranks_per_gpu": 4, "functional": functional}
    expected = dict.fromkeys(ARMS, code)
    if code is None:
        expected |= {"symm:nvls": "shared_gpu_multicast", "nvls": "shared_gpu_multicast"}
    assert expected == _codes(changes, **{**H200, "num_gpus": 1, **facts})


def test_nccl_direct_asks_for_nccl4py_and_for_no_torch() -> None:
    """Its windows do not come from torch."""
    changes = {**ON_GPUS, "backend": "nccl_direct", "num_ranks": 8}
    assert dict.fromkeys(ARMS, "no_nccl4py") == _codes(changes, **H200, nccl4py="missing")
    assert NOTHING == _codes(changes, **H200, nccl4py="0.6.0", torch="2.8.0")


def test_skips_are_told_for_each_case() -> None:
    """gloo lacks averages, so only reduce-scatter is skipped, and only with `none`."""
    plan = make_plan(workload={"collectives": ["all_gather", "reduce_scatter"], "sizes": ["64K", "128K"], "op": "avg"})
    found = skips(plan, make_facts())
    assert {
        ("reduce_scatter/avg/bf16/65536/n2/out_of_place", "none"): "reduction",
        ("reduce_scatter/avg/bf16/131072/n2/out_of_place", "none"): "reduction",
    } == {key: reason.code for key, reason in found.items()}
