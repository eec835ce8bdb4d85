"""An HTTP server for analysts: one private table, one session, one budget, several workers.

`api` says what goes over the wire, `service` what is done for it, `desk` when that is durable, `app` is the HTTP side,
`run` the processes. Needs the extra `server`.
"""
