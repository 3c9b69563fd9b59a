"""Feeds from other schedulers: what they did, told to a coordinator that judges beside them (contract 13)."""
