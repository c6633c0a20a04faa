"""`tidegate get` beside other downloaders: over HTTP from nginx, judged by checksum."""
