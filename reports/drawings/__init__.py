"""SVG drawings on the pages."""
