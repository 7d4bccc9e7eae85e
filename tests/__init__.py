"""Tests of git-agentos; the folders mirror what they prove."""
