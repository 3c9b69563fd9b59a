"""An exhaustive model of the effect protocol (contract 3, 7, 8, 9, 10 and 12). See docs/protocol.md.

It shares no code with the coordinator: it is the contract written down a second time, small enough that a
search can visit every order in which things may happen.
"""
