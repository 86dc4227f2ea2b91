"""Client drivers: do they do what docs/driver.md says?"""
