"""What tests/soak.sh runs; its head says what that does."""

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BUILD = Path(__file__).resolve().parents[1] / "build/ci"
NETWORK = """name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups
conv1,3,8,8,4,3,3,1,1,1,1,1
conv2,4,8,8,4,3,3,1,1,1,1,1
"""
QUARTERS = 4
WARM_SECONDS = 300  # in which a process fills its pools and caches
# How much more a process may take at the end of the later half of its life.
ALLOWED = {"rss_kib": 16 * 1024, "fds": 32, "threads": 16}
ALLOWED_PART = 0.05
ALLOWED_BYTES = 8 << 20


def growths(rows):
    """What grows without bound, a line each.

    A coordinator's memory, descriptors and threads, for each of its processes that
    lives long enough: if the line through the later half of its samples since
    WARM_SECONDS rises by more than ALLOWED and ALLOWED_PART of their mean. The database:
    if it grows in the later half of the run by more than ALLOWED_BYTES and twice what its
    new rows would take at the bytes for a row of the earlier half.
    """
    found, processes = [], {}
    for row in rows:
        for i, one in enumerate(row.get("coordinators", [])):
            for what, value in one.items() if one["rss_kib"] else ():
                key = (what, f"coordinator {i}, process {one['pid']}")
                processes.setdefault(key, []).append((row["t"], value))
    for (what, process), points in processes.items():
        warm = [(t, y) for t, y in points if t >= points[0][0] + WARM_SECONDS]
        later = warm[len(warm) // 2 :]
        if what not in ALLOWED or len(later) < 3:
            continue
        seconds = later[-1][0] - later[0][0]
        more = statistics.linear_regression(*zip(*later)).slope * seconds
        allowed = ALLOWED[what] + ALLOWED_PART * statistics.mean(y for _, y in later)
        if more > allowed:
            found.append(
                f"{what} of {process}: {more:.0f} more in {seconds:.0f} s; "
                f"{allowed:.0f} may be"
            )
    stored = [row for row in rows if row.get("database_bytes")]
    if stored:
        middle, end = stored[len(stored) // 2], stored[-1]
        before, after = (sum(row["rows"].values()) for row in (middle, end))
        more = end["database_bytes"] - middle["database_bytes"]
        allowed = 2 * middle["database_bytes"] * max(after - before, 0) / before
        if more > allowed + ALLOWED_BYTES:
            found.append(f"the database: {more} bytes for {after - before} rows")
    return found


def draw(rows, file):
    """The curves of a run."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(4, 1, figsize=(8, 9), sharex=True)
    samples = [row for row in rows if row.get("database_bytes")]
    minutes = [row["t"] / 60 for row in samples]
    for axis, (what, unit, label) in zip(
        axes,
        [("rss_kib", 1024, "MiB"), ("fds", 1, "descriptors"), ("threads", 1, "threads")],
    ):
        for i in (0, 1):
            values = [row["coordinators"][i][what] / unit for row in samples]
            axis.plot(minutes, values, linewidth=1, label=f"coordinator {i}")
        axis.set_ylabel(label)
    axes[0].legend()
    sizes = [row["database_bytes"] / 2**20 for row in samples]
    axes[3].plot(minutes, sizes, linewidth=1, color="black")
    axes[3].set(ylabel="MiB of database", xlabel="minutes (grey: faults)")
    for axis in axes:
        axis.set_ylim(bottom=0)
        for row in rows:
            if "fault" in row:
                axis.axvline(row["t"] / 60, color="0.9", linewidth=0.4, zorder=0)
    figure.tight_layout()
    figure.savefig(file)


class Link:
    """Connections of clients to a coordinator; they carry nothing while cut."""

    def __init__(self, port):
        self._port, self._writers = port, set()
        self._whole = asyncio.Event()
        self._whole.set()

    async def open(self):
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.address = "127.0.0.1:{}".format(server.sockets[0].getsockname()[1])
        return self

    def cut(self):
        self._whole.clear()

    def heal(self, breaks):
        for writer in self._writers if breaks else ():
            writer.transport.abort()
        self._whole.set()

    async def _connect(self, reader, writer):
        await self._whole.wait()
        try:
            there = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.close()
        else:
            await asyncio.gather(
                self._carry(reader, there[1]), self._carry(there[0], writer)
            )

    async def _carry(self, reader, writer):
        self._writers.add(writer)
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self._whole.wait()
                writer.write(data)
                await writer.drain()
        self._writers.discard(writer)
        writer.close()


class Program:
    """A process, which ends with this one, and the one after a kill."""

    def __init__(self, log, *command, user=()):
        self.log = log
        self.command = ["setpriv", "--pdeathsig=KILL", *user, *map(str, command)]
        self.start()

    def start(self):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=log, start_new_session=True
            )

    def signal(self, number):
        """To it, then to its children: it does not see those end."""
        own = self.process.pid
        os.kill(own, number)
        children = Path(f"/proc/{own}/task/{own}/children").read_text().split()
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), number)
        return children

    async def kill(self):
        self.signal(signal.SIGSTOP)
        pids = self.signal(signal.SIGKILL)
        self.process.wait()
        await until(lambda: not any(Path("/proc", p).exists() for p in pids), "kill")


class Load(Program):
    """Clients; each of its processes has a history of its own (history_load)."""

    def __init__(self, folder, *command):
        self.folder, self.parts = folder, 0
        super().__init__(folder / "load.log", *command, "--history", "")

    def start(self):
        self.parts += 1
        self.history = self.folder / f"{id(self)}.{self.parts}.jsonl"
        self.history.touch()
        self.command[-1] = str(self.history)
        super().start()


async def until(condition, what):
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within a minute")
        await asyncio.sleep(0.05)


class Soak:
    def __init__(self, options, folder):
        self.options, self.folder, self.out = options, folder, options.out
        self.random = random.Random(options.seed)
        self.started = time.monotonic()
        self.rows, self.repairs = [], {}
        self.add(seed=options.seed, agents=options.agents, jobs=options.jobs)

    def add(self, **row):
        self.rows.append({"t": round(time.monotonic() - self.started, 1), **row})
        with (self.out / "soak.jsonl").open("a") as file:
            print(json.dumps(self.rows[-1]), file=file)

    async def set_up(self):
        programs = max(Path("/usr/lib/postgresql").glob("*/bin/initdb")).parent
        user = ()
        if os.geteuid() == 0:
            user = ("--reuid=nobody", "--regid=nogroup", "--clear-groups")
            subprocess.run(["chown", "nobody", self.folder], check=True)
        self.data, log = self.folder / "d", self.out / "postgres.log"
        made = Program(log, programs / "initdb", "-D", self.data, "-A", "trust",
                       "-U", "ucudnn", "--no-locale", "-E", "UTF8", user=user)  # fmt: skip
        if made.process.wait() != 0:
            raise RuntimeError(log.read_text())
        self.postgres = Program(log, programs / "postgres", "-D", self.data, "-h", "",
                                "-k", self.folder, user=user)  # fmt: skip
        await self.serving()
        self.url = f"postgresql://ucudnn@/postgres?host={self.folder}"
        self.coordinators = [await self.coordinator(i) for i in (0, 1)]
        self.ports = [program.port for program in self.coordinators]
        self.direct = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        (self.folder / "tiny.csv").write_text(NETWORK)
        put = [self.options.build / "bin/ucudnn", "--coordinator", self.direct]
        put += ["networks", "put", "tiny", self.folder / "tiny.csv"]
        subprocess.run(put, check=True, stdout=subprocess.DEVNULL)
        self.links, self.loads = {}, {}
        agents, jobs = self.options.agents // QUARTERS, self.options.jobs // QUARTERS
        await self.load("planner", "--planners", 1)
        for i in range(QUARTERS):
            await self.load(f"agents {i}", "--agents", agents, "--first-agent", i * agents)
            await self.load(f"jobs {i}", "--jobs", jobs)

    async def serving(self):
        file, pid = self.data / "postmaster.pid", self.postgres.process.pid
        await until(
            lambda: file.exists()
            and (text := file.read_text()).startswith(f"{pid}\n")
            and "\nready" in text,
            "PostgreSQL",
        )

    async def coordinator(self, i):
        ready = self.folder / f"ready{i}"
        command = [self.options.build / "bin/ucudnn-coord", "serve", "--create",
                   "--database", self.url, "--ready-file", ready]  # fmt: skip
        at = ["--listen", "127.0.0.1:{}", "--http", "127.0.0.1:{}"]
        program = Program(self.out / f"coordinator{i}.log", *command,
                          *(word.format(0) for word in at))  # fmt: skip
        await until(ready.exists, f"coordinator {i}")
        ports = json.loads(ready.read_text())
        program.port = ports["grpc_port"]
        program.command[-3::2] = [
            f"127.0.0.1:{ports[which]}" for which in ("grpc_port", "http_port")
        ]
        return program

    async def load(self, name, *shape):
        self.links[name] = [await Link(port).open() for port in self.ports]
        addresses = ",".join(link.address for link in self.links[name])
        self.loads[name] = self.clients(addresses, *shape)

    def clients(self, addresses, *shape):
        return Load(self.folder, self.options.build / "bin/history_load", "--coordinator",
                    addresses, "--seed", self.random.getrandbits(31), *shape)  # fmt: skip

    # Faults, and how they end.

    async def wait(self, least, most):
        await asyncio.sleep(self.random.uniform(least, most))

    async def kill(self, what, program, longest):
        self.add(fault="kill", what=what)
        await program.kill()
        if program is self.postgres:
            (self.data / "postmaster.pid").unlink(missing_ok=True)
        await self.wait(0, longest)
        program.start()
        if program is self.postgres:
            await self.serving()

    async def cut(self, what):
        links = self.random.choice([self.links[what], self.links[what][:1],
                                    self.links[what][1:]])  # fmt: skip
        breaks = self.random.random() < 0.5
        self.add(fault="cut", what=what, links=len(links), breaks=breaks)
        for link in links:
            link.cut()
        await self.wait(1, 30)
        for link in links:
            link.heal(breaks)

    async def freeze(self):
        self.add(fault="slow disk", what="PostgreSQL")
        self.postgres.signal(signal.SIGSTOP)
        await self.wait(1, 8)
        self.postgres.signal(signal.SIGCONT)

    def fault(self):
        # Coordinator 1 lives on: a leak shows in a long life.
        name = self.random.choice(list(self.loads))
        what, happens = self.random.choice([
            ("coordinator 0", lambda: self.kill("coordinator 0", self.coordinators[0], 5)),
            ("PostgreSQL", lambda: self.kill("PostgreSQL", self.postgres, 3)),
            ("PostgreSQL", self.freeze),
            (name, lambda: self.kill(name, self.loads[name], 20)),
            (name, lambda: self.kill(name, self.loads[name], 20)),
            (name, lambda: self.cut(name)),
            (name, lambda: self.cut(name)),
        ])  # fmt: skip
        if what not in self.repairs or self.repairs[what].done():
            self.repairs[what] = asyncio.create_task(happens())

    def supervise(self):
        """As systemd does; one that starts while the database is away ends."""
        repair = self.repairs.get("coordinator 0")
        if self.coordinators[0].process.poll() and (repair is None or repair.done()):
            self.coordinators[0].start()

    # Samples.

    async def ask(self, sql):
        """Rows of psql; none while the database does not answer."""
        asked = await asyncio.create_subprocess_exec(
            "psql", "-XAt", "-F", " ", "-c", sql, self.url,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # fmt: skip
        try:
            answer, _ = await asyncio.wait_for(asked.communicate(), 5)
        except asyncio.TimeoutError:
            asked.kill()
            return []
        return [line.split() for line in answer.decode().splitlines()]

    async def sample(self):
        processes = []
        for program in self.coordinators:
            proc = Path(f"/proc/{program.process.pid}")
            one = {"pid": program.process.pid, "rss_kib": 0, "fds": 0, "threads": 0}
            with contextlib.suppress(OSError, KeyError):  # it was just killed
                status = dict(line.split(":", 1) for line in (proc / "status").open())
                one["threads"] = int(status["Threads"])
                one["fds"] = len(os.listdir(proc / "fd"))
                one["rss_kib"] = int(status["VmRSS"].split()[0])
            processes.append(one)
        tables = await self.ask("SELECT relname FROM pg_stat_user_tables")
        parts = [f"SELECT '{name}', count(*) FROM {name}" for (name,) in tables]
        parts.append("SELECT 'bytes', pg_database_size(current_database())")
        rows = dict(await self.ask(" UNION ALL ".join(parts))) if tables else {}
        size = int(rows.pop("bytes", 0)) or None
        rows = {name: int(count) for name, count in rows.items()}
        self.add(coordinators=processes, rows=rows, database_bytes=size)

    async def every(self, act, seconds):
        while True:
            if (happening := act()) is not None:
                await happening
            await asyncio.sleep(seconds())

    async def tell(self):
        faults = sum("fault" in row for row in self.rows)
        last = next(row for row in reversed(self.rows) if "rows" in row)
        memory = [one["rss_kib"] // 1024 for one in last["coordinators"]]
        print(f"{last['t'] / 60:6.1f} min: {faults} faults, {memory} MiB, "
              f"{sum(last['rows'].values())} rows", flush=True)  # fmt: skip

    async def run(self, stopped):
        await self.sample()
        acts = [
            asyncio.create_task(self.every(self.sample, lambda: 10)),
            asyncio.create_task(self.every(self.tell, lambda: 60)),
            asyncio.create_task(self.every(self.supervise, lambda: 2)),
            asyncio.create_task(
                self.every(self.fault, lambda: self.random.expovariate(1 / 15))
            ),
        ]
        await asyncio.wait(
            [asyncio.create_task(stopped.wait()), *acts],
            timeout=self.options.hours * 3600, return_when=asyncio.FIRST_COMPLETED)  # fmt: skip
        for act in acts:
            if act.done():
                act.result()  # raises
            act.cancel()
        await asyncio.gather(*self.repairs.values())
        wrong = await self.judge()
        self.add(wrong=wrong)
        draw(self.rows, self.out / "soak.svg")
        return wrong

    async def judge(self):
        """What is wrong, a line each."""
        wrong = []
        ends = {name: load.history.stat().st_size for name, load in self.loads.items()}
        for name, load in self.loads.items():
            try:
                await until(lambda: load.history.stat().st_size > ends[name], name)
            except TimeoutError as error:
                wrong.append(f"nobody is served: {error}")
        await self.sample()
        for load in self.loads.values():
            load.process.terminate()
        programs = {**self.loads, "the last look": self.clients(self.direct, "--observe")}
        for name, program in programs.items():
            if status := await asyncio.to_thread(program.process.wait):
                wrong.append(f"{name} ends with {status}")
        for i, program in enumerate(self.coordinators):
            program.process.terminate()
            if status := program.process.wait():
                wrong.append(f"coordinator {i} ends with {status}")
        self.postgres.process.send_signal(signal.SIGINT)
        self.postgres.process.wait()
        history = self.out / "history.jsonl"
        with history.open("wb") as file:
            for part in self.folder.glob("*.jsonl"):
                for line in part.open("rb"):
                    if line.endswith(b"\n"):  # else it was killed there
                        file.write(line)
        check = [self.options.build / "bin/history_check", history]
        checked = subprocess.run(check, stdout=subprocess.PIPE, text=True)
        self.add(history=checked.stdout)
        if checked.returncode != 0:
            wrong.append(f"{history}: {checked.stdout}")
        else:
            print(checked.stdout, end="")
            history.unlink()
        return wrong + growths(self.rows)


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hours", type=float, default=2)
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    parser.add_argument("--build", type=Path, default=BUILD)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True)
    print(f"seed {options.seed}", flush=True)
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    with tempfile.TemporaryDirectory(prefix="ucudnn-soak-") as folder:
        soak = Soak(options, Path(folder))
        await soak.set_up()
        wrong = await soak.run(stopped)
    print("\n".join(wrong) or "nothing is wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
