"""What the peers' programs share: reading records, length-sorted padded batches, and the report."""
import argparse
import json
import time

import numpy as np

TYPES = {"choice": 0, "score": 1, "noul": 2}


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("model", help="a checkpoint's directory")
    parser.add_argument("records", help="a JSONL file")
    parser.add_argument("--limit", type=int, help="score the first N records only")
    parser.add_argument("--tokens", type=int, default=1024, help="padded tokens of a batch at most")
    parser.add_argument("--batch", type=int, default=8, help="records of a batch at most")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--out", help="where the scores go, as JSONL")
    return parser


def load_records(path, limit=None):
    records = []
    with open(path, encoding="utf-8") as source:
        for line in source:
            if limit and len(records) == limit:
                break
            if line.strip():
                record = json.loads(line)
                record["type"] = TYPES.get(record["qtype"], record["qtype"])
                records.append(record)
    return records


def batches(records, tokens, most):
    """Indices, like lengths together: at most `most` records and `tokens` padded tokens a batch, but at least one record."""
    order = sorted(range(len(records)), key=lambda i: len(records[i]["ids"]))
    batch = []
    for i in order:
        if batch and (len(batch) == most or len(records[i]["ids"]) * (len(batch) + 1) > tokens):
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def pad(records, chosen, pad_id=3):
    """The model's inputs for these records: ids, attention mask, marker positions, marker mask, question types."""
    length = max(len(records[i]["ids"]) for i in chosen)
    options = max(1, max(len(records[i]["markers"]) for i in chosen))
    ids = np.full((len(chosen), length), pad_id, np.int64)
    mask = np.zeros((len(chosen), length), np.int64)
    markers = np.zeros((len(chosen), options), np.int64)
    marked = np.zeros((len(chosen), options), bool)
    types = np.zeros(len(chosen), np.int64)
    for row, i in enumerate(chosen):
        record = records[i]
        ids[row, :len(record["ids"])] = record["ids"]
        mask[row, :len(record["ids"])] = 1
        markers[row, :len(record["markers"])] = record["markers"]
        marked[row, :len(record["markers"])] = True
        types[row] = record["type"]
    return ids, mask, markers, marked, types


def load_model(path):
    """The reference package's model in float32, with the checkpoint's weights."""
    import os
    from laya.common import build_model
    from safetensors.torch import load_file
    with open(os.path.join(path, "rl_agent_config.json"), encoding="utf-8") as source:
        config = json.load(source)
    model = build_model(config, encoder_dir=os.path.join(path, "encoder"))
    weights = load_file(os.path.join(path, "model.safetensors"))
    model.load_state_dict(weights, strict=True)
    return model.float().eval()


def measure(options, score):
    """Scores all records with score(inputs) -> logits, act; prints one JSON line about it. Loading and a first batch are not counted."""
    records = load_records(options.records, options.limit)
    plan = list(batches(records, options.tokens, options.batch))
    scores, padded = [None] * len(records), 0
    score(pad(records, plan[0]))
    begin = time.perf_counter()
    for chosen in plan:
        inputs = pad(records, chosen)
        logits, act = score(inputs)
        padded += inputs[0].size
        for row, i in enumerate(chosen):
            scores[i] = {"id": records[i].get("id"), "logits": logits[row, :len(records[i]["markers"])].tolist(), "act": act[row].tolist()}
    seconds = time.perf_counter() - begin
    tokens = sum(len(record["ids"]) for record in records)
    print(json.dumps({"records": len(records), "tokens": tokens, "seconds": seconds, "tokens_per_second": tokens / seconds,
                      "padding": 1 - tokens / padded}), flush=True)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as out:
            out.writelines(json.dumps(line) + "\n" for line in scores)
