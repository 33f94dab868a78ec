"""The table file, written and read. `registry/src/embed/static_table.rs` documents the layout."""

import json
import struct
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

MAGIC, VERSION = b"A2SE", 1
HEADER = "<4sHBBIIIII"
NO_ROW = 0xFFFF_FFFF
LONGEST_TEXT = 512


def quantise(rows: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Integers and one scale per row; with few bits the scale that loses least cuts off the tips."""
    top = 127 if bits == 8 else 7
    best = np.full(len(rows), np.inf, np.float32)
    scales = np.zeros(len(rows), np.float32)
    values = np.zeros(rows.shape, np.int8)
    for share in [1.0] if bits == 8 else np.linspace(0.5, 1.0, 11):
        scale = (np.abs(rows).max(1) * np.float32(share / top)).astype(np.float32)
        safe = np.where(scale == 0, 1, scale)[:, None]
        tried = np.clip(np.rint(rows / safe), -top, top)
        loss = np.square(tried * scale[:, None] - rows).sum(1)
        better = loss < best
        best[better], scales[better], values[better] = loss[better], scale[better], tried[better]
    return values, scales


def encode(vocabulary: list[str], rows: np.ndarray, kept: np.ndarray, bits: int) -> bytes:
    """`vocabulary[i]` has the vector `rows[i]` if `kept[i]`, else none."""
    inside = {piece: i for i, piece in enumerate(vocabulary) if piece.startswith("##") and len(piece) > 2}
    starts = {piece: i for i, piece in enumerate(vocabulary) if piece not in inside}
    order = [starts[piece] for piece in sorted(starts, key=str.encode)]
    order += [inside[piece] for piece in sorted(inside, key=str.encode)]
    letters = [vocabulary[i].removeprefix("##") if vocabulary[i] in inside else vocabulary[i] for i in order]
    with_row = [i for i in order if kept[i]]
    number = {i: row for row, i in enumerate(with_row)}
    values, scales = quantise(rows[with_row], bits)
    if bits == 4:
        shifted = (values + 8).astype(np.uint8)
        values = shifted[:, 0::2] | (shifted[:, 1::2] << 4)
    text = [piece.encode() for piece in letters]
    dims = rows.shape[1]
    return b"".join([
        struct.pack(HEADER, MAGIC, VERSION, bits, 0, dims, len(with_row), len(starts), len(inside), sum(map(len, text))),
        scales.astype("<f4").tobytes(),
        values.tobytes(),
        np.array([number.get(i, NO_ROW) for i in order], "<u4").tobytes(),
        np.cumsum([len(piece) for piece in text]).astype("<u4").tobytes(),
        *text,
    ])


def decode(data: bytes) -> tuple[list[str], np.ndarray]:
    """The pieces and their vectors, zero for a piece without one."""
    size = struct.calcsize(HEADER)
    magic, version, bits, _, dims, count, starts, inside, _ = struct.unpack(HEADER, data[:size])
    if magic != MAGIC or version != VERSION or bits not in (4, 8):
        raise SystemExit("not an embedding table of format 1")
    scales = np.frombuffer(data, "<f4", count, size)
    at = size + 4 * count
    raw = np.frombuffer(data, np.uint8, count * dims * bits // 8, at)
    at += len(raw)
    if bits == 4:
        values = np.stack([raw & 15, raw >> 4], -1).reshape(count, dims).astype(np.int8) - 8
    else:
        values = raw.view(np.int8).reshape(count, dims)
    numbers = np.frombuffer(data, "<u4", starts + inside, at)
    ends = np.frombuffer(data, "<u4", starts + inside, at + 4 * len(numbers))
    text = data[at + 8 * len(numbers) :]
    begins = [0, *ends[:-1].tolist()]
    words = [text[a:b].decode() for a, b in zip(begins, ends.tolist(), strict=True)]
    words = words[:starts] + ["##" + word for word in words[starts:]]
    vectors = np.concatenate([values * scales[:, None], np.zeros((1, dims), np.float32)])
    return words, vectors[np.where(numbers == NO_ROW, count, numbers)]


def unit(sums: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(sums, axis=1, keepdims=True)
    return sums / np.where(norms == 0, 1, norms)


def add_words(tokenizer: Tokenizer, words: list[str]) -> Tokenizer:
    """A tokenizer that knows more words. It still takes the longest piece it knows, from the left."""
    model = json.loads(tokenizer.to_str())
    vocabulary = model["model"]["vocab"]
    for word in words:
        vocabulary.setdefault(word, len(vocabulary))
    return Tokenizer.from_str(json.dumps(model))


class Static:
    """Sum of the rows of the pieces, length 1; zero when no piece has a row."""

    def __init__(self, tokenizer: Tokenizer, vocabulary: list[str], rows: np.ndarray):
        """`tokenizer` is the teacher's; the words that only the table has are added to it."""
        self.tokenizer = add_words(tokenizer, vocabulary)
        known = self.tokenizer.get_vocab()
        self.rows = np.zeros((len(known), rows.shape[1]), np.float32)
        self.rows[[known[word] for word in vocabulary]] = rows

    @classmethod
    def load(cls, tokenizer: Tokenizer, path: Path) -> "Static":
        return cls(tokenizer, *decode(path.read_bytes()))

    def encode(self, texts: list[str]) -> np.ndarray:
        encoded = self.tokenizer.encode_batch(texts, add_special_tokens=False)
        sums = np.stack([self.rows[e.ids[:LONGEST_TEXT]].sum(0) for e in encoded])
        return unit(sums)
