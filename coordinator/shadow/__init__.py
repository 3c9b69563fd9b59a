"""Judging a legacy scheduler by claim.v1's own guard (contract 13). Pure: no rows, no locks, no clock."""
