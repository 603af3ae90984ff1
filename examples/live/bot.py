"""A bot that translates a channel of IRC: what is said in one language, it says in the other.

    hmt serve
    python examples/live/bot.py --irc irc.example.org:6667 --channel '#reading'

A message is whole when it arrives, so the bot asks `POST /translate`, as a client of LibreTranslate
would; a channel that is dictated word by word would use `hmt.server.client.Client` instead.
"""

import argparse
import asyncio
import json
import os
import re
import urllib.error
import urllib.request

MESSAGE = re.compile(r":(?P<nick>[^!\s]+)\S* PRIVMSG (?P<channel>#\S+) :(?P<text>.+)")
MOST = 400  # bytes of a line that every server passes on


def translate(server: str, text: str) -> str:
    """A text in the other language; what the server says where it refuses."""
    body = {"q": text, "source": "auto", "api_key": os.environ.get("HMT_TOKEN")}
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{server}/translate", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return str(json.load(answer)["translatedText"])
    except urllib.error.HTTPError as error:
        return f"({json.load(error)['error']})"


async def serve(options: argparse.Namespace) -> None:
    """Join, and answer until the connection ends."""
    host, _, port = options.irc.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port or 6667))

    def send(line: str) -> None:
        writer.write(line.encode()[:MOST] + b"\r\n")

    send(f"NICK {options.nick}")
    send(f"USER {options.nick} 0 * :translates")
    while raw := await reader.readline():
        line = raw.decode(errors="replace").strip()
        if line.startswith("PING"):
            send(line.replace("PING", "PONG", 1))
        elif " 001 " in line:  # welcome
            send(f"JOIN {options.channel}")
        elif (said := MESSAGE.match(line)) and said["nick"] != options.nick:
            text = await asyncio.to_thread(translate, options.server, said["text"])
            send(f"PRIVMSG {said['channel']} :{said['nick']}: {' '.join(text.split())}")
        await writer.drain()
    writer.close()


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description="Translate a channel of IRC.")
    parser.add_argument("--server", default="http://127.0.0.1:8765")
    parser.add_argument("--irc", default="localhost:6667")
    parser.add_argument("--channel", default="#reading")
    parser.add_argument("--nick", default="hmt")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
