"""The adapter's methods that macros call, a class for each job."""
