"""Lines of requests in, lines of records out: one for each question, and an error line for what cannot be encoded."""
import json
import re

from layout import make_head, sequence
from questions import Refused, kind_of, object_of, rendered, Repeated, text_of

MOST_LEVELS = 1024  # of nesting, as in records
FIELDS = ("id", "state", "questions")
HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")
BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]')


def quoted(text):
    return json.dumps(text, ensure_ascii=False)


def no_constant(name):
    raise ValueError(f"{name} is no JSON")


DECODER = json.JSONDecoder(object_pairs_hook=object_of, parse_constant=no_constant)
EXACT = json.JSONDecoder(parse_int=str, parse_float=str)  # numbers as they were written


def deep(line):
    """Whether brackets nest deeper than records may."""
    level = 0
    for match in BRACKETS.finditer(line):
        level += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(match.group(), 0)
        if level > MOST_LEVELS:
            return True
    return False


def parse(line):
    """The request in a line."""
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise Refused("json", f"invalid UTF-8 at byte {error.start + 1}") from error
    if line.count(b"[") + line.count(b"{") > MOST_LEVELS and deep(line):
        raise Refused("json", f"nested deeper than {MOST_LEVELS} levels")
    try:
        request = DECODER.decode(text)
        if HALF_PAIR.search(line):
            quoted(request).encode()
    except json.JSONDecodeError as error:
        raise Refused("json", f"not JSON at character {error.pos + 1}: {error.msg}") from error
    except UnicodeEncodeError as error:
        raise Refused("json", "not JSON: half of a surrogate pair") from error
    except ValueError as error:  # a number of thousands of digits, or NaN
        raise Refused("json", f"not JSON: {error}") from error
    if not isinstance(request, dict):
        raise Refused("json", f"it is {kind_of(request)}, not an object")
    return request


class Origin:
    """Where a line stands. `file` is there where there are several."""

    def __init__(self, number, file=None):
        self.number, self.file = number, file

    def __str__(self):
        return f"{self.file}:{self.number}" if self.file else str(self.number)


class Job:
    """A request on its way: what is known of it once its line is parsed."""

    def __init__(self, origin, line, checkpoint, max_line):
        self.origin = origin
        self.questions = []  # (name, type, label, Head), or (name, None, None, Refused)
        self.state, self.from_left, self.refused = "", False, None
        self.id, self.name = "null", None  # as JSON, and as text that begins the ids of its records
        try:
            if len(line) > max_line:
                raise too_long(max_line)
            request = parse(line)
            self._identify(request, line)
            self._take(request, checkpoint)
        except Refused as refused:
            self.refused = refused

    def _identify(self, request, line):
        twice = [name for name in getattr(request, "names", ()) if name in FIELDS]
        if twice:
            raise Refused("json", f"{twice[0]} stands twice")
        if "id" not in request:
            self.id, self.name = (quoted(str(self.origin)) if self.origin.file else str(self.origin)), str(self.origin)
        elif isinstance(request["id"], str):
            self.id, self.name = quoted(request["id"]), request["id"]
        elif isinstance(request["id"], (int, float)) and not isinstance(request["id"], bool):
            self.id = self.name = EXACT.decode(line.decode())["id"]
        else:
            self.id = self.name = json.dumps(request["id"], ensure_ascii=False, separators=(",", ":"))

    def _take(self, request, checkpoint):
        for field in ("state", "questions"):
            if field not in request:
                raise Refused("json", f"{field} is missing")
        if request["state"] is None:
            raise Refused("json", "state is null")
        questions = request["questions"]
        if not isinstance(questions, dict):
            raise Refused("json", f"questions is {kind_of(questions)}, not an object of names and questions")
        if isinstance(questions, Repeated):
            raise Refused("json", f"question {quoted(questions.names[0])} stands twice")
        self.state = text_of(request["state"])
        self.from_left = isinstance(request["state"], list)  # of a conversation the newest turns matter
        for name, question in questions.items():
            try:
                if not name.strip():
                    raise Refused("json", "its name is empty")
                qtype, text, options, label = rendered(question)
                self.questions.append((name, qtype, label, make_head(checkpoint, text, options)))
            except Refused as refused:
                self.questions.append((name, None, None, refused))


def too_long(max_line):
    return Refused("json", f"longer than {max_line} bytes")


def error_line(identity, origin, refused):
    file = f'"file":{quoted(origin.file)},' if origin.file else ""
    # Without an id the message says where: what reads these lines may count them anew.
    whose = f"request {origin}: " if identity == "null" else ""
    return f'{{"id":{identity},{file}"line":{origin.number},"error":{{"kind":"{refused.kind}","message":{quoted(whose + str(refused))}}}}}\n'


def encode(checkpoint, lines, max_line):
    """`lines`: pairs of an Origin and a line that is not blank. The text of all records' and error lines, and how many of each."""
    jobs = [Job(origin, line, checkpoint, max_line) for origin, line in lines]
    sound = [job for job in jobs if job.refused is None]
    for job, ids in zip(sound, checkpoint.state_ids((job.state, job.from_left) for job in sound)):
        job.state = ids
    out, records, errors = [], 0, 0
    for job in jobs:
        if job.refused:
            errors += 1
            out.append(error_line(job.id, job.origin, job.refused))
            continue
        for name, qtype, label, head in job.questions:
            identity = quoted(f"{job.name}/{name}")
            if qtype is None:
                errors += 1
                out.append(error_line(identity, job.origin, Refused(head.kind, f"question {quoted(name)}: {head}")))
                continue
            records += 1
            ids = sequence(checkpoint, head, job.state, job.from_left)
            more = "" if label is None else f',"label":{label}'
            out.append(f'{{"id":{identity},"ids":{str(ids).replace(" ", "")},"markers":{str(head.markers).replace(" ", "")},"qtype":"{qtype}"{more}}}\n')
    return "".join(out), records, errors
