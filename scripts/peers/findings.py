"""What the runs mean: medians, ratios, and whether the scores agree."""
import json
import math
from dataclasses import dataclass
from statistics import median


@dataclass
class Agreement:
    """Of one program's scores with another's."""
    largest: float  # difference of two logits
    shift: float    # mean absolute difference of two probabilities, each record's softmax
    same: float     # share of records with the same best option

    def text(self, exact):
        if exact:
            return f"logits within {self.largest:.0e}"
        return f"probabilities shift by {self.shift:.4f} in the mean, {100 * self.same:.1f} % the same answers"


@dataclass
class Pair:
    """kime and a peer in turn, at one precision."""
    precision: str
    peer: str
    kime_rates: list
    peer_rates: list
    detail: str             # of the peer's batches
    kime_scores: Agreement  # with kime's float32 scores; at f32, with the peer's
    peer_scores: Agreement  # with kime's float32 scores

    @property
    def kime(self):
        return median(self.kime_rates)

    @property
    def other(self):
        return median(self.peer_rates)

    @property
    def ratio(self):
        return self.kime / self.other

    @property
    def range(self):
        """The least and the largest ratio of a round: A B B A gives two runs of each."""
        rounds = [sum(self.kime_rates[i:i + 2]) / sum(self.peer_rates[i:i + 2]) for i in range(0, len(self.kime_rates), 2)]
        return min(rounds), max(rounds)


def load_scores(path):
    with open(path, encoding="utf-8") as source:
        return [json.loads(line) for line in source if line.strip()]


def softmax(logits):
    top = max(logits)
    parts = [math.exp(x - top) for x in logits]
    return [part / sum(parts) for part in parts]


def compare(scores, wanted):
    """Records without markers have no answer and count nowhere. Raises ValueError where the two are not about the same records."""
    if [line["id"] for line in scores] != [line["id"] for line in wanted]:
        raise ValueError("the two score files are not about the same records")
    largest, shifts, same, answers = 0.0, [], 0, 0
    for one, other in zip(scores, wanted):
        a, b = one["logits"], other["logits"]
        if len(a) != len(b):
            raise ValueError(f"record {one['id']} has {len(a)} logits and {len(b)}")
        if not a:
            continue
        largest = max(largest, *(abs(x - y) for x, y in zip(a, b)))
        shifts.extend(abs(p - q) for p, q in zip(softmax(a), softmax(b)))
        same += a.index(max(a)) == b.index(max(b))
        answers += 1
    return Agreement(largest, sum(shifts) / max(len(shifts), 1), same / max(answers, 1))
