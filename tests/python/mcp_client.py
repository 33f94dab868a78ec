"""The client of the official Python SDK over both transports: mcp_client.py < {url, token, command}"""

import asyncio
import json
import sys

import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

told = json.load(sys.stdin)
headers = {"Authorization": f"Bearer {told['token']}"}


async def use(name, transport, mode):
    questions = []

    async def answer(_context, params):
        questions.append(params.message.split("\n")[0])
        asks_text = "text" in (params.requested_schema.get("properties") or {})
        content = {"text": f"by {name}"} if asks_text else {}
        return types.ElicitResult(action="accept", content=content)

    async with Client(transport, mode=mode, elicitation_callback=answer) as client:
        tools = await client.list_tools()
        found = await client.call_tool("search_capabilities", {"intent": "post a tweet"})
        hit = found.structured_content["capabilities"][0]
        progress = []

        async def follow(_progress, _total, message):
            progress.append(message)

        which = {"name": hit["name"], "checksum": hit["checksum"]}
        ran = await client.call_tool("execute_capability", which, progress_callback=follow)
        resources = await client.list_resources()
        read = await client.read_resource(resources.resources[0].uri)
        print(
            json.dumps(
                {
                    "transport": name,
                    "version": client.protocol_version,
                    "tools": [tool.name for tool in tools.tools],
                    "found": hit["name"],
                    "questions": questions,
                    "output": (ran.structured_content or {}).get("output", str(ran.content)),
                    "progress": progress,
                    "read": read.contents[0].mime_type,
                }
            )
        )


async def main():
    for mode in ("auto", "legacy"):
        async with httpx2.AsyncClient(headers=headers) as http:
            transport = streamable_http_client(told["url"] + "mcp", http_client=http)
            await use("http", transport, mode)
        await use("stdio", StdioServerParameters(command=told["command"], args=["mcp"]), mode)


asyncio.run(main())
