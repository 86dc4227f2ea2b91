"""The wire: a process between the nodes of a cluster, which can cut, slow and hold what passes.

``process`` starts it and gives it orders; everything else here runs inside of it, on the standard
library alone, so that it starts in a moment and works for any cluster. See docs/wire.md.
"""
