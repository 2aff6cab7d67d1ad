"""What Schemathesis cannot know: ids of things that are there, and requests that would wait or never end.

Cases whose data is meant to be wrong are left as they are.
"""

import json
import os
import urllib.error
import urllib.request

import schemathesis

URL = os.environ["PINFOLD_URL"]
TOKEN = os.environ["PINFOLD_TOKEN"]
# A case that revoked it would lock out all later ones.
OWN_TOKEN = "tok_" + TOKEN.split("_")[1]


def ask(method, path, body=None):
    request = urllib.request.Request(URL + path, method=method)
    request.add_header("Authorization", f"Bearer {TOKEN}")
    if body is not None:
        request.add_header("Content-Type", "application/json")
        request.data = json.dumps(body).encode()
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as refusal:
        return {"refused": refusal.status}


def new_sandbox(critical=False):
    return ask("POST", "/api/sandbox", {"limits": {"memory_mb": 64}, "critical": critical})["id"]


class World:
    """One sandbox and one execution that stay, and fresh ones for what ends them."""

    def __init__(self):
        # No emergency is one for it.
        self.sandbox = new_sandbox(critical=True)
        self.doomed = []
        ran = ask("POST", f"/api/sandbox/{self.sandbox}/exec", {"command": ["echo", "hello"]})
        self.ended = ran["execution_id"]
        for path in ("tmp/a", "tmp/b"):
            ask("PUT", f"/api/sandbox/{self.sandbox}/files/{path}")

    def fresh_sandbox(self):
        """To be ended by the case itself; what it does not end goes with the next one."""
        self.end_doomed()
        self.doomed = [new_sandbox()]
        return self.doomed[0]

    def end_doomed(self):
        for sandbox in self.doomed:
            ask("DELETE", f"/api/sandbox/{sandbox}?force=1&wait=10")
        self.doomed = []

    def fresh_execution(self):
        """One that reads, so that it can be fed, signalled and ended."""
        for job in ask("GET", f"/api/sandbox/{self.sandbox}/jobs?limit=1000"):
            if job["cause"] is None:
                ask("DELETE", f"/api/executions/{job['execution_id']}?wait=10")
        asked = {"command": ["cat"], "interactive": True, "background": True}
        return ask("POST", f"/api/sandbox/{self.sandbox}/exec", asked)["execution_id"]

    def fresh_token(self):
        return ask("POST", "/api/tokens", {"name": "to be revoked", "role": "viewer"})["id"]


WORLD = World()

ENDS_ITS_SANDBOX = {"stop_sandbox"}
NEEDS_A_RUNNING_ONE = {"cancel_execution", "signal_execution", "feed_execution"}


def id_for(operation, path):
    if path.startswith("/api/tokens/"):
        return WORLD.fresh_token()
    if path.startswith("/api/executions/"):
        return WORLD.fresh_execution() if operation in NEEDS_A_RUNNING_ONE else WORLD.ended
    return WORLD.fresh_sandbox() if operation in ENDS_ITS_SANDBOX else WORLD.sandbox


def is_meant_to_be_wrong(case):
    return case.meta is not None and case.meta.generation.mode.is_negative


@schemathesis.hook
def before_call(context, case, kwargs):
    operation = case.operation.definition.raw.get("operationId")
    query = case.query or {}
    # A stream of events goes on for ever.
    if str(query.get("follow", "0")).lower() in ("1", "true", ""):
        query.pop("follow", None)
    if isinstance(query.get("wait"), int) and 1 < query["wait"] <= 3600:
        query["wait"] = 1
    if operation in ("exec", "wait_for_sandbox"):
        query.setdefault("wait", 1)
    case.query = query
    if (case.path_parameters or {}).get("id") == OWN_TOKEN:
        case.path_parameters["id"] = WORLD.fresh_token()
    if not is_meant_to_be_wrong(case) and case.path_parameters and "id" in case.path_parameters:
        case.path_parameters["id"] = id_for(operation, case.path)


@schemathesis.hook
def after_call(context, case, response):
    made = case.operation.definition.raw.get("operationId") == "create_sandbox"
    if made and response.status_code in (201, 202):
        sandbox = json.loads(response.content)["id"]
        ask("DELETE", f"/api/sandbox/{sandbox}?force=1&wait=0")
