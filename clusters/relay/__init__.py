"""The relay, also called the wire: a proxy between nodes that can drop, slow and hold messages.

``client`` starts the relay's process and sends commands to it. ``network`` configures the relay for
a cluster. The other modules run inside that process and use only the standard library, for a fast
start. See docs/wire.md.
"""
