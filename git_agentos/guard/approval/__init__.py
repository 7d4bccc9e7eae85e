"""Approval requests: filed, granted or denied, and who may decide about them."""
