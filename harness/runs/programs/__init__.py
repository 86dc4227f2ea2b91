"""Inputs of a program under test: their names, and the user's file with inputs."""
