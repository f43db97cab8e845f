"""Encoding processes. Groups of lines go to them in turn and come back in turn, so the order is kept without being kept track of, and a
full pipe is what holds the reader back."""
import fcntl
import os
import signal
import struct
import traceback

F_SETPIPE_SZ = 1031  # Linux
PIPE_BYTES = 512 * 1024
ASK = struct.Struct("<IQQ?")  # file, first line, bytes, whether the line is too long to be there
ANSWER = struct.Struct("<QQQ")  # bytes, records, errors


class Died(Exception):
    """An encoding process that ended before its work."""


def read_all(fd, size):
    """Exactly `size` bytes, or fewer at the end."""
    parts = []
    while size and (part := os.read(fd, min(size, 1 << 20))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def write_all(fd, data):
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest):]


def pipe():
    """A pipe that holds some groups, so that a process has the next one at hand while its last answer waits to be read."""
    ends = os.pipe()
    try:
        fcntl.fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES)
    except OSError:
        pass  # no more for this user: a smaller one is slower, no more
    return ends


class Worker:
    """A process that calls `work(file, first, data)`, which gives bytes and two counts, for each group it is given. Forked, so that what
    is loaded is there once."""

    def __init__(self, work, others):
        ask_here, self._ask = pipe()
        self._answer, answer_here = pipe()
        self._pid = os.fork()
        if self._pid:
            os.close(ask_here)
            os.close(answer_here)
            return
        status = 1
        try:
            # A pipe ends when its last writer has gone: none but the parent's may be left here.
            for each in (self, *others):
                os.close(each._ask)
                os.close(each._answer)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends, and then this does
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            self._serve(work, ask_here, answer_here)
            status = 0
        except BaseException:
            traceback.print_exc()  # no input should lead here
        finally:
            os._exit(status)

    @staticmethod
    def _serve(work, asked, answers):
        while len(head := read_all(asked, ASK.size)) == ASK.size:
            file, first, size, too_long = ASK.unpack(head)
            data = read_all(asked, size)
            if len(data) < size:
                return
            made, records, errors = work(file, first, None if too_long else data)
            write_all(answers, ANSWER.pack(len(made), records, errors) + made)

    def give(self, file, first, data):
        write_all(self._ask, ASK.pack(file, first, len(data or b""), data is None) + (data or b""))

    def take(self):
        """The answer to the oldest group that has none: bytes, records, errors."""
        head = read_all(self._answer, ANSWER.size)
        if len(head) == ANSWER.size:
            size, records, errors = ANSWER.unpack(head)
            made = read_all(self._answer, size)
            if len(made) == size:
                return made, records, errors
        _, status = os.waitpid(self._pid, 0)
        raise Died(f"was ended by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"ended with status {os.WEXITSTATUS(status)}")

    def end(self):
        """For one that has given all of its answers."""
        os.close(self._ask)
        os.waitpid(self._pid, 0)
