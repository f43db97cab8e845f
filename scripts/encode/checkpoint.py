"""What encoding needs of a checkpoint's directory: the tokenizer, its special tokens, and the limits of a record."""
import json
import os
from functools import lru_cache

import cut
from layout import HEAD_LEAST, OPTION_TOKENS

# Names that published tokenizers have, for those whose tokenizer_config.json does not say.
USUAL = {"cls_token": ("[CLS]", "<s>", "<bos>"), "sep_token": ("[SEP]", "</s>", "<eos>"), "mask_token": ("[MASK]", "<mask>")}
OTHERS = ("pad_token", "unk_token", "bos_token", "eos_token")
KEPT_TEXTS = 4096  # question texts whose tokens are remembered ...
KEPT_LENGTH = 1024  # ... where they are not longer than this


class Unusable(Exception):
    """A checkpoint that nothing can be encoded for, and why."""


def read_json(path):
    try:
        with open(path, encoding="utf-8") as source:
            made = json.load(source)
    except OSError as error:
        raise Unusable(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise Unusable(f"{path} is not JSON: {error}") from error
    if not isinstance(made, dict):
        raise Unusable(f"{path} holds no JSON object")
    return made


def limit(config, path, name, otherwise):
    value = config.get(name, otherwise)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise Unusable(f"{path}: {name} is {json.dumps(value)}, not a positive integer")
    return value


def name_of(said):
    """A token in tokenizer_config.json: its text, or an object with it."""
    return said.get("content") if isinstance(said, dict) else said


def special_tokens(folder, config_path, config, tokenizer):
    """The texts of [CLS], [SEP] and [MASK], whatever this tokenizer calls them, and their ids."""
    found = {}
    for name, usual in USUAL.items():
        text = name_of(config.get(name))
        if text is not None and not isinstance(text, str):
            raise Unusable(f"{config_path}: {name} is {json.dumps(text)}, not a string")
        if text is None:
            text = next((each for each in usual if tokenizer.token_to_id(each) is not None), None)
        if text is None:
            raise Unusable(f"{folder}: the tokenizer has no {name}: neither tokenizer_config.json says which, nor is there any of {', '.join(usual)}")
        number = tokenizer.token_to_id(text)
        if number is None:
            raise Unusable(f"{config_path}: {name} is {json.dumps(text)}, which tokenizer.json does not have")
        found[name] = (text, number)
    return found


def make_special(config_path, config, tokenizer):
    """Special tokens stand for themselves in a text too, also those that only tokenizer_config.json calls so."""
    more = config.get("extra_special_tokens") or config.get("additional_special_tokens") or []
    if not isinstance(more, (list, dict)):
        raise Unusable(f"{config_path}: the extra special tokens are {json.dumps(more)}, neither a list nor an object")
    named = [config.get(name) for name in (*USUAL, *OTHERS)] + list(more.values() if isinstance(more, dict) else more)
    there = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    tokenizer.add_special_tokens([text for text in map(name_of, named)
                                  if isinstance(text, str) and text not in there and tokenizer.token_to_id(text) is not None])


class Checkpoint:
    def __init__(self, folder):
        from tokenizers import Tokenizer  # here, so that the rest can be imported where it is missing

        config_path = os.path.join(folder, "rl_agent_config.json")
        config = read_json(config_path)
        self.max_len = limit(config, config_path, "max_len", 512)
        self.head_max_len = limit(config, config_path, "head_max_len", 192)
        path = os.path.join(folder, "tokenizer", "tokenizer.json")
        try:
            with open(path, encoding="utf-8") as source:
                text = source.read()
            self.tokenizer = Tokenizer.from_str(text)
        except OSError as error:
            raise Unusable(f"{path}: {error.strerror}") from error
        except Exception as error:  # the library raises no narrower one
            raise Unusable(f"{path} is no tokenizer: {error}") from error
        config_path = os.path.join(os.path.dirname(path), "tokenizer_config.json")
        config = read_json(config_path) if os.path.exists(config_path) else {}
        side = config.get("truncation_side") or (self.tokenizer.truncation or {}).get("direction")
        self.options_from_left = side == "left"
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.tokenizer.encode_special_tokens = bool(config.get("split_special_tokens"))
        tokens = special_tokens(os.path.dirname(path), config_path, config, self.tokenizer)
        make_special(config_path, config, self.tokenizer)
        (_, self.cls), (_, self.sep), (self.mask_text, self.mask) = (tokens[name] for name in USUAL)
        self._can_cut = cut.can_cut(self.tokenizer)
        self._remembered = lru_cache(KEPT_TEXTS)(self._encode)

    def _encode(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def _end_ids(self, text, tokens, from_left=False):
        return cut.end_ids(self._encode, text, tokens, from_left) if self._can_cut else self._encode(text)

    def _question_ids(self, text, tokens, from_left=False):
        """Token ids of what stands in a question: the same ones come again and again."""
        text = self._clean(text)
        return self._remembered(text) if len(text) <= KEPT_LENGTH else self._end_ids(text, tokens, from_left)

    def _clean(self, text):
        """Only the markers of options are mask tokens."""
        return text.replace(self.mask_text, " ")

    def instruction_ids(self, text):
        """The first ones, as many at least as fit into a head."""
        return self._question_ids(text, max(HEAD_LEAST, self.head_max_len))

    def option_ids(self, text):
        ids = self._question_ids(text, OPTION_TOKENS, self.options_from_left)
        return ids[-OPTION_TOKENS:] if self.options_from_left else ids[:OPTION_TOKENS]

    def state_ids(self, states):
        """Token ids of texts that are given with whether their end matters: all of them, or those of that end that a record can hold."""
        made, short = [], []
        for text, from_left in states:
            text = self._clean(text)
            if self._can_cut and len(text) > 2 * cut.CHARACTERS * self.max_len:
                made.append(self._end_ids(text, self.max_len, from_left))
            else:
                made.append(None)
                short.append(text)
        encoded = iter(self.tokenizer.encode_batch_fast(short, add_special_tokens=False))
        return [next(encoded).ids if ids is None else ids for ids in made]
