"""How secrets look: the one place for the forms of tokens, for `redact` (logs), for `secrets` (what is pushed) and, by
these, for `tdd` (what is sent to a model).

A form is a fact about a provider, and says where it is from. What else has to be true of a match (that it is not an
example, that it stands where a secret would) is decided by who looks.
"""

from __future__ import annotations

import re

from git_agentos.util.named_tuple import NamedTuple

# A token is not part of a longer word; an escaped line end and a percent-encoded character are no word.
START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))"
END = r"(?![A-Za-z0-9])"

CLOUD = "a token of a cloud provider"
CODE_HOST = "a token of a code host or package index"
SERVICE = "a token of a service"
MODELS = "a token of a model provider"
WEB_TOKEN = "a JSON web token"
KEY = "a private key"


class Form(NamedTuple):
    """Tokens of one kind. `group` is the kind in wider words; every token has one of `words`, at most `inside`
    characters after its start; `pattern` is a regular expression without boundaries; `source` says who describes it."""

    kind: str
    group: str
    words: tuple[str, ...]
    pattern: str
    source: str
    inside: int = 0


_SCANNERS = "the default rules of gitleaks"

FORMS: tuple[Form, ...] = (
    Form(
        "AWS access key",
        CLOUD,
        ("AKIA", "ASIA", "ABIA", "ACCA"),
        r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}",
        "AWS IAM user guide, 'Understanding unique ID prefixes'",
    ),
    Form("AWS identity", CLOUD, ("AROA", "AIDA"), r"(?:AROA|AIDA)[A-Z0-9]{16}", "the same; an identifier, no secret"),
    Form(
        "AWS Bedrock key",
        CLOUD,
        ("ABSK", "bedrock-api-key-"),
        r"ABSK[A-Za-z0-9+/]{60,}={0,2}|bedrock-api-key-[A-Za-z0-9+/=_-]{40,}",
        _SCANNERS,
    ),
    Form(
        "Google API key",
        CLOUD,
        ("AIza", "AQ.Ab8"),
        r"AIza[A-Za-z0-9_-]{35}|AQ\.Ab8[A-Za-z0-9_-]{30,}",
        "Google Cloud docs, 'Manage API keys'",
    ),
    Form(
        "Google OAuth token",
        CLOUD,
        ("ya29.", "GOCSPX-", "1//0"),
        r"ya29\.[A-Za-z0-9_.-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}|1//0[A-Za-z0-9_-]{40,}",
        "Google Identity docs, 'Using OAuth 2.0'",
    ),
    Form(
        "Azure storage key",
        CLOUD,
        ("AccountKey=",),
        r"AccountKey=[A-Za-z0-9+/]{86}==",
        "Azure Storage docs, 'Configure connection strings': a key is 64 bytes in base64",
    ),
    Form(
        "DigitalOcean token",
        CLOUD,
        ("dop_v1_", "doo_v1_", "dor_v1_"),
        r"do[opr]_v1_[0-9a-f]{64}",
        "DigitalOcean docs, 'Personal access tokens'",
    ),
    Form("Databricks token", CLOUD, ("dapi",), r"dapi[0-9a-f]{32}(?:-\d)?", _SCANNERS),
    Form("Vault token", CLOUD, ("hvs.", "hvb.", "hvr."), r"hv[sbr]\.[A-Za-z0-9_-]{24,}", "Vault docs, 'Tokens'"),
    Form("Alibaba Cloud key", CLOUD, ("LTAI",), r"LTAI[A-Za-z0-9]{17,26}", _SCANNERS),
    Form("Heroku token", CLOUD, ("HRKU-",), r"HRKU-[A-Za-z0-9_-]{36,}", _SCANNERS),
    Form("Fly.io token", CLOUD, ("fm1", "fm2"), r"fm[12][ar]?_[A-Za-z0-9+/=]{60,}", _SCANNERS),
    Form("Netlify token", CLOUD, ("nfp_",), r"nfp_[A-Za-z0-9]{36,}", _SCANNERS),
    Form("PlanetScale token", CLOUD, ("pscale_",), r"pscale_(?:pw|tkn|oauth)_[A-Za-z0-9_.-]{32,}", _SCANNERS),
    Form(
        "Supabase key",
        CLOUD,
        ("sbp_", "sb_secret_"),
        r"sbp_[0-9a-f]{40}|sb_secret_[A-Za-z0-9_-]{20,}",
        "Supabase docs, 'Understanding API keys'",
    ),
    Form("Pulumi token", CLOUD, ("pul-",), r"pul-[0-9a-f]{40}", _SCANNERS),
    Form(
        "Doppler token",
        CLOUD,
        ("dp.",),
        r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,}",
        _SCANNERS,
    ),
    Form("1Password token", CLOUD, ("ops_eyJ",), r"ops_eyJ[A-Za-z0-9+/=_-]{100,}", _SCANNERS),
    Form("Cloudflare key", CLOUD, ("v1.0-",), r"v1\.0-[0-9a-f]{24}-[0-9a-f]{100,}", _SCANNERS),
    Form(
        "Azure client secret",
        CLOUD,
        ("Q~",),
        r"[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,34}",
        _SCANNERS,
        inside=4,
    ),
    Form(
        "Terraform token",
        CLOUD,
        (".atlasv1.",),
        r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}",
        _SCANNERS,
        inside=14,
    ),
    Form(
        "GitHub token",
        CODE_HOST,
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
        r"gh[pousr]_[A-Za-z0-9]{36,}",
        "GitHub docs, 'About authentication to GitHub', 'GitHub's token formats'",
    ),
    Form(
        "GitHub fine-grained token", CODE_HOST, ("github_pat_",), r"github_pat_[A-Za-z0-9_]{22,}", "the same"
    ),
    Form(
        "GitLab token",
        CODE_HOST,
        ("glpat-", "glptt-", "gldt-", "glrt-", "glrtr-", "glcbt-", "glft-", "glsoat-", "glagent-", "gloas-", "glimt-",
         "glffct-", "glwt-", "GR1348941"),
        r"gl(?:pat|ptt|dt|rt|rtr|cbt|ft|soat|agent|oas|imt|ffct|wt)-[A-Za-z0-9_.-]{20,}|GR1348941[A-Za-z0-9_-]{20,}",
        "GitLab docs, 'Token overview', 'Token prefixes'",
    ),
    Form(
        "Atlassian token",
        CODE_HOST,
        ("ATBB", "ATATT3", "ATCTT3"),
        r"ATBB[A-Za-z0-9]{28,}|AT(?:AT|CT)T3[A-Za-z0-9_=-]{40,}",
        _SCANNERS,
    ),
    Form("npm token", CODE_HOST, ("npm_",), r"npm_[A-Za-z0-9]{36,}", "npm docs, 'About access tokens'"),
    Form(
        "PyPI token",
        CODE_HOST,
        ("pypi-",),
        r"pypi-[A-Za-z0-9_-]{50,}",
        "Warehouse docs, 'Token scanning': a macaroon in base64 after `pypi-`",
    ),
    Form("RubyGems token", CODE_HOST, ("rubygems_",), r"rubygems_[0-9a-f]{48}", _SCANNERS),
    Form("crates.io token", CODE_HOST, ("cio",), r"cio[A-Za-z0-9]{32}", "crates.io's source"),
    Form("NuGet key", CODE_HOST, ("oy2",), r"oy2[a-z0-9]{43}", "NuGet docs, 'Scoped API keys'"),
    Form("Clojars token", CODE_HOST, ("CLOJARS_",), r"CLOJARS_[a-z0-9]{60}", _SCANNERS),
    Form("Docker token", CODE_HOST, ("dckr_",), r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}", "Docker docs, 'Access tokens'"),
    Form("Artifactory key", CODE_HOST, ("AKCp",), r"AKCp[A-Za-z0-9]{60,}", _SCANNERS),
    Form(
        "Slack token",
        SERVICE,
        ("xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xoxe.xox", "xapp-"),
        r"xox[abeoprs]-[A-Za-z0-9-]{10,}|xoxe\.xox[bp]-\d-[A-Za-z0-9]{100,}|xapp-\d-[A-Za-z0-9-]{10,}",
        "Slack docs, 'Tokens'",
    ),
    Form(
        "Stripe key",
        SERVICE,
        ("k_live_", "k_test_", "whsec_"),
        r"[spr]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/=]{24,}",
        "Stripe docs, 'API keys'",
        inside=1,
    ),
    Form(
        "SendGrid key",
        SERVICE,
        ("SG.",),
        r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
        "SendGrid docs, 'API keys'; 22 and 43 characters",
    ),
    Form(
        "Telegram bot token",
        SERVICE,
        (":A",),
        r"(?:bot)?\d{8,10}:A[A-Za-z0-9_-]{34}",
        "Telegram docs, 'Bots: authorizing your bot'; after `bot` in the address of a call",
        inside=13,
    ),
    Form("Linear key", SERVICE, ("lin_",), r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}", _SCANNERS),
    Form("Notion token", SERVICE, ("ntn_",), r"ntn_[A-Za-z0-9]{43,}", _SCANNERS),
    Form("Figma token", SERVICE, ("figd_",), r"figd_[A-Za-z0-9_-]{38,}", _SCANNERS),
    Form("Grafana token", SERVICE, ("glsa_", "glc_"), r"gl(?:sa|c)_[A-Za-z0-9+/=]{30,}(?:_[0-9a-f]{8})?", _SCANNERS),
    Form("New Relic key", SERVICE, ("NRAK-",), r"NRAK-[A-Z0-9]{27}", _SCANNERS),
    Form("Sentry token", SERVICE, ("sntrys_", "sntryu_"), r"sntry(?:s|u)_[A-Za-z0-9+/=_]{40,}", _SCANNERS),
    Form("Postman key", SERVICE, ("PMAK-",), r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}", _SCANNERS),
    Form("Shopify token", SERVICE, ("shp",), r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}", "Shopify docs, 'Access tokens'"),
    Form("Square token", SERVICE, ("sq0",), r"sq0(?:atp|csp|idp)-[A-Za-z0-9_-]{22,}", _SCANNERS),
    Form("Airtable token", SERVICE, ("pat",), r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}", _SCANNERS),
    Form(
        "Tailscale key",
        SERVICE,
        ("tskey-",),
        r"tskey-(?:api|auth|client|webhook)-[A-Za-z0-9]{8,}-[A-Za-z0-9]{20,}",
        "Tailscale docs, 'Key prefixes'",
    ),
    Form(
        "OpenAI key",
        MODELS,
        ("sk-proj-", "sk-svcacct-", "sk-admin-", "sk-None-"),
        r"sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}",
        "OpenAI docs, 'Production best practices'; " + _SCANNERS,
    ),
    Form("Anthropic key", MODELS, ("sk-ant-",), r"sk-ant-[A-Za-z0-9_-]{10,}", "Anthropic docs, 'API overview'"),
    Form("OpenRouter key", MODELS, ("sk-or-v1-",), r"sk-or-v1-[0-9a-f]{32,}", _SCANNERS),
    Form("OpenAI key", MODELS, ("sk-",), r"sk-[A-Za-z0-9]{32,}", "as above, of users; others took it over"),
    Form("ElevenLabs key", MODELS, ("sk_",), r"sk_[0-9a-f]{48}", _SCANNERS),
    Form(
        "Hugging Face token",
        MODELS,
        ("hf_", "api_org_"),
        r"hf_[A-Za-z0-9]{30,}|api_org_[A-Za-z]{34}",
        "Hugging Face docs, 'User access tokens'; " + _SCANNERS,
    ),
    Form("Replicate token", MODELS, ("r8_",), r"r8_[A-Za-z0-9]{37,}", "Replicate docs, 'API tokens'"),
    Form("Groq key", MODELS, ("gsk_",), r"gsk_[A-Za-z0-9]{40,}", _SCANNERS),
    Form("Cerebras key", MODELS, ("csk-",), r"csk-[a-z0-9]{40,}", _SCANNERS),
    Form("xAI key", MODELS, ("xai-",), r"xai-[A-Za-z0-9]{40,}", _SCANNERS),
    Form("Perplexity key", MODELS, ("pplx-",), r"pplx-[A-Za-z0-9]{40,}", _SCANNERS),
    Form("NVIDIA key", MODELS, ("nvapi-",), r"nvapi-[A-Za-z0-9_-]{60,}", _SCANNERS),
    Form("Together key", MODELS, ("tgp_v1_",), r"tgp_v1_[A-Za-z0-9_-]{43}", _SCANNERS),
    Form("Fireworks key", MODELS, ("fw_",), r"fw_[A-Za-z0-9]{22,24}", _SCANNERS),
    Form("Tavily key", MODELS, ("tvly-",), r"tvly-(?:[a-z]{3,4}-)?[A-Za-z0-9]{30,}", _SCANNERS),
    Form("Jina key", MODELS, ("jina_",), r"jina_[A-Za-z0-9_-]{60,}", _SCANNERS),
    Form("Pinecone key", MODELS, ("pcsk_",), r"pcsk_[A-Za-z0-9]{5,}_[A-Za-z0-9]{50,}", _SCANNERS),
    Form("LangSmith key", MODELS, ("lsv2_",), r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}", _SCANNERS),
    Form("Vercel token", MODELS, ("vck_", "vcp_"), r"vc[kp]_[A-Za-z0-9]{50,}", _SCANNERS),
    Form(
        "JSON web token",
        WEB_TOKEN,
        ("eyJ",),
        r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
        "RFC 7519; `eyJ` is `{\"` in base64",
    ),
    Form("age key", KEY, ("AGE-SECRET-KEY-1",), r"AGE-SECRET-KEY-1[0-9A-Z]{50,}", "age's specification"),
)  # fmt: skip


def any_token() -> re.Pattern[str]:
    """Any of the tokens, with boundaries."""
    return re.compile(f"{START}(?:{'|'.join(form.pattern for form in FORMS)}){END}")


def group_of(token: str) -> str:
    """Of what group a token is that `any_token` has found."""
    return next(form.group for form in FORMS if re.fullmatch(form.pattern, token))
