"""Why a record is gone: the evidence about it, in order of time, as witnesses and one sentence."""
