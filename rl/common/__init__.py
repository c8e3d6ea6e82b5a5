"""What every program of the project uses: errors, files, signals, fingerprints."""
