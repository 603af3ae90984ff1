"""How a command ends when its surroundings fail: pipes, descriptors, full disks, interrupts.

Each in a process of its own, through a shell where redirection is the point.
"""

import os
import pty
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Answer, start

HMT = shlex.join([sys.executable, "-m", "hmt"])
NOISE = ("Traceback", "Exception ignored", "BrokenPipe", "Aborted")


def shell(line: str) -> Answer:
    """Run a line of bash in which `hmt` is this package."""
    line = f'set -o pipefail; hmt() {{ {HMT} "$@"; }}; {line}'
    done = subprocess.run(["bash", "-c", line], capture_output=True, timeout=120)
    out, err = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
    assert not any(noise in err for noise in NOISE), err
    return Answer(done.returncode, out, err)


def is_sentence(err: str) -> bool:
    return err.startswith("hmt: ") and err.endswith(".\n") and err.count("\n") == 1


@pytest.mark.parametrize(
    "line",
    [
        'yes "Guten Morgen." | head -2000 | hmt translate | head -1',
        # what is read goes away before anything is written
        "hmt info | true",
        "hmt demo --fast </dev/null | head -1",
    ],
)
def test_a_reader_who_leaves_ends_it_as_it_ends_other_tools(line: str) -> None:
    answer = shell(line)
    assert answer.code == 141 and answer.err == ""


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("hmt translate <&-", "Standard input is closed"),
        ("echo Guten Morgen | hmt translate >&-", "Standard output is closed"),
        ("hmt --help >&-", "Standard output is closed"),
        ("hmt info >&-", "Standard output is closed"),
        ("echo Guten Morgen | hmt translate >/dev/full", "No space left on device"),
        ("hmt info >/dev/full", "No space left on device"),
        ("hmt demo --fast </dev/null >/dev/full", "No space left on device"),
        ("hmt --version >/dev/full", "No space left on device"),
        ("hmt translate --help >/dev/full", "No space left on device"),
        (
            "PYTHONIOENCODING=latin-1 hmt explain 'Ich habe keine Zeit .'",
            "characters that latin-1 lacks",
        ),
        ("hmt info $(printf 'a%.0s' {1..5000})", "File name too long"),
        ("hmt train $(printf 'a/%.0s' {1..5000})", "File name too long"),
        ("hmt info $'caf\\xe9'", "'caf\\udce9' is not valid UTF-8"),
        ("hmt explain $'\\xff\\xfe'", "is not valid UTF-8"),
        ("hmt translate --lower $'\\xff'", "is not valid UTF-8"),
    ],
)
def test_output_input_and_names_that_fail_are_one_sentence(line: str, reason: str) -> None:
    answer = shell(line)
    assert answer.code == 2 and answer.out == ""
    assert is_sentence(answer.err) and reason in answer.err and len(answer.err) < 500


@pytest.mark.parametrize("where", ["2>&-", "2>/dev/full"])
def test_a_mistake_without_stderr_leaves_stdout_alone(where: str) -> None:
    answer = shell(f"hmt info --nonsense {where}")
    assert answer == Answer(2, "", "")


def test_an_interrupt_while_it_is_still_being_loaded_is_quiet(tmp_path: Path) -> None:
    """The command line imports typer before its own `main` can run; here that takes long."""
    slow = "import os, time\nos.write(1, b'loading')\ntime.sleep(60)\n"
    (tmp_path / "typer.py").write_text(slow)
    path = os.pathsep.join([str(tmp_path), *sys.path[1:]])
    process = start(["info"], env={**os.environ, "PYTHONPATH": path})
    assert process.stdout and process.stdout.read(7) == b"loading"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and (out, err) == (b"", b"")


def test_help_on_a_terminal_lists_the_knobs_too() -> None:
    """On a terminal rich prints the help, and knows nothing of knobs."""
    ours, theirs = pty.openpty()
    process = start(["translate", "--help"], stdout=theirs)
    os.close(theirs)
    text = b""
    try:
        while data := os.read(ours, 4096):
            text += data
    except OSError:  # Linux: the other side has closed
        pass
    os.close(ours)
    process.communicate()
    assert process.returncode == 0
    assert "╭".encode() in text and b"Knobs by system" in text and b"--lower, --states" in text


def test_translate_says_on_a_terminal_that_it_waits_for_text() -> None:
    """Planted: nothing is printed, and a new user takes it for hanging."""
    ours, theirs = pty.openpty()
    os.write(ours, b"Guten Morgen.\n\x04")
    process = start(["translate"], stdin=theirs)
    out, err = process.communicate(timeout=120)
    os.close(theirs)
    os.close(ours)
    assert process.returncode == 0 and out.strip()
    assert err == b"Reading from the terminal: Enter sends a line, Ctrl-D ends the input.\n"
