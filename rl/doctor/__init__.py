"""What this machine, its environment and a run lack, before anything is started: dph doctor (docs/doctor.md)."""
