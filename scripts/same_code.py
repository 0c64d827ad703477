#!/usr/bin/env python3
"""Compares source files with those of a revision, comments stripped: a commit that changes only comments changes no code.

    scripts/same_code.py [--base REV] [PATH ...]

Reads the files of the working tree that differ from REV (default HEAD), below PATH if given, and prints the first difference of each
file whose tokens differ. White space between tokens does not count. Exit status: 0 if all files are the same code, 1 if not.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

SLASHES = {".rs", ".c", ".h"}
HASHES = {".py", ".sh", ".toml", ".txt", ""}

# Alternatives are tried in this order, so that no comment is found inside of a string.
RUST = re.compile(
    r"""(?P<comment>//[^\n]*|/\*)
      | (?P<raw>b?c?r(?P<fence>\#*)")
      | (?P<string>b?c?"(?:\\.|[^"\\])*")
      | (?P<char>b?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.)|[^'\\])')
      | (?P<word>\w+)
      | (?P<other>\S)""",
    re.VERBOSE | re.DOTALL,
)
C = re.compile(
    r"""(?P<comment>//[^\n]*|/\*)
      | (?P<string>"(?:\\.|[^"\\])*")
      | (?P<char>'(?:\\.|[^'\\])+')
      | (?P<word>\w+)
      | (?P<other>\S)""",
    re.VERBOSE | re.DOTALL,
)


def end_of_block(text, start, nested):
    depth, at = 1, start
    while depth > 0:
        mark = re.compile(r"/\*|\*/").search(text, at)
        if mark is None:
            return len(text)
        depth += (1 if nested else 0) if mark.group() == "/*" else -1
        at = mark.end()
    return at


def tokens_of_slashes(text, rust):
    pattern, at, tokens = (RUST if rust else C), 0, []
    while (found := pattern.search(text, at)) is not None:
        at = found.end()
        if found.lastgroup == "comment" or found.group().startswith("/*"):
            if found.group() == "/*":
                at = end_of_block(text, at, nested=rust)
            continue
        if rust and found.group("raw"):
            close = text.find('"' + found.group("fence"), at)
            at = len(text) if close < 0 else close + 1 + len(found.group("fence"))
            tokens.append(text[found.start() : at])
            continue
        tokens.append(found.group())
    # rustfmt adds a comma at the end of a list that it breaks.
    return [token for token, after in zip(tokens, tokens[1:] + [""]) if not (token == "," and after in ")]}>")]


def tokens_of_python(text):
    import io
    import tokenize

    kept, last = [], None
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING and last in (None, ":", "newline"):
            continue  # a docstring
        if token.type in skipped:
            last = "newline" if token.type in (tokenize.NEWLINE, tokenize.INDENT) else last
            continue
        last = token.string
        kept.append(token.string)
    return kept


def tokens_of(path, text):
    if path.suffix in SLASHES:
        return tokens_of_slashes(text, rust=path.suffix == ".rs")
    if path.suffix == ".py":
        return tokens_of_python(text)
    if path.suffix in HASHES:
        return re.sub(r"(^|\s)#(?!!)[^\n]*", "", text).split()
    return text.split()


def git(*words):
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", default="HEAD", help="the revision to compare with")
    parser.add_argument("paths", nargs="*")
    options = parser.parse_args()
    prose = {".md"}
    changed = git("diff", "--name-only", "--diff-filter=M", options.base, "--", *options.paths).split("\n")
    changed = [Path(name) for name in changed if name and Path(name).suffix not in prose]
    differing = 0
    for path in changed:
        before = tokens_of(path, git("show", f"{options.base}:{path}"))
        after = tokens_of(path, path.read_text())
        if before == after:
            continue
        differing += 1
        at = next((i for i, pair in enumerate(zip(before, after)) if pair[0] != pair[1]), min(len(before), len(after)))
        print(f"{path}: before: {' '.join(before[max(0, at - 8) : at + 8])}")
        print(f"{path}:  after: {' '.join(after[max(0, at - 8) : at + 8])}")
    print(f"{len(changed) - differing} files are the same code, {differing} are not")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
