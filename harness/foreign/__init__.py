"""Evidence that others recorded, judged by our checkers."""
