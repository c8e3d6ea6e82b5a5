"""What a run needs, before it starts: the settings of a launch script, the memory and the time of its step."""
