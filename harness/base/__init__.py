"""What every room needs: errors, files, waiting, limits, words for a person."""
