"""Sessions of Spark, and rows on their way to a kernel."""
