"""The client of coordinators, against real ones over REST."""

import contextlib
import http.server
import json
import socket
import subprocess
import threading

import numpy
import pytest
import ucudnn
from ucudnn import rest

from daemons import (
    BIN,
    DATA,
    KINDS,
    NETWORK,
    certs,
    coordinator,
    running,
    wait_for,
)


@pytest.fixture(name="alexnet", scope="module")
def coordinator_that_knows_alexnet(tmp_path_factory):
    with coordinator(tmp_path_factory.mktemp("coordinator")) as daemon:
        daemon.import_alexnet()
        yield daemon


@pytest.fixture(name="cluster")
def client(alexnet):
    return ucudnn.connect(alexnet.rest)


def as_command(alexnet, *arguments):
    return json.loads(alexnet.command(*arguments, "-o", "json"))


def test_says_what_it_is_connected_to(alexnet, cluster):
    assert repr(cluster) == f"Coordinator at http://{alexnet.rest}"
    status = cluster.status()
    assert status.database == "sqlite"
    assert status.networks == 1


def test_makes_the_plans_that_the_command_makes(alexnet, cluster, tmp_path):
    plan = cluster.make_plan(
        "alexnet", 256, device_kinds=[KINDS[0]] * 2, workspace_limit="64MiB"
    )
    saved = tmp_path / "plan.json"
    alexnet.command(
        "plan", "--network", "alexnet", "--batch", 256, "--ranks", 2,
        "--device-kind", KINDS[0], "--device-kind", KINDS[0],
        "--workspace-limit", "64MiB", "--save", saved,
    )  # fmt: skip
    assert ucudnn.JobPlan.read(saved) == plan == cluster.plan(plan.id)
    assert [rank.batch for rank in plan.ranks] == [128, 128]
    assert plan.optimal and plan.predicted_us < plan.undivided_us
    assert plan.ranks[1].workspace == ucudnn.WorkspacePlan.read(saved)
    assert repr(plan).startswith(f"JobPlan {plan.id}: alexnet, batch 256, 64 MiB")
    assert "predicted (convolutions only)" in repr(plan)
    (listed,) = [p for p in cluster.plans() if p.id == plan.id]
    assert listed.predicted_us == plan.predicted_us


def test_plans_a_total_and_shows_its_fronts(cluster):
    plan = cluster.make_plan(
        "alexnet", numpy.int64(128), total_workspace=numpy.int64(32 << 20),
        device_kinds=KINDS[:1],
    )  # fmt: skip
    assert plan.request.total_workspace_bytes == 32 << 20
    front = cluster.front(plan.id, "conv2", "forward")
    assert front.title.startswith("conv2 forward, batch 128")
    times = [point.time_us for point in front]
    assert times == sorted(times, reverse=True) and len(times) > 1


def test_divides_a_total_only_by_a_known_graph(cluster):
    with pytest.raises(ucudnn.InvalidArgument, match="convolutions alone"):
        cluster.make_plan(
            "alexnet", 128, total_workspace="32MiB", concurrent=True,
            device_kinds=KINDS[:1],
        )  # fmt: skip


def test_returns_networks_and_profiles_that_solvers_take(alexnet, cluster):
    (network,) = cluster.networks()
    assert cluster.network("alexnet").layers == network.layers or not network.layers
    assert [layer.name for layer in cluster.network("alexnet").layers] == [
        f"conv{i}" for i in range(1, 6)
    ]
    (summary,) = cluster.profiles()
    assert summary.id == KINDS[0]
    profile = cluster.profile(KINDS[0], "alexnet")
    exported = ucudnn.Profile.from_csv(
        alexnet.command("profiles", "export", "--network", "alexnet", "--stale")
    )
    plan = ucudnn.solve_wr(profile, 256, "64MiB", "powerOfTwo", precision="FP32")
    assert plan == ucudnn.solve_wr(
        exported, 256, "64MiB", "powerOfTwo", precision="FP32"
    )
    assert len(profile.rows) == len(exported.rows)


def test_registers_networks_and_fetches_lists_page_by_page(
    cluster, monkeypatch
):
    monkeypatch.setattr(rest, "_PAGE", 2)
    for number in range(5):
        put = cluster.put_network(NETWORK.read_bytes(), f"net{number}")
        assert (put.name, put.format, len(put.layers)) == (
            f"net{number}", "csv", 5,
        )  # fmt: skip
    names = [network.name for network in cluster.networks()]
    assert names == ["alexnet", *(f"net{number}" for number in range(5))]


def test_knows_problems_by_the_coordinators_names(alexnet, cluster):
    for model in ("r3d_18.onnx", "fcn_resnet50.onnx"):
        cluster.put_network(DATA / "onnx" / model, "named")
        cost = as_command(
            alexnet, "plan", "--network", "named", "--batch", 2,
            "--workspace-limit", 0, "--device-kind", KINDS[0], "--dry-run",
        )  # fmt: skip
        problems = {
            problem
            for layer in cluster.network("named").layers
            for _, problem in layer.problems("FP32", "NCHW")
        }
        batches = 2  # 1 and 2
        assert cost["total"] == batches * len(problems)


def test_registers_models_with_the_sizes_that_they_leave_open(cluster):
    model = (DATA / "onnx/alexnet.onnx").read_bytes()
    closed = cluster.put_network(model, "closed")
    # A dimension of 224, as it is on the wire, becomes one that is named.
    fixed = b"\x0a\x03\x08\xe0\x01"
    assert model.count(fixed) == 2
    for name in (b"H", b"W"):
        model = model.replace(fixed, b"\x0a\x03\x12\x01" + name, 1)
    with pytest.raises(ucudnn.InvalidArgument, match="dimension 'H'"):
        cluster.put_network(model, "open")
    for shape in [(3, 224, 224), {"input": [3, 224, 224]}]:
        put = cluster.put_network(model, "open", input_shape=shape)
        assert put.layers == closed.layers
    with pytest.raises(ucudnn.InvalidArgument, match="no input 'image'"):
        cluster.put_network(model, "open", input_shape={"image": (3, 8, 8)})


def test_errors_say_what_is_wrong(cluster):
    with pytest.raises(ucudnn.NotFound, match="none") as unknown:
        cluster.network("none")
    assert unknown.value.code == 5
    with pytest.raises(ucudnn.NotFound, match="nosuch"):
        cluster.job("nosuch")
    with pytest.raises(ucudnn.InvalidArgument, match="batch"):
        cluster.make_plan("alexnet", 0, workspace_limit=0)
    with pytest.raises(ucudnn.NoPlan, match="measure"):
        cluster.make_plan(
            "alexnet", 3, workspace_limit="8MiB", device_kinds=KINDS[1:],
            measure=False,
        )  # fmt: skip
    with pytest.raises(ucudnn.Unreachable, match="127.0.0.1:1: .*7461"):
        ucudnn.connect("127.0.0.1:1")
    with pytest.raises(ucudnn.Unreachable, match=r"at http://\[::1\]:1: "):
        ucudnn.connect("[::1]:1")
    for address in ("", "host:x", "ftp://host", "host:0"):
        with pytest.raises(ucudnn.InvalidArgument, match="HOST:PORT"):
            ucudnn.connect(address)


def test_says_how_many_measurements_are_missing(cluster):
    request = ucudnn.PlanRequest(
        "alexnet", 256, [KINDS[1]], workspace_limit_bytes=1 << 20
    )
    now = cluster.measurements(request)
    assert now.missing == now.total > 0
    assert now.unasked > 0  # a look asks for nothing
    with pytest.raises(ucudnn.Error, match=KINDS[1]):
        cluster.make_plan(
            "alexnet", 256, workspace_limit="1MiB", device_kinds=KINDS[1:],
            timeout=0,
        )  # fmt: skip


def test_shows_devices_and_measures_what_is_missing(tmp_path):
    network = tmp_path / "tiny.csv"
    network.write_text(
        "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
        "conv,2,4,4,2,1,1,0,0,1,1,1\n"
    )
    with coordinator(tmp_path) as daemon:
        cluster = ucudnn.connect(daemon.rest)
        with running(
            "ucudnn-agent", "--coordinator", daemon.grpc, "--id", "node",
            "--cpu-devices", 1, "--cpu-threads", 1, "--repeats", 3,
        ) as agent:  # fmt: skip
            wait_for(cluster.devices, agent)
            (device,) = cluster.devices()
            assert device == cluster.device(device.id)
            assert cluster.devices(kind=device.kind) == [device]
            assert cluster.devices(kind="other") == []
            assert cluster.devices(state="lost") == []
            assert cluster.agents()[0].device_ids == [device.id]
            assert cluster.agent("node").state == "online"
            assert cluster.put_network(network).name == "tiny"
            plan = cluster.make_plan(
                "tiny", 2, workspace_limit="1MiB", timeout=120
            )
            assert plan.ranks[0].device_kind == device.kind


@pytest.fixture(name="guarded", scope="module")
def coordinator_with_certificates(tmp_path_factory):
    """A coordinator that speaks TLS, and the folder of its certificates."""
    folder = tmp_path_factory.mktemp("guarded")
    certs(folder, "init", "--dir", ".", "--cluster", "test")
    certs(folder, "issue", "--dir", ".", "coordinator", "c", "--host", "127.0.0.1")
    certs(folder, "issue", "--dir", ".", "operator", "alice")
    token = folder / "bob.token"
    token.touch(mode=0o600)
    token.write_text(
        certs(folder, "token", "viewer", "bob", "--tokens", "tokens")
    )
    with coordinator(
        folder, "--ca", folder / "ca.crt", "--cert", folder / "coordinator-c.crt",
        "--key", folder / "coordinator-c.key", "--tokens", folder / "tokens",
    ) as daemon:  # fmt: skip
        yield daemon.rest, folder


def test_speaks_tls_with_a_certificate(guarded):
    address, folder = guarded
    alice = ucudnn.connect(
        address, ca=folder / "ca.crt", cert=folder / "operator-alice.crt",
        key=folder / "operator-alice.key",
    )  # fmt: skip
    assert repr(alice) == f"Coordinator at https://{address}"
    assert alice.put_network(NETWORK).name == "alexnet_torchvision"


def test_speaks_tls_with_a_token_from_the_environment(guarded, monkeypatch):
    address, folder = guarded
    monkeypatch.setenv("UCUDNN_CA", str(folder / "ca.crt"))
    with pytest.raises(ucudnn.NotAllowed, match="token"):
        ucudnn.connect(address)
    monkeypatch.setenv("UCUDNN_TOKEN_FILE", str(folder / "bob.token"))
    bob = ucudnn.connect(f"https://{address}")
    assert bob.status().database == "sqlite"
    with pytest.raises(ucudnn.NotAllowed, match="viewer"):
        bob.put_network(NETWORK)


def test_refuses_credentials_that_do_not_go_together(guarded, tmp_path):
    address, folder = guarded
    ca = folder / "ca.crt"
    with pytest.raises(ucudnn.InvalidArgument, match="needs ca="):
        ucudnn.connect(f"https://{address}")
    with pytest.raises(ucudnn.InvalidArgument, match="without ca="):
        ucudnn.connect(address, token_file=folder / "bob.token")
    with pytest.raises(ucudnn.InvalidArgument, match="one of cert="):
        ucudnn.connect(address, ca=ca, cert=folder / "operator-alice.crt")
    with pytest.raises(ucudnn.InvalidArgument, match="none.crt"):
        ucudnn.connect(address, ca=tmp_path / "none.crt")
    token = tmp_path / "token"
    token.write_text("\n")
    token.chmod(0o644)
    with pytest.raises(ucudnn.InvalidArgument, match="mode is 0644; 0600"):
        ucudnn.connect(address, ca=ca, token_file=token)
    token.chmod(0o600)
    with pytest.raises(ucudnn.InvalidArgument, match="is empty"):
        ucudnn.connect(address, ca=ca, token_file=token)
    with pytest.raises(ucudnn.Unreachable, match="http://"):
        ucudnn.connect(address)  # speaks no TLS


@pytest.mark.parametrize(
    "status, body, error, message",
    [
        (422, {"title": "No plan", "status": 422, "detail": "no room"},
         ucudnn.NoPlan, "no room"),
        (404, {"title": "Not Found"}, ucudnn.InvalidArgument, "Not Found"),
        (409, {"code": "ABORTED", "detail": "2 of 3 measurements are missing"},
         ucudnn.Unreachable, "are missing"),
        (503, {"detail": "overloaded"}, ucudnn.Unreachable, "overloaded"),
        (500, "oops", ucudnn.Error, "oops"),
        (401, {}, ucudnn.NotAllowed, "HTTP status 401"),
        (200, [], ucudnn.Unreachable, "not an object"),
        (200, "<html>", ucudnn.Unreachable, "not JSON.*coordinator's REST"),
    ],
)  # fmt: skip
def test_understands_errors(status, body, error, message):
    text = body if isinstance(body, str) else json.dumps(body)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *arguments):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with pytest.raises(error, match=message):
            ucudnn.connect(f"127.0.0.1:{server.server_port}")
        thread.join()


def test_the_command_outlives_a_peer_that_has_gone():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def reset_half_closed():
            with contextlib.suppress(OSError):
                while True:
                    peer = listener.accept()[0]
                    peer.recv(1)
                    peer.shutdown(socket.SHUT_WR)
                    peer.close()

        threading.Thread(target=reset_half_closed, daemon=True).start()
        address = "127.0.0.1:{}".format(listener.getsockname()[1])
        done = subprocess.run(
            [f"{BIN}/ucudnn", "devices", "--coordinator", address],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        listener.shutdown(socket.SHUT_RDWR)
    assert done.returncode == 4, done
    assert f"no coordinator answers at {address}" in done.stderr
