"""What is timed, how to run it again, and dated results beside each script."""
