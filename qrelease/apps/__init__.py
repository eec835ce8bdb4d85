"""The command line and the HTTP server."""
