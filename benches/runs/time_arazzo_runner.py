"""Runs a workflow with arazzo-runner once, and prints how many seconds that took in this process.

Usage: time_arazzo_runner.py ARAZZO_FILE WORKFLOW
"""

import logging
import sys
import time

from arazzo_runner import ArazzoRunner

logging.disable(logging.CRITICAL)
file, workflow = sys.argv[1:]
runner = ArazzoRunner.from_arazzo_path(file)
begin = time.perf_counter()
result = runner.execute_workflow(workflow, {"start": "a"})
took = time.perf_counter() - begin
if result.status.value != "workflow_complete":
    sys.exit(f"{result.status}: {result.error}")
print(took)
