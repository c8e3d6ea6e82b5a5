"""The reward server: scores model responses over HTTP. Installs and runs without torch or verl.

A request passes server.py, app.py and protocol.py (HTTP), scorers.py (which scorer), scoring.py in sql/, math/ or task/
(from a question and its responses to jobs), scoring.py here (caches), and pool.py, process.py and fork_server.py (the
server's side of workers). A worker is worker.py with jobs.py of sql/, math/ or task/, confined by sandbox/.
trainers.py has the requests of other trainers; client/ asks the server, for verl and for trainers that call Python.
"""
