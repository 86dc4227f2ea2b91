"""Reports: a judged run as one self-contained HTML file."""
