"""ucudnn.torch.compile with DistributedDataParallel: two processes on the CPU over
gloo, which run the scenarios of torch_compile_ranks.py."""

SCRIPT = "torch_compile_ranks.py"  # that each rank runs


def as_without_a_plan(told):
    first, second = told
    for rank in told:
        assert rank["planned"] == rank["plain"]
        assert rank["again"] > 0
        assert rank["saved"] <= 400_000
    assert first["weights"] == second["weights"]
    assert first["planned"][0] != second["planned"][0]  # their images differ


def test_ddp_of_a_compiled_model(told):
    as_without_a_plan(told)


def test_a_compiled_ddp(told):
    as_without_a_plan(told)


def test_a_compiled_ddp_in_buckets(told):
    as_without_a_plan(told)


def test_accumulated_without_sync(told):
    as_without_a_plan(told)
