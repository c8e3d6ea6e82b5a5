"""What a file of the project holds, and what is wrong with it (`python -m verl.dph.inspect`)."""
