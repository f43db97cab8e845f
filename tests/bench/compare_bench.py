#!/usr/bin/env python3
"""How fast `kime compare` is, and in how much memory: made-up score files, the same order and another one.

    tests/bench/compare_bench.py KIME [RECORDS]     prints seconds, MB/s of both files together, and peak memory
"""
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import time


def write(path, order, drift):
    """Scores that a record's number decides; `drift`: every number differs a little."""
    with open(path, "w", encoding="ascii") as out:
        for i in order:
            draw = random.Random(i)
            values = [draw.gauss(0, 8) for _ in range(2 + i % 5)] + [draw.gauss(0, 4), draw.gauss(0, 4)]
            text = [f"{v + drift * abs(v):.8g}" for v in values]
            out.write(f'{{"id":"ticket-{i:07d}","logits":[{",".join(text[:-2])}],"act":[{",".join(text[-2:])}]}}\n')


def write_all(folder, count):
    """In a process of its own: a child's peak memory begins with its parent's."""
    write(os.path.join(folder, "old"), range(count), 0)
    write(os.path.join(folder, "same"), range(count), 0)
    write(os.path.join(folder, "drifted"), range(count), 1e-6)
    write(os.path.join(folder, "reverse"), reversed(range(count)), 0)
    order = list(range(count))
    random.Random(1).shuffle(order)
    write(os.path.join(folder, "shuffled"), order, 1e-6)


def measure(kime, what, old, new):
    size = os.path.getsize(old) + os.path.getsize(new)
    begin = time.monotonic()
    process = subprocess.Popen([kime, "compare", old, new, "--rel-tol", "1e-3", "-q"])
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    print(f"{what:<34} {seconds:6.2f} s  {size / seconds / 1e6:7.0f} MB/s  CPU {usage.ru_utime + usage.ru_stime:5.2f} s  "
          f"peak {usage.ru_maxrss / 1024:6.1f} MiB  status {process.returncode}")


def main():
    kime, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        old, same, drifted, shuffled, reverse = (os.path.join(folder, name) for name in ("old", "same", "drifted", "shuffled", "reverse"))
        writer = multiprocessing.Process(target=write_all, args=(folder, count))
        writer.start()
        writer.join()
        print(f"{count:,} records, {os.path.getsize(old) / 1e6:.0f} MB a file; an id is 16 bytes with its quotes")
        for _ in range(3):
            measure(kime, "in order, the same bits", old, same)
            measure(kime, "in order, every number another", old, drifted)
        measure(kime, "shuffled, every number another", old, shuffled)
        measure(kime, "the other way round", old, reverse)


main()
