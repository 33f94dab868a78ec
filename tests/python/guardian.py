"""A guardian that follows the AOS text alone: JSON-RPC 2.0 over HTTP, a decision for each step.

It knows three places: nobody goes to Atlantis, who asks for Paris gets Rome, and what is told of
Lisbon is told in other words. It prints its URL, and ends when its standard input does.
"""

import copy
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Refused(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.error = {"code": code, "message": message}


def decide(request):
    """The result of a request (text, 5.1.1), by its method (text, 4)."""
    method, params = request["method"], request["params"]
    modified = copy.deepcopy(request)
    if method == "steps/toolCallRequest":
        for argument in modified["params"]["toolCallRequest"]["inputs"]:
            if argument["value"] == "Atlantis":
                return {
                    "decision": "deny",
                    "message": "Nobody goes to Atlantis.",
                    "reasonCode": ["no_such_place"],
                }
            if argument["value"] == "Paris":
                argument["value"] = "Rome"
    elif method == "steps/toolCallResult":
        for output in modified["params"]["toolCallResult"]["result"]["outputs"]:
            if "Lisbon" in output["text"]:
                output["text"] = output["text"].replace("Sunny", "Foggy")
    elif method in ("steps/memoryStore", "steps/memoryContextRetrieval"):
        modified["params"]["memory"] = [text.replace("Paris", "Rome") for text in params["memory"]]
    elif method not in ("steps/agentTrigger", "steps/message", "steps/knowledgeRetrieval"):
        raise Refused(-32601, "Method not found")
    if modified == request:
        return {"decision": "allow", "message": "Go on."}
    return {"decision": "modify", "message": "In other words.", "modifiedRequest": modified}


def answer(body):
    """The response to a body (text, 3.12 and 6.1)."""
    identifier = None
    try:
        try:
            request = json.loads(body)
        except ValueError:
            raise Refused(-32700, "Invalid JSON payload") from None
        if not isinstance(request, dict) or request.get("jsonrpc") != "2.0":
            raise Refused(-32600, "Invalid JSON-RPC Request")
        identifier = request.get("id")
        try:
            result = decide(request)
        except (KeyError, TypeError):
            raise Refused(-32602, "Invalid method parameters") from None
        return {"jsonrpc": "2.0", "id": identifier, "result": result}
    except Refused as refused:
        return {"jsonrpc": "2.0", "id": identifier, "error": refused.error}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        response = json.dumps(answer(body)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(response)))
        self.end_headers()
        self.wfile.write(response)

    def log_message(self, *_):
        pass


def end_with_input():
    sys.stdin.read()
    os._exit(0)


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=end_with_input, daemon=True).start()
print(f"http://127.0.0.1:{server.server_port}/", flush=True)
server.serve_forever()
