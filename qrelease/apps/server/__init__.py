"""An HTTP server for analysts: one private table, one session, one budget, several workers.

`openapi` says what goes over the wire, `questions` what it means, `service` what is done for it, `transactions` when
that is durable. `app` is the HTTP side, `http_bounds` what a connection may do, `problems` what a refusal says,
`processes` starts the workers. Needs the extra `server`.
"""
