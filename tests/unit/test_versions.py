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
    "num_gpus": 0,
    "num_ranks": 2,
    "num_nodes": 1,
    "machine": "x86_64",
    "torch": "2.13.0",
    "nvls_enable": None,
    "dtype": "bf16",
    "op": None,
    "reduces": "false",
}
WINDOW: Facts = {**GLOO, "backend": "cpu_window", "arm": "symm", "registration": "window"}
NCCL: Facts = {**GLOO, "backend": "nccl_torch", "num_gpus": 8, "num_ranks": 8}
NVLS: Facts = {**NCCL, "arm": "symm:nvls", "registration": "window", "multicast": "required"}
REDUCES: Facts = {"op": "sum", "reduces": "true"}
AVERAGES: Facts = {"op": "avg", "reduces": "true"}
LATER = "not_in_this_version"
ROWS: list[tuple[Facts, str | None]] = [
    (GLOO, None),
    (WINDOW, None),
    (NCCL, LATER),
    (NVLS, LATER),
    ({**NCCL, "num_gpus": 0}, "no_gpu"),
    ({**NCCL, "num_gpus": 1}, LATER),
    ({**NCCL, "backend": "nccl_direct", "num_gpus": 0}, "no_gpu"),
    ({**NVLS, "nvls_enable": "0"}, "multicast_off"),
    ({**NVLS, "nvls_enable": "1"}, LATER),
    ({**NVLS, "nvls_enable": "2"}, LATER),
    ({**NVLS, "arm": "nvls", "registration": "registered", "nvls_enable": "0"}, "multicast_off"),
    ({**NCCL, "nvls_enable": "0"}, LATER),
    ({**NCCL, "arm": "symm:nonvls", "multicast": "off", "nvls_enable": "0"}, LATER),
    ({**GLOO, "backend": "none", "arm": "symm:ce"}, "no_cpu_counterpart"),
    ({**WINDOW, "num_nodes": 2}, "one_host"),
    ({**GLOO, "num_nodes": 2}, None),
    ({**WINDOW, "machine": "aarch64"}, "memory_order"),
    ({**GLOO, "machine": "aarch64"}, None),
    ({**GLOO, "arm": "symm", "registration": "window"}, "not_registered"),
    ({**GLOO, "arm": "registered", "registration": "registered"}, "not_registered"),
    ({**WINDOW, "arm": "none", "registration": "none"}, "always_registered"),
    ({**GLOO, "num_ranks": 1}, "one_rank"),
    ({**NCCL, "num_ranks": 1}, LATER),
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


def test_exported_nvls_off_skips_multicast_arms_only() -> None:
    """NCCL_NVLS_ENABLE=0 stays; `symm:nvls` and `nvls` have their own reason, the others do not."""
    expected: dict[str, str | None] = dict.fromkeys(ARMS, LATER)
    expected |= {"symm:nvls": "multicast_off", "nvls": "multicast_off"}
    changes = {"arms": list(ARMS), "backend": "nccl_torch", "num_ranks": 8, "measure": {"clock": "graph"}}
    assert expected == _codes(changes, num_gpus=8, nvls_enable="0")
    assert dict.fromkeys(ARMS, LATER) == _codes(changes, num_gpus=8, nvls_enable=None)


def test_skips_are_told_for_each_case() -> None:
    """gloo lacks averages, so only reduce-scatter is skipped, and only with `none`."""
    plan = make_plan(workload={"collectives": ["all_gather", "reduce_scatter"], "sizes": ["64K", "128K"], "op": "avg"})
    found = skips(plan, make_facts())
    assert {
        ("reduce_scatter/avg/bf16/65536/n2/out_of_place", "none"): "reduction",
        ("reduce_scatter/avg/bf16/131072/n2/out_of_place", "none"): "reduction",
    } == {key: reason.code for key, reason in found.items()}
