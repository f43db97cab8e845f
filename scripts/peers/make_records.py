#!/usr/bin/env python3
"""Writes random records for a vocabulary, with the lengths that real jobs have: for benchmarks.

    make_records.py N [--vocab 50368] [--mix tickets|short|long|fixed:LENGTH] [--seed S] > records.jsonl

tickets: log-normal around 110 tokens, 32 to 512 (a question, its options and a message). short: 16 to 64. long: 512 to 2048.
"""
import argparse
import json
import sys

import numpy as np


def length(random, mix):
    if mix == "tickets":
        return int(np.clip(np.exp(random.normal(np.log(110), 0.55)), 32, 512))
    if mix == "short":
        return int(random.integers(16, 65))
    if mix == "long":
        return int(random.integers(512, 2049))
    return int(mix.split(":")[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--vocab", type=int, default=50368)
    parser.add_argument("--mix", default="tickets")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random = np.random.Generator(np.random.PCG64(options.seed))
    for i in range(options.count):
        tokens = length(random, options.mix)
        count = int(random.integers(2, 9))
        markers = np.sort(random.choice(np.arange(1, tokens), min(count, tokens - 1), replace=False)).tolist() if tokens > 1 else [0]
        qtype = ("choice", "score", "noul")[int(random.integers(0, 3))]
        record = {"id": f"r{i:07d}", "ids": random.integers(4, options.vocab, tokens).tolist(),
                  "markers": markers[:2] if qtype == "noul" else markers, "qtype": qtype}
        sys.stdout.write(json.dumps(record, separators=(",", ":")) + "\n")


main()
