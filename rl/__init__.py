"""Everything that needs neither torch nor verl: programs around training, the scorer, data, metrics, reports."""
