"""Results as HTML pages; imported only for `--html`."""
