"""scripts/kime-encode: requests in text become the records that the reference package makes of them."""
import json
import os
import random
import subprocess
import sys
import unittest

from encode_support import ASK, ENCODE, ROOT, THERE, EncodeCase, encode, request, run
from support import DEMO, TESTDATA, jsonl, kime, lines, read

if THERE:
    sys.path.insert(0, os.path.join(ROOT, "scripts", "encode"))
    import cut
    from checkpoint import Checkpoint


class Reference(EncodeCase):
    def against(self, expected, **more):
        made = self.records(os.path.join(TESTDATA, "encode", "requests.jsonl"), status=1, **more)
        wanted = lines(read(TESTDATA, "encode", expected))
        self.assertEqual([each["id"] for each in made], [each["id"] for each in wanted])
        for ours, theirs in zip(made, wanted):
            if "error" in theirs:
                self.assertEqual(set(ours), {"id", "line", "error"})
            else:
                self.assertEqual(ours, theirs)
        self.assertGreater(sum("error" not in each for each in wanted), 40)

    def test_its_records(self):
        self.against("expected.jsonl")

    def test_limits_of_the_checkpoint(self):
        self.against("expected_small.jsonl", model=self.checkpoint(max_len=64, head_max_len=40))

    def test_limits_that_the_checkpoint_does_not_name(self):
        self.against("expected.jsonl", model=self.checkpoint())

    def test_special_tokens_that_only_the_config_calls_so(self):
        folder = self.checkpoint()
        tokenizer = json.loads(read(folder, "tokenizer", "tokenizer.json"))
        tokenizer["added_tokens"] = tokenizer["added_tokens"][:1]
        self.path("checkpoint/tokenizer/tokenizer.json", json.dumps(tokenizer).encode())
        self.against("expected.jsonl", model=folder)

    def test_the_demos_tickets(self):
        tickets = [ticket for ticket in lines(read(DEMO, "records.jsonl")) if ticket["qtype"] != "choice"]  # theirs lack descriptions
        requests = []
        for ticket in tickets:
            question = {"type": ticket["qtype"], "instructions": ticket["question"]}
            if ticket["qtype"] == "score":
                question["criteria"] = ticket["options"]
            requests.append(request(ticket["text"], "q", question, id=ticket["id"]))
        made = self.records(stdin=jsonl(*requests))
        self.assertGreater(len(made), 200)
        for ours, ticket in zip(made, tickets, strict=True):
            self.assertEqual(ours, {"id": ticket["id"] + "/q", **{name: ticket[name] for name in ("ids", "markers", "qtype")}})


class Cut(EncodeCase):
    def test_a_long_texts_ends_have_the_tokens_of_the_whole(self):
        checkpoint = Checkpoint(DEMO)
        self.assertTrue(cut.can_cut(checkpoint.tokenizer))
        words = ["late", "Order", "it's", "12", "a1", "[MASK]", "[SEP]", "Zoë", "日本語", "🙂", "\n", "\t", " ", "", "...", "e\u0301", "x" * 40]
        rng = random.Random(3)
        shorter = 0

        def encode_part(text):
            nonlocal shorter
            shorter += len(text) < len(whole)
            return checkpoint.tokenizer.encode(text, add_special_tokens=False).ids

        for _ in range(60):
            whole = " ".join(rng.choice(words) for _ in range(rng.randint(0, 900)))
            ids = checkpoint.tokenizer.encode(whole, add_special_tokens=False).ids
            for tokens in (1, 7, 48):
                self.assertEqual(cut.end_ids(encode_part, whole, tokens, False)[:tokens], ids[:tokens])
                self.assertEqual(cut.end_ids(encode_part, whole, tokens, True)[-tokens:], ids[-tokens:])
        self.assertGreater(shorter, 200)

    def test_tokenizers_whose_words_touch_are_not_cut(self):
        from tokenizers import AddedToken, Tokenizer, normalizers, pre_tokenizers

        def like_the_demo(change):
            tokenizer = Tokenizer.from_file(os.path.join(DEMO, "tokenizer", "tokenizer.json"))
            change(tokenizer)
            return cut.can_cut(tokenizer)

        self.assertTrue(like_the_demo(lambda t: setattr(t, "normalizer", normalizers.NFC())))
        self.assertTrue(like_the_demo(lambda t: t.add_special_tokens([AddedToken("[M]", lstrip=True), "  "])))
        self.assertFalse(like_the_demo(lambda t: setattr(t, "normalizer", normalizers.Replace(" ", "_"))))
        self.assertFalse(like_the_demo(lambda t: setattr(t, "pre_tokenizer", pre_tokenizers.Metaspace())))
        self.assertFalse(like_the_demo(lambda t: setattr(t, "pre_tokenizer", pre_tokenizers.ByteLevel(add_prefix_space=True))))
        self.assertFalse(like_the_demo(lambda t: setattr(t, "pre_tokenizer", pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))))
        self.assertFalse(like_the_demo(lambda t: t.add_tokens(["order late"])))
        self.assertFalse(like_the_demo(lambda t: t.add_tokens([AddedToken("late", lstrip=True)])))
        self.assertFalse(like_the_demo(lambda t: t.add_tokens([AddedToken("late", rstrip=True)])))


class Identity(EncodeCase):
    def ids(self, *requests):
        return [each["id"] for each in self.records(stdin=b"".join(each + b"\n" for each in requests))]

    def test_ids_of_all_kinds(self):
        rest = b'"state":"x","questions":{"q":{"type":"noul","instructions":"x"}}}'
        self.assertEqual(self.ids(b'{"id":"a/b \\u00e9\\n",' + rest, b'{"id":17,' + rest, b'{"id":1e3,' + rest, b"", b"{" + rest, b'{"id":null,' + rest),
                         ["a/b é\n/q", "17/q", "1e3/q", "5/q", "null/q"])

    def test_questions_in_order(self):
        questions = {name: ASK for name in ("z", "a", "é ☃", "1")}
        self.assertEqual(self.ids(json.dumps({"id": "r", "state": "x", "questions": questions}).encode()), ["r/z", "r/a", "r/é ☃", "r/1"])

    def test_no_questions(self):
        self.assertEqual(self.ids(b'{"id":"r","state":"x","questions":{}}'), [])

    def test_with_several_files_a_line_number_is_not_enough(self):
        one, two = self.path("one", jsonl(request())), self.path("two", jsonl(request(), 5))
        made = self.records(one, two, status=1)
        self.assertEqual([each["id"] for each in made], [f"{one}:1/q", f"{two}:1/q", None])
        self.assertEqual((made[2]["file"], made[2]["line"]), (two, 2))

    def test_a_files_name_that_is_no_text(self):
        odd = os.fsdecode(os.fsencode(self.path("one")) + b"\xff")
        with open(odd, "wb") as out:
            out.write(b"no\n")
        made = self.records(odd, "-", stdin=b"", status=1)
        self.assertEqual(made[0]["file"], self.path("one\ufffd"))


class Labels(EncodeCase):
    def label(self, **question):
        (made,) = self.records(stdin=jsonl(request("x", "q", {"instructions": "x", **question})))
        return made.get("label")

    def test_become_the_number_of_the_option(self):
        choice = {"type": "choice", "criteria": {"a": "x", "2": None, "c": "y"}}
        listed = {"type": "choice", "criteria": ["a", True, 7.5, "0"]}
        score = {"type": "score", "criteria": ["low", "high"]}
        named = {"type": "noul", "labels": {"true": "angry", "false": "calm"}}
        for question, label, number in (
                (choice, "c", 2), (choice, "2", 1), (choice, 2, 2), (choice, 0, 0), (listed, True, 1), (listed, "0", 3), (listed, 7.5, 2),
                (score, "high", 1), (score, 0, 0), (ASK, True, 1), (ASK, False, 0), (ASK, "true", 1), (ASK, 1, 1),
                (named, "calm", 0), (named, "angry", 1), (named, True, 1), (named, "false", 0)):
            self.assertEqual(self.label(**{**question, "label": label}), number, (question, label))

    def test_follow_the_order_in_which_options_are_shown(self):
        choice = {"type": "choice", "criteria": ["a", "b", "c"], "option_order": [2, 0, 1]}
        self.assertEqual([self.label(**choice, label=label) for label in ("a", "b", "c", 2)], [1, 2, 0, 0])

    def test_that_name_no_option_are_passed_on_as_what_they_are(self):
        choice, score = {"type": "choice", "criteria": ["a", "b"]}, {"type": "score", "criteria": ["low", "high"]}
        for question, label, passed in ((choice, "c", "c"), (choice, 2, "2"), (choice, -1, "-1"), (choice, True, "true"), (score, 1.5, "1.5"), (score, [1], "[1]"),
                                        (ASK, "maybe", "maybe"), (ASK, 2, "2")):
            self.assertEqual(self.label(**{**question, "label": label}), passed, (question, label))
        self.assertIsNone(self.label(**choice, label=None))
        self.assertIsNone(self.label(**choice))

    def test_are_what_kime_score_counts(self):
        made = encode(stdin=jsonl(*(request("x", name, {**ASK, "label": label}) for name, label in (("a", True), ("b", "false"), ("c", "?")))))
        ran = kime("score", "-m", DEMO, "--labels", "--emit", "answer", stdin=made.stdout)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        answers = [line["noul"] >= 0.5 for line in lines(ran.stdout)]
        right = (answers[0] is True) + (answers[1] is False)
        self.assertIn(f"kime: noul: {right} of 2 right", ran.stderr.decode())
        self.assertTrue(ran.stderr.decode().endswith("kime: 1 label is no number of an option\n"), ran.stderr)


class BadRequests(EncodeCase):
    def error(self, *args, **more):
        """The one error line of the one bad request."""
        made = self.records(*args, status=1, **more)
        self.assertEqual(len(made), 1, made)
        self.assertNotIn("ids", made[0])
        return made[0]

    def refused(self, question, kind="json"):
        line = self.error(stdin=jsonl({"id": "r", "state": "x", "questions": {"q": question}}))
        self.assertEqual((line["id"], line["line"], line["error"]["kind"]), ("r/q", 1, kind))
        prefix = 'question "q": '
        self.assertTrue(line["error"]["message"].startswith(prefix), line)
        return line["error"]["message"].removeprefix(prefix)

    def test_lines_that_are_no_requests(self):
        for line, message in (
                (b"{", "not JSON at character 2: Expecting property name enclosed in double quotes"),
                (b'{"id":"\xff"}', "invalid UTF-8 at byte 8"),
                (b'{"state":"\\ud83d"}', "not JSON: half of a surrogate pair"),
                (b'{"state":NaN}', "not JSON: NaN is no JSON"),
                (b'{"state":' + b"1" * 5000 + b"}", None),
                (b"[]", "it is a list, not an object"),
                (b"17", "it is a number, not an object"),
                (b'{"id":1,"x":1,"x":2,"id":2}', "id stands twice"),
                (b'{"id":"r","state":' + b"[" * 1024 + b"]" * 1024 + b"}", "nested deeper than 1024 levels"),
                (b"[" * 500000, "nested deeper than 1024 levels")):
            made = self.error(stdin=b"\n" + line + b"\n")
            self.assertEqual((made["id"], made["line"], made["error"]["kind"]), (None, 2, "json"))
            self.assertTrue(made["error"]["message"].startswith("request 2: "))
            if message:
                self.assertEqual(made["error"]["message"], "request 2: " + message)

    def test_requests_of_which_something_is_missing_or_wrong(self):
        for fields, message in (
                ({"state": "x"}, "questions is missing"),
                ({"questions": {}}, "state is missing"),
                ({"state": None, "questions": {}}, "state is null"),
                ({"state": "x", "questions": []}, "questions is a list, not an object of names and questions")):
            made = self.error(stdin=jsonl({"id": "r", **fields}))
            self.assertEqual(made, {"id": "r", "line": 1, "error": {"kind": "json", "message": message}})
        made = self.error(stdin=b'{"id":"r","state":"x","questions":{"a":1,"a":2}}')
        self.assertEqual(made["error"]["message"], 'question "a" stands twice')

    def test_as_deep_as_may_be(self):
        self.records(stdin=b'{"state":' + b"[" * 1023 + b"]" * 1023 + b',"questions":{"q":{"type":"noul","instructions":"x"}}}')

    def test_questions(self):
        choice, score = {"type": "choice", "instructions": "x"}, {"type": "score", "instructions": "x"}
        for question, message in (
                (7, "it is a number, not an object"),
                ({}, "type is missing"),
                ({"type": "rank"}, 'type is "rank"; there are choice, score and noul'),
                ({"type": ["noul"]}, 'type is ["noul"]; there are choice, score and noul'),
                ({"type": "noul"}, "instructions is missing"),
                ({"type": "noul", "instructions": None}, "instructions is null"),
                ({"type": "noul", "instructions": " \n"}, "instructions is empty"),
                ({"type": "noul", "instructions": {}}, "instructions is empty"),
                (choice, "criteria is null; of a choice it is an object of options and descriptions, or a list of options"),
                ({**choice, "criteria": {}}, "criteria is empty; a choice has one option at least"),
                ({**choice, "criteria": ["a", None]}, "criteria: option 1 is null; in a list they are strings, numbers or booleans"),
                ({**choice, "criteria": ["a", 1, True]}, "criteria: option 2 (true) is option 1 again"),
                ({**choice, "criteria": ["a"], "labels": None}, "labels are for noul questions; this is a choice"),
                ({**choice, "criteria": ["a", "b"], "option_order": [1, 1]}, "option_order is not each of 0 to 1 once"),
                ({**score, "criteria": {"a": "b"}}, "criteria is an object; of a score it is a list of levels, the lowest first"),
                ({**score, "criteria": []}, "criteria is empty; a score has one level at least"),
                ({**score, "criteria": ["a", None]}, "criteria: level 1 is null"),
                ({**ASK, "criteria": ["a"]}, 'criteria is a list; of a noul it is an object with "false" and "true", each of which may be left out'),
                ({**ASK, "criteria": {"yes": "a"}}, 'criteria: "yes" is neither "false" nor "true"'),
                ({**ASK, "labels": {"true": "a"}}, 'labels is no object of the two strings "false" and "true"'),
                ({**ASK, "labels": {"true": "a", "false": " a"}}, "labels: both need a text, and not the same one")):
            self.assertEqual(self.refused(question), message)
        self.assertEqual(self.refused({**choice, "criteria": [str(i) for i in range(200)]}, "batch"),
                         "only 151 of 200 options fit into max_len 512; fewer options, a smaller head_max_len (192) or a larger max_len would do")

    def test_a_name_twice_in_a_question(self):
        for question in (b'{"type":"noul","type":"score","instructions":"x"}', b'{"type":"choice","instructions":"x","criteria":{"type":1,"type":2}}'):
            made = self.error(stdin=b'{"id":"r","state":"x","questions":{"q":' + question + b"}}")
            self.assertEqual(made["error"]["message"], 'question "q": "type" stands twice in one object')

    def test_an_empty_name(self):
        made = self.error(stdin=jsonl(request(name=" ", id="r")))
        self.assertEqual((made["id"], made["error"]["message"]), ("r/ ", 'question " ": its name is empty'))

    def test_the_others_are_encoded(self):
        made = self.records(stdin=jsonl(request(id="a"), 7, {"id": "b", "state": "x", "questions": {"p": ASK, "bad": 1, "q": ASK}}), status=1)
        self.assertEqual([(each["id"], "error" in each) for each in made],
                         [("a/q", False), (None, True), ("b/p", False), ("b/bad", True), ("b/q", False)])

    def test_lines_that_are_too_long(self):
        short, long = jsonl(request(id="a")), jsonl(request("x" * 300000, id="b"))
        made = self.records("--max-line", "1000", stdin=short + long + short + long[:-1], status=1)
        self.assertEqual([each["id"] for each in made], ["a/q", None, "a/q", None])
        self.assertEqual(made[1], {"id": None, "line": 2, "error": {"kind": "json", "message": "request 2: longer than 1000 bytes"}})
        self.assertEqual(made[3]["line"], 4)
        self.assertEqual(self.error("--max-line", "10", stdin=short)["error"]["message"], "request 1: longer than 10 bytes")



class Usage(EncodeCase):
    def unusable(self, *args, **more):
        ran = encode(*args, **more)
        self.assertEqual((ran.returncode, ran.stdout), (2, b""))
        return ran.stderr.decode()

    def test_no_model(self):
        env = {name: value for name, value in os.environ.items() if name != "KIME_MODEL"}
        ran = subprocess.run([sys.executable, "-B", ENCODE], capture_output=True, env=env, check=False)
        self.assertEqual(ran.returncode, 2)
        self.assertIn(b"Say -m DIR or set KIME_MODEL", ran.stderr)
        self.assertEqual(encode(model=None, env={"KIME_MODEL": DEMO}).returncode, 0)

    def test_arguments(self):
        self.assertIn("invalid whole value: '0'", self.unusable("-j", "0"))
        self.assertIn("standard input can be read once only", self.unusable("-", "-"))

    def test_files(self):
        self.assertIn("cannot read /nowhere: No such file or directory", self.unusable("/nowhere"))
        self.assertIn("Is a directory", self.unusable(self.folder.name))

    def test_what_is_unusable_is_told_before_there_is_input(self):
        with subprocess.Popen([sys.executable, "-B", ENCODE, "-m", "/nowhere"], stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            self.assertEqual(process.wait(60), 2)
            self.assertIn(b"/nowhere", process.stderr.read())

    def test_checkpoints(self):
        self.assertIn("/nowhere/rl_agent_config.json: No such file or directory", self.unusable(model="/nowhere"))
        folder = self.checkpoint(max_len=True)
        config, tokenizer = (os.path.join(folder, *name) for name in (("rl_agent_config.json",), ("tokenizer", "tokenizer.json")))
        self.assertIn(f"{config}: max_len is true, not a positive integer", self.unusable(model=folder))
        self.path("checkpoint/rl_agent_config.json", b"[]")
        self.assertIn(f"{config} holds no JSON object", self.unusable(model=folder))
        self.path("checkpoint/rl_agent_config.json", b"{")
        self.assertIn(f"{config} is not JSON", self.unusable(model=folder))
        self.path("checkpoint/rl_agent_config.json", b"{}")
        special = self.path("checkpoint/tokenizer/tokenizer_config.json", b'{"mask_token":"[HIDE]"}')
        self.assertIn(f'{special}: mask_token is "[HIDE]", which tokenizer.json does not have', self.unusable(model=folder))
        self.path("checkpoint/tokenizer/tokenizer_config.json", b'{"cls_token":7}')
        self.assertIn(f"{special}: cls_token is 7, not a string", self.unusable(model=folder))
        self.path("checkpoint/tokenizer/tokenizer_config.json", b'{"extra_special_tokens":7}')
        self.assertIn(f"{special}: the extra special tokens are 7, neither a list nor an object", self.unusable(model=folder))
        os.remove(special)
        self.assertEqual(encode(model=folder).returncode, 0)  # by the names that are usual
        text = read(tokenizer).replace(b"[MASK]", b"[HIDE]")
        self.path("checkpoint/tokenizer/tokenizer.json", text)
        self.assertIn("the tokenizer has no mask_token", self.unusable(model=folder))
        self.path("checkpoint/tokenizer/tokenizer.json", text[:1000])
        self.assertIn(f"{tokenizer} is no tokenizer: ", self.unusable(model=folder))
        os.remove(tokenizer)
        self.assertIn(f"{tokenizer}: No such file or directory", self.unusable(model=folder))


class WithoutTheLibrary(unittest.TestCase):
    def test_it_is_asked_for_by_name(self):
        ran = subprocess.run([sys.executable, "-I", "-S", "-B", ENCODE, "-m", DEMO], stdin=subprocess.DEVNULL, capture_output=True, check=False)
        self.assertEqual((ran.returncode, ran.stdout), (2, b""))
        self.assertIn(b"the Python package tokenizers is missing", ran.stderr)
        self.assertIn(b"-m pip install tokenizers", ran.stderr)


class Pipeline(EncodeCase):
    def test_into_kime_score(self):
        records = encode(os.path.join(TESTDATA, "encode", "example.jsonl"), "-", stdin=jsonl({"id": {"a": 1}, "state": 1}, 3)).stdout
        scored = kime("score", "-m", DEMO, "--emit", "answer", stdin=records)
        self.assertEqual(scored.returncode, 1)
        made = lines(scored.stdout)
        self.assertEqual([each["id"] for each in made], ["t-17/team", "t-17/urgent", "t-17/angry", "t-18/team", {"a": 1}, None])
        self.assertEqual((made[0]["choice"], made[1]["score"], made[2]["noul"] > 0.5), (0, 2, True))
        self.assertEqual([each["error"] for each in made[3:]], [each["error"] for each in lines(records)[3:]])


if __name__ == "__main__":
    run()
