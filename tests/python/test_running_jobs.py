"""Jobs of frameworks, which report to real coordinators over REST."""

import dataclasses
import itertools
import time

import numpy
import pytest
import ucudnn
from ucudnn.rest import Rest
from ucudnn.running import job_id_of

from daemons import certs, coordinator


def step(**us_of_an_image):
    return {
        "kinds": [
            {
                "device_kind": kind,
                "steps": [{"batch": b, "time_us": us * b} for b in (1, 16)],
            }
            for kind, us in us_of_an_image.items()
        ]
    }


def begin(cluster, **options):
    """Both ranks of a job that has 12 and 4 images."""
    cluster.put_step("net", step(fast=10, slow=30))
    plan = cluster.make_plan(
        step="net", batch=16, device_kinds=["fast", "slow"], all_ranks=True
    )
    first = cluster.register_job(plan, **options)
    return first, cluster.join_job(first.key, 1)


def counts(cluster, job, revision=1):
    """The steps of each rank that the coordinator knows of."""
    return [
        sum(steps.count for steps in rank.steps if steps.revision == revision)
        for rank in cluster.job(job.id).ranks
    ]


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def offered(job):
    until(lambda: job.exchange() and job.offer)
    return job.offer


@pytest.fixture(name="daemon", scope="module")
def running_coordinator(tmp_path_factory):
    with coordinator(tmp_path_factory.mktemp("jobs")) as daemon:
        yield daemon


@pytest.fixture(name="cluster")
def connected(daemon):
    return ucudnn.connect(daemon.rest)


def test_a_job_registers_reports_and_finishes(cluster):
    places = [
        ucudnn.RankDevice("fast", "GPU-1", "node-1"),
        ucudnn.RankDevice("slow", "GPU-2", "node-2"),
    ]
    first, second = begin(cluster, ranks=places, name="mine")
    assert (first.id, first.rank) == (second.id, second.rank - 1)
    with first:
        first.report(10.5, 11.0)
        with second:
            second.report(12.0)
        assert counts(cluster, first) == [2, 1]
        assert first.state == second.state == "running"
        job = cluster.job(first.id)
        assert (job.name, job.state, job.source) == ("mine", "running", "coordinator")
        assert job.reason == f"plan {job.plan_id} of {cluster._rest!r}"
        assert job.request.step == "net" and job.plan_id > 0
        assert [rank.device_id for rank in job.ranks] == ["GPU-1", "GPU-2"]
        assert cluster.job_rank(first.id, 0).steps[0].first_us == [10500, 11000]
    assert cluster.job(first.id).state == "finished"
    assert first.finish()
    with pytest.raises(ucudnn.InvalidArgument, match="-1 ms; a time from 0"):
        first.report(-1)


def test_ids_are_those_of_sessions():
    # proto/job_key.h: `printf key | sha256sum`, with version 8.
    assert job_id_of("key") == "2c70e12b-7a06-86f9-a279-f427c7b38e73"


def test_a_repeated_report_counts_once(cluster, monkeypatch):
    first, _ = begin(cluster)
    ask = Rest.ask

    def lose_the_answer(self, *arguments):
        ask(self, *arguments)
        monkeypatch.setattr(Rest, "ask", ask)
        raise ucudnn.Unreachable("the answer was lost")

    monkeypatch.setattr(Rest, "ask", lose_the_answer)
    first.report(1.0, 2.0)
    assert first.problem == "the answer was lost" and first.due_in > 0
    first.report(numpy.float32(3.0))  # not sent: the next try is later
    assert counts(cluster, first) == [2, 0]
    assert first.exchange() and first.problem == ""
    assert counts(cluster, first) == [3, 0]
    kept = cluster.job_rank(first.id, 0).steps[0].first_us
    assert kept == [1000, 2000, 3000]


def test_has_finished_when_the_coordinator_knows(cluster, monkeypatch):
    first, _ = begin(cluster)
    ask = Rest.ask

    losses = 3

    def lose_the_end(self, method, path, *arguments):
        nonlocal losses
        if path.endswith("/finish") and losses:
            losses -= 1
            raise ucudnn.Unreachable("the end was lost")
        return ask(self, method, path, *arguments)

    monkeypatch.setattr(Rest, "ask", lose_the_end)
    assert not first.finish(within=0) and first.problem == "the end was lost"
    assert cluster.job(first.id).state == "running"
    assert first.finish() and first.problem == "" and losses == 0
    assert cluster.job(first.id).state == "finished"


def test_adopts_and_refuses_plans(cluster, daemon):
    first, second = begin(cluster)
    first.report(1.0)
    daemon.command("replan", first.id, "--batch", 8)
    offer = offered(first)
    assert (offer.revision, offer.plan.request.batch) == (2, 8)
    assert [rank.batch for rank in offer.plan.ranks] == [6, 2]
    assert offer.reason == "batch 8"
    second.exchange()
    assert second.offer is None
    first.accept(offer)
    second.follow(offer.revision)
    for job in (first, second):
        job.report(*[2.0] * 1500)  # more than one call takes
        assert job.exchange()
    assert counts(cluster, first) == [1, 0]
    assert counts(cluster, first, 2) == [1500, 1500]
    assert cluster.job(first.id).revision == 2
    daemon.command("replan", first.id, "--batch", 4)
    with pytest.raises(ucudnn.InvalidArgument, match="a reason is accepted"):
        first.refuse(offered(first), "")
    first.refuse(offered(first), "4 images are too few")
    assert first.exchange() and first.offer is None
    job = cluster.job(first.id)
    assert job.revision == 2 and first.revision == 2
    assert job.revisions[2].rejected == "4 images are too few"


def test_drift_gives_the_plan_of_the_newest_step(cluster):
    first, second = begin(cluster, auto_replan=True)
    second.report(*[1.2] * 16, *[2.4] * 48)
    assert second.exchange()
    cluster.put_step("net", step(fast=10, slow=70))
    offer = offered(first)
    assert "drift: rank 1: its last 48 steps" in offer.reason
    assert [rank.batch for rank in offer.plan.ranks] == [14, 2]


def test_a_lost_rank_gives_the_plan_without_it(tmp_path):
    with coordinator(tmp_path, "--job-timeout-ms", 2000) as daemon:
        first, second = begin(ucudnn.connect(daemon.rest), auto_replan=True)
        second.report(1.0)
        offer = offered(first)
        assert offer.reason == "rank 1 is silent"
        assert [rank.batch for rank in offer.plan.ranks] == [16, 0]
        first.accept(offer)
        until(lambda: second.exchange() and first.exchange() and first.offer)
        assert first.offer.reason == "rank 1 reports again"
        assert [rank.batch for rank in first.offer.plan.ranks] == [12, 4]


def test_a_killed_coordinator_loses_nothing(tmp_path, monkeypatch):
    with coordinator(tmp_path) as daemon:
        cluster = ucudnn.connect(daemon.rest)
        first, second = begin(cluster)
        first.report(1.0)
        second.report(1.0)
        daemon.kill()
        tries, now = [], time.monotonic()
        with monkeypatch.context() as patch:
            patch.setattr(time, "monotonic", lambda: now)
            for number in range(5000):
                first.report(float(number))
            exchange = second.exchange
            patch.setattr(second, "exchange", lambda: tries.append(exchange()))
            for number in range(50):
                patch.setattr(time, "monotonic", lambda: now + number)
                second.report(2.0)
        # In 50 seconds, and each waits longer than the one before.
        assert 2 <= len(tries) <= 9 and not any(tries)
        assert not first.exchange() and "no coordinator answers" in first.problem
        assert not first.finish(within=0.1)
    with coordinator(tmp_path, http=daemon.rest):
        assert first.exchange() and second.exchange()
        # 4,096 were kept, and the others count with the next step.
        assert counts(cluster, first) == [4097, 51]
        first.report(1.0)
        assert first.finish()
        assert counts(cluster, first) == [5002, 51]
        assert cluster.job(first.id).state == "finished"


def test_registers_again_with_another_database(tmp_path):
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
    with coordinator(folders[0]) as daemon:
        first, _ = begin(ucudnn.connect(daemon.rest))
        first.report(1.0)
    with coordinator(folders[1], http=daemon.rest):
        cluster = ucudnn.connect(daemon.rest)
        first.report(2.0)
        until(first.exchange)
        job = cluster.job(first.id)
        assert job.state == "running" and job.plan_id == 0
        assert counts(cluster, first) == [2, 0]


def test_keeps_its_plan_and_steps_when_the_database_is_lost(tmp_path):
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
    with coordinator(folders[0]) as daemon:
        first, second = begin(ucudnn.connect(daemon.rest))
        daemon.command("replan", first.id, "--batch", 8)
        first.accept(offered(first))
        second.follow(first.revision)
        daemon.command("replan", first.id, "--batch", 4)
        lost = offered(first)
    first.report(1.0, 2.0)  # nobody answers
    second.report(3.0, 4.0)
    with coordinator(folders[1], http=daemon.rest) as daemon:
        cluster = ucudnn.connect(daemon.rest)
        assert not second.exchange() and "there is no job" in second.problem
        until(first.exchange)
        assert second.exchange()
        job = cluster.job(first.id)
        assert (job.state, job.revision, job.plan_id) == ("running", 2, 0)
        assert job.request.batch == 8
        assert counts(cluster, first, 2) == [2, 2]
        # The ranks had agreed on what the first coordinator offered.
        assert first.offer is None
        first.accept(lost)
        first.report(5.0)
        until(first.exchange)
        job = cluster.job(first.id)
        assert (job.revision, job.request.batch) == (3, 4)
        assert counts(cluster, first, 3) == [1, 0]
        cluster.put_step("net", step(fast=10, slow=30))
        daemon.command("replan", first.id, "--batch", 16)
        offer = offered(first)
        assert (offer.revision, offer.plan.request.batch) == (4, 16)


def test_a_plan_of_another_request_is_not_the_jobs(cluster):
    cluster.put_step("net", step(fast=10, slow=30))
    plans = [
        cluster.make_plan(step="net", batch=batch, device_kinds=["fast", "slow"])
        for batch in (2, 4)
    ]
    mistaken = dataclasses.replace(plans[1], id=plans[0].id)
    job = cluster.register_job(mistaken)
    assert cluster.job(job.id).plan_id == 0
    with pytest.raises(
        ucudnn.InvalidArgument,
        match=f"the job has 1 ranks; 2 are accepted, as plan {plans[0].id} has",
    ):
        cluster.register_job(plans[0], ranks=[ucudnn.RankDevice("fast")])


def test_the_first_answer_to_a_revision_stands(cluster, daemon):
    first, _ = begin(cluster)
    daemon.command("replan", first.id, "--batch", 8)
    offered(first)

    def answer(rejected, revision=2):
        first._post("revision", {"revision": revision, "rejected": rejected})

    answer("too few images")
    answer("too few images")
    with pytest.raises(ucudnn.InvalidArgument, match="was rejected before, and only"):
        answer("")
    with pytest.raises(ucudnn.InvalidArgument, match="revision 1 of .* was adopted"):
        answer("no", revision=1)
    job = cluster.job(first.id)
    assert (job.revision, job.revisions[1].rejected) == (1, "too few images")


def test_registers_later_if_no_coordinator_answers(tmp_path):
    with coordinator(tmp_path) as daemon:
        cluster = ucudnn.connect(daemon.rest)
        cluster.put_step("net", step(fast=10))
        plan = cluster.make_plan(step="net", batch=4)
    job = cluster.register_job(plan)
    job.report(1.0)
    assert "no coordinator answers" in job.problem
    with coordinator(tmp_path, http=daemon.rest):
        until(job.exchange)
        assert counts(cluster, job) == [1]


def test_over_tls_each_job_speaks_for_itself(tmp_path):
    certs(tmp_path, "init", "--dir", ".", "--cluster", "test")
    certs(
        tmp_path, "issue", "--dir", ".", "coordinator", "c", "--host", "127.0.0.1"
    )
    for role, name in itertools.product(("job", "operator"), "x"):
        certs(tmp_path, "issue", "--dir", ".", role, name)

    def connect(name):
        return ucudnn.connect(
            daemon.rest, ca=tmp_path / "ca.crt", cert=tmp_path / f"{name}.crt",
            key=tmp_path / f"{name}.key",
        )  # fmt: skip

    with coordinator(
        tmp_path, "--ca", tmp_path / "ca.crt", "--cert",
        tmp_path / "coordinator-c.crt", "--key", tmp_path / "coordinator-c.key",
    ) as daemon:  # fmt: skip
        first, second = begin(connect("job-x"))
        first.report(1.0)
        second.report(1.0)
        assert counts(connect("operator-x"), first) == [1, 1]
        stranger = connect("job-x").join_job("another key", 0)
        stranger.id = first.id
        assert not stranger.exchange()
        assert "without that job's key" in stranger.problem
        with pytest.raises(ucudnn.NotAllowed, match="operator x may not call"):
            begin(connect("operator-x"))
