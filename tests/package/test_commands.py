"""Properties of all commands: quick help, a line of output for each line of input, and no traceback."""

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any, get_args

import pytest

from attnzoo.aligning import METHODS
from attnzoo.cli import COMMANDS, main
from attnzoo.commands import lines, parsers
from attnzoo.commands.models import folder_of
from attnzoo.encoding import MOST_CHARACTERS
from attnzoo.phone_sets import PHONE_SETS, SOURCE_OF_IPA
from attnzoo.pronunciation.engines import EngineName
from attnzoo.shipped_models import PRONUNCIATION, SENTIMENT, TRANSLATION, model_path
from tests.package.test_cli import ROOT, standard_input

RUN = [sys.executable, "-c", "from attnzoo.cli import main; main()"]


def test_help_and_errors_of_arguments_import_nothing_heavy() -> None:
    code = f"""
import sys
from attnzoo.cli import main
calls = [[], ["--help"], ["--version"], ["nosuch"], ["--nosuch"]]
for arguments in calls + [[name, option] for name in {[*COMMANDS]} for option in ("--help", "--nosuch")]:
    try:
        main(arguments)
    except SystemExit:
        pass
print(*sys.modules, sep="\\n", file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    names = {name.split(".")[0] for name in done.stderr.splitlines()}
    assert "attnzoo" in names
    assert not names & {"torch", "transformers", "huggingface_hub", "numpy", "datasets"}
    assert done.stdout.count("usage: attnzoo") == len(COMMANDS) + 2  # errors go to standard error


def test_the_parsers_have_the_values_of_the_modules_that_read_them() -> None:
    assert get_args(EngineName) == parsers.ENGINES
    assert tuple(METHODS) == parsers.SYMMETRISATIONS
    assert (PHONE_SETS, tuple(SOURCE_OF_IPA)) == (parsers.PHONES, parsers.ACCENTS)


@pytest.mark.parametrize(
    ("name", "suggested"),
    [("show", None), ("download", None), ("pronunce", "pronounce"), ("eval", "evaluate"), ("veiw", "view")],
)
def test_only_a_similar_command_is_suggested(
    name: str, suggested: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([name])
    advice = f"did you mean {suggested!r}?" if suggested else "see attnzoo --help"
    assert f"no command {name!r}; {advice}" in capsys.readouterr().err


LINES = {
    # A line, the beginning of its output, a line that cannot be read (translations and summaries read any), its error.
    "pronounce": ("cat", "cat\tK AE1 T", "寿司", "'寿司' has characters that this model does not know"),
    "translate": ("Two dogs are playing.", "Zwei Hunde spielen.", "", ""),
    "summarize": ("GNOME is a desktop.", "", "", ""),
    "classify": ("A moving film.", "positive ", "a\tb", f"{SENTIMENT} reads one sentence, without a tab, got 'a\\tb'"),
}


@pytest.mark.parametrize("command", LINES)
def test_every_line_of_a_file_has_its_line_of_output_in_order(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In windows of two lines, with an empty line and one that cannot be read; the error names the line."""
    monkeypatch.setattr(lines, "WINDOW", 2)
    text, begins, bad, error = LINES[command]
    (tmp_path / "texts").write_text("\n".join([text, "", text, bad, text]) + "\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"^1$") if error else nullcontext():
        main([command, "--file", str(tmp_path / "texts")])
    printed = capsys.readouterr()
    first, empty, third, skipped, last = printed.out.splitlines()
    assert first.startswith(begins)
    assert first == third == last != ""
    assert empty == skipped == ""
    assert "5/5" in printed.err
    assert [line for line in printed.err.splitlines() if "error" in line and error not in line] == []
    assert printed.err.count(f"error: line 4: {error}") == bool(error)
    with pytest.raises(SystemExit, match=f"got {text!r} too; leave one out"):
        main([command, text, "--file", str(tmp_path / "texts")])


@pytest.mark.parametrize("command", LINES)
def test_a_line_without_end_is_refused_and_costs_no_other(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, begins, *_ = LINES[command]
    (tmp_path / "texts").write_text(f"{text}\n{'a' * (MOST_CHARACTERS + 1)}\n{text}\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"^1$"):
        main([command, "--file", str(tmp_path / "texts")])
    printed = capsys.readouterr()
    first, empty, last = printed.out.splitlines()
    assert (first, empty) == (last, "")
    assert first.startswith(begins)
    size = f"{MOST_CHARACTERS + 1:,} characters, more than the {MOST_CHARACTERS:,} that are read; split it"
    assert f"error: line 2: {'a' * 80!r}... has {size}\n" in printed.err
    assert "warning" not in printed.err


@pytest.mark.parametrize("name", ["same.svg", "link.svg", "hard.svg"])
@pytest.mark.parametrize(
    "command",
    [
        "pronounce --file same.svg --plot NAME",
        "pronounce a --lexicon same.svg --plot NAME",
        "classify",
        "check same.svg:Attention --output NAME",
        "check attention.py:Attention --assignment same.svg --output NAME",
    ],
)
def test_no_input_is_overwritten(command: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if command == "classify":
        name, command = name.replace("svg", "html"), "classify --file same.html --html NAME"
    given = Path("same" + Path(name).suffix)
    given.write_text("cat\tK AE T\n")
    Path("link" + given.suffix).symlink_to(given)
    Path("hard" + given.suffix).hardlink_to(given)
    with pytest.raises(SystemExit, match=f"^error: --[a-z]* {name} would overwrite {given}, which is read"):
        main(command.replace("NAME", name).split())
    assert given.read_text() == "cat\tK AE T\n"


def test_the_output_of_a_window_is_written_before_the_next_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    class Output:
        written: list[str] = []
        flushed = 0

        def write(self, text: str) -> None:
            self.written.append(text)

        def flush(self) -> None:
            self.flushed = "".join(self.written).count("\n")

    monkeypatch.setattr(lines, "WINDOW", 1)
    standard_input(monkeypatch, b"one\ntwo\n")
    monkeypatch.setattr(sys, "stdout", output := Output())
    options = parsers.classify_parser().parse_args([])
    for (number, _), *_ in lines.Texts(options, "sentence").windows():
        assert output.flushed == number - 1
        print("a line")
    assert output.flushed == 2


@pytest.mark.parametrize("command", LINES)
def test_a_closed_standard_input_is_no_traceback(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)  # as in attnzoo pronounce <&-
    with pytest.raises(SystemExit, match=r"^error: give at least one"):
        main([command])


@pytest.mark.parametrize("command", LINES)
def test_a_standard_input_without_text_is_refused_as_such_a_file_is(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for content in (b"", b"\n \n"):
        standard_input(monkeypatch, content)
        with pytest.raises(SystemExit, match=r"^error: the standard input has no \w+s; write a \w+ on each line"):
            main([command])
        assert capsys.readouterr().out == ""


def test_a_library_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolved(name: str) -> Any:
        if name.endswith("parser"):
            return parsers.view_parser
        raise OSError("libcublas.so: cannot open shared object file")

    monkeypatch.setattr("attnzoo.cli.resolve_name", resolved)
    with pytest.raises(SystemExit, match=r"^error: a library that attnzoo view needs .*: libcublas\.so"):
        main(["view", "model", "text", "-o", "a.html"])


def test_control_c_is_no_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(arguments: list[str]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("attnzoo.commands.view.main", interrupted)
    with pytest.raises(SystemExit) as stopped:
        main(["view", "model", "text", "-o", "a.html"])
    assert stopped.value.code == 128 + signal.SIGINT
    assert capsys.readouterr().err == "stopped\n"


@pytest.mark.skipif(os.name == "nt", reason="a shell of Unix closes the output")
@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["--nosuch"]])
@pytest.mark.parametrize("closed", ["pipe", "stdout", "stderr", "all", "full"])
def test_an_output_that_is_closed_or_full_is_no_traceback(arguments: list[str], closed: str) -> None:
    redirected = {"stdout": ">&-", "stderr": "2>&-", "all": "<&- >&- 2>&-", "full": "> /dev/full"}.get(closed, "")
    if closed == "full" and not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}  # without a buffer, argparse itself ignores the error
    reader, writer = os.pipe()
    os.close(reader)
    shell = ["sh", "-c", f'exec "$@" {redirected}', "sh", *RUN, *arguments]
    stdout = writer if closed == "pipe" else subprocess.PIPE
    done = subprocess.run(shell, stdout=stdout, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=buffered, check=False)
    os.close(writer)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    if "--help" in arguments:
        assert done.returncode == {"pipe": 141, "full": 1}.get(closed, 0), done.stderr
    if closed == "full" and "--help" in arguments:
        assert done.stderr.startswith("error: the output cannot be written: ")


DAMAGED = ["title: My model: a test", "a: [", "- 1", "tags: 3"]
HEADERS = [*DAMAGED, "pipeline_tag: [a]", "tags: {a: b}", "tags: [[1], 2]"]


@pytest.mark.parametrize("header", HEADERS)
def test_a_header_of_a_card_that_cannot_be_read_costs_no_command(
    header: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, command in ((PRONUNCIATION, "pronounce"), (TRANSLATION, "translate")):
        folder = shutil.copytree(model_path(name), tmp_path / name)
        (folder / "README.md").write_text(f"---\n{header}\n---\n# A model\n")
        is_damaged = header in DAMAGED
        with pytest.warns(UserWarning, match="the header of .* cannot be read") if is_damaged else nullcontext():
            assert folder_of(str(folder), command) == str(folder)


def foreign_folder(folder: Path, **config: Any) -> Path:
    """A model whose config names code in its folder. The code writes a file if it runs."""
    folder.mkdir()
    auto_map = {"AutoConfig": "code.Config", "AutoTokenizer": ["code.Tokenizer", None]}
    for name in ("AutoModel", "AutoModelForSeq2SeqLM", "AutoModelForSequenceClassification"):
        auto_map[name] = "code.Model"
    about = {"model_type": "foreign", "auto_map": auto_map} | config
    (folder / "config.json").write_text(json.dumps(about))
    (folder / "tokenizer_config.json").write_text(json.dumps({"auto_map": auto_map}))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "code.py").write_text(f"open({str(folder / 'ran')!r}, 'w')")
    return folder


OF_A_FOLDER = [
    *(f"{name} a --model FOLDER" for name in LINES),
    "view FOLDER a -o a.html",
    "export FOLDER new",
    "align FILE FILE --model FOLDER",
    "evaluate FOLDER",
    "faithfulness FOLDER",
]


@pytest.mark.parametrize("command", [*OF_A_FOLDER, "train demo --set training.start_from=FOLDER"])
def test_an_adapter_without_its_model_is_no_model(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("FILE").write_text("a\n")
    Path("FOLDER").mkdir()
    Path("FOLDER", "adapter_config.json").write_text('{"base_model_name_or_path": "mine"}')
    with pytest.raises(SystemExit, match=r"^error: FOLDER is an adapter of PEFT for the model mine, .*; merge the two"):
        main(command.split())


@pytest.mark.parametrize("command", OF_A_FOLDER)
def test_no_command_runs_code_of_a_model_or_asks_whether_to(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("builtins.input", lambda prompt: pytest.fail(f"asks {prompt!r}"))
    monkeypatch.chdir(tmp_path)
    folder = foreign_folder(tmp_path / "FOLDER")
    Path("FILE").write_text("a\n")
    with pytest.raises(SystemExit, match=r"^error: .*FOLDER has code of its own for its model_type 'foreign'"):
        main(command.split())
    assert not (folder / "ran").exists()
