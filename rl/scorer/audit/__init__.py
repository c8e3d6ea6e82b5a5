"""The gold audit, `python -m rl.scorer.audit`: which gold queries of a dataset fail, time out or return nothing."""
