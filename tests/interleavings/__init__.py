"""Every SQL statement a yield point: a seeded scheduler walks the orders that real connections can take."""
