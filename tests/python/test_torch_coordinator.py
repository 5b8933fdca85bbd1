"""Steps that are put to a real coordinator, and the shares of its plans: by themselves, and
by two ranks over gloo, which run the scenarios of torch_coordinator_ranks.py."""

import json

import pytest
import ucudnn
from ucudnn.rest import Rest, path_of
from ucudnn.torch.parallel.coordinator import PutStep
from ucudnn.torch.parallel.planning import RankSteps
from ucudnn.torch.profiling import StepProfile

from daemons import coordinator

SCRIPT = "torch_coordinator_ranks.py"  # that each rank runs
FAST = StepProfile("fast", {1: 1.0, 8: 8.0})
SLOW = StepProfile("slow", {1: 3.0, 8: 24.0}, 8)


@pytest.fixture(scope="module", autouse=True)
def url(tmp_path_factory):
    """Also for the ranks."""
    with coordinator(tmp_path_factory.mktemp("coordinator")) as daemon:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("UCUDNN_TEST_URL", f"http://{daemon.rest}")
            yield f"http://{daemon.rest}"


def shares(url, name, ranks, batch=8, fingerprint="f", **options):
    steps = RankSteps(ranks, **options)
    return PutStep(url, name, fingerprint).shares(steps, steps.plan(batch))


def test_shares_are_those_of_the_coordinators_plan(url):
    plan = shares(url, "net", [FAST, SLOW])
    assert plan.batches == [6, 2] and plan.predicted_ms == 6.0
    assert plan.reasons[0].startswith("plan 1 of http://127.0.0.1")
    told = plan.coordinated
    assert told.url == url
    made = Rest(url).get(path_of("plans", str(told.id)))
    assert [rank["batch"] for rank in made["ranks"]] == plan.batches
    assert made["predicted_us"] == 6000.0
    asked = {name: made["request"][name] for name in told.request}
    assert asked == told.request
    assert told.request["all_ranks"] and told.request["step"] == "net"
    # The same again is the same plan.
    assert shares(url, "net", [FAST, SLOW]).coordinated == told


def test_passes_and_least_batches_are_put(url):
    ranks = [StepProfile("kind", {2: 2.0, 4: 4.0}, 4), StepProfile("other", {4: 90.0})]
    plan = shares(url, "passes", ranks, 13, least=1)
    assert plan.batches == [12, 1]
    assert [rank.micro_steps for rank in plan.ranks] == [3, 1]
    idle = shares(url, "passes", ranks, 12, idle=True)
    assert idle.batches == [12, 0] and not idle.coordinated.request["all_ranks"]


def test_budgets_are_put(url):
    told = StepProfile("b", {1: 1.0, 8: 8.0}, 8, budget=900, peak={1: 100, 8: 800})
    plan = shares(url, "budgets", [told, FAST], 10)
    made = Rest(url).get(path_of("plans", str(plan.coordinated.id)))
    assert plan.ranks[0].budget == 900
    assert made["ranks"][0]["memory"] == {"budget_bytes": 900, "peak_bytes": 500}


def test_other_jobs_find_the_times(url):
    shares(url, "known", [FAST, SLOW])
    same = PutStep(url, "known", "f")
    assert same.known() == {"fast": FAST, "slow": SLOW}
    assert PutStep(url, "known", "other").known() == {}
    assert PutStep(url, "known").known() == {}
    assert PutStep(url, "unknown", "f").known() == {}
    # What others put of the same step stays, of another one goes.
    shares(url, "known", [StepProfile("fast", {1: 2.0, 8: 16.0})])
    assert same.known()["slow"] == SLOW
    assert same.known()["fast"].ms == {1: 2.0, 8: 16.0}
    shares(url, "known", [FAST], fingerprint="g")
    assert same.known() == {}
    assert PutStep(url, "known", "g").known() == {"fast": FAST}


def test_recorded_steps_are_not_times(url):
    segments = [{"time_us": 1.0, "bytes": 1, "backward": s > 0} for s in range(3)]
    recorded = {
        "segments": segments,
        "tensors": [{"bytes": 8, "hook": 0, "held": 0, "uses": [2]}],
        "link": {"d2h_bytes_per_us": 1e3, "h2d_bytes_per_us": 1e3},
    }
    kind = {"device_kind": "fast", "steps": [{"batch": 1, "recorded": recorded}]}
    content = {"fingerprint": "f", "kinds": [kind]}
    Rest(url).put(path_of("steps", "taped"), json.dumps(content).encode())
    assert PutStep(url, "taped", "f").known() == {}


class Interrupted(PutStep):
    """Others put other times right after this, so often."""

    def __init__(self, times, *arguments):
        super().__init__(*arguments)
        self.times = times

    def _put(self, steps):
        put = super()._put(steps)
        if self.times > 0:
            self.times -= 1
            steps = RankSteps([StepProfile("theirs", {1: 10.0 + self.times})])
            PutStep(self._url, self._name, f"g{self.times}")._put(steps)
        return put


def test_shares_are_of_what_this_job_put(url):
    steps = RankSteps([FAST, SLOW])
    plan = Interrupted(2, url, "raced", "f").shares(steps, steps.plan(8))
    assert plan.batches == [6, 2] and plan.coordinated
    with pytest.warns(UserWarning, match="others put other times of raced"):
        plan = Interrupted(9, url, "raced", "f").shares(steps, steps.plan(8))
    assert plan.batches == [6, 2] and plan.coordinated is None


def test_plans_here_without_a_coordinator():
    away = "http://127.0.0.1:1"
    assert PutStep(away, "net", "f").known() == {}
    with pytest.warns(UserWarning, match="planned without the coordinator.*127.0.0.1:1"):
        plan = shares(away, "net", [FAST, SLOW])
    assert plan.batches == [6, 2] and plan.coordinated is None
    assert "127.0.0.1:1" in plan.reasons[-1]


def test_raises_what_the_coordinator_refuses(url):
    with pytest.raises(ucudnn.InvalidArgument, match="name"):
        shares(url, "no/name", [FAST])


# --- By ranks.


def test_ranks_follow_the_plan(told, url):
    for rank in told:
        assert rank["batches"] == [6, 2] and rank["predicted_ms"] == 6.0
        assert rank["coordinated"] == told[0]["coordinated"]
        assert rank["difference"] < 1e-12
        # Other shares are not the plan's.
        assert rank["later"] == [4, 4] and rank["replanned"] is None
    plan = told[0]["coordinated"]
    made = Rest(url).get(path_of("plans", str(plan["id"])))
    assert [rank["batch"] for rank in made["ranks"]] == [6, 2]
    assert plan["request"]["device_kinds"] == ["fast", "slow"]


def test_a_step_is_measured_by_one_job(told):
    for rank in told:
        first, again, other = rank["measured"]
        assert first > 0 and again == 0 and other > 0
        assert rank["ids"][0] == rank["ids"][1] != rank["ids"][2]
        assert "from the cache of earlier" in rank["reasons"]


def test_plans_within_budgets_are_put(told, url):
    for rank in told:
        assert sum(rank["batches"]) == 24 and rank["coordinated"]
        assert rank["budgets"] == [3 << 20, 400_000]
    plan = Rest(url).get(path_of("plans", str(told[0]["coordinated"]["id"])))
    for made, batch, budget in zip(plan["ranks"], rank["batches"], rank["budgets"]):
        assert made["batch"] == batch
        assert 0 < made["memory"]["peak_bytes"] <= made["memory"]["budget_bytes"] == budget


def test_ranks_plan_without_a_coordinator(told):
    for rank, warnings in zip(told, (1, 0)):
        assert rank["batches"] == [6, 2] and rank["warned"] == warnings
        assert "planned without the coordinator" in rank["reason"]


def test_what_coordinators_are_not_asked(told):
    for rank in told:
        assert "coordinator: without name=" in rank[0]
        assert "coordinator: with session=" in rank[1]
        assert "share: coordinator: " in rank[2] and "on rank 1" in rank[2]
