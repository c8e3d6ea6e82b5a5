"""Contents and problems of the project's files (`python -m verl.dph.inspect`)."""
