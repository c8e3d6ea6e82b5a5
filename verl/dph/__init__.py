"""DPH-RL inside released verl: the rehearsal divergence, its data and its trainer."""
