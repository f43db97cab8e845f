"""Runs a table of steps, each within its own time and all within the whole's, and says of each how it went."""
import dataclasses
import os
import resource
import signal
import subprocess
import time
from typing import Callable

TAIL = 2000  # characters of a failing command's output that are kept


class Failed(Exception):
    """A step did not hold. `output` is what a command said, for who looks into it."""

    def __init__(self, reason, output=""):
        super().__init__(reason)
        self.output = output[-TAIL:]


class Skipped(Exception):
    """A step cannot be done here, and why."""


@dataclasses.dataclass
class Done:
    """What a command did."""
    command: list
    status: int
    stdout: bytes
    stderr: str
    seconds: float
    cpu_seconds: float


@dataclasses.dataclass
class Step:
    """Commands, run in turn, and the judge of what they did: it returns what is to be said and the figures, or raises Failed or Skipped."""
    name: str
    limit: float  # seconds
    commands: list
    judge: Callable  # of the list of Done
    needs: Callable = lambda: None  # says what is missing, if anything
    required: bool = True
    any_status: bool = False  # the judge looks at the commands' statuses


@dataclasses.dataclass
class Result:
    name: str
    status: str  # ok, failed or skipped
    seconds: float
    limit_seconds: float
    required: bool
    detail: str
    figures: dict
    output: str = ""

    def holds(self):
        return self.status == "ok" or self.status == "skipped" and not self.required


def run(command, env, seconds):
    """Runs a command to its end. Raises Failed where that takes longer than so many seconds; all that it started is ended then."""
    words = " ".join(map(str, command))
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    try:
        process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    except OSError as error:
        raise Failed(f"cannot run {command[0]}: {error.strerror}") from error
    try:
        stdout, stderr = process.communicate(timeout=max(0.0, seconds))
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        stdout, stderr = process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise Failed(f"not through within {seconds:.0f} s: {words}", stderr.decode(errors="replace")) from error
        raise
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Done(command, process.returncode, stdout, stderr.decode(errors="replace"), time.monotonic() - begin, cpu)


def run_step(step, env, end):
    """Runs a step, which has until its limit or `end` on the monotonic clock."""
    begin = time.monotonic()
    limit = min(step.limit, end - begin)

    def result(status, detail, figures=None, output=""):
        return Result(step.name, status, time.monotonic() - begin, step.limit, step.required, detail, figures or {}, output)

    try:
        if missing := step.needs():
            raise Skipped(missing)
        if limit <= 0:
            raise Skipped("no time is left")
        done = []
        for command in step.commands:
            done.append(run(command, env, begin + limit - time.monotonic()))
            if done[-1].status != 0 and not step.any_status:
                raise Failed(f"status {done[-1].status} of {' '.join(map(str, command))}", done[-1].stdout.decode(errors="replace") + done[-1].stderr)
        return result("ok", *step.judge(done))
    except Skipped as skipped:
        return result("skipped", str(skipped))
    except Failed as failed:
        return result("failed", str(failed), output=failed.output)
    except (KeyError, ValueError, TypeError, OSError) as error:  # what a command wrote is not what was agreed
        return result("failed", f"what came out cannot be read: {error!r}")


def run_all(steps, env, seconds, tell):
    """The results of all steps, each told as it ends."""
    end = time.monotonic() + seconds
    results = []
    for step in steps:
        results.append(run_step(step, env, end))
        tell(results[-1])
    return results
