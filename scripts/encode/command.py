"""The command: its options, the flow from inputs through the encoding processes to the output, and how it ends."""
import argparse
import os
import queue
import signal
import sys
import threading

import checkpoint
import groups
import request_lines
import sources
import workers

NAME = "kime-encode"


class Ended(Exception):
    """The end of the run before its time: an exit status and what is said."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def cores():
    """As many as this process may use: its affinity, and its control group's share."""
    most = len(os.sched_getaffinity(0))
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as source:
            quota, period = source.read().split()
        if quota != "max":
            most = min(most, max(1, -(-int(quota) // int(period))))
    except (OSError, ValueError):
        pass  # no such limit here
    return most


def whole(text):
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def parse(description):
    parser = argparse.ArgumentParser(prog=NAME, description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", metavar="FILE", nargs="*", help="JSONL, plain, .gz or .zst; - or none is standard input")
    parser.add_argument("-m", "--model", metavar="DIR", default=os.environ.get("KIME_MODEL"), help="the checkpoint (default: $KIME_MODEL)")
    parser.add_argument("-j", "--jobs", metavar="N", type=whole, default=cores(), help="encoding processes (default: one a core)")
    parser.add_argument("-q", "--quiet", action="store_true", help="no count of errors at the end")
    parser.add_argument("--max-line", metavar="BYTES", type=whole, default=64 << 20, help="a longer line is an error (default: 64 MiB)")
    options = parser.parse_args()
    if not options.model:
        parser.error("which checkpoint? Say -m DIR or set KIME_MODEL")
    options.files = options.files or ["-"]
    if options.files.count("-") > 1:
        parser.error("standard input can be read once only")
    return options


def open_all(files):
    opened = []
    for path in files:
        try:
            opened.append(sources.opened(path))
        except sources.Unreadable as error:
            raise Ended(2, f"cannot read {path}: {error}") from error
    return opened


def load(folder):
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes are what works in parallel
    try:
        return checkpoint.Checkpoint(folder)
    except ModuleNotFoundError as error:
        if error.name != "tokenizers":
            raise
        raise Ended(2, f"the Python package tokenizers is missing. Install it for this Python:\n  {sys.executable} -m pip install tokenizers\n"
                       "or, where Debian's Python refuses that, into an environment of its own:\n"
                       "  python3 -m venv venv && venv/bin/pip install tokenizers && venv/bin/python scripts/kime-encode ...") from error
    except checkpoint.Unusable as error:
        raise Ended(2, str(error)) from error


def make_work(model, files, max_line):
    """What an encoding process does with a group."""
    names = [os.fsencode(path).decode(errors="replace") if len(files) > 1 else None for path in files]

    def work(file, first, data):
        def origin(number):
            return request_lines.Origin(number, names[file])

        if data is None:
            return request_lines.error_line("null", origin(first), request_lines.too_long(max_line)).encode(), 0, 1
        text, records, errors = request_lines.encode(model, [(origin(number), line) for number, line in groups.lines(first, data)], max_line)
        return text.encode(), records, errors

    return work


class Reader(threading.Thread):
    """Gives groups to the workers in turn, and to `order` the worker that the next answer comes from; last of all None or what failed."""

    def __init__(self, inputs, files, max_line, pool, order):
        super().__init__(daemon=True)  # it may wait for an input for ever
        self._inputs, self._files, self._max_line, self._pool, self._order = inputs, files, max_line, pool, order
        self.stop = False

    def run(self):
        self._order.put(self._read())

    def _read(self):
        turn = 0
        for file, source in enumerate(self._inputs):
            try:
                for first, data in groups.groups(source.read, self._max_line):
                    if self.stop:
                        return None
                    worker = self._pool[turn % len(self._pool)]
                    turn += 1
                    self._order.put(worker)
                    worker.give(file, first, data)
            except BrokenPipeError:
                return None  # the worker has died; whoever waits for its answer learns of it
            except sources.Broken as error:
                return Ended(3, f"{self._files[file]}: {error}")
            except OSError as error:
                return Ended(3, f"{self._files[file]}: {error.strerror}")
        return None


def write(data):
    try:
        workers.write_all(sys.stdout.fileno(), data)
    except BrokenPipeError:  # as quietly as cat
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGPIPE)
    except OSError as error:
        raise Ended(3, f"cannot write to standard output: {error.strerror}") from error


def run(options):
    model = load(options.model)
    inputs = open_all(options.files)  # which may wait for a first byte
    work = make_work(model, options.files, options.max_line)
    pool = []
    for _ in range(options.jobs):
        pool.append(workers.Worker(work, pool))
    order = queue.SimpleQueue()
    reader = Reader(inputs, options.files, options.max_line, pool, order)
    stopped = []

    def stop(signum, _frame):
        if stopped:  # the second time at once
            os._exit(128 + signum)
        stopped.append(signum)
        reader.stop = True
        order.put(None)

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    reader.start()
    records, errors = 0, 0
    while worker := order.get():
        if isinstance(worker, Ended):
            raise worker
        try:
            made, more_records, more_errors = worker.take()
        except workers.Died as error:
            raise Ended(3, f"an encoding process {error}") from error
        records, errors = records + more_records, errors + more_errors
        write(made)
    if not stopped:
        for worker in pool:
            worker.end()
    if errors and not options.quiet:
        print(f'{NAME}: {errors} of {records + errors} could not be encoded; see the lines with "error"', file=sys.stderr)
    return 128 + stopped[0] if stopped else 1 if errors else 0


def main(description):
    sys.setrecursionlimit(8 * request_lines.MOST_LEVELS)  # Python's JSON takes a level of its own for each of the input's
    options = parse(description)
    try:
        status = run(options)
    except Ended as ended:
        print(f"{NAME}: {ended}", file=sys.stderr)
        status = ended.status
    sys.stderr.flush()
    os._exit(status)  # a reader that waits for its input would hold up any other way out
