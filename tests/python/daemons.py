"""Real coordinators for tests."""

import contextlib
import json
import os
import subprocess
import time
from pathlib import Path

BIN = os.environ.get("UCUDNN_BIN_DIR", "")
DATA = Path(os.environ["UCUDNN_TEST_DATA"])
CERTIFICATES = DATA.resolve().parents[1] / "deploy/certificates.sh"
KINDS = [f"NVIDIA H200/{sms}u/139GiB/cudnn-9.19" for sms in (64, 16)]
NETWORK = DATA / "networks/alexnet_torchvision.csv"


class Daemon:
    """A coordinator, and the command against it."""

    def __init__(self, ports, environment, process):
        self.process = process
        self.grpc = f"127.0.0.1:{ports['grpc_port']}"
        self.rest = f"127.0.0.1:{ports['http_port']}"
        self._environment = environment

    def command(self, *arguments):
        """What `ucudnn` prints."""
        done = subprocess.run(
            [f"{BIN}/ucudnn", *map(str, arguments)],
            check=True, stdout=subprocess.PIPE, text=True,
            env={**self._environment, "UCUDNN_COORDINATOR": self.grpc},
        )  # fmt: skip
        return done.stdout

    def kill(self):
        self.process.kill()
        self.process.wait()

    def import_alexnet(self, kind=KINDS[0]):
        self.command("networks", "put", "alexnet", NETWORK)
        self.command(
            "profiles", "import", "--network", NETWORK, "--kind", kind,
            "--complete-up-to", "1GiB",
            DATA / "h200/alexnet_b256_pow2_sm64.csv",
        )  # fmt: skip


@contextlib.contextmanager
def coordinator(folder, *options, http="127.0.0.1:0", **environment):
    """Runs one until the block ends; `environment` is the command's."""
    ready = folder / "ready"
    ready.unlink(missing_ok=True)
    with running(
        "ucudnn-coord", "serve", "--listen", "127.0.0.1:0", "--http", http,
        "--database", f"sqlite://{folder}/c.db", "--create", "--ready-file",
        ready, *options,
    ) as process:  # fmt: skip
        wait_for(lambda: ready.exists(), process)
        yield Daemon(
            json.loads(ready.read_text()), {**os.environ, **environment}, process
        )


@contextlib.contextmanager
def running(program, *arguments):
    daemon = subprocess.Popen(
        [f"{BIN}/{program}", *map(str, arguments)], stderr=subprocess.DEVNULL
    )
    try:
        yield daemon
    finally:
        daemon.terminate()
        daemon.wait()


def wait_for(condition, daemon):
    """Waits until `condition` holds, while the daemon runs."""
    deadline = time.monotonic() + 60
    while not condition():
        assert daemon.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)


def certs(folder, *arguments):
    """What deploy/certificates.sh prints in `folder`."""
    done = subprocess.run(
        [CERTIFICATES, *map(str, arguments)],
        check=True, stdout=subprocess.PIPE, text=True, cwd=folder,
    )  # fmt: skip
    return done.stdout
