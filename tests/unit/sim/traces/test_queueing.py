"""Logs of batch queues: read in every format that is known, and replayed as the reference did."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from fairlead.programs.trace import main
from fairlead.sim.traces.queueing import ORDERS, Replay, machines, summary
from fairlead.sim.traces.reading import TraceJob, UnknownTrace, processors, read_trace

DATA = Path(__file__).parents[4] / "bench" / "data" / "hpc"


def lines_of(name: str) -> list[str]:
    with gzip.open(DATA / name, "rt") as file:
        return file.readlines()


def test_easy_starts_every_job_of_the_reference_when_the_reference_did() -> None:
    lines = lines_of("batsim_mediumlate_easy.csv.gz")
    assert processors(lines) == 32
    started = Replay(machines(32, 1), read_trace(lines)).easy("arrival")
    assert all(each.at == each.job.started for each in started)
    assert summary(started)["mean_wait_s"] == pytest.approx(9.516, abs=0.001)


def test_conservative_waits_less_than_the_reference_and_keeps_every_promise() -> None:
    started = Replay(
        machines(32, 1), read_trace(lines_of("batsim_mediumlate_conservative.csv.gz"))
    ).conservative()
    assert len(started) == 801
    assert all(each.at <= each.promised for each in started)
    assert summary(started)["mean_wait_s"] <= 9.852


def test_a_log_tells_its_machine_and_the_jobs_that_ran() -> None:
    lines = lines_of("alea_hpc2n_sample.swf.gz")
    jobs = read_trace(lines)
    assert (processors(lines), len(jobs)) == (240, 3145)
    assert all(job.limit_ms >= job.run_ms for job in jobs)


def test_gpu_logs_are_read_too_and_anything_else_is_said() -> None:
    muri = ["job_id,num_gpu,submit_time,iterations,iteration_time\n", "0,8,1000,50,20\n"]
    assert read_trace(muri) == [TraceJob(0, 1000, 8, 1000, 1000)]
    philly = ["timestamp,duration,num_gpus,gpu_time,cluster\n", "1970-01-02 00:00:01,66.5,2,133,x\n"]
    assert read_trace(philly) == [TraceJob(0, 86_401_000, 2, 66_500, 66_500)]
    with pytest.raises(UnknownTrace):
        read_trace(["hello\n"])


@pytest.mark.parametrize("order", list(ORDERS))
def test_every_order_starts_every_job_once_and_never_uses_more_than_there_is(order: str) -> None:
    jobs = [
        TraceJob(key, key * 700, 1 + key % 4, 1000 * (1 + key % 7), 1000 * (1 + key % 9)) for key in range(80)
    ]
    started = Replay(machines(4, 1), jobs).easy(order)
    assert sorted(each.job.key for each in started) == list(range(80))
    events = [(each.at, each.job.size) for each in started]
    events += [(each.at + min(each.job.run_ms, each.job.limit_ms), -each.job.size) for each in started]
    used = 0
    for _, change in sorted(events):
        used += change
        assert 0 <= used <= 4


def test_the_program_draws_what_it_prints_and_says_what_it_cannot_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, plot = tmp_path / "t.csv", tmp_path / "t.svg"
    trace.write_text("job_id,num_gpu,submit_time,iterations,iteration_time\n0,8,1000,50,20\n1,8,1000,50,20\n")
    assert main({"files": [str(trace)], "plot": str(plot)}) == 0
    assert "arrival        mean wait" in capsys.readouterr().out
    assert plot.read_text(encoding="utf-8").startswith("<svg")
    assert main({"files": [str(tmp_path / "none")]}) == 2
    assert main({"files": [str(trace)], "policy": ["arival"]}) == 2
    assert "fix: --policy arrival" in capsys.readouterr().err
