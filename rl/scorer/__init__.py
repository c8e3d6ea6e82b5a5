"""The reward server: scores model responses over HTTP. Installs and runs without torch or verl.

A request passes server.py, app.py and protocol.py (HTTP), scorers.py (which scorer), {sql,math,task}/scoring.py (from a
question and its responses to jobs), scoring.py (caches), and pool.py, process.py and fork_server.py (the server's side
of workers). A worker is worker.py with {sql,math,task}/jobs.py, confined by sandbox/.
"""
