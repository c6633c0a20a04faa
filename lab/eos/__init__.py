"""The service measured: estimates under load, a long queue, and whether what it advises is right."""
