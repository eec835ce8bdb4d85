"""`qrelease studio`: a local web page for drafting a schema, seeing prices and making a release without a terminal."""
