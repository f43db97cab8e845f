"""A question as people write it: checked, and turned into the texts that a record is made of."""
import json

TYPES = ("choice", "score", "noul")
NO, YES = "false", "true"
NO_TEXT = "no, the statement does not hold"
YES_TEXT = "yes, the statement holds"


class Refused(Exception):
    """What cannot be encoded, and why; `kind` is one of those that error lines have."""

    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


class Repeated(dict):
    """An object of the input that gives names twice: the last values, as Python has it, and these names in order."""

    names = ()


def object_of(pairs):
    """For json.loads, which would forget all values of a repeated name but the last."""
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    repeated, seen, twice = Repeated(made), set(), {}
    for name, _ in pairs:
        if name in seen:
            twice[name] = None
        seen.add(name)
    repeated.names = list(twice)
    return repeated


def kind_of(value):
    """What JSON calls it."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return next((name for kind, name in names.items() if isinstance(value, kind)), "a number")


def text_of(value):
    """A string as it is, anything else as JSON in one line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def nothing(value):
    """No description; 0 and false are ones."""
    return value is None or value == ""


def instructions_of(question):
    text = question.get("instructions")
    if text is None:
        raise Refused("json", "instructions is " + ("null" if "instructions" in question else "missing"))
    if isinstance(text, str) and not text.strip() or isinstance(text, (list, dict)) and not text:
        raise Refused("json", "instructions is empty")
    return text_of(text)


def choice_options(criteria):
    if not isinstance(criteria, (dict, list)):
        raise Refused("json", f"criteria is {kind_of(criteria)}; of a choice it is an object of options and descriptions, or a list of options")
    if not criteria:
        raise Refused("json", "criteria is empty; a choice has one option at least")
    if isinstance(criteria, dict):
        return [name if nothing(value) else f"{name}: {text_of(value)}" for name, value in criteria.items()]
    first = {}
    for index, option in enumerate(criteria):
        if option is None or isinstance(option, (list, dict)):
            raise Refused("json", f"criteria: option {index} is {kind_of(option)}; in a list they are strings, numbers or booleans")
        if option in first:  # 1, 1.0 and true are one to Python, and to the reference
            raise Refused("json", f"criteria: option {index} ({json.dumps(option, ensure_ascii=False)}) is option {first[option]} again")
        first[option] = index
    return [str(option) for option in criteria]


def score_options(criteria):
    if not isinstance(criteria, list):
        raise Refused("json", f"criteria is {kind_of(criteria)}; of a score it is a list of levels, the lowest first")
    if not criteria:
        raise Refused("json", "criteria is empty; a score has one level at least")
    if None in criteria:
        raise Refused("json", f"criteria: level {criteria.index(None)} is null")
    return [f"level {index}: {text_of(level)}" for index, level in enumerate(criteria)]


def labels_of(question):
    """What stands for no and for yes."""
    labels = question.get("labels")
    if labels is None:
        return NO, YES
    if not isinstance(labels, dict) or set(labels) != {NO, YES} or not all(isinstance(text, str) for text in labels.values()):
        raise Refused("json", 'labels is no object of the two strings "false" and "true"')
    no, yes = labels[NO].strip(), labels[YES].strip()
    if not no or not yes or no == yes:
        raise Refused("json", "labels: both need a text, and not the same one")
    return no, yes


def noul_options(question, criteria):
    if criteria is not None and not isinstance(criteria, dict):
        raise Refused("json", f'criteria is {kind_of(criteria)}; of a noul it is an object with "false" and "true", each of which may be left out')
    descriptions = {name.lower(): value for name, value in (criteria or {}).items()}
    others = [name for name in descriptions if name not in (NO, YES)]
    if others:
        raise Refused("json", f"criteria: {json.dumps(others[0], ensure_ascii=False)} is neither \"false\" nor \"true\"")
    no, yes = descriptions.get(NO), descriptions.get(YES)
    no_label, yes_label = labels_of(question)
    return [f"{no_label}: {NO_TEXT if nothing(no) else text_of(no)}", f"{yes_label}: {YES_TEXT if nothing(yes) else text_of(yes)}"]


def ordered(options, order):
    """The options as `option_order` has them: slot i shows option order[i]."""
    if not isinstance(order, list) or any(isinstance(i, bool) or not isinstance(i, int) for i in order) or sorted(order) != list(range(len(options))):
        raise Refused("json", f"option_order is not each of 0 to {len(options) - 1} once")
    return [options[i] for i in order]


def label_of(question, options):
    """What the record's `label` is, as JSON: the number of the right option, which the question gives by number, by name (a choice's as criteria
    has it, a score's level, a noul's label), or for noul by true and false. Anything else as a string, which `kime score` counts as none of the
    options. Nothing where the question has no label."""
    label = question.get("label")
    if label is None:
        return None
    if question["type"] == "noul":
        names = [NO, YES]
        if isinstance(label, str) and label not in names:
            names = list(labels_of(question))
    else:
        names = [text_of(option) for option in question["criteria"]]
    if isinstance(label, int) and not isinstance(label, bool):
        number = label
    else:
        number = names.index(text_of(label)) if text_of(label) in names else -1
    if not 0 <= number < options:
        return json.dumps(text_of(label), ensure_ascii=False)
    return str(question["option_order"].index(number) if "option_order" in question else number)


def rendered(question):
    """The type of a question, the text that asks it, its options' texts in order, and its label."""
    if not isinstance(question, dict):
        raise Refused("json", f"it is {kind_of(question)}, not an object")
    for part in (question, question.get("criteria"), question.get("labels")):
        if isinstance(part, Repeated):
            raise Refused("json", f"{json.dumps(part.names[0], ensure_ascii=False)} stands twice in one object")
    qtype = question.get("type")
    if not isinstance(qtype, str) or qtype not in TYPES:
        raise Refused("json", f"type is {json.dumps(qtype, ensure_ascii=False)}; there are choice, score and noul" if "type" in question else "type is missing")
    text = instructions_of(question)
    criteria = question.get("criteria")
    if qtype != "noul" and "labels" in question:
        raise Refused("json", f"labels are for noul questions; this is a {qtype}")
    if qtype == "choice":
        options = choice_options(criteria)
    elif qtype == "score":
        options = score_options(criteria)
    else:
        options = noul_options(question, criteria)
    if "option_order" in question:
        options = ordered(options, question["option_order"])
    return qtype, f"{qtype} question: {text}", options, label_of(question, len(options))
