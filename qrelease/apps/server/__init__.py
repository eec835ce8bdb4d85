"""An HTTP server for analysts: one private table, one session, one budget, several workers.

`shapes` are the types of what goes over the wire, `openapi` describes them, `questions` says what queries mean,
`service` what is done for them, `transactions` when that is durable. `app` is the HTTP side, `http_bounds` what a
connection may do, `problems` what a refusal says, `processes` starts the workers. Needs the extra `server`.
"""
