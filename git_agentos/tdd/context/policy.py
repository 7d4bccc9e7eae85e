"""The data policy: what will be sent to whom, told before the first call."""

from __future__ import annotations

from collections.abc import Sequence

from git_agentos.tdd.context.material import Material


def told(material: Material, recipient: str) -> Sequence[str]:
    """The lines that are shown: every file with its size, the whole in tokens, to whom (`models.model.Model.recipient`,
    a clause such as `Anthropic, over the network`), and what else may follow (test output, generated files)."""
    files = (material.lld, *material.context)
    width = max(len(f"{each.size:,}") for each in files)
    total = sum(each.size for each in files)
    most = "" if material.exact else "at most "
    return (
        f"data policy: what is sent to {recipient}",
        *(
            f"  {each.size:>{width},} bytes  {each.path}{'  (the design document)' if each is material.lld else ''}"
            for each in files
        ),
        f"  {total:,} bytes in {len(files)} {'file' if len(files) == 1 else 'files'}, {most}{material.tokens:,} tokens",
        "with the issue's id; later also the tests and code that it wrote, and what pytest says, without known secrets",
    )
