"""The documentation, the manual pages, the installer and the benchmark harness."""
