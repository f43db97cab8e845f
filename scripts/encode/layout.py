"""A question and a text as one sequence: [CLS] <type> question: <instructions> [SEP] [MASK] option ... [SEP] state [SEP]."""
from questions import Refused

OPTION_TOKENS = 48      # an option's text at most; its marker comes on top
HEAD_LEAST = 8          # tokens that the instructions keep whatever the options need
INSTRUCTIONS_ROOM = 16  # tokens: where the options leave less to the instructions, they are shrunk
OPTION_LEAST = 4        # tokens that an option keeps, its marker among them


class Head:
    """All of a sequence before the state: a question's part, the same for every text that it is asked about."""

    def __init__(self, ids, markers):
        self.ids, self.markers = ids, markers


def make_head(checkpoint, text, options):
    """The head that `text`, which asks, and the options' texts make."""
    spans = [[checkpoint.mask, *checkpoint.option_ids(" " + option)] for option in options]
    left = checkpoint.head_max_len - sum(map(len, spans))
    if left < INSTRUCTIONS_ROOM:
        most = max(OPTION_LEAST, (checkpoint.head_max_len - INSTRUCTIONS_ROOM) // max(1, len(spans)))
        spans = [span[:most] for span in spans]
        left = checkpoint.head_max_len - sum(map(len, spans))
    ids = [checkpoint.cls, *checkpoint.instruction_ids(text)[:max(HEAD_LEAST, left)], checkpoint.sep]
    markers = []
    for span in spans:
        markers.append(len(ids))
        ids += span
    ids.append(checkpoint.sep)
    if markers and markers[-1] >= checkpoint.max_len:
        fit = sum(marker < checkpoint.max_len for marker in markers)
        raise Refused("batch", f"only {fit} of {len(markers)} options fit into max_len {checkpoint.max_len}; "
                               f"fewer options, a smaller head_max_len ({checkpoint.head_max_len}) or a larger max_len would do")
    return Head(ids, markers)


def room(checkpoint, head):
    """How many tokens of the state a record has, beside the head and the last separator."""
    return max(0, checkpoint.max_len - len(head.ids) - 1)


def sequence(checkpoint, head, state, from_left):
    """The ids of a record. `state`: the state's; `from_left`: its end is kept, not its beginning."""
    most = room(checkpoint, head)
    kept = state[max(0, len(state) - most):] if from_left else state[:most]
    return (head.ids + kept + [checkpoint.sep])[:checkpoint.max_len]
