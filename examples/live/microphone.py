"""A microphone: what a recogniser hears goes to `hmt serve`, and listeners read the translation.

    hmt serve
    pip install whisperlivekit sounddevice
    wlk listen --language de | python examples/live/microphone.py --room aula

Phones open http://127.0.0.1:8765/?listen=aula, the projector http://127.0.0.1:8765/captions?room=aula.
Any program that prints a line for each thing said will do in place of `wlk listen`.

WhisperLiveKit can also show the translation on its own page, word by word, without this script:

    wlk --language de --target-language en --translation-backend alignatt
"""

import argparse
import asyncio
import os
import sys

from hmt.server.client import Client


async def hear(client: Client) -> None:
    """Everything that the recogniser prints; the end of a line ends a sentence."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        await client.say(line.strip())
        await client.commit()
    while not client.is_accepted:
        await asyncio.sleep(0.05)
    await client.close()


async def main() -> None:
    """Say what is heard, and print what is written."""
    parser = argparse.ArgumentParser(description="Translate what a recogniser prints.")
    parser.add_argument("--url", default="ws://127.0.0.1:8765/v1/realtime/translations")
    parser.add_argument("--room", help="where others may read along")
    options = parser.parse_args()
    token = os.environ.get("HMT_TOKEN")
    async with Client(options.url, room=options.room, token=token) as client:
        hearing = asyncio.create_task(hear(client))
        async for event in client.events():
            if event["type"] == "session.output_transcript.delta":
                print(event["delta"], end="", flush=True)
            elif event["type"] == "session.output_transcript.done":
                print(flush=True)
        await hearing


if __name__ == "__main__":
    asyncio.run(main())
