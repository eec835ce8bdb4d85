"""A local page by which who has no terminal drafts a schema, sees a price, and makes a release: `qrelease studio`."""
