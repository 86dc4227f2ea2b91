"""Controllers' metadata logs, and what was decided: compared, replayed, and judged."""
