"""What this machine, its environment and a run lack, before anything starts: dph doctor (docs/reference/doctor.md)."""
