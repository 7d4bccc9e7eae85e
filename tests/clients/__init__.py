"""The real agent clients, headless, against a model server on loopback (`make test-clients`)."""
