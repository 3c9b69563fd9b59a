"""A primary that dies under load, and the standby that takes its place (contract 12)."""
