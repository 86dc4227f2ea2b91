"""The relay, or wire: a TCP proxy between a cluster's nodes that can cut, slow and hold messages.

``client`` starts the relay's process and gives it orders; ``network`` sets the relay up for a
cluster. The other modules run inside that process and use only the standard library, for a fast
start. See docs/wire.md.
"""
