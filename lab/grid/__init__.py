"""Tables of links by movers: every mover on the same link in the same rotation, seen by the same instrument."""
