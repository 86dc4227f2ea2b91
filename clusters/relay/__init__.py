"""The relay, or wire: a TCP proxy between a cluster's nodes that can cut, slow and hold messages.

``client`` starts its process and gives it orders, ``network`` sets it up for a cluster; the other
modules run inside of it, on the standard library alone, so that it starts fast. See docs/wire.md.
"""
