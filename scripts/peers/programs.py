"""The programs that are compared, each as something that scores the records once and says how fast."""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# Padded tokens and records of a batch that are tried for a peer; small ones suit few cores.
BATCHES = ((512, 4), (1024, 8), (2048, 16))


class Failed(Exception):
    pass


def run(command):
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        last = ran.stderr.strip().splitlines()[-1:] or ["no message"]
        raise Failed(f"{os.path.basename(command[0])} ended with status {ran.returncode}: {last[0]}")
    return ran.stdout


class Kime:
    """`kime score` as a whole, less its load: the seconds of its --stats document."""

    name = "kime"

    def __init__(self, setting, precision):
        self.setting, self.precision = setting, precision
        self.scores = os.path.join(setting.folder, f"scores-kime-{precision}.jsonl")
        self.detail = ""

    def once(self):
        stats = os.path.join(self.setting.folder, "stats.json")
        command = [self.setting.kime, "score", "-q", "-m", self.setting.model, "--precision", self.precision, "--stats", stats,
                   "--threads", str(self.setting.threads), self.setting.records]
        with open(self.scores, "w", encoding="utf-8") as out:
            ran = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, check=False)
        if ran.returncode != 0:
            raise Failed((ran.stderr.strip() or f"kime ended with status {ran.returncode}").removeprefix("kime: "))
        with open(stats, encoding="utf-8") as source:
            told = json.load(source)
        return told["tokens"] / told["seconds"]


class Peer:
    """A program of this folder, at the batch that is fastest on the first records."""

    def __init__(self, setting, precision, name, program, options=()):
        self.setting, self.precision, self.name = setting, precision, name
        self.scores = os.path.join(setting.folder, f"scores-{program.split('.')[0]}-{precision}.jsonl")
        self.command = [setting.python, os.path.join(HERE, program), setting.model, setting.records, "--threads", str(setting.threads),
                        *options]
        self.batch = None

    def at(self, batch, *more):
        out = run([*self.command, "--tokens", str(batch[0]), "--batch", str(batch[1]), *more])
        return json.loads(out.strip().splitlines()[-1])["tokens_per_second"]

    def choose_batch(self, batches, limit):
        rates = {batch: self.at(batch, "--limit", str(limit)) for batch in batches}
        self.batch = max(rates, key=rates.get)
        return rates

    def once(self):
        return self.at(self.batch, "--out", self.scores)

    @property
    def detail(self):
        return f"{self.batch[0]:,} tokens, {self.batch[1]} records"


def pytorch(setting, precision):
    return Peer(setting, precision, "PyTorch", "score_pytorch.py", ("--bf16",) if precision == "bf16" else ())


def onnx(setting, precision):
    options = ("--folder", setting.onnx_folder, *(("--int8",) if precision == "int8" else ()))
    return Peer(setting, precision, "ONNX Runtime", "score_onnx.py", options)


PEERS = {"f32": (pytorch, onnx), "bf16": (pytorch,), "int8": (onnx,)}


def in_turn(a, b, rounds, tell=lambda line: print(line, file=sys.stderr, flush=True)):
    """A B B A, so many times: what drifts on the machine falls on both alike. The rates of a and of b."""
    rates = {a: [], b: []}
    for number in range(rounds):
        for program in (a, b, b, a):
            rates[program].append(program.once())
        tell(f"  round {number + 1} of {rounds}: {a.name} {rates[a][-2]:,.0f} and {rates[a][-1]:,.0f}, "
             f"{b.name} {rates[b][-2]:,.0f} and {rates[b][-1]:,.0f} tokens/s")
    return rates[a], rates[b]
