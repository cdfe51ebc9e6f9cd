"""What nmt learns of the machine, and asks of the libraries on it."""

import os
import threading
from contextlib import contextmanager

import pytest

from nmt.base import machine
from nmt.base.machine import busy_share, free_in_cgroups, num_cores, seconds_waited


@pytest.mark.parametrize(("load", "share"), [(0.0, 0.0), (1.0, 0.25), (9.0, 1.0)])
def test_the_load_of_a_machine_is_a_share_of_its_cores(monkeypatch, load, share):
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert busy_share() == share


@contextmanager
def limited_by(folder):
    """Read the control groups in `folder`, and the file `own` in it, instead of those of this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "CGROUPS", folder)
        patch.setattr(machine, "OWN_CGROUP", folder / "own")
        yield


def write_files(folder, files):
    """Write each text to the file of its name below `folder`; return the folder."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


CPU_QUOTAS = {
    "version 2, of a group above": ("0::/job/step\n", {"job/cpu.max": "40000 100000\n", "job/step/cpu.max": "max 1\n"}),
    "version 2, in a container": ("0::/\n", {"cpu.max": "100000 100000\n"}),
    "version 1": ("4:cpu,cpuacct:/job\n", {"cpu/job/cpu.cfs_quota_us": "1000", "cpu/job/cpu.cfs_period_us": "9000"}),
    "version 1, in a container": (
        "4:cpu,cpuacct:/docker/0a1b\n0::/x\n",
        {"cpu/cpu.cfs_quota_us": "50000\n", "cpu/cpu.cfs_period_us": "100000\n"},
    ),
}


@pytest.mark.parametrize(("own", "files"), CPU_QUOTAS.values(), ids=CPU_QUOTAS)
def test_a_quota_of_cpu_time_limits_the_cores(tmp_path, own, files):
    write_files(tmp_path, {"own": own, **files})
    with limited_by(tmp_path):
        assert num_cores() == 1


def test_a_quota_is_rounded_up_and_one_beyond_the_cores_does_not_matter(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2, 3}, raising=False)
    for quota, expected in (("150000 100000", 2), ("900000 100000", 4), ("1 100000", 1)):
        write_files(tmp_path, {"own": "0::/\n", "cpu.max": quota})
        with limited_by(tmp_path):
            assert num_cores() == expected


MEMORY_LIMITS = {
    "version 2": ("0::/job\n", {"job/memory.max": "1000\n", "job/memory.current": "400\n"}, 600),
    "version 2, with cached files": (
        "0::/\n",
        {"memory.max": "1000", "memory.current": "900", "memory.stat": "anon 5\ninactive_file 300\nactive_file 100\n"},
        500,
    ),
    "version 2, of a group above": (
        "0::/job/step\n",
        {"job/memory.max": "500", "job/memory.current": "600", "job/step/memory.max": "max"},
        0,
    ),
    "version 1, in a container": (
        "5:memory:/docker/0a1b\n",
        {
            "memory/memory.limit_in_bytes": "1000",
            "memory/memory.usage_in_bytes": "700",
            "memory/memory.stat": "inactive_file 1\ntotal_inactive_file 50\n",
        },
        350,
    ),
}


@pytest.mark.parametrize(("own", "files", "free"), MEMORY_LIMITS.values(), ids=MEMORY_LIMITS)
def test_a_limit_leaves_the_memory_that_is_not_used_up_or_can_be_freed(tmp_path, own, files, free):
    write_files(tmp_path, {"own": own, **files})
    with limited_by(tmp_path):
        assert free_in_cgroups() == free


ODD_GROUPS = {
    "nothing": {},
    "no numbers": {"own": "0::/a\n", "memory.max": "x", "memory.current": "", "cpu.max": "1", "a/cpu.max": "a b c"},
    "no limits": {"own": "0::/\n", "memory.max": "max", "memory.current": "7", "cpu.max": "max 100000"},
    "no usage": {"own": "0::/\n", "memory.max": "100"},
    "bytes": {"own": b"0::/\xff\n:\n\n1\n0::/../../etc\n", "cpu.max": b"\xff\x00", "memory.stat": b"\xff\n \n1 \n a"},
    "quotas that are none": {"own": "1:cpu:/\n", "cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "0"},
}


@pytest.mark.parametrize("files", ODD_GROUPS.values(), ids=ODD_GROUPS)
def test_control_groups_that_set_no_limit_or_cannot_be_read_set_none(tmp_path, files):
    write_files(tmp_path, files)
    with limited_by(tmp_path):
        assert free_in_cgroups() is None
        found = num_cores()
    with limited_by(tmp_path / "none"):
        assert num_cores() == found


def test_nothing_is_said_of_a_system_that_does_not_tell(monkeypatch):
    monkeypatch.delattr(os, "getloadavg", raising=False)
    assert busy_share() == 0.0


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="only Linux tells how long threads wait")
def test_linux_tells_how_long_a_thread_waited_for_a_core():
    before = seconds_waited(threading.get_native_id())
    after = seconds_waited(threading.get_native_id())
    assert before is not None
    assert after is not None
    assert 0 <= before <= after


def test_nothing_is_known_of_a_thread_that_is_not_there():
    assert seconds_waited(0) is None
