"""Stories: schedules for three brokers whose end is predicted."""
