import pytest
from ucudnn.torch.saved.links import free_host_memory

GIB = 1 << 30
AVAILABLE = {"proc/meminfo": f"MemFree: 1 kB\nMemAvailable: {8 * GIB // 1024} kB\n"}


def host(tmp_path, files):
    for name, text in {**AVAILABLE, **files}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return free_host_memory(str(tmp_path))


def group(folder, limit, used, dropped=0, old=False):
    names = ["memory.max", "memory.current", "inactive_file"]
    if old:
        names = ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"]
    return {
        f"{folder}/{names[0]}": f"{limit}\n", f"{folder}/{names[1]}": f"{used}\n",
        f"{folder}/memory.stat": f"anon 5\n{names[2]} {dropped}\n",
    }  # fmt: skip


def of_version_2(cgroup, begin="/"):
    return {
        "proc/self/cgroup": f"0::{cgroup}\n",
        "proc/self/mountinfo": "22 1 0:20 / /proc rw - proc proc rw\n"
        f"30 23 0:26 {begin} /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n",
    }  # fmt: skip


def test_is_what_the_host_has_without_a_limit(tmp_path):
    assert host(tmp_path, {}) == 8 * GIB
    files = {**of_version_2("/job"), **group("sys/fs/cgroup/job", "max", GIB)}
    assert host(tmp_path, files) == 8 * GIB


def test_is_none_where_nothing_tells(tmp_path):
    assert free_host_memory(str(tmp_path)) is None


@pytest.mark.parametrize("cgroup, begin", [
    ("/slurm/job/step", "/"), ("/pod/slurm/job/step", "/pod"),
])  # fmt: skip
def test_is_within_the_limits_of_all_groups(cgroup, begin, tmp_path):
    files = {
        **of_version_2(cgroup, begin),
        **group("sys/fs/cgroup/slurm/job/step", "max", GIB),
        **group("sys/fs/cgroup/slurm/job", 3 * GIB, 2 * GIB, GIB // 2),
        **group("sys/fs/cgroup/slurm", 6 * GIB, 2 * GIB),
    }
    assert host(tmp_path, files) == 3 * GIB - 2 * GIB + GIB // 2


def test_is_within_the_limit_of_a_container(tmp_path):
    """Which sees its own group as the root, or its name outside."""
    for cgroup in ("/", "/docker/abc"):
        begin = "/" if cgroup == "/" else "/docker/other"
        files = {**of_version_2(cgroup, begin), **group("sys/fs/cgroup", 2 * GIB, GIB)}
        assert host(tmp_path, files) == GIB


def test_is_within_a_limit_of_version_1(tmp_path):
    files = {
        "proc/self/cgroup": "5:cpu,cpuacct:/other\n4:memory:/job\n0::/\n",
        "proc/self/mountinfo":
        "30 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
        **group("sys/fs/cgroup/memory/job", 2 * GIB, 3 * GIB // 2, GIB, old=True),
        **group("sys/fs/cgroup/memory", (1 << 63) - 4096, GIB, old=True),
    }  # fmt: skip
    assert host(tmp_path, files) == 3 * GIB // 2
    files["sys/fs/cgroup/memory/job/memory.stat"] = "total_inactive_file 0\n"
    assert host(tmp_path, files) == GIB // 2


def test_is_nothing_where_more_is_used_than_the_limit(tmp_path):
    files = {**of_version_2("/job"), **group("sys/fs/cgroup/job", GIB, 2 * GIB)}
    assert host(tmp_path, files) == 0
