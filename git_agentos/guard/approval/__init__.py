"""Approvals: what is asked, what is granted, and who may answer."""
