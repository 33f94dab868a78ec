"""Unlabelled text for the fit. It comes from packages only; no search test set is read here.

Sources: descriptions of operations in botocore and google-api-python-client, the one-line
descriptions of Debian packages, words, glosses and sentences of WordNet, descriptions in Home
Assistant, titles of examples in the AWS CLI, single words of the teacher's vocabulary, and intents
made from all of them by templates.
"""

import collections
import gzip
import html
import io
import json
import random
import re
import subprocess
import tarfile
import zipfile
from pathlib import Path

SEED = 20240611
LONGEST = 200

ASKS = [
    "{}",
    "I want to {}",
    "I need to {}",
    "can you {}",
    "could you please {} for me",
    "please {}",
    "how do I {}",
    "help me {}",
    "what is the best way to {}",
    "I'd like to {} today",
    "find something to {}",
    "is there a tool to {}",
    "my team has to {} before the end of the week",
]
THINGS = [
    "I am looking for a {}",
    "what is a good {}",
    "find me a {}",
    "recommend a {}",
    "tell me about {}",
    "show me information about {}",
    "I have a question about {}",
    "where can I get a {}",
    "search for {}",
]
WORDS = [
    "{0}",
    "{0} {1}",
    "get the list of {0} for {1}",
    "find {0} about {1}",
    "what is the {0} of the {1}",
    "I need information on {0} and {1}",
    "show me {0} near {1}",
    "search {0} by {1}",
    "how many {0} are there in {1}",
    "can you check the {0} {1} for me",
    "Retrieve {0} details of a {1}",
    "I would like to know which {0} has the best {1}",
    "Calculate the {0} from {1} and {2}",
    "Get {0}, {1} and {2} for a given {3}",
]

# The small talk of a request: what stands before and after what is wanted. It teaches the common
# words of people's sentences, which descriptions of operations hardly use, to carry little weight.
BEFORE = """|hello|hi there|hey|good morning|please|quick question|just wondering|excuse me|thanks in advance
I am new to this|I am a bit lost|I have been thinking about this for days|I just moved to a new house
I am writing a paper for school|I am planning a trip with my family|my friend told me about this
we are a small company|I am working on a project|my boss asked me for this|my daughter is curious
it is my birthday next week|I am in a hurry|I only have ten minutes|I don't know where to start
I've heard a lot of good things|I'm really interested in this|this has bothered me all week
I am going to be in {city} for a few days|I live in {city}|{person} asked me something today
as a teacher|as a beginner|as someone who works from home|for my website|for my team""".replace("\n", "|").split("|")
REQUEST = """I want to {do}|I need to {do}|I would like to {do}|can you {do}|could you {do}|would you {do} for me
how do I {do}|how can I {do}|is it possible to {do}|help me {do}|let me {do}|I am trying to {do}|please {do}
what should I do to {do}|do you know how to {do}|show me how to {do}|I wish I could {do}|it would be great to {do}
is there a way to {do}|what is the easiest way to {do}|I was hoping you might {do}|we have to {do}
I was asked to {do}|tell me how to {do}|I'm looking for something to {do}|go ahead and {do}|make sure to {do}
{do}|{do}|{do}""".replace("\n", "|").split("|")
ABOUT = """what is {thing}|tell me about {thing}|I am looking for {thing}|find me {thing}|look up {thing}
show me {thing}|give me {thing}|do you have {thing}|where can I find {thing}|what do you know about {thing}
can you recommend {thing}|I need some help with {thing}|is there any {thing}|look something up about {thing}
I want to learn more about {thing}|what is the latest on {thing}|how much is {thing}|who made {thing}
when was {thing}|how good is {thing}|is {thing} bad today|what are the best {thing}|which {thing} should I choose
compare {thing}|what is going on with {thing}|any news about {thing}|I have a question about {thing}
how many {thing} do I get|tell me everything about {thing}|say something about {thing}|explain {thing} to me
what happened to {thing}|should I buy {thing}|why is {thing} so popular|suggest some {thing}|{thing}|{thing}
get information on {thing}|search for {thing}|check {thing}|I am interested in {thing}|what kinds of {thing} are there
how does {thing} work|can I get {thing}|what does {thing} mean|I'd like {thing}|I wonder about {thing}""".replace("\n", "|").split("|")
AFTER = """||||today|tomorrow|right now|this week|next month|in {city}|near {city}|near me|for me|for my family
for {person}|with {person}|in simple words|as soon as possible|if you can|and why|with a few examples
before the weekend|this evening|on a small budget|step by step|on my phone|for free|from home|and send it to me
between {number} and {number}|under {number} dollars|at least {number} of them|since {number}|in {number}
thank you|I would be grateful|that would help me a lot|it is important|what do you think|any ideas""".replace("\n", "|").split("|")
CITIES = "Paris Rome London Berlin Tokyo Madrid Cairo Sydney Chicago Toronto Mumbai Lagos Lima Oslo Seoul Boston".split()
PEOPLE = "Anna John Maria David Sarah Tom Emma Ahmed Lucy Peter my-mother my-brother a-colleague my-neighbour".split()


def split_name(name: str) -> str:
    """Words of an identifier: `ListDogBreeds` gives `List Dog Breeds`. The same rule as in Rust."""
    words = ""
    for at, character in enumerate(name):
        if not character.isalnum():
            words += " "
            continue
        if at and begins_word(name[at - 1], character, name[at + 1 :]):
            words += " "
        words += character
    return " ".join(words.split())


def begins_word(before: str, character: str, after: str) -> bool:
    lower_next = after[:1].islower()
    if character.isnumeric():
        return before.islower()
    if not character.isupper():
        return False
    if before.isupper():
        plural = after[:1] == "s" and not after[1:2].islower()
        return lower_next and not plural
    return before.islower() or (before.isnumeric() and lower_next)


def tidy(text: str) -> str:
    text = html.unescape(re.sub(r"<[^>]+>", " ", text))
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("`", "")
    return re.sub(r"\s+", " ", text).strip()


def cut(text: str) -> str:
    """First sentences that fit, at least one, never more than `LONGEST` characters."""
    text = tidy(text)
    if len(text) <= LONGEST:
        return text
    end = text.rfind(". ", 0, LONGEST)
    return text[: end + 1] if end > 40 else text[:LONGEST].rsplit(" ", 1)[0]


def plain_verb(text: str) -> str | None:
    """`Lists the keys of an account. More.` gives `list the keys of an account`."""
    sentence = re.split(r"\.(?:\s|$)", text, maxsplit=1)[0]
    words = sentence.split()
    if not 3 <= len(words) <= 22 or not words[0].isalpha():
        return None
    verb = words[0].lower()
    if verb in ("this", "the", "a", "an", "returns", "note", "deprecated", "required", "if", "use"):
        return None
    if verb.endswith("ies"):
        verb = verb[:-3] + "y"
    elif verb.endswith(("sses", "ches", "shes", "xes")):
        verb = verb[:-2]
    elif verb.endswith("s") and not verb.endswith("ss"):
        verb = verb[:-1]
    return " ".join([verb, *words[1:]])


def read_botocore(sources: Path) -> list[tuple[str, str, list[str]]]:
    """(name, description, input names) of every operation, newest version of each service."""
    (path,) = sources.glob("botocore-*.whl")
    found = []
    with zipfile.ZipFile(path) as wheel:
        newest: dict[str, str] = {}
        for name in sorted(wheel.namelist()):
            if re.fullmatch(r"botocore/data/[^/]+/[^/]+/service-2\.json(\.gz)?", name):
                newest[name.split("/")[2]] = name
        for name in newest.values():
            data = wheel.read(name)
            model = json.loads(gzip.decompress(data) if name.endswith(".gz") else data)
            for key, operation in sorted(model["operations"].items()):
                shape = model["shapes"].get(operation.get("input", {}).get("shape", ""), {})
                found.append((key, operation.get("documentation", ""), list(shape.get("members", {}))))
    return found


def read_google(sources: Path) -> list[tuple[str, str, list[str]]]:
    """The same for every method of every discovery document."""
    (path,) = sources.glob("google_api_python_client-*.whl")
    found = []

    def walk(node: dict) -> None:
        for _, method in sorted(node.get("methods", {}).items()):
            name = " ".join(method["id"].replace("projects.locations.", "").split(".")[-2:])
            found.append((name, method.get("description", ""), list(method.get("parameters", {}))))
        for _, child in sorted(node.get("resources", {}).items()):
            walk(child)

    with zipfile.ZipFile(path) as wheel:
        for name in sorted(wheel.namelist()):
            if re.search(r"/discovery_cache/documents/[^/]+\.json$", name):
                walk(json.load(io.BytesIO(wheel.read(name))))
    return found


def read_debian() -> list[str]:
    """One-line descriptions of every package in the machine's Debian index, without variants."""
    dump = subprocess.run(["apt-cache", "dumpavail"], check=True, capture_output=True, text=True).stdout
    lines = set(re.findall(r"^Description(?:-en)?: (.+)$", dump, flags=re.M))
    kept = {}
    for line in sorted(lines):
        bare = re.sub(r"\s*[\(\[][^)\]]*[\)\]]", "", line)
        bare = re.split(r" - | -- |; ", bare)[0].strip()
        if len(bare) >= 12 and not re.search(r"transitional|dummy|metapackage", line, flags=re.I):
            kept.setdefault(bare.lower(), bare)
    return list(kept.values())


def read_wordnet(sources: Path) -> list[tuple[int, str, list[str], str, list[str]]]:
    """(number of the subject, part of speech, words, gloss, sentences) of every meaning."""
    (path,) = sources.glob("wordnet-base_*.deb")
    raw = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(path)], check=True, capture_output=True).stdout
    found = []
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        for kind in ("noun", "verb", "adj", "adv"):
            (member,) = [m for m in tar.getmembers() if m.name.endswith(f"/data.{kind}")]
            for line in tar.extractfile(member).read().decode("latin-1").splitlines():
                if line.startswith("  "):
                    continue
                head, _, gloss = line.partition(" | ")
                fields = head.split(" ")
                words = [fields[4 + 2 * i] for i in range(int(fields[3], 16))]
                words = [re.sub(r"\(\w+\)$", "", word).replace("_", " ") for word in words]
                sentences = re.findall(r'"([^"]+)"', gloss)
                gloss = re.sub(r';?\s*"[^"]*"', "", gloss).strip(" ;")
                found.append((int(fields[1]), kind, words, gloss, sentences))
    return found


def read_home(sources: Path) -> list[str]:
    """Names and descriptions of what Home Assistant's integrations do."""
    (path,) = sources.glob("homeassistant-*.whl")
    found = []

    def walk(node: object) -> None:
        if not isinstance(node, dict):
            return
        name, text = node.get("name"), node.get("description")
        if isinstance(name, str) and isinstance(text, str):
            found.append(f"{name} {text}")
        elif isinstance(text, str):
            found.append(text)
        elif isinstance(name, str) and len(name) > 10:
            found.append(name)
        for child in node.values():
            walk(child)

    with zipfile.ZipFile(path) as wheel:
        for name in sorted(wheel.namelist()):
            if re.search(r"components/[^/]+/strings\.json$", name):
                strings = json.loads(wheel.read(name))
                walk({key: strings[key] for key in ("services", "entity", "issues") if key in strings})
    lines = dict.fromkeys(cut(text) for text in found)
    return [line for line in lines if "{" not in line and "[%" not in line and len(line) >= 8]


def read_aws_titles(sources: Path) -> list[str]:
    """`To list your buckets` above an example of the AWS CLI gives `list your buckets`."""
    (path,) = sources.glob("awscli-*.whl")
    found = []
    with zipfile.ZipFile(path) as wheel:
        for name in sorted(wheel.namelist()):
            if name.endswith(".rst") and "/examples/" in name:
                text = wheel.read(name).decode("utf-8", "replace")
                for title in re.findall(r"^\*\*(?:Example \d+: )?(.+?)\*\*\s*$", text, flags=re.M):
                    title = re.sub(r"^[Tt]o ", "", title.replace("``", ""))
                    if len(title.split()) >= 3:
                        found.append(title)
    return list(dict.fromkeys(found))


def shortened(lines: list[tuple[str, str, list[str]]]) -> list[tuple[str, str, list[str]]]:
    seen, kept = set(), []
    for name, text, inputs in lines:
        text = cut(text)
        if (name, text) not in seen:
            seen.add((name, text))
            kept.append((split_name(name), text, [split_name(i).lower() for i in inputs[:6]]))
    return kept


def make_requests(rng: random.Random, doings: list[str], things: list[str], count: int) -> list[str]:
    """Requests as people type them, about what the sources speak of."""
    found = []
    for _ in range(count):
        if rng.random() < 0.4:
            wish = rng.choice(REQUEST).format(do=rng.choice(doings))
        else:
            wish = rng.choice(ABOUT).format(thing=rng.choice(things))
        before = rng.choice(BEFORE) if rng.random() < 0.4 else ""
        text = f"{before}{rng.choice(['. ', ', ', ' and ']) if before else ''}{wish} {rng.choice(AFTER)}".strip()
        text = text.format(
            city=rng.choice(CITIES), person=rng.choice(PEOPLE).replace("-", " "), number=rng.choice([2, 5, 10, 50, 300, 2019])
        )
        found.append(text + rng.choice(["", ".", "?", "!"]))
    return found


# Subjects of WordNet of which a quarter is enough: animals, places, people, plants.
CROWDED = (5, 8, 15, 18, 20)


def build_everyday(sources: Path, requests: int = 70_000) -> list[str]:
    """What people speak of elsewhere than in consoles of cloud services."""
    rng = random.Random(7)
    texts: list[str] = []
    things: list[str] = []
    for subject, kind, words, gloss, sentences in read_wordnet(sources):
        if kind == "noun" and subject in CROWDED and rng.random() < 0.75:
            continue
        if kind == "noun" and subject not in (5, 8, 18, 20):
            things += [word for word in words[:2] if word.islower() and len(word) < 30]
        shape = rng.random()
        if shape < 0.6:
            texts.append(cut(f"{', '.join(words[:3])}: {gloss}"))
        elif shape < 0.85:
            texts.append(cut(gloss))
        else:
            texts.append(", ".join(words))
        texts += [cut(sentence) for sentence in sentences[:1]]
    home, titles = read_home(sources), read_aws_titles(sources)
    texts += home
    for title in titles:
        is_asked = rng.random() < 0.6 and "{" not in title
        texts.append(rng.choice(ASKS).format(title) if is_asked else title)
    doings = [title for title in titles if "{" not in title and "}" not in title and len(title) < 80]
    doings += [verb for text in home if (verb := plain_verb(text)) and "{" not in verb and "}" not in verb]
    texts += make_requests(rng, doings, things, requests)
    return list(dict.fromkeys(text for text in texts if text))


def find_words(texts: list[str], sources: Path, tokenizer, count: int) -> list[str]:
    """The most frequent words that the teacher cuts into pieces, those of WordNet at half the price."""
    seen: collections.Counter[str] = collections.Counter()
    for text in texts:
        seen.update(set(re.findall(r"[a-z]{3,24}", text.lower())))
    meanings = read_wordnet(sources)
    known = {word for _, _, words, _, _ in meanings for word in words if word.isalpha() and word.islower()}
    frequent = [word for word in seen if seen[word] >= (3 if word in known else 6)]
    pieces = tokenizer.encode_batch(frequent, add_special_tokens=False)
    ranked = [
        (seen[word] * (2 if word in known else 1), word)
        for word, cut_up in zip(frequent, pieces, strict=True)
        if len(cut_up.ids) > 1
    ]
    return [word for _, word in sorted(ranked, reverse=True)[:count]]


def build_corpus(sources: Path, words: list[str], pairs: int = 40_000, requests: int = 60_000) -> list[str]:
    """The text of consoles and packages, in a fixed order. `words` are whole-word pieces, the most
    frequent first."""
    rng = random.Random(SEED)
    operations = shortened(read_botocore(sources)) + shortened(read_google(sources))
    packages = read_debian()
    texts: list[str] = []
    intents: list[str] = []
    for name, text, inputs in operations:
        kind = rng.random()
        if kind < 0.4:
            texts.append(f"{name} {text}")
        elif kind < 0.8:
            texts.append(f"{name}. {text} {' '.join(inputs)}".strip())
        elif text:
            texts.append(text)
        if verb := plain_verb(text):
            intents.append(rng.choice(ASKS).format(verb))
    for line in packages:
        texts.append(line)
        if rng.random() < 0.5:
            intents.append(rng.choice(THINGS).format(line[0].lower() + line[1:]))
    for first, second in zip(rng.sample(intents, 6_000), rng.sample(intents, 6_000), strict=True):
        texts.append(f"{first}{rng.choice([' and then ', '. Also, ', ', and ', '. '])}{second}")
    texts += intents
    texts += words
    # Half of the words drawn are common ones: the vocabulary is ordered by frequency.
    weights = [1 / (rank + 300) for rank in range(len(words))]
    common = rng.choices(words, weights, k=2 * pairs)
    for _ in range(pairs):
        drawn = [common.pop(), rng.choice(words), common.pop(), rng.choice(words)]
        rng.shuffle(drawn)
        texts.append(rng.choice(WORDS).format(*drawn))
    # Braces would be read as places of a template.
    doings = [verb for _, text, _ in operations if (verb := plain_verb(text)) and "{" not in verb and "}" not in verb]
    things = [line[0].lower() + line[1:] for line in packages if "{" not in line and "}" not in line and len(line) < 60]
    common = rng.choices(words, weights, k=4 * len(things))
    for _ in range(len(things)):
        things.append(" ".join(common.pop() for _ in range(rng.randrange(1, 4))))
    texts += make_requests(rng, doings, things, requests)
    return list(dict.fromkeys(t for t in texts if t))
