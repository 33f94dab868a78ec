"""What the local embedder is held to: texts and their vectors, by the reference tokenizer and a
forward pass in numpy that shares nothing with the one in Rust.

    python local_fixture.py tiny FOLDER              makes a small random model and its vectors
    python local_fixture.py real MODEL FIXTURE.json  the vectors of a model that is there
"""

import base64
import json
import math
import random
import string
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer

SEED = 20_261_122
TEXTS = [
    "dog",
    "Retrieve a list of dog breeds",
    "will it rain in Paris tomorrow?",
    "How many euros are 20 dollars, and what about 3.50?",
    "Café MENÜ naïve Ångström",
    "don't stop-me (now)! [CLS] #1",
    "天气 in 東京",
    "get_weather_forecast listDogBreeds HTTPServer2",
    "supercalifragilisticexpialidocious " + "x" * 101,
    "Привет мир, καλημέρα κόσμε",
    "one\ttwo\nthree\u00a0four\u200bfive",
    "Send a message to my brother that I will be late. " * 40,
    "¿dónde está la biblioteca?",
    "🎉 party 🎉",
    "a",
    "SELECT * FROM t WHERE x >= 10; -- comment",
    "Convert an amount of money from one currency to another",
    "the the the the",
    "e-mail: someone@example.com https://example.com/a/b?c=d&e=f",
    "Latest water level of a river, in metres above the reference level of the gauge",
]


def erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def forward(weights: dict[str, np.ndarray], config: dict, ids: list[int]) -> np.ndarray:
    """The last layer of one text, in double precision."""
    w = {name: tensor.astype(np.float64) for name, tensor in weights.items() if tensor.dtype.kind == "f"}

    def linear(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + config["layer_norm_eps"])
        return x * w[f"{name}.weight"] + w[f"{name}.bias"]

    x = w["embeddings.word_embeddings.weight"][ids]
    x = x + w["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    heads = config["num_attention_heads"]
    size = config["hidden_size"] // heads
    for layer in range(config["num_hidden_layers"]):
        at = f"encoder.layer.{layer}"
        q, k, v = (linear(x, f"{at}.attention.self.{part}") for part in ("query", "key", "value"))
        parts = []
        for head in range(heads):
            cols = slice(head * size, (head + 1) * size)
            scores = np.exp(q[:, cols] @ k[:, cols].T / math.sqrt(size))
            parts.append(scores / scores.sum(-1, keepdims=True) @ v[:, cols])
        x = norm(linear(np.hstack(parts), f"{at}.attention.output.dense") + x, f"{at}.attention.output.LayerNorm")
        inner = linear(x, f"{at}.intermediate.dense")
        inner = inner * 0.5 * (1 + erf(inner / math.sqrt(2)))
        x = norm(linear(inner, f"{at}.output.dense") + x, f"{at}.output.LayerNorm")
    return x


def vectors(folder: Path) -> list[dict[str, str]]:
    """Base64 of little-endian halves: mean of all positions, and the first one."""
    config = json.loads((folder / "config.json").read_text())
    longest = json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"]
    weights = load_file(folder / "model.safetensors")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(longest)
    # A name in brackets is ordinary text to the registry: an intent must not steer the model.
    bare = [text.replace("[CLS]", "[ CLS ]") for text in TEXTS]
    found = []
    for text, read in zip(TEXTS, bare, strict=True):
        rows = forward(weights, config, tokenizer.encode(read).ids)
        packed = {"text": text}
        for name, vector in (("mean", rows.mean(0)), ("first", rows[0])):
            vector = (vector / np.linalg.norm(vector)).astype("<f2")
            packed[name] = base64.b64encode(vector.tobytes()).decode()
        found.append(packed)
    return found


def write_tiny(folder: Path) -> None:
    """A model of the same shape as real ones, small enough for a repository."""
    rng, dice = np.random.default_rng(SEED), random.Random(SEED)
    letters = string.ascii_lowercase + string.digits
    common = "dog list of breeds rain paris weather money in a the send message to brother".split()
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *string.punctuation, *letters]
    pieces += [f"##{letter}" for letter in letters] + ["天", "##ing", "##er", "##s", "й", "##и", "прив"] + common
    pieces = list(dict.fromkeys(pieces))
    dice.shuffle(pieces)
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    width, inner, layers, positions = 16, 24, 2, 48
    config = {
        "architectures": ["BertModel"], "model_type": "bert", "hidden_act": "gelu", "hidden_size": width,
        "intermediate_size": inner, "num_attention_heads": 4, "num_hidden_layers": layers, "layer_norm_eps": 1e-12,
        "max_position_embeddings": positions, "type_vocab_size": 2, "vocab_size": len(pieces), "pad_token_id": 0,
    }
    special = {piece: vocabulary[piece] for piece in ("[CLS]", "[SEP]")}
    mark = {piece: {"id": piece, "ids": [number], "tokens": [piece]} for piece, number in special.items()}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [
            {"id": vocabulary[piece], "special": True, "content": piece, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
            for piece in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
        ],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing", "special_tokens": mark, "pair": [],
            "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocabulary},
    }
    tensors = {}

    def table(name, *shape, scale=0.6, around=0.0):
        tensors[name] = (around + scale * rng.standard_normal(shape)).astype(np.float32)

    def norm(name):
        table(f"{name}.weight", width, scale=0.2, around=1.0)
        table(f"{name}.bias", width, scale=0.2)

    def linear(name, outputs, inputs):
        table(f"{name}.weight", outputs, inputs, scale=1.2 / math.sqrt(inputs))
        table(f"{name}.bias", outputs, scale=0.2)

    table("embeddings.word_embeddings.weight", len(pieces), width)
    table("embeddings.position_embeddings.weight", positions, width)
    table("embeddings.token_type_embeddings.weight", 2, width)
    norm("embeddings.LayerNorm")
    for layer in range(layers):
        at = f"encoder.layer.{layer}"
        for part in ("query", "key", "value"):
            linear(f"{at}.attention.self.{part}", width, width)
        linear(f"{at}.attention.output.dense", width, width)
        norm(f"{at}.attention.output.LayerNorm")
        linear(f"{at}.intermediate.dense", inner, width)
        linear(f"{at}.output.dense", width, inner)
        norm(f"{at}.output.LayerNorm")
    (folder / "1_Pooling").mkdir(parents=True, exist_ok=True)
    kinds = "Transformer Pooling Normalize".split()
    modules = [
        {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for at, (kind, path) in enumerate(zip(kinds, ["", "1_Pooling", "2_Normalize"], strict=True))
    ]
    pooling = {"word_embedding_dimension": width, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
    for name, content in (
        ("config.json", config), ("tokenizer.json", tokenizer), ("modules.json", modules),
        ("1_Pooling/config.json", pooling), ("sentence_bert_config.json", {"max_seq_length": 40}),
    ):
        (folder / name).write_text(json.dumps(content, ensure_ascii=False) + "\n")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def main() -> None:
    match sys.argv[1:]:
        case ["tiny", folder]:
            write_tiny(Path(folder))
            target = Path(folder) / "expected.json"
            model = Path(folder)
        case ["real", model, target]:
            model, target = Path(model), Path(target)
        case _:
            raise SystemExit(__doc__)
    target.write_text(json.dumps(vectors(model), ensure_ascii=False, indent=0) + "\n")


main()
