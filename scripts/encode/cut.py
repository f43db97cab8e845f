"""Tokens of one end of a text without those of all of it: a record keeps some hundred, whatever length its text has.

That is only right where the text falls into words that do not touch each other, and at a place where one ends: after a letter or digit
that a space and a letter follow. The byte-level splitting of GPT-2, which ModernBERT has, always ends a word there (a word is letters, or
digits, with at most one space before them), and no Unicode normalization reaches over it. With any other splitting the whole text is
encoded.
"""
import json
import re

PLACE = re.compile(r"[A-Za-z0-9](?= [A-Za-z])")
NORMALIZERS = ("NFC", "NFD", "NFKC", "NFKD")
CHARACTERS = 8  # for each token that is wanted, at first


def reaches_over(token):
    """Whether an added token may cover such a place, alone or with the spaces that it takes along."""
    text = token["content"]
    return bool(PLACE.search(text) or token["lstrip"] and text[:1].isalnum() or token["rstrip"] and text[-1:].isalnum())


def can_cut(tokenizer):
    """Whether this tokenizer's texts can be cut."""
    described = json.loads(tokenizer.to_str())
    splitting, normalizer = described["pre_tokenizer"] or {}, described["normalizer"]
    return (splitting.get("type") == "ByteLevel" and splitting.get("use_regex", True) and not splitting["add_prefix_space"]
            and (normalizer is None or normalizer["type"] in NORMALIZERS) and described["model"].get("dropout") is None
            and not any(map(reaches_over, described["added_tokens"])))


def pieces(text, tokens, from_left):
    """Ever larger parts of a text that might hold `tokens` tokens, of its end (`from_left`) or its beginning; the whole of it last."""
    size = CHARACTERS * tokens
    while 2 * size < len(text):
        place = PLACE.search(text, len(text) - size if from_left else size)
        if place:
            yield text[place.end():] if from_left else text[:place.end()]
        size *= 4
    yield text


def end_ids(encode, text, tokens, from_left):
    """The text's last or first token ids, `tokens` of them at least where it has so many."""
    for piece in pieces(text, tokens, from_left):
        ids = encode(piece)
        if len(ids) >= tokens:
            break
    return ids
