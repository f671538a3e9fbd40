"""The process that trains for a worker."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import rindices as ri
from rindices.learners.prepared_people import PreparedPeople
from rindices.study.config import ModelConfig
from rindices.study.engines import _STOPPED_EXIT_CODE, TrainingJob, TrainingPausedError, TrainingProcess
from rindices.study.recipes import MemberSet
from rindices.study.store import RunStore
from rindices.study.study import make_plan
from tests.cohorts import simulate_few_regions
from tests.study.helpers import LONG, newest_states


@pytest.fixture
def order(tmp_path: Path) -> TrainingJob:
    """A training that takes far longer than a test."""
    cohort = simulate_few_regions("tiny", seed=1).cohort
    (work,) = make_plan(ModelConfig(**LONG), 0, cohort.fingerprint())
    X, y = ri.Preprocessing.fit(cohort).transform(cohort), cohort.is_patient.astype(np.intp)
    return TrainingJob(work, tmp_path, RunStore(tmp_path).save_people([PreparedPeople(X, y)]))


@pytest.mark.slow  # tests/study/test_run.py ends the command itself
@pytest.mark.parametrize("end", ["asked", "abandoned"])
def test_a_training_that_must_end_keeps_its_state(order: TrainingJob, end: str) -> None:
    """SIGTERM at the end of the wall time, and the end of the worker that asked for it."""
    process, store, ended = TrainingProcess(), RunStore(order.folder), list[type]()

    def train() -> None:
        try:
            process.train(order)
        except TrainingPausedError as error:
            ended.append(type(error))

    thread = threading.Thread(target=train)
    thread.start()
    ((state, last),) = newest_states(order.folder, 1).items()
    time.sleep(0.5)
    if end == "asked":
        process.request_stop()
    else:
        assert process._process.stdin is not None
        process._process.stdin.close()
    thread.join(120)
    process.stop()
    assert ended == [TrainingPausedError]
    assert state.stat().st_mtime_ns > last
    assert 0 < store.sum_partial_progress([order.work]) < 0.5


BOTH_SIGNALS = """
import os, signal
from rindices.study.engines import _interrupt_training
both = (signal.SIGINT, signal.SIGTERM)
for number in both:
    signal.signal(number, _interrupt_training)
signal.pthread_sigmask(signal.SIG_BLOCK, both)
for number in both:
    os.kill(os.getpid(), number)
try:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, both)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_two_signals_at_once_interrupt_without_a_traceback() -> None:
    """Ctrl-C reaches all processes of a terminal, and the command then sends SIGTERM to its workers."""
    done = subprocess.run([sys.executable, "-c", BOTH_SIGNALS], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


LOST_INTERRUPT = """
import ctypes, signal, time
from rindices.study import engines

def train(job):
    ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGTERM))()  # as threadpoolctl does at each limit
    time.sleep(0.5)
    print("not interrupted")

engines.run_training_job, engines._decode_job = train, str
engines.main()
"""


def test_an_interrupt_in_a_callback_of_a_c_library_is_not_lost() -> None:
    """Its input stays open: without the interrupt, the process would wait for the next job."""
    command = [sys.executable, "-c", LOST_INTERRUPT]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        assert process.stdin is not None
        process.stdin.write("job\n")
        process.stdin.flush()
        try:
            assert process.wait(60) == _STOPPED_EXIT_CODE
        finally:
            process.kill()
        assert process.communicate() == ("", "")


def test_a_job_is_decoded_as_it_was_encoded(order: TrainingJob) -> None:
    from rindices.study.engines import _decode_job, _encode_job

    again = _decode_job(_encode_job(order))
    assert again == order
    assert isinstance(again.work, MemberSet)
    assert again.work.key == order.work.key
