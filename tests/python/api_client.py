"""A client of what openapi-python-client makes of the description: it searches, plans, runs and follows.
Called with the folder of the generated package, the address of the services and a token."""

import json
import sys

folder, url, token = sys.argv[1:]
sys.path.insert(0, folder)

from a2s_client import AuthenticatedClient  # noqa: E402
from a2s_client.api.executor import create_plan, start_execution, stream_events  # noqa: E402
from a2s_client.api.search import search_capabilities  # noqa: E402
from a2s_client.models import (  # noqa: E402
    ExecutionRequest,
    PlannedStepTask,
    PlanRequest,
    PlanResponse,
    Run,
    SearchRequest,
    SearchResponse,
)

client = AuthenticatedClient(base_url=url.rstrip("/"), token=token)

found = search_capabilities.sync(
    client=client, body=SearchRequest(intent="list dog breeds", limit=1)
)
assert isinstance(found, SearchResponse), found
hit = found.capabilities[0]
print("search:", hit.name, hit.version)

wanted = PlanRequest(name=hit.name, version=hit.version, checksum=hit.checksum)
plan = create_plan.sync(client=client, body=wanted)
assert isinstance(plan, PlanResponse), plan
step = plan.steps[0]
assert isinstance(step, PlannedStepTask), step
print("plan:", step.method, step.url)

run = start_execution.sync(client=client, body=ExecutionRequest(plan=plan.token, wait=True))
assert isinstance(run, Run), run
print("run:", run.status.value)

answer = stream_events.sync_detailed(client=client, id=run.id)
lines = answer.content.decode().splitlines()
events = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
print("follow:", events[0]["type"], events[-1]["type"])
