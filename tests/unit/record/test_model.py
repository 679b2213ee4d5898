"""What a record may say."""

from typing import Any

import pytest
from pydantic import ValidationError

from gtpbench.record import Record
from gtpbench.record.model import Reason, record_schema
from tests.examples import make_environment, make_record, make_samples


@pytest.mark.parametrize("missing", ["samples", "proof", "verification"])
def test_an_ok_record_has_samples_proof_and_verification(missing: str) -> None:
    """Nothing counts as measured without them."""
    nothing: Any = {} if missing == "samples" else None
    with pytest.raises(ValidationError, match="an ok record needs samples, proof and verification"):
        make_record(changed={missing: nothing})


@pytest.mark.parametrize("status", ["wrong_result", "skipped", "error", "timeout"])
@pytest.mark.parametrize("series", ["samples", "warmup"])
def test_only_ok_carries_timings(status: Any, series: str) -> None:
    """A wrong result has no time, not even of its warm-up."""
    with pytest.raises(ValidationError, match=f"a record with status {status} carries no timings"):
        make_record(status=status, changed={series: {"step.host": make_samples()}})


@pytest.mark.parametrize("status", ["wrong_result", "skipped", "error", "timeout"])
def test_every_other_status_has_a_reason(status: Any) -> None:
    """Rows never vanish without saying why."""
    assert status == make_record(status=status).status
    with pytest.raises(ValidationError, match=f"a record with status {status} needs a reason"):
        make_record(status=status, changed={"reason": None})


@pytest.mark.parametrize("field", ["launch", "status", "origin", "schema_version"])
def test_bad_values_are_refused(field: str) -> None:
    """Strict: no negative launch, no unknown status, origin or schema."""
    bad: dict[str, Any] = {"launch": -1, "status": "fine", "origin": "guessed", "schema_version": 2}
    with pytest.raises(ValidationError, match=field):
        make_record(changed={field: bad[field]})


def test_unknown_fields_are_refused() -> None:
    """A field that this version does not know may mean anything."""
    with pytest.raises(ValidationError, match="Extra inputs"):
        make_record(changed={"colour": "red"})


def test_top_level_fields_of_the_contract() -> None:
    """Every line has these at its top."""
    line = make_record(status="error").model_dump(mode="json")
    assert {"case_id", "arm", "status", "origin", "schema_version"} <= set(line)
    assert (1, "none", "all_gather/bf16/65536/n2/out_of_place") == (
        line["schema_version"],
        line["arm"],
        line["case_id"],
    )


def test_defaults_are_not_shared() -> None:
    """One record's empty tables are not another's."""
    one, other = make_record(status="error"), make_record(status="error")
    one.stage_seconds["start"] = 1.0
    assert {} == other.stage_seconds


def test_the_schema_is_exported() -> None:
    """Names every top-level field and forbids others."""
    schema = record_schema()
    assert set(Record.model_fields) == set(schema["properties"])
    assert schema["additionalProperties"] is False


def test_a_reason_reads_back() -> None:
    """Code and text."""
    record = make_record(status="skipped", changed={"reason": Reason(code="one_rank", text="alone")})
    assert record == Record.model_validate_json(record.model_dump_json())


def test_fingerprint_covers_machine_software_and_variables() -> None:
    """What must match: hardware, driver, versions of libraries, allow-listed variables. Load and time do not."""
    base = make_environment(variables={"NCCL_ALGO": "Ring"}).fingerprint()
    assert {"torch": "2.13.0", "NCCL_ALGO": "Ring", "num_cpus": "32"}.items() <= base.items()
    same = make_environment("e9", variables={"NCCL_ALGO": "Ring"}, load_average=9.0, created_utc="later", launch=3)
    assert base == same.fingerprint()
    unlike: list[dict[str, Any]] = [
        {"num_cpus": 16},
        {"gpus": ("H200",)},
        {"driver": "580"},
        {"variables": {}},
        {"num_nodes": 2},
    ]
    for changed in unlike:
        assert base != make_environment(**{"variables": {"NCCL_ALGO": "Ring"}, **changed}).fingerprint()
