"""`report.html`, the page about a release for people."""
