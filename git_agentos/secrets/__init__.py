"""Secrets in what is about to leave this machine: found in blobs, and named without revealing them.

scanner         scans blobs: our rules, then detect-secrets
suspects        which of many blobs may have a secret: a first look that most blobs do not get past
rules           what is a secret in bytes: tokens, private keys, values of names, URLs
placeholders    what only looks like one: examples, placeholders, words
detectors       detect-secrets' detectors that go by form
programs        gitleaks and betterleaks, for many blobs at once
fingerprints    the key of a repository, and a secret's name by it
file_names      names of files that hold secrets
captured_files  what `doctor` says of ignored files with such names

How tokens look is in `secret_forms`, which `redact` uses as well.
"""
