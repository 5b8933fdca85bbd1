import dataclasses
import gzip

import pytest

import ucudnn

CSV = (
    "device,network,layer,op,precision,layout,batch,algorithm,math,"
    "workspace_bytes,time_us,extra\n"
    "gpu,net,conv1,forward,FP32,NCHW,4,FFT,FMA,4194304,10.5,x\n"
    'gpu,net,conv1,forward,FP32,NCHW,2,"a ""b"", c",FMA,0,6,y\n'
)


def test_reads_and_writes_the_contracts_csv(tmp_path):
    profile = ucudnn.Profile.from_csv(CSV)
    assert profile.rows[0] == ucudnn.Measurement(
        "gpu", "net", "conv1", "forward", "FP32", "NCHW", 4, "FFT", "FMA",
        4194304, 10.5, {"extra": "x"},
    )  # fmt: skip
    assert len(set(profile.rows)) == 2
    assert profile.rows[1].algorithm == 'a "b", c'
    assert profile.devices == ["gpu"]
    assert ucudnn.Profile.from_csv(profile.to_csv()) == profile
    for name in ("p.csv", "p.csv.gz"):
        profile.write(tmp_path / name)
        assert ucudnn.Profile.read(tmp_path / name) == profile
    assert (tmp_path / "p.csv.gz").read_bytes()[:2] == b"\x1f\x8b"


def test_keeps_the_columns_that_it_does_not_know():
    plain = ucudnn.Measurement(
        "gpu", "net", "conv1", "forward", "FP32", "NCHW", 1, "A", "", 0, 1.0
    )
    csv = ucudnn.Profile(
        [dataclasses.replace(plain, others={"spread_us": "0.25"}), plain]
    ).to_csv()
    assert csv.splitlines()[0].endswith(",time_us,spread_us")
    assert csv.splitlines()[1].endswith(",1,0.25")
    assert csv.splitlines()[2].endswith(",1,")
    assert "spread_us" not in ucudnn.Profile([plain]).to_csv()


def test_solves_a_profile_that_knows_other_tasks_too():
    tasks = f"tasks-{'a' * 64}-FP32-NCHW"
    csv = (
        "device,network,layer,op,precision,layout,batch,algorithm,math,"
        "workspace_bytes,time_us,problem\n"
        "gpu,measured,conv1,forward,FP32,NCHW,4,FFT,FMA,64,10.5,\n"
    )
    convolutions = ucudnn.Profile.from_csv(csv)
    both = ucudnn.Profile.from_csv(
        csv + f"gpu,{'a' * 64},relu1,backward,FP32,NCHW,4,NONE,,0,3.5,{tasks}\n"
    )
    assert both.rows[1].algorithm == "NONE"
    assert both.rows[1].others["problem"] == tasks
    assert ucudnn.Profile.from_csv(both.to_csv()) == both
    assert ucudnn.solve_wr(both, 4, "64B") == ucudnn.solve_wr(convolutions, 4, "64B")


def test_says_where_a_file_is_malformed(tmp_path):
    with pytest.raises(ucudnn.InvalidArgument, match="p:1: no column op"):
        ucudnn.Profile.from_csv("device,network,layer\n", "p")
    with pytest.raises(ucudnn.InvalidArgument, match="p:3: 2 fields; .* 12"):
        ucudnn.Profile.from_csv(CSV.splitlines()[0] + "\n\na,b\n", "p")
    with pytest.raises(ucudnn.InvalidArgument, match="p:2: batch: '4x'"):
        ucudnn.Profile.from_csv(CSV.replace(",4,FFT", ",4x,FFT"), "p")
    (tmp_path / "p.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(ucudnn.InvalidArgument, match="p.csv"):
        ucudnn.Profile.read(tmp_path / "p.csv")
    with pytest.raises(FileNotFoundError):
        ucudnn.Profile.read(tmp_path / "none.csv")


def test_selects_rows_by_column():
    profile = ucudnn.Profile.from_csv(CSV)
    assert [row.batch for row in profile.where(batch=2).rows] == [2]
    assert profile.where(layer="none").rows == []
    with pytest.raises(ucudnn.InvalidArgument, match="no column 'size'"):
        profile.where(size=1)


def test_reads_times_in_both_units(tmp_path):
    times = ucudnn.Times.from_csv("batch,gpu,ms_per_iteration\n8,k80,1.5\n")
    assert times.rows == [ucudnn.Time("k80", 8, 1500.0)]
    with gzip.open(tmp_path / "t.csv.gz", "wt") as file:
        file.write(times.to_csv())
    assert ucudnn.Times.read(tmp_path / "t.csv.gz") == times
