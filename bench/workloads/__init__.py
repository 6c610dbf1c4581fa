"""What is measured, a family of workloads a module."""
