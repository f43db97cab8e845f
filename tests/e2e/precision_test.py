"""--precision: what the answers of the narrow precisions keep, also where a checkpoint's channels differ a hundredfold; and its manners."""
import json
import os
import random
import shutil
import struct
import unittest

from support import DEMO, TESTDATA, Case, kime, lines

FORMATS = {"F16": "e", "F32": "f"}


def read_tensors(path):
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        code = FORMATS[entry["dtype"]]
        count = (end - begin) // struct.calcsize(code)
        tensors[name] = (entry["shape"], list(struct.unpack(f"<{count}{code}", data[begin:end])))
    return tensors


def write_tensors(path, tensors):
    header, blocks, offset = {}, [], 0
    for name, (shape, values) in tensors.items():
        block = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + len(block)]}
        blocks.append(block)
        offset += len(block)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blocks))


class Channels:
    """Scales what goes into a channel and divides what comes out of it, so that the model stays the same function."""

    def __init__(self, tensors, factor, seed):
        self.tensors, self.factor, self.random = tensors, factor, random.Random(seed)

    def some(self, count):
        return self.random.sample(range(count), 3)

    def rows(self, name, rows):
        shape, values = self.tensors[name]
        width = shape[1] if len(shape) == 2 else 1
        for row in rows:
            values[row * width:(row + 1) * width] = [x * self.factor for x in values[row * width:(row + 1) * width]]

    def columns(self, name, columns):
        shape, values = self.tensors[name]
        for row in range(shape[0]):
            for column in columns:
                values[row * shape[1] + column] /= self.factor

    def stand_out(self):
        layer = 0
        while f"encoder.layers.{layer}.mlp.Wi.weight" in self.tensors:
            prefix = f"encoder.layers.{layer}."
            width = self.tensors[prefix + "mlp.Wo.weight"][0][1]
            hidden = self.tensors[prefix + "attn.Wo.weight"][0][0]
            for norm, weight in (("attn_norm", "attn.Wqkv"), ("mlp_norm", "mlp.Wi")):
                if prefix + norm + ".weight" in self.tensors:
                    chosen = self.some(hidden)
                    self.rows(f"{prefix}{norm}.weight", chosen)
                    self.columns(f"{prefix}{weight}.weight", chosen)
            chosen = self.some(hidden)
            self.rows(prefix + "attn.Wqkv.weight", [2 * hidden + c for c in chosen])
            self.columns(prefix + "attn.Wo.weight", chosen)
            chosen = self.some(width)
            self.rows(prefix + "mlp.Wi.weight", [width + c for c in chosen])
            self.columns(prefix + "mlp.Wo.weight", chosen)
            layer += 1


def answers(lines_of_scores):
    return [max(range(len(r["probs"])), key=r["probs"].__getitem__) for r in lines_of_scores]


def margin(record):
    best = sorted(record["probs"])[-2:]
    return best[1] - best[0] if len(best) == 2 else 1.0


class Accuracy(Case):
    def probs(self, model, precision):
        ran = kime("score", "-m", model, "--precision", precision, "--emit", "probs", os.path.join(DEMO, "records.jsonl"))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return lines(ran.stdout)

    def judge(self, model):
        wide = self.probs(DEMO, "f32")
        for precision in ("bf16", "int8"):
            with self.subTest(precision):
                narrow = self.probs(model, precision)
                pairs = list(zip(wide, narrow))
                shifts = [abs(x - y) for w, n in pairs for x, y in zip(w["probs"], n["probs"])]
                changed = [w for w, x, y in zip(wide, answers(wide), answers(narrow)) if x != y]
                self.assertLess(sum(shifts) / len(shifts), 0.01)
                if precision == "bf16":
                    self.assertFalse([w["id"] for w in changed if margin(w) > 0.05])
                self.assertLessEqual(len(changed), 0.005 * len(wide))

    def test_the_demo_keeps_its_answers(self):
        self.judge(DEMO)

    def test_channels_that_stand_out_keep_them_too(self):
        for factor in (100.0, 1000.0):
            with self.subTest(factor=factor):
                tensors = read_tensors(os.path.join(DEMO, "model.safetensors"))
                Channels(tensors, factor, seed=int(factor)).stand_out()
                model = self.path(f"outliers{int(factor)}")
                shutil.copytree(DEMO, model)
                write_tensors(os.path.join(model, "model.safetensors"), tensors)
                self.judge(model)


class Overflow(Case):
    """A checkpoint whose activations f16 does not hold, on a library that acts as a CUDA driver."""
    SMALL = os.path.join(TESTDATA, "parity", "nohead-f32")

    def setUp(self):
        super().setUp()
        self.model = self.path("loud")
        shutil.copytree(self.SMALL, self.model)
        tensors = read_tensors(os.path.join(self.SMALL, "model.safetensors"))
        Channels(tensors, 3e5, seed=1).stand_out()
        write_tensors(os.path.join(self.model, "model.safetensors"), tensors)
        with open(os.path.join(self.SMALL, "records.jsonl"), "rb") as source:
            self.records = [source.readline() for _ in range(6)]

    def score(self, precision, status=0, count=6):
        self.stats = self.path("stats.json")
        ran = kime("score", "-m", self.model, "--devices", "cuda", "--precision", precision, "--stats", self.stats, stdin=b"".join(self.records[:count]),
                   env={"KIME_CUDA_DRIVER": os.environ["KIME_FAKE_LIBCUDA"], "KIME_CUBLASLT": "libno-such.so.13"})
        self.assertEqual(ran.returncode, status, ran.stderr)
        return lines(ran.stdout)

    def test_auto_scores_again_in_bf16_what_f16_does_not_hold(self):
        for line in self.score("f16", status=1):
            self.assertEqual(line["error"]["kind"], "nonfinite")
        again = self.score("auto")
        with open(self.stats, encoding="utf-8") as file:
            self.assertEqual(json.load(file)["devices"][0]["rescued"], 6)
        self.assertEqual(again, self.score("bf16"))
        self.assertEqual(again[:1], self.score("auto", count=1))


class Manners(Case):
    def test_auto_is_f32(self):
        records = os.path.join(DEMO, "records.jsonl")
        self.assertEqual(kime("score", "-m", DEMO, "--precision", "auto", records).stdout, kime("score", "-m", DEMO, "--precision", "f32", records).stdout)

    def test_f16_is_refused_with_what_there_is(self):
        for command in ("score", "bench"):
            ran = kime(command, "-m", DEMO, "--precision", "f16", stdin=b"")
            self.assertEqual(ran.returncode, 2)
            self.assertEqual(ran.stdout, b"")
            for word in ("f16", "f32", "bf16", "int8"):
                self.assertIn(word, ran.stderr.decode())

    def test_the_precision_is_told(self):
        for precision in ("f32", "bf16", "int8"):
            stats = self.path("stats.json")
            ran = kime("score", "-v", "-m", DEMO, "--precision", precision, "--stats", stats, stdin=b"")
            self.assertIn(precision, ran.stderr.decode())
            with open(stats, encoding="utf-8") as file:
                self.assertEqual(json.load(file)["precision"], precision)


if __name__ == "__main__":
    unittest.main()
