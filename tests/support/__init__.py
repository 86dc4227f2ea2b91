"""What tests share: builders of runs, histories and schedules."""
