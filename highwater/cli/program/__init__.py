"""The commands for the user's programs: a program under test, and client drivers."""
