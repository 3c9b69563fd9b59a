"""Other task queues, driven through their public interfaces with a task that does nothing.

The scripts run in a virtual environment of their own (requirements.txt), each measurement in
a process of its own, on the server that Tenure is measured on. `python -m bench --peers` runs
them all; one alone: `python bench/peers/peer_pgqueuer.py --dsn DSN`.
"""
