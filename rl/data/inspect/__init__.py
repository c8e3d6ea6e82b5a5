"""Contents and problems of the project's files (`dph inspect`)."""
