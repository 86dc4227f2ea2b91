"""The command about a program under test."""
