"""The forms of tokens: each is complete, and what has one is found by its words and redacted."""

from __future__ import annotations

import random
import re

import pytest

from git_agentos import redact, secret_forms
from git_agentos.secret_forms import FORMS, Form
from tests.support.made_up_keys import PROVIDERS

# Of these, a key is known by what stands beside it.
WITHOUT_FORM = {"AWS secret key", "Azure storage", "Twilio", "Google service account", "private key"}


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.kind)
def test_a_form_is_complete(form: Form) -> None:
    assert form.source
    assert form.words
    assert re.compile(form.pattern).groups == 0
    assert form.group.startswith("a ")


@pytest.mark.parametrize("provider", sorted(set(PROVIDERS) - WITHOUT_FORM))
def test_made_up_tokens_have_a_form(provider: str) -> None:
    for seed in range(30):
        token = PROVIDERS[provider](random.Random(seed)).secret
        form = next(each for each in FORMS if re.fullmatch(each.pattern, token))
        assert any(0 <= token.find(word) <= form.inside for word in form.words)
        assert secret_forms.group_of(token) == form.group
        assert redact.redact(f"with {token} in it") == (f"with {redact.MASK} in it", 1)


@pytest.mark.parametrize("around", ["line\\n{}\\n", "?next=token%3D{}%26", "/bot{}/getMe"])
def test_a_token_after_an_escape_is_redacted(around: str) -> None:
    token = PROVIDERS["Telegram"](random.Random(1)).secret
    assert token not in redact.redact(around.format(token))[0]
