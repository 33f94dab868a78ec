"""One row per word piece, so that the sum of the rows of a text points where the teacher points.

Three stages: rows from single pieces with frequency weights, a ridge regression of what is
missing, then Adam on the angle to the teacher and on the similarities inside a batch.
"""

import numpy as np
import scipy.sparse

SIF = 1e-3
RIDGE = 0.02
RIDGE_ROUNDS = 25
BATCH = 1024
RATE = 5e-3
TEMPERATURE = 0.05


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-9)


def mean_pool(pieces: list[list[int]], vocabulary: int, kept: np.ndarray) -> scipy.sparse.csr_matrix:
    """Texts x pieces: what each piece contributes to the mean. Pieces without a row contribute nothing."""
    rows = np.repeat(np.arange(len(pieces)), [len(p) for p in pieces])
    columns = np.fromiter((i for p in pieces for i in p), np.int64, len(rows))
    keep = kept[columns]
    rows, columns = rows[keep], columns[keep]
    length = np.maximum(np.bincount(rows, minlength=len(pieces)), 1)
    data = (1 / length[rows]).astype(np.float32)
    return scipy.sparse.csr_matrix((data, (rows, columns)), (len(pieces), vocabulary))


def find_basis(targets: np.ndarray, dims: int) -> np.ndarray:
    """The directions that hold most of the teacher's sentence vectors; not centred, to keep angles."""
    values, vectors = np.linalg.eigh((targets.T @ targets).astype(np.float64))
    return vectors[:, np.argsort(-values)[:dims]].astype(np.float32)


def start_rows(single: np.ndarray, pooled: scipy.sparse.csr_matrix, kept: np.ndarray) -> np.ndarray:
    counts = np.asarray((pooled > 0).sum(0)).ravel() + 1.0
    share = counts / counts.sum()
    rows = single * (SIF / (SIF + share))[:, None]
    rows[~kept] = 0
    return rows.astype(np.float32)


def add_ridge(rows: np.ndarray, pooled: scipy.sparse.csr_matrix, targets: np.ndarray) -> np.ndarray:
    """Conjugate gradients on (X'X + r) D = X'(T - s X W); returns s W + D."""
    made = pooled @ rows
    scale = float((made * targets).sum() / (made * made).sum())
    rows = rows * np.float32(scale)
    back = pooled.T.tocsr()
    residual = back @ (targets - pooled @ rows)
    delta = np.zeros_like(rows)
    direction = residual.copy()
    energy = np.square(residual).sum(0)
    for _ in range(RIDGE_ROUNDS):
        image = back @ (pooled @ direction) + RIDGE * direction
        step = energy / np.maximum((direction * image).sum(0), 1e-12)
        delta += step * direction
        residual -= step * image
        fresh = np.square(residual).sum(0)
        direction = residual + (fresh / np.maximum(energy, 1e-12)) * direction
        energy = fresh
    return rows + delta


def softmax_rows(logits: np.ndarray) -> np.ndarray:
    np.fill_diagonal(logits, -np.inf)
    logits -= logits.max(1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(1, keepdims=True)
    return logits


def descend(
    rows: np.ndarray,
    pooled: scipy.sparse.csr_matrix,
    full: np.ndarray,
    targets: np.ndarray,
    kept: np.ndarray,
    steps: int,
    seed: int,
    watch=None,
) -> np.ndarray:
    """Adam. `full` has the teacher's own vectors, `targets` their places in the basis."""
    rng = np.random.default_rng(seed)
    active = np.flatnonzero(kept)
    pooled = pooled[:, active]
    w = rows[active].copy()
    first, second = np.zeros_like(w), np.zeros_like(w)
    aims = unit(targets)
    for step in range(1, steps + 1):
        batch = np.sort(rng.choice(len(full), BATCH, replace=False))
        x = pooled[batch]
        # Only the rows of pieces that occur are moved, so rare pieces keep their momentum.
        touched, columns = np.unique(x.indices, return_inverse=True)
        x = scipy.sparse.csr_matrix((x.data, columns.astype(np.int32), x.indptr), (len(batch), len(touched)))
        made = x @ w[touched]
        norm = np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 1e-6)
        s = made / norm
        t = full[batch]
        wanted = softmax_rows((t @ t.T) / TEMPERATURE)
        found = softmax_rows((s @ s.T) / TEMPERATURE)
        if watch and step % 100 == 0:
            kl = (wanted * (np.log(wanted + 1e-12) - np.log(found + 1e-12))).sum(1).mean()
            watch(step, float((s * aims[batch]).sum(1).mean()), float(kl))
        pull = (found - wanted) / BATCH
        grad = (pull @ s + pull.T @ s) / np.float32(TEMPERATURE) - aims[batch] / BATCH
        grad = (grad - (grad * s).sum(1, keepdims=True) * s) / norm
        g = x.T @ grad
        m = 0.9 * first[touched] + np.float32(0.1) * g
        v = 0.999 * second[touched] + np.float32(0.001) * np.square(g)
        first[touched], second[touched] = m, v
        rate = RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
        w[touched] -= np.float32(rate / (1 - 0.9**step)) * m / (np.sqrt(v / np.float32(1 - 0.999**step)) + np.float32(1e-8))
    out = np.zeros_like(rows)
    out[active] = w
    return out
