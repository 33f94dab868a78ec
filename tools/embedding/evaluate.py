"""Recall@5, Recall@1 and NDCG@10 of a table on sets of queries with known answers.

Each set is a folder with `tools.jsonl` and `queries.jsonl`. Constants are chosen on the tuning
sets only; the test sets are for the report.

    python evaluate.py --sources DIR --data DIR --table ../../registry/data/embedding.a2se
"""

import argparse
import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import scipy.sparse
import snowballstemmer

from corpus import split_name
from table import Static
from teacher import Teacher

TUNING = ["apibank", "toole_multi"]
TEST = ["toole", "sealtools", "stabletoolbench", "bfcl", "restbench_tmdb"]
STOP = set(
    "a an and are as at be by can could do for from give have how i in is it its like me my of on or "
    "please that the their this to want was we what which with would you your".split()
)
CONNECTIVES = ("then", "also")
DENSE_WEIGHT, CLAUSE_WEIGHT = 0.6, 0.9
stem = cache(snowballstemmer.stemmer("english").stemWord)


def read_lines(path: Path) -> list[dict]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def terms(text: str) -> list[str]:
    words = re.findall(r"[^\W_]+", split_name_kept(text).lower())
    return [stem(word) for word in words if word not in STOP]


def split_name_kept(text: str) -> str:
    text = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text)
    return re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1 \2", text)


def split_clauses(query: str) -> list[str]:
    """The same rule as in Rust: see `registry/src/embed/text.rs`."""
    clauses: list[list[str]] = [[]]
    for line in query.splitlines():
        for word in line.split():
            bare = re.sub(r"^[^\w]+|[^\w]+$", "", word).lower()
            after_comma = bool(clauses[-1]) and clauses[-1][-1].endswith(",")
            if bare in CONNECTIVES or (bare == "and" and after_comma):
                clauses.append([])
                continue
            clauses[-1].append(word)
            if word.rstrip("\"')]").endswith((".", "!", "?", ";")):
                clauses.append([])
        clauses.append([])
    filled = [clause for clause in clauses if clause]
    return [" ".join(clause) for clause in filled if len(clause) >= 3] if len(filled) > 1 else []


class Bm25:
    def __init__(self, documents: list[str], k1: float = 1.2, b: float = 0.75):
        counted = [terms(document) for document in documents]
        self.ids = {term: i for i, term in enumerate(sorted({t for d in counted for t in d}))}
        rows = [i for i, d in enumerate(counted) for _ in d]
        columns = [self.ids[t] for d in counted for t in d]
        shape = (len(documents), len(self.ids))
        m = scipy.sparse.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape)
        m.sum_duplicates()
        length = np.asarray(m.sum(1)).ravel()
        seen = np.asarray((m > 0).sum(0)).ravel()
        idf = np.log(1 + (len(documents) - seen + 0.5) / (seen + 0.5))
        m = m.tocoo()
        norm = k1 * (1 - b + b * length[m.row] / length.mean())
        data = idf[m.col] * m.data * (k1 + 1) / (m.data + norm)
        self.weights = scipy.sparse.csr_matrix((data.astype(np.float32), (m.row, m.col)), shape).T.tocsr()

    def score(self, queries: list[str]) -> np.ndarray:
        found = [[self.ids[t] for t in set(terms(q)) if t in self.ids] for q in queries]
        rows = [i for i, f in enumerate(found) for _ in f]
        columns = [c for f in found for c in f]
        m = scipy.sparse.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), (len(queries), len(self.ids)))
        return (m @ self.weights).toarray()


def fuse(dense: np.ndarray, sparse: np.ndarray, weight: float) -> np.ndarray:
    low, high = dense.min(1, keepdims=True), dense.max(1, keepdims=True)
    dense = (dense - low) / np.maximum(high - low, 1e-9)
    return weight * dense + (1 - weight) * sparse


class Set:
    """One set: documents, queries with their clauses, and who is right."""

    def __init__(self, folder: Path):
        tools = read_lines(folder / "tools.jsonl")
        queries = read_lines(folder / "queries.jsonl")
        self.name = folder.name
        self.dense_text, self.sparse_text = [], []
        for tool in tools:
            names = [p["name"] for p in tool["parameters"]]
            name = split_name(f"{tool.get('namespace') or ''} {tool['name']}")
            head = f"{name} {tool['description_200']}"
            told = " ".join(f"{p['name']} {p.get('description') or ''}" for p in tool["parameters"])
            self.dense_text.append(" ".join([head, *map(split_name, names)]))
            self.sparse_text.append(f"{head} {told}")
        groups = sorted({tool["group"] for tool in tools})
        number = {group: i for i, group in enumerate(groups)}
        self.group = np.array([number[tool["group"]] for tool in tools])
        self.queries = [q["query"] for q in queries]
        self.gold = [{number[g] for g in q["gold"] if g in number} for q in queries]
        self.parts: list[str] = list(self.queries)
        self.owner: list[int] = list(range(len(queries)))
        for i, query in enumerate(self.queries):
            for clause in split_clauses(query):
                self.parts.append(clause)
                self.owner.append(i)
        sparse = Bm25(self.sparse_text).score(self.parts)
        self.bm25 = sparse / np.maximum(sparse.max(1, keepdims=True), 1e-9)

    def whole(self, scores: np.ndarray, clauses: bool) -> np.ndarray:
        count = len(self.queries)
        best = scores[:count].copy()
        if clauses:
            np.maximum.at(best, np.array(self.owner[count:], int), CLAUSE_WEIGHT * scores[count:])
        return best

    def measure(self, scores: np.ndarray) -> tuple[float, float, float]:
        """Recall@5, Recall@1, NDCG@10 in percent; a hit counts by group."""
        sums = np.zeros(3)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :60]
        for ranked, gold in zip(order, self.gold, strict=True):
            groups = list(dict.fromkeys(self.group[ranked]))[:10]
            hits = [g in gold for g in groups]
            ideal = sum(1 / np.log2(i + 2) for i in range(min(len(gold), 10)))
            gain = sum(hit / np.log2(i + 2) for i, hit in enumerate(hits))
            sums += [sum(hits[:5]) / len(gold), sum(hits[:1]) / len(gold), gain / ideal]
        return tuple(100 * sums / len(self.gold))

    def report(self, encode, weight: float = DENSE_WEIGHT) -> dict[str, tuple[float, float, float]]:
        dense = encode(self.parts) @ encode(self.dense_text).T
        fused = fuse(dense, self.bm25, weight)
        return {
            "dense": self.measure(self.whole(dense, False)),
            "dense, clauses": self.measure(self.whole(dense, True)),
            "BM25": self.measure(self.whole(self.bm25, False)),
            "BM25, clauses": self.measure(self.whole(self.bm25, True)),
            "fused": self.measure(self.whole(fused, False)),
            "fused, clauses": self.measure(self.whole(fused, True)),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sources", type=Path, required=True, help="folder of the downloaded wheels")
    parser.add_argument("--data", type=Path, required=True, help="folder with one folder per set")
    parser.add_argument("--table", type=Path, help="table to measure; without it the teacher is measured")
    parser.add_argument("--sets", nargs="*", default=TUNING + TEST)
    parser.add_argument("--weight", type=float, default=DENSE_WEIGHT, help="weight of the dense score")
    args = parser.parse_args()
    teacher = Teacher(args.sources)

    def ask_teacher(texts: list[str]) -> np.ndarray:
        return teacher.encode(teacher.pieces(texts, 254))

    encode = Static.load(teacher.tokenizer, args.table).encode if args.table else ask_teacher
    for metric, title in enumerate(["Recall@5", "Recall@1", "NDCG@10"]):
        if metric == 0:
            found = {name: Set(args.data / name).report(encode, args.weight) for name in args.sets}
        print(f"\n| {title} | " + " | ".join(args.sets) + " | mean |")
        print("|---" * (len(args.sets) + 2) + "|")
        for row in next(iter(found.values())):
            values = [found[name][row][metric] for name in args.sets]
            print(f"| {row} | " + " | ".join(f"{v:.1f}" for v in [*values, np.mean(values)]) + " |")


if __name__ == "__main__":
    main()
