"""Writes `registry/data/minilm.safetensors`, the sentence encoder in the binary.

    tests/minilm/install target/minilm
    python tools/embedding/quantize.py target/minilm registry/data/minilm.safetensors

The first command fetches all-MiniLM-L6-v2 and checks its digests. Matrices have 8 bits
(`NAME.q8`, one scale for each output), word embeddings 4 bits (`NAME.q4`, two values a byte, the low
nibble first, each plus 8, one scale for each 32 inputs), positions 16 bits, and the rest 32. The
vocabulary is the tensor `vocabulary`: its pieces in order, one in a line.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load, save

POSITIONS = 256
GROUP = 32
WORDS = "embeddings.word_embeddings.weight"
PLACES = "embeddings.position_embeddings.weight"


def to_4_bits(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values and scales; of six scales for each group the one with the least square error."""
    groups = weights.reshape(-1, GROUP)
    most = np.abs(groups).max(axis=1, keepdims=True)
    best = None
    for share in (1, 0.95, 0.9, 0.85, 0.8, 0.75):
        scale = (most * share / 7 + 1e-12).astype(np.float16).astype(np.float32)
        values = np.clip(np.round(groups / scale), -8, 7)
        error = ((values * scale - groups) ** 2).sum(axis=1, keepdims=True)
        if best is None:
            best, best_scale, least = values, scale, error
        else:
            better = error < least
            best = np.where(better, values, best)
            best_scale = np.where(better, scale, best_scale)
            least = np.minimum(error, least)
    nibbles = (best.reshape(weights.shape) + 8).astype(np.uint8)
    packed = nibbles[:, 0::2] | (nibbles[:, 1::2] << 4)
    return packed, best_scale.reshape(len(weights), -1).astype(np.float16)


def quantize(weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    tensors = {}
    for name, values in weights.items():
        if "position_ids" in name or name.startswith("pooler"):
            continue
        if name == WORDS:
            tensors[f"{name}.q4"], tensors[f"{name}.scale"] = to_4_bits(values)
        elif name == PLACES:
            tensors[name] = values[:POSITIONS].astype(np.float16)
        elif name.startswith("encoder") and values.ndim == 2:
            scale = np.abs(values).max(axis=1) / 127
            tensors[f"{name}.q8"] = np.round(values / scale[:, None]).astype(np.int8)
            tensors[f"{name}.scale"] = scale.astype(np.float32)
        else:
            tensors[name] = values.astype(np.float32)
    return tensors


def main() -> None:
    model, target = Path(sys.argv[1]), Path(sys.argv[2])
    tensors = quantize(load((model / "model.safetensors").read_bytes()))
    vocabulary = json.loads((model / "tokenizer.json").read_bytes())["model"]["vocab"]
    pieces = "\n".join(sorted(vocabulary, key=vocabulary.get)).encode()
    tensors["vocabulary"] = np.frombuffer(pieces, np.uint8)
    data = save(tensors, metadata={"source": "all-MiniLM-L6-v2", "license": "Apache-2.0"})
    target.write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    target.with_name(f"{target.name}.sha256").write_text(f"{digest}  {target.name}\n")
    print(len(data), digest)


if __name__ == "__main__":
    main()
