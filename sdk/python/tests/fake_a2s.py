"""A small A2S in memory for the tests of adapters: three capabilities, a guardian, and approvals."""

from __future__ import annotations

import threading
from typing import Any

import a2s
from support import Json, Received, Reply, problem, reply_events, reply_json

OWNER, CALLER = "owner-token", "caller-token"


def _document(name: str, description: str, *parameters: Json) -> Json:
    document: dict[str, Any] = {
        "a2s": "1.1.0",
        "name": name,
        "description": description,
        "version": "1.0.0",
        "parameters": list(parameters),
        "execution": {"type": "sequence", "steps": []},
    }
    return {**document, "checksum": a2s.compute_checksum(document)}


COUNTRY = _document(
    "GetCountry",
    "Looks up facts about a country",
    {"name": "code", "description": "Two letters", "type": "string"},
    {"name": "fields", "type": "array", "default": ["capital"]},
    {"name": "key", "type": "string", "secret": True, "required": False},
)
TWEET = _document("PostTweet", "Posts a tweet", {"name": "text", "type": "string"})
TWICE = _document("PostTwice", "Posts a thread", {"name": "text", "type": "string"})
SLOW = _document("WaitLong", "Waits for a slow service")
WIPE = _document("WipeDisk", "Deletes everything")
DOCUMENTS = {document["name"]: document for document in (COUNTRY, TWEET, TWICE, WIPE, SLOW)}
WORDS = {"country": COUNTRY, "tweet": TWEET, "delete": WIPE}


def pin(document: Json) -> str:
    return f"{document['name']}@{document['version']}#{document['checksum']}"


def reference(document: Json) -> Json:
    return {name: document[name] for name in ("name", "version", "checksum")}


class FakeA2S:
    """Answers like A2S. `tweets` has the effects."""

    def __init__(self) -> None:
        self.tweets: list[str] = []
        self.runs: dict[str, Json] = {}
        self.keys: dict[str, str] = {}
        self.decisions: dict[str, str] = {}
        self.plans: dict[str, Json] = {}
        self.is_followed = threading.Event()
        self.is_cancelled = threading.Event()
        self.received: list[Received] = []
        self.lies = False
        self.foresees = True

    def __call__(self, request: Received) -> Reply:
        self.received.append(request)
        path = request.path.removeprefix("/v1/").split("/")
        body = request.json() if request.body else {}
        match (request.method, *path):
            case ("GET", "capabilities", name, _):
                document = DOCUMENTS[name]
                return reply_json({**document, "description": "A lie"} if self.lies else document)
            case ("POST", "search"):
                return reply_json(self._search(body))
            case ("POST", "plans"):
                return self._plan(body)
            case ("POST", "executions"):
                return self._start(body, request.headers["idempotency-key"])
            case ("GET", "executions", id):
                return reply_json(self._settle(id))
            case ("GET", "executions", id, "events"):
                return self._follow(id, request.headers.get("last-event-id"))
            case ("POST", "executions", id, "resume"):
                return reply_json({**self._settle(id), "status": "running"})
            case ("POST", "executions", id, "cancel"):
                self.runs[id]["status"] = "cancelled"
                self.is_cancelled.set()
                return reply_json(self.runs[id])
            case ("POST", "approvals", id, decision):
                if request.headers["authorization"] != f"Bearer {OWNER}":
                    return problem(403, "forbidden")
                if id in self.decisions:
                    return problem(404, "approval_not_waiting")
                self.decisions[id] = decision
                return reply_json({"id": id})
        return problem(404, "A2S302")

    def _search(self, body: Json) -> Json:
        responses = []
        for intent in body.get("intents") or [body["intent"]]:
            hits = [
                {
                    **reference(document),
                    "description": document["description"],
                    "match": "strong",
                    "parameters": document["parameters"],
                }
                for word, document in WORDS.items()
                if word in intent.lower()
            ]
            nearest = [] if hits else [{"name": "GetCountry", "description": "Looks up facts"}]
            responses.append({"capabilities": hits, "metadata": {"nearest": nearest}})
        return {"responses": responses} if "intents" in body else responses[0]

    def _check(self, body: Json) -> Reply | None:
        document = DOCUMENTS[body["name"]]
        if body.get("checksum") != document["checksum"]:
            return problem(409, "A2S313")
        names = {parameter["name"] for parameter in document["parameters"]}
        if unknown := set(body.get("inputs") or {}) - names:
            return problem(422, "A2S321", detail=f"unknown inputs: {unknown}")
        if document is COUNTRY and "code" not in (body.get("inputs") or {}):
            return problem(422, "A2S320", missing=[{"name": "code", "required": True}])
        return None

    def _plan(self, body: Json) -> Reply:
        if refusal := self._check(body):
            return refusal
        steps: list[Json] = [{"step": "s", "type": "task", "method": "POST", "url": "https://x.example"}]
        if body.get("preview") and self.foresees and body["name"] in ("PostTweet", "PostTwice"):
            decision = {"decision": "deny", "reason_codes": ["approval_required"]}
            steps[0]["preview"] = {"type": "decided", "decisions": [decision]}
        token = f"plan-{len(self.plans)}"
        self.plans[token] = {name: value for name, value in body.items() if name != "preview"}
        return reply_json({"capability": body, "missing": [], "steps": steps, "token": token})

    def _start(self, body: Json, key: str) -> Reply:
        if "plan" in body:
            body = self.plans[body["plan"]]
        if refusal := self._check(body):
            return refusal
        if key not in self.keys:
            run = f"run-{len(self.runs)}"
            self.keys[key] = run
            self.runs[run] = {"id": run, "status": "running", "inputs": body.get("inputs"), **body}
        return reply_json(self._settle(self.keys[key]))

    def _settle(self, id: str) -> Json:
        """Lets a run go on as far as it can."""
        run = self.runs[id]
        if run["status"] not in ("running", "waiting"):
            return run
        if run["name"] == "WipeDisk":
            run |= {"status": "denied", "error": {"code": "A2S340", "message": "not allowed"}}
        elif run["name"] == "GetCountry":
            run |= {"status": "succeeded", "output": {"capital": "Paris", "code": run["inputs"]["code"]}}
        elif run["name"] == "WaitLong":
            return run
        else:
            self._decide(id, run)
        return run

    def _decide(self, id: str, run: Json) -> None:
        """Lets a run post as far as persons have decided."""
        names = [f"approval-{id}", f"second-{id}"][: 2 if run["name"] == "PostTwice" else 1]
        waits = next((name for name in names if self.decisions.get(name) != "approve"), None)
        if waits is None:
            self.tweets.append(run["inputs"]["text"])
            run.pop("error", None)
            run |= {"status": "succeeded", "output": "posted", "approvals": []}
        elif self.decisions.get(waits) == "reject":
            run |= {"status": "denied", "error": {"code": "A2S340", "message": "rejected"}}
        else:
            run |= {"status": "waiting", "approvals": [{"step": waits.split("-")[0], "id": waits}]}
            run["error"] = {"code": "A2S346", "message": "a person must approve", "next": "approve"}

    def _follow(self, id: str, after: str | None) -> Reply:
        """The journal of a run: its approvals, each followed by the pause."""
        run = self._settle(id)
        if run["status"] == "running":
            kind = {"Content-Type": "text/event-stream"}
            return Reply(200, kind, b":\n\n", hold=self.is_followed.set, end=self.is_cancelled)
        if run["status"] != "waiting":
            return Reply(204)
        asked = [f"approval-{id}"] if run.get("approvals") else []
        if asked and run["approvals"][0]["id"] != asked[0]:
            asked.append(run["approvals"][0]["id"])
        events: list[Json] = []
        for name in asked:
            for type_ in ("approval_requested", "run_waiting"):
                events.append({"seq": len(events) + 1, "type": type_, "id": name})
        return reply_events(*(event for event in events if event["seq"] > int(after or 0)))
