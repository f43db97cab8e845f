"""Inputs, plain or compressed, as bytes: at constant memory, and no later than they come."""
import os
import shutil
import subprocess
import sys
import threading
import zlib

PIECE = 64 * 1024  # bytes at once
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class Unreadable(Exception):
    """An input that cannot be opened."""


class Broken(Exception):
    """An input that fails in the middle."""


class Plain:
    def __init__(self, fd, start):
        self._fd, self._start = fd, start

    def read(self):
        """What there is, waiting only where there is nothing; empty at the end."""
        start, self._start = self._start, b""
        return start or os.read(self._fd, PIECE)


class Gzip:
    """One gzip member or several."""

    def __init__(self, source):
        self._source, self._packed = source, b""
        self._member = zlib.decompressobj(wbits=31)

    def read(self):
        while True:
            packed = self._packed or self._source.read()
            if self._member.eof:
                if not packed:
                    return b""
                self._member = zlib.decompressobj(wbits=31)
            try:
                data = self._member.decompress(packed, PIECE)
            except zlib.error as error:
                raise Broken(f"its gzip data is damaged: {error}") from error
            self._packed = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            if data:
                return data
            if not packed and not self._member.eof:
                raise Broken("its gzip data ends in the middle")


class Zstd:
    """By the zstd program: Python has none of its own before 3.14."""

    def __init__(self, source):
        if shutil.which("zstd") is None:
            raise Unreadable("it is compressed with zstd, and there is no zstd program to read it with (apt-get install zstd)")
        self._source, self._program, self._failure = source, None, None

    def _start(self):
        """At the first read: a process that is forked before has no copy of the pipes, whose ends would then go unnoticed."""
        self._program = subprocess.Popen(["zstd", "-dcq"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._feeder = threading.Thread(target=self._feed, daemon=True)
        self._feeder.start()

    def _feed(self):
        try:
            with self._program.stdin as sink:
                while packed := self._source.read():
                    sink.write(packed)
                    sink.flush()
        except BrokenPipeError:
            pass  # the program has ended, and says why
        except OSError as error:
            self._failure = error

    def read(self):
        if self._program is None:
            self._start()
        data = os.read(self._program.stdout.fileno(), PIECE)
        if not data:
            said = self._program.stderr.read().decode(errors="replace").strip()
            self._feeder.join()
            if self._failure:
                raise self._failure
            if self._program.wait() != 0:
                raise Broken(f"its zstd data is damaged or ends in the middle: {said}")
        return data


def opened(path):
    """An input's source, by its first bytes."""
    try:
        fd = sys.stdin.fileno() if path == "-" else os.open(path, os.O_RDONLY)
        start = os.read(fd, len(ZSTD))
        while start and len(start) < len(ZSTD) and (GZIP.startswith(start[:2]) or ZSTD.startswith(start)):
            more = os.read(fd, len(ZSTD) - len(start))
            if not more:
                break
            start += more
    except OSError as error:
        raise Unreadable(error.strerror) from error
    plain = Plain(fd, start)
    if start.startswith(GZIP):
        return Gzip(plain)
    return Zstd(plain) if start.startswith(ZSTD) else plain
