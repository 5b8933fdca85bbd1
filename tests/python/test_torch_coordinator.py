"""Steps that are put to a real coordinator, and the shares of its plans: by themselves, and
by two ranks over gloo, which run the scenarios of torch_coordinator_ranks.py."""

import pytest
import ucudnn
from ucudnn.coordinator import Coordinator
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


def plan_of(url, name, ranks, batch=8, fingerprint="f", **options):
    return PutStep(url, name, fingerprint).plan(RankSteps(ranks, **options), batch)


def batches(plan):
    return [rank.batch for rank in plan.ranks]


def test_plans_are_of_what_was_put(url):
    plan = plan_of(url, "net", [FAST, SLOW])
    assert batches(plan) == [6, 2] and plan.predicted_us == 6000.0
    assert plan.request.step == "net" and plan.request.all_ranks
    assert plan.request.device_kinds == ["fast", "slow"]
    # The same again is the same plan.
    assert plan_of(url, "net", [FAST, SLOW]).id == plan.id


def test_passes_and_least_batches_are_put(url):
    ranks = [StepProfile("kind", {2: 2.0, 4: 4.0}, 4), StepProfile("other", {4: 90.0})]
    plan = plan_of(url, "passes", ranks, 13, least=1)
    assert batches(plan) == [12, 1]
    assert "in 3 equal passes" in plan.ranks[0].reason
    idle = plan_of(url, "passes", ranks, 12, idle=True)
    assert batches(idle) == [12, 0] and not idle.request.all_ranks


def test_budgets_are_put(url):
    told = StepProfile("b", {1: 1.0, 8: 8.0}, 8, budget=900, peak={1: 100, 8: 800})
    plan = plan_of(url, "budgets", [told, FAST], 10)
    memory = plan.ranks[0].memory
    assert (memory.budget_bytes, memory.peak_bytes) == (900, 500)
    assert plan.request.memory.rank_budget_bytes == [900, 0]


def test_other_jobs_find_the_times(url):
    plan_of(url, "known", [FAST, SLOW])
    same = PutStep(url, "known", "f")
    assert same.known() == {"fast": FAST, "slow": SLOW}
    assert PutStep(url, "known", "other").known() == {}
    assert PutStep(url, "known").known() == {}
    assert PutStep(url, "unknown", "f").known() == {}
    # What others put of the same step stays, of another one goes.
    plan_of(url, "known", [StepProfile("fast", {1: 2.0, 8: 16.0})])
    assert same.known()["slow"] == SLOW
    assert same.known()["fast"].ms == {1: 2.0, 8: 16.0}
    plan_of(url, "known", [FAST], fingerprint="g")
    assert same.known() == {}
    assert PutStep(url, "known", "g").known() == {"fast": FAST}


def test_times_that_drifted_are_none_that_were_measured(url):
    plan_of(url, "drifted", [FAST, SLOW])
    put = PutStep(url, "drifted", "f")
    put.put_drifted(RankSteps([FAST.scaled(3.0)]).content())
    assert put.known() == {"slow": SLOW}
    # They stay for who plans with them, until they are measured again.
    third = StepProfile("third", {1: 1.0, 8: 8.0})
    plan_of(url, "drifted", [third])
    assert put.known() == {"slow": SLOW, "third": third}
    kinds = {kind.device_kind: kind for kind in ucudnn.connect(url).step("drifted").kinds}
    assert [step.time_us for step in kinds["fast"].steps] == [3000.0, 24000.0]


def test_recorded_steps_are_not_times(url):
    segments = [{"time_us": 1.0, "bytes": 1, "backward": s > 0} for s in range(3)]
    recorded = {
        "segments": segments,
        "tensors": [{"bytes": 8, "hook": 0, "held": 0, "uses": [2]}],
        "link": {"d2h_bytes_per_us": 1e3, "h2d_bytes_per_us": 1e3},
    }
    kind = {
        "device_kind": "fast", "fingerprint": "f",
        "steps": [{"batch": 1, "recorded": recorded}],
    }  # fmt: skip
    ucudnn.connect(url).put_step("taped", {"kinds": [kind]})
    assert PutStep(url, "taped", "f").known() == {}


class Interrupted(PutStep):
    """Others put other times right after this, so often."""

    def __init__(self, times, *arguments):
        super().__init__(*arguments)
        self.times = times

    def _put(self, content, fingerprint):
        put = super()._put(content, fingerprint)
        if self.times > 0:
            self.times -= 1
            theirs = RankSteps([StepProfile("theirs", {1: 10.0 + self.times})])
            PutStep(self._url, self._name, "g")._put(theirs.content(), "g")
        return put


def test_plans_are_of_what_this_job_put(url):
    steps = RankSteps([FAST, SLOW])
    assert batches(Interrupted(2, url, "raced", "f").plan(steps, 8)) == [6, 2]
    why = Interrupted(9, url, "raced", "f").plan(steps, 8)
    assert why == "others put other times of raced meanwhile"


@pytest.mark.parametrize(
    "wrong, shares", [({"batch": 4}, [3, 1]), ({"device_kinds": ["fast"]}, [8])]
)
def test_takes_no_plan_of_other_shares(url, monkeypatch, wrong, shares):
    make = Coordinator.make_plan
    monkeypatch.setattr(
        Coordinator, "make_plan", lambda self, **asked: make(self, **{**asked, **wrong})
    )
    why = plan_of(url, "wrong", [FAST, SLOW])
    assert f"{shares}, are none that these ranks can have" in why


def test_says_why_there_is_no_plan():
    away = "http://127.0.0.1:1"
    assert PutStep(away, "net", "f").known() == {}
    assert "127.0.0.1:1" in plan_of(away, "net", [FAST, SLOW])
    nothing = StepProfile("tiny", {}, 0)
    assert "holds no image" in plan_of(away, "net", [FAST, nothing], idle=True)


def test_raises_what_the_coordinator_refuses(url):
    with pytest.raises(ucudnn.InvalidArgument, match="a b"):
        plan_of(url, "a b", [FAST])


# --- By ranks.


def test_ranks_follow_the_plan(told, url):
    cluster = ucudnn.connect(url)
    for rank in told:
        assert rank["batches"] == [6, 2] and rank["predicted_ms"] == 6.0
        assert rank["id"] == told[0]["id"] and rank["kinds"] == ["fast", "slow"]
        assert rank["difference"] < 1e-12
        assert rank["reasons"][0].startswith(f"plan {rank['id']} of Coordinator at http")
    assert batches(cluster.plan(told[0]["id"])) == [6, 2]
    job = cluster.job(told[0]["job"])
    assert (job.plan_id, job.state) == (told[0]["id"], "finished")


def test_a_step_is_measured_by_one_job(told):
    for rank in told:
        first, again, other = rank["measured"]
        assert first > 0 and again == 0 and other > 0
        assert rank["ids"][0] == rank["ids"][1] != rank["ids"][2]
        assert "from the cache of earlier" in rank["reasons"]


def test_plans_within_budgets_are_put(told, url):
    for rank in told:
        assert sum(rank["batches"]) == 24
        assert rank["budgets"] == rank["given"]
    plan = ucudnn.connect(url).plan(told[0]["id"])
    assert batches(plan) == told[0]["batches"]
    for made, budget in zip(plan.ranks, told[0]["budgets"]):
        assert 0 < made.memory.peak_bytes <= made.memory.budget_bytes == budget


def test_ranks_plan_without_a_coordinator(told):
    for rank, warnings in zip(told, (1, 0)):
        assert rank["batches"] == [6, 2] and rank["warned"] == warnings
        assert "planned without the coordinator" in rank["reason"]


def test_what_coordinators_are_not_asked(told):
    for rank in told:
        assert "coordinator: without name=" in rank[0]
        assert "coordinator: with session=" in rank[1]
        assert "share: coordinator: " in rank[2] and "on rank 1" in rank[2]
