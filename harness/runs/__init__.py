"""What a run is: its plan, its history, its folder, its verdict. No broker, no Spark."""
