"""The model of KRaft's own quorum: the controllers, their log and their voter set."""
