"""What a supervisor tells a rank survives its way through a pipe."""

from gtpbench.launch.spec import StoreSpec, WorkerSpec
from tests.examples import make_scenario


def test_a_spec_reads_back() -> None:
    """Nothing is lost or changed in JSON, nested tuples included."""
    spec = WorkerSpec(
        scenario=make_scenario(workload={"collectives": ["reduce_scatter"], "sizes": ["64K"], "op": "avg"}),
        run_digest="d" * 16,
        set_id=1,
        launch=2,
        attempt=3,
        rank=4,
        num_ranks=8,
        local_rank=0,
        local_size=4,
        node=1,
        num_nodes=2,
        row=0,
        board_fd=9,
        board_rows=4,
        cpu=None,
        device=3,
        epoch_ns=12345678901234,
        store=StoreSpec(kind="client", address="node0", port=29500, prefix="gtpbench/x"),
        set_ids=(0, 1),
        live=((0, ("none", "symm")), (1, ())),
        counts=((0, "none", "graph", 50, 512), (0, "none", "stream", 50, 2)),
        num_cases=2,
        reads_paths=True,
        nccl_log="/scratch/nccl-set1.log",
        decides=False,
    )
    assert spec == WorkerSpec.model_validate_json(spec.model_dump_json())
