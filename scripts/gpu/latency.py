#!/usr/bin/env python3
"""The time from writing a record to reading its scores, of a `kime score` that waits for records: one JSON object.

    latency.py TOKENS RUNS COMMAND...    COMMAND reads records from its standard input; a tenth as many runs come before, to warm up
"""
import json
import statistics
import subprocess
import sys
import time


def main():
    tokens, runs, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    ids = [5 + i % 190 for i in range(tokens)]  # every checkpoint has these
    markers = [(2 * i + 1) * tokens // 8 for i in range(4)]
    line = json.dumps({"id": "r", "ids": ids, "markers": markers, "qtype": "choice"}).encode() + b"\n"
    times, warm_up = [], runs // 10
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for run in range(warm_up + runs):
            begin = time.perf_counter()
            process.stdin.write(line)
            process.stdin.flush()
            answer = process.stdout.readline()
            times.append(time.perf_counter() - begin)
            if b'"logits"' not in answer:
                process.stdin.close()
                sys.exit(f"latency: record {run} was not answered with scores: {answer.decode().strip()}")
        process.stdin.close()
        rest = process.stdout.read()
    if rest or process.returncode != 0:
        sys.exit(f"latency: status {process.returncode} after the last record; {rest.decode()}")
    times = sorted(times[warm_up:])
    print(json.dumps({"tokens": tokens, "median_seconds": statistics.median(times), "p99_seconds": times[len(times) * 99 // 100]}))


main()
