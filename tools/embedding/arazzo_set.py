"""A retrieval set from Arazzo documents: a capability is an operation of the OpenAPI descriptions, a query
the summary of a workflow, and its gold the operations of the workflow's steps.

    python arazzo_set.py ARAZZO_FOLDER OUTPUT_FOLDER

ARAZZO_FOLDER has one folder for each service, with one `*.arazzo.json` and its OpenAPI descriptions in JSON.
Nothing is read from the network.
"""

import argparse
import collections
import json
import re
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

MOST_TOOLS = 60
"""The maximum number of tools of a service, apart from those that workflows use."""
MOST_FOLDERS = 1_000
MOST_BYTES = 16 << 20
MOST_OPERATIONS = 20_000
MOST_STEPS = 1_000
MOST_PARAMETERS = 100
MOST_SCHEMAS = 1_000
"""The maximum number of schemas that are read for one request body."""
MOST_REFERENCES = 16
NAME_LENGTH = 100
DESCRIPTION_LENGTH = 200
QUERY_LENGTH = 1_000

# As `a2s import` reads a path item, in this order.
METHODS = ["get", "put", "post", "delete", "options", "head", "patch", "trace"]
NAMED_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
JSON_TYPE = re.compile(r"[^;]*[/+]json\s*(;.*)?")
FORM_TYPES = ["application/x-www-form-urlencoded", "multipart/form-data"]


class InputError(Exception):
    """A file or folder that the set cannot be made from."""


def clean_line(text: object, most: int) -> str:
    """One line without tags, control characters and lone surrogates, of at most `most` characters."""
    if not isinstance(text, str):
        return ""
    text = re.sub(r"</?[A-Za-z][^<>]{0,300}>", " ", text[: max(8 * most, 4_096)])
    text = "".join(c if c.isprintable() else " " for c in text if c.isprintable() or c.isspace())
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    start = line[: most - 1]
    end = start.rfind(" ")
    return start[: end if end > len(start) // 2 else len(start)].rstrip(" ,;:.") + "…"


def first_sentence(text: object, most: int) -> str:
    if not isinstance(text, str):
        return ""
    whole = clean_line(text.lstrip().split("\n\n")[0], 4 * most)
    for match in re.finditer(r"\. ", whole):
        # `e.g. ` and `v1. ` end no sentence.
        word = whole[: match.start()].rsplit(" ", 1)[-1]
        if len(word) > 3 and "." not in word:
            whole = whole[: match.start()]
            break
    return clean_line(whole.rstrip("."), most)


def read_json(path: Path) -> dict:
    try:
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
        if len(raw) > MOST_BYTES:
            raise InputError(f"{path}: the file has more than {MOST_BYTES} bytes")
        value = json.loads(raw)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not valid JSON: {error}") from error
    return as_dict(value, f"{path}: is not a JSON object")


def as_dict(value: object, message: str) -> dict:
    if not isinstance(value, dict):
        raise InputError(message)
    return value


def dicts(value: object) -> list[dict]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def member(value: object, key: str) -> dict:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def resolve_pointer(root: dict, pointer: str) -> object:
    value: object = root
    for word in pointer.split("/")[1:]:
        word = unquote(word).replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(word)
        elif isinstance(value, list) and re.fullmatch(r"[0-9]{1,6}", word) and int(word) < len(value):
            value = value[int(word)]
        else:
            return None
    return value


def resolve(root: dict, value: object) -> dict:
    """The object that a local reference leads to; an empty one when there is none."""
    for _ in range(MOST_REFERENCES):
        if not isinstance(value, dict):
            return {}
        reference = value.get("$ref")
        if not isinstance(reference, str):
            return value
        value = resolve_pointer(root, reference[1:]) if reference.startswith("#/") else None
    return {}


def name_capability(text: str) -> str:
    """`get-user_by.id` is `GetUserById`, as in `a2s import`; empty when there is no letter."""
    words = re.findall(r"[A-Za-z0-9]+", text)
    if words and words[0] in NAMED_METHODS:
        words[0] = words[0].lower()
    name = "".join(word[0].upper() + word[1:] for word in words).lstrip("0123456789")[:NAME_LENGTH]
    return name[:1].upper() + name[1:]


def name_by_path(method: str, path: str) -> str:
    """`GET /users/{id}` is `GetUsersById`."""
    words = [f"by {word[1:]}" if word.startswith("{") else word for word in path.split("/")]
    return name_capability(" ".join([method, *words])) or "Operation"


class UsedNames:
    """The names of a service that are in use. Upper and lower case are the same."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.numbers: collections.Counter[str] = collections.Counter()

    def reserve(self, name: str) -> str:
        """Reserves `name`, or the first of `name2`, `name3`, … that is free."""
        free, key = name, name.lower()
        while free.lower() in self.names:
            self.numbers[key] += 1
            ending = str(self.numbers[key] + 1)
            free = name[: NAME_LENGTH - len(ending)] + ending
        self.names.add(free.lower())
        return free


def read_host(owner: dict) -> str:
    """The host of the first server that has one, with its port."""
    for server in dicts(owner.get("servers")):
        url = server.get("url")
        if not isinstance(url, str) or len(url) > 2_000:
            continue
        for name, variable in list(member(server, "variables").items())[:20]:
            default = variable.get("default") if isinstance(variable, dict) else None
            if isinstance(default, str):
                url = url.replace(f"{{{name}}}", default[:200])
        try:
            address = urlsplit(url.strip())
            host, port = address.hostname, address.port
        except ValueError:
            continue
        if address.scheme in ("http", "https") and host and re.fullmatch(r"[a-z0-9.-]{1,253}", host):
            return f"{host}:{port}" if port else host
    return ""


def describe_operation(root: dict, item: dict, operation: dict, label: str) -> str:
    """The summary, with the first sentence of the description when the summary is short."""
    summary = first_sentence(operation.get("summary") or item.get("summary"), DESCRIPTION_LENGTH)
    detail = first_sentence(operation.get("description") or item.get("description"), DESCRIPTION_LENGTH)
    if not summary and not detail:
        title = clean_line(member(root, "info").get("title"), 80)
        return clean_line(f"{label} of {title}" if title else label, DESCRIPTION_LENGTH)
    if not detail or len(summary) >= 25:
        return summary
    if summary.lower() in detail.lower():
        return detail
    return clean_line(f"{summary}: {detail}", DESCRIPTION_LENGTH)


def read_properties(root: dict, schema: object) -> list[dict]:
    """The top-level properties of a body, with those of `allOf` and without those of responses only."""
    found: dict[str, tuple[dict, dict]] = {}
    required: set[str] = set()
    waiting = [schema]
    for _ in range(MOST_SCHEMAS):
        if not waiting or len(found) >= MOST_PARAMETERS:
            break
        schema = resolve(root, waiting.pop(0))
        waiting.extend(dicts(schema.get("allOf"))[:MOST_PARAMETERS])
        if isinstance(schema.get("required"), list):
            required.update(name for name in schema["required"] if isinstance(name, str))
        for name, raw in list(member(schema, "properties").items())[:MOST_PARAMETERS]:
            property_ = resolve(root, raw)
            if property_.get("readOnly") is not True:
                found.setdefault(name, (raw if isinstance(raw, dict) else {}, property_))
    rows = []
    for name, (raw, property_) in found.items():
        description = raw.get("description") or property_.get("description")
        rows.append(describe_parameter(name, property_, description, name in required))
    return rows


def describe_parameter(name: str, schema: dict, description: object, required: bool) -> dict:
    kind = schema.get("type")
    kinds = [kind] if isinstance(kind, str) else kind if isinstance(kind, list) else []
    kind = next((k for k in kinds if isinstance(k, str) and k != "null"), "string")
    return {
        "name": clean_line(name, NAME_LENGTH),
        "type": clean_line(kind, 20),
        "description": clean_line(description, DESCRIPTION_LENGTH),
        "required": required,
    }


def read_parameters(root: dict, item: dict, operation: dict) -> list[dict]:
    """The parameters of the path, of the operation and of its body, the required ones first."""
    found: dict[tuple[str, str], dict] = {}
    for owner in (item, operation):
        listed = owner.get("parameters")
        for raw in listed[:MOST_PARAMETERS] if isinstance(listed, list) else []:
            parameter = resolve(root, raw)
            name, place = parameter.get("name"), parameter.get("in")
            if isinstance(name, str) and place in ("path", "query", "header", "cookie"):
                schema = resolve(root, parameter.get("schema"))
                description = parameter.get("description") or schema.get("description")
                required = parameter.get("required") is True
                found[name, place] = describe_parameter(name, schema, description, required)
    rows = list(found.values())
    content = member(resolve(root, operation.get("requestBody")), "content")
    types = [*filter(JSON_TYPE.fullmatch, content), *(t for t in FORM_TYPES if t in content), *content]
    if types:
        rows.extend(read_properties(root, member(content[types[0]], "schema")))
    rows = list({row["name"]: row for row in reversed(rows) if row["name"]}.values())[::-1]
    rows.sort(key=lambda row: not row["required"])
    return [{k: v for k, v in row.items() if k != "required"} for row in rows[:MOST_PARAMETERS]]


class Operation:
    """An operation of a description."""

    def __init__(self, root: dict, path: str, item: dict, method: str, raw: dict, service: str) -> None:
        self.root, self.path, self.item, self.method, self.raw = root, path, item, method, raw
        self.service = service
        self.name = ""
        id_ = raw.get("operationId")
        self.id = id_ if isinstance(id_, str) else ""

    def own_name(self) -> str:
        return name_capability(self.id[:1_000]) or name_by_path(self.method, self.path[:1_000])

    @property
    def group(self) -> str:
        return f"{self.service}::{self.name}"

    def to_tool(self) -> dict:
        label = f"{self.method.upper()} {clean_line(self.path, DESCRIPTION_LENGTH)}"
        description = describe_operation(self.root, self.item, self.raw, label)
        return {
            "id": self.group,
            "group": self.group,
            "namespace": self.service,
            "name": self.name,
            "method": self.method.upper(),
            "path": clean_line(self.path, 400),
            "description": description,
            "description_200": description[:200],
            "parameters": read_parameters(self.root, self.item, self.raw),
        }


class Description:
    """An OpenAPI description. `otherwise` is the service when the description has no host."""

    def __init__(self, path: Path, otherwise: str) -> None:
        root = read_json(path)
        if not str(root.get("openapi")).startswith("3."):
            raise InputError(f"{path}: is not an OpenAPI description of version 3")
        self.operations: list[Operation] = []
        self.rejected = 0
        for template, raw in member(root, "paths").items():
            item = resolve(root, raw)
            for method in METHODS:
                if not isinstance(item.get(method), dict):
                    continue
                if len(self.operations) == MOST_OPERATIONS:
                    raise InputError(f"{path}: has more than {MOST_OPERATIONS} operations")
                operation = resolve(root, item[method])
                if not operation:
                    # A reference to another file, which `a2s import` rejects too.
                    self.rejected += 1
                    continue
                service = read_host(operation) or read_host(item) or read_host(root) or otherwise
                self.operations.append(Operation(root, template, item, method, operation, service))
        self.by_path = {(o.path, o.method): o for o in self.operations}
        ids = collections.Counter(o.id for o in self.operations)
        self.by_id = {o.id: o for o in self.operations if o.id and ids[o.id] == 1}


def read_descriptions(path: Path, document: dict) -> dict[str, Description]:
    """The OpenAPI descriptions of an Arazzo document, by their names."""
    found = {}
    folder = path.parent.resolve()
    for source in dicts(document.get("sourceDescriptions")):
        name, url = source.get("name"), source.get("url")
        if source.get("type", "openapi") != "openapi":
            continue
        if not isinstance(name, str) or not isinstance(url, str) or name in found:
            raise InputError(f"{path}: a source description has no name of its own, or no address")
        target = (folder / unquote(url).removeprefix("./")).resolve() if "\0" not in unquote(url) else folder
        if urlsplit(url).scheme or not target.is_relative_to(folder) or not target.is_file():
            raise InputError(f"{path}: the source `{clean_line(url, 100)}` is not a file of the same folder")
        found[name] = Description(target, path.parent.name)
    return found


def resolve_step(step: dict, descriptions: dict[str, Description]) -> Operation | None:
    """The operation of a step; none when it is unknown or ambiguous, or when the step runs a workflow."""
    id_, location = step.get("operationId"), step.get("operationPath")
    if isinstance(id_, str):
        if match := re.fullmatch(r"\$sourceDescriptions\.([^.]+)\.(.+)", id_):
            return descriptions[match[1]].by_id.get(match[2]) if match[1] in descriptions else None
        found = [d.by_id[id_] for d in descriptions.values() if id_ in d.by_id]
        return found[0] if len(found) == 1 else None
    if isinstance(location, str):
        source = r"(?:\{\$sourceDescriptions\.([^.}]+)\.url\}|([^#]*))"
        match = re.fullmatch(source + r"#/paths/([^/]+)/([a-z]+)", location)
        description = descriptions.get(match[1] or match[2]) if match else None
        if description:
            path = unquote(match[3]).replace("~1", "/").replace("~0", "~")
            return description.by_path.get((path, match[4]))
    return None


class RetrievalSet:
    """Operations and queries of all Arazzo documents of a folder."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.queries: list[dict] = []
        self.used: set[str] = set()
        self.left_out = 0
        self.rejected = 0
        self.unresolved = 0
        self.names: dict[str, UsedNames] = collections.defaultdict(UsedNames)

    def add_document(self, path: Path) -> None:
        document = read_json(path)
        descriptions = read_descriptions(path, document)
        for description in descriptions.values():
            self.rejected += description.rejected
            for operation in description.operations:
                operation.name = self.names[operation.service].reserve(operation.own_name())
                self.operations.append(operation)
        for workflow in dicts(document.get("workflows")):
            self.add_workflow(path.parent.name, workflow, descriptions)

    def add_workflow(self, folder: str, workflow: dict, descriptions: dict[str, Description]) -> None:
        steps = [resolve_step(step, descriptions) for step in dicts(workflow.get("steps"))[:MOST_STEPS]]
        gold = list(dict.fromkeys(step.group for step in steps if step))
        query = clean_line(workflow.get("summary"), QUERY_LENGTH)
        query = query or first_sentence(workflow.get("description"), QUERY_LENGTH)
        if not gold or not query:
            self.left_out += 1
            return
        self.unresolved += steps.count(None)
        self.used.update(gold)
        id_ = clean_line(workflow.get("workflowId"), NAME_LENGTH)
        self.queries.append({"query": query, "gold": gold, "split": folder, "source": id_})

    def tools(self) -> list[dict]:
        """For each service the operations that workflows use, and the first others up to the limit."""
        room = collections.Counter(o.service for o in self.operations if o.group in self.used)
        room = {o.service: max(MOST_TOOLS - room[o.service], 0) for o in self.operations}
        tools = []
        for operation in self.operations:
            if operation.group not in self.used:
                if not room[operation.service]:
                    continue
                room[operation.service] -= 1
            tools.append(operation.to_tool())
        return tools


def read_set(source: Path) -> RetrievalSet:
    if not source.is_dir():
        raise InputError(f"{source}: is not a folder")
    folders = sorted(path for path in source.iterdir() if path.is_dir())
    if not folders or len(folders) > MOST_FOLDERS:
        raise InputError(f"{source}: has {len(folders)} folders; between 1 and {MOST_FOLDERS} are supported")
    found = RetrievalSet()
    for folder in folders:
        documents = sorted(folder.glob("*.arazzo.json"))
        if len(documents) != 1:
            raise InputError(f"{folder}: has {len(documents)} files `*.arazzo.json`; exactly one is needed")
        found.add_document(documents[0])
    return found


def write_lines(path: Path, rows: list[dict]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=" ".join(__doc__.split("\n\n")[0].split()))
    parser.add_argument("source", type=Path, metavar="ARAZZO_FOLDER", help="folder of the Arazzo documents")
    parser.add_argument("out", type=Path, metavar="OUTPUT_FOLDER", help="folder of the set")
    args = parser.parse_args()
    try:
        found = read_set(args.source)
        tools = found.tools()
        args.out.mkdir(parents=True, exist_ok=True)
        write_lines(args.out / "tools.jsonl", tools)
        write_lines(args.out / "queries.jsonl", found.queries)
    except InputError as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        sys.exit(f"error: {args.out}: cannot be written: {error.strerror}")
    sizes = sorted(len(query["gold"]) for query in found.queries)
    mean = sum(sizes) / max(len(sizes), 1)
    print(f"tools: {len(tools)} of {len(found.operations)} operations")
    print(f"operations with nothing but an unknown reference, left out: {found.rejected}")
    print(f"services: {len({tool['namespace'] for tool in tools})}")
    print(f"queries: {len(found.queries)}; {found.left_out} workflows left out")
    print(f"gold per query: {mean:.2f} on average, at most {sizes[-1] if sizes else 0}")
    print(f"steps without a known operation, in these queries: {found.unresolved}")


if __name__ == "__main__":
    main()
